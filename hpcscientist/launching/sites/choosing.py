"""Which site a campaign's trials run on: at launch, and by what was frozen then."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from hpcscientist.config.sbatch import cluster_of
from hpcscientist.config.settings import Settings
from hpcscientist.config.site import load_site
from hpcscientist.errors import UsageError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.files.handed import expanded
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.launching.sites.cluster import Cluster
from hpcscientist.launching.sites.machine import ThisMachine
from hpcscientist.launching.sites.site import Home, TrialSite
from hpcscientist.recipe.load import Recipe
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.site import BackendKind, Site
from hpcscientist.records.trial import Isolation
from hpcscientist.system import plugins

# Asking whether Slurm is here must not hold a launch up.
_PING_S = 10.0
OURS = ("local", "slurm")


def choose(settings: Settings, folder: Path) -> TrialSite:
    """Return the site that settings ask for, read from a working directory.

    Asks Slurm's controller at most once, and only for `--backend auto`. Raises ConfigError (site
    profile) and UsageError when Slurm is wanted and not there, or a backend that nobody has.
    """
    profile = load_site(settings.site, folder, settings.slurm)
    if settings.backend not in ("auto", *OURS):
        return _other(settings.backend, profile, settings)
    here, most = ThisMachine, settings.local.slots
    if settings.backend == "local":
        return here("as --backend says", profile, most)
    slurm = Slurm(_PING_S, cluster_of(profile.slurm))
    wanted = "--backend slurm" if settings.backend == "slurm" else "--site" * bool(settings.site)
    if wanted and not slurm.is_there():
        raise UsageError(
            f"{wanted}: there is no sbatch on PATH; load your site's Slurm module, or use "
            "--backend local"
        )
    if wanted:
        return Cluster(f"as {wanted} says", profile)
    if not slurm.is_there():
        return here("this machine has no Slurm", profile, most)
    if not slurm.answers():
        why = "Slurm is installed here, but its controller does not answer"
        return here(why, profile, most)
    return Cluster("its controller answers", profile)


def of(config: CampaignConfig) -> TrialSite:
    """Return the site that a campaign was launched on."""
    why = "as at launch"
    if config.backend not in OURS:
        return _other(config.backend, config.site, config.settings)
    if config.backend == "local":
        return ThisMachine(why, config.site, config.settings.local.slots)
    return Cluster(why, config.site)


def _other(backend: BackendKind, profile: Site, settings: Settings) -> TrialSite:
    """Return the site of a backend that another installed package has: its entry point in the group
    `hpcscientist.backends` is called with the site's profile and the settings.
    """
    found = plugins.load("backends", frozenset(OURS))
    if backend not in found:
        names = ("auto", *OURS, *found)
        near = get_close_matches(backend, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
        raise UsageError(f"--backend: there is no backend {backend!r}; {hint}")
    site: TrialSite = found[backend].value(profile, settings)
    return site


# Where a campaign's trials run: on which site, in which image, how many at once.

_FEWEST, _MOST, _GENERATIONS = 4, 64, 4


@dataclass(frozen=True, slots=True)
class Placement:
    """Where trials run.

    `slots`: trials at once on this machine; with Slurm, those that may be in the queue or run.
    `image` is None where there is no sandbox. `notes`: what a trial asks for and the site lacks.
    """

    where: TrialSite
    home: Home
    isolation: Isolation
    image: str | None
    slots: int
    in_flight: int
    lag: int
    notes: tuple[str, ...] = ()

    def beside_models(self, settings: Settings, spec: RecipeSpec, requests: int) -> Placement:
        """Return it with as many ideas in flight as models keep busy that are served beside it.

        `requests`: how many of them these answer at once.
        """
        own = self.where.slots(spec)
        in_flight = ideas_in_flight(settings, own, requests)
        slots = in_flight * spec.seeds if own is None else own
        return replace(self, in_flight=in_flight, slots=slots)

    @property
    def backend(self) -> BackendKind:
        """Which backend the site has."""
        return self.where.kind

    @property
    def site(self) -> Site:
        """The site's profile."""
        return self.where.profile


def place(settings: Settings, recipe: Recipe, folder: Path) -> Placement:
    """Choose where a launch from a working directory runs its trials.

    Raises ConfigError (site profile) or UsageError (no Slurm, no image, no such GPUs).
    """
    where = choose(settings, folder)
    image = image_of(settings, recipe, folder)
    chosen = where.isolation(image)
    if settings.image and chosen is Isolation.NONE:
        raise UsageError(
            f"--image {image}: there is no Apptainer on this machine; install it, or leave "
            "--image out"
        )
    # Steps of a job that holds its nodes go to no partition.
    notes = () if settings.serving.trials_inside else tuple(where.check(recipe.spec))
    own = where.slots(recipe.spec)
    in_flight = ideas_in_flight(settings, own)
    return Placement(
        where=where,
        home=where.home(settings),
        isolation=chosen,
        image=image if chosen is Isolation.APPTAINER else None,
        slots=in_flight * recipe.spec.seeds if own is None else own,
        in_flight=in_flight,
        # It follows from the campaign alone: where that runs must not change what it finds.
        lag=settings.loop.lag or _generation(settings.ideas),
        notes=notes,
    )


def ideas_in_flight(settings: Settings, slots: int | None, requests: int = 0) -> int:
    """Return how many ideas are in flight at once.

    As many are tried as there are `slots` (None: a queue takes all); and as many more are thought
    of meanwhile, or more, where models are served that answer so many `requests` at once. But no
    more than leave others to learn from.
    """
    if settings.loop.ideas_in_flight:
        return settings.loop.ideas_in_flight
    most = max(_MOST, requests)
    if slots is None:
        return _generation(settings.ideas, most)
    thought_of = min(requests, _generation(settings.ideas, most))
    return max(_FEWEST, slots + max(slots, thought_of))


def _generation(ideas: int, most: int = _MOST) -> int:
    """A quarter of the ideas, within bounds: so three in four can learn from others."""
    return min(most, max(_FEWEST, ideas // _GENERATIONS))


def image_of(settings: Settings, recipe: Recipe, folder: Path) -> str | None:
    """Return the image's absolute path: the settings' or the recipe's; None for neither.

    Raises UsageError when the settings' does not exist.
    """
    if not settings.image:
        return recipe.image
    path = (folder / expanded(settings.image)).absolute()
    if not path.exists():
        raise UsageError(f"--image {path}: does not exist; see containers/README.md")
    return str(path)
