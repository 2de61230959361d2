"""A launch that was checked, and the upper bounds of what it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpcscientist.campaign.proposals.earlier import EarlierIdea
from hpcscientist.campaign.strategies import strategy_of
from hpcscientist.conduct.reference import is_piloted
from hpcscientist.config.extent import ONE, Versions, drawn_of
from hpcscientist.config.settings import Settings
from hpcscientist.feedback.effort import most_seeds, steps_of
from hpcscientist.judgement.baseline_drift import reruns_at_most
from hpcscientist.launching.sites.choosing import Placement
from hpcscientist.models.open import parse_spec
from hpcscientist.ports.embedder import Embedder
from hpcscientist.recipe.load import Recipe
from hpcscientist.recipe.schema import StepSpec
from hpcscientist.records.model_calls import Role
from hpcscientist.system import plugins


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A launch that was checked. `model_assumed` is true where no --model was given.

    `steps` are the optional stages that the campaign has. `embedder` tells look-alikes; None for
    the control arm, which compares no texts. `earlier` joins the bank before the first idea.
    `layout`: how models that are to be served are laid out, a line each. `inside`: how many trials
    run at once in the job that drives, 0 where they run elsewhere. `proposals`: the numbers of the
    ideas that a playbook proposes, None where a model is asked.
    """

    settings: Settings
    recipe: Recipe
    model_spec: str
    model_name: str
    role_specs: dict[Role, str]
    model_assumed: bool
    placement: Placement
    run_dir: Path
    steps: tuple[str, ...]
    embedder: Embedder | None
    earlier: tuple[EarlierIdea, ...] = ()
    layout: tuple[str, ...] = ()
    inside: int = 0
    proposals: frozenset[int] | None = None

    @property
    def plugins(self) -> tuple[str, ...]:
        """The other packages that it uses, with their versions."""
        specs = (self.model_spec, *self.role_specs.values())
        return plugins.origins(
            {
                "stages": self.steps,
                "strategies": (self.settings.authoring.search,),
                "backends": (self.placement.backend,),
                "models": tuple(parse_spec(spec).kind for spec in specs),
            }
        )

    @property
    def unproposed(self) -> tuple[int, ...]:
        """The numbers of the ideas that were asked for and that the playbook does not hold."""
        if self.proposals is None:
            return ()
        settings, held = self.settings, self.proposals
        numbers = range(1, settings.ideas + 1)
        drawn = [drawn_of(number, settings.control) for number in range(settings.ideas + 1)]
        return tuple(n for n in numbers if n not in held and drawn[n] == drawn[n - 1])

    @property
    def is_paid(self) -> bool:
        """Whether any model's replies cost something: all but recorded ones."""
        return any(parse_spec(spec).kind != "playbook" for spec in self.role_specs.values())

    @property
    def trials_at_most(self) -> int:
        """Upper bound of the trials: baseline, then pilot, every step and all seeds for each
        attempt, but for those of a tree that another one is better than; and confirmations, of
        every idea and the baseline.
        """
        further, beside = self.further_attempts_at_most, self.beside_at_most
        own = self.seeds_at_most + self.reference_pilots + self.reruns
        main = self.main_attempts_at_most * (1 + self.seeds_at_most)
        each = beside + main + further * (1 + self.further_seeds)
        searched = own + self.settings.ideas * each
        searched += self.step_trials_at_most * len(self.climbed)
        return searched + self.confirm_seeds * (1 + self.settings.ideas)

    @property
    def climbed(self) -> tuple[StepSpec, ...]:
        """The budgets between the pilot's and the full one that ideas climb."""
        return steps_of(self.settings.loop, self.recipe.spec.budgets)

    @property
    def step_trials_at_most(self) -> int:
        """Upper bound of the trials on each of these, the baseline's among them; 0: there is none.

        Further runs climb none.
        """
        if not self.climbed:
            return 0
        return 1 + self.settings.ideas * self.main_attempts_at_most

    @property
    def seeds_at_most(self) -> int:
        """The most seeds of an idea's attempt, and the seeds of the baseline."""
        return most_seeds(self.settings.loop, self.recipe.spec.seeds)

    @property
    def further_seeds(self) -> int:
        """The seeds of a further run."""
        return min(self.recipe.spec.seeds, self.seeds_at_most)

    @property
    def confirm_seeds(self) -> int:
        """How often each improvement, and the baseline, is run on the test split; 0: never."""
        loop = self.settings.loop
        return (loop.confirm_seeds or self.recipe.spec.seeds) if loop.confirm else 0

    @property
    def reruns(self) -> int:
        """How often the baseline is run again at most, to see whether it drifts."""
        return reruns_at_most(self.settings)

    @property
    def reference_pilots(self) -> int:
        """The pilots of the reference: one, or none."""
        return int(is_piloted(self.settings, self.steps))

    @property
    def attempts_at_most(self) -> int:
        """Upper bound of the versions of one idea's code: the control arm mends none."""
        if self.model_spec == "search":
            return 1
        mended = 1 + self.settings.loop.debug_rounds + self.further_attempts_at_most
        advised = self.settings.authoring.advice_rounds if "advise" in self.steps else 0
        return self.beside_at_most + mended + advised

    @property
    def main_attempts_at_most(self) -> int:
        """Upper bound of those that may have seeds for their idea's finding."""
        return self.attempts_at_most - self.further_attempts_at_most - self.beside_at_most

    @property
    def beside_at_most(self) -> int:
        """Upper bound of those that have a pilot alone, for their tree has a better one."""
        return self.versions.beside

    @property
    def versions(self) -> Versions:
        """How many versions of its code an idea has: the control arm's have one."""
        if self.model_spec == "search":
            return ONE
        return strategy_of(self.settings).versions(self.settings, self.steps)

    @property
    def further_attempts_at_most(self) -> int:
        """Upper bound of those that are made for an idea's further runs."""
        return self.versions.runs_at_most * (1 + self.settings.loop.debug_rounds)
