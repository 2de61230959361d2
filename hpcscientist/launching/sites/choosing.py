"""Selects the site where a campaign's trials run: at launch, and from the frozen configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from hpcscientist.config.layers import load_site
from hpcscientist.config.sbatch import cluster_of
from hpcscientist.config.settings import Settings
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

# The check whether Slurm answers must not delay a launch.
_PING_S = 10.0
OURS = ("local", "slurm")


def choose(settings: Settings, folder: Path) -> TrialSite:
    """Return the site that the settings ask for; paths are relative to `folder`.

    Asks Slurm's controller at most once, and only for `--backend auto`. Raises ConfigError (site
    profile), and UsageError when Slurm is requested but not installed or the backend is unknown.
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
    """Return the site of another package's backend.

    Calls its entry point in the group `hpcscientist.backends` with the site profile and settings.
    """
    found = plugins.load("backends", frozenset(OURS))
    if backend not in found:
        names = ("auto", *OURS, *found)
        near = get_close_matches(backend, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
        raise UsageError(f"--backend: there is no backend {backend!r}; {hint}")
    site: TrialSite = found[backend].value(profile, settings)
    return site


# The placement of a campaign's trials: site, image, and how many run at once.

_FEWEST, _MOST, _GENERATIONS = 4, 64, 4


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a campaign's trials run.

    `slots`: trials at once on this machine; with Slurm, trials that may be queued or running.
    `image` is None without a sandbox. `notes`: what users should know, such as resources that a
    trial asks for and the site lacks.
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
        """Return the placement with enough ideas in flight to keep the campaign's models busy.

        `requests` is how many requests the models answer at once.
        """
        own = self.where.slots(spec)
        in_flight = ideas_in_flight(settings, own, requests)
        slots = in_flight * spec.seeds if own is None else own
        return replace(self, in_flight=in_flight, slots=slots)

    @property
    def backend(self) -> BackendKind:
        """The site's backend."""
        return self.where.kind

    @property
    def site(self) -> Site:
        """The site's profile."""
        return self.where.profile


def place(settings: Settings, recipe: Recipe, folder: Path) -> Placement:
    """Return where a launch from a working directory runs its trials.

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
    # With trials_inside, trials are steps of the controller job and need no partition.
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
        # The lag depends only on the campaign: the place where it runs must not change its results.
        lag=settings.loop.lag or _generation(settings.ideas),
        notes=notes,
    )


def ideas_in_flight(settings: Settings, slots: int | None, requests: int = 0) -> int:
    """Return how many ideas are in flight at once.

    As many ideas run trials as there are `slots` (None: a queue takes all). Meanwhile as many more
    are proposed and coded, or more if the campaign's models answer more `requests` at once. The
    bounds leave later ideas that can learn from earlier ones.
    """
    if settings.loop.ideas_in_flight:
        return settings.loop.ideas_in_flight
    most = max(_MOST, requests)
    if slots is None:
        return _generation(settings.ideas, most)
    thought_of = min(requests, _generation(settings.ideas, most))
    return max(_FEWEST, slots + max(slots, thought_of))


def _generation(ideas: int, most: int = _MOST) -> int:
    """Return a quarter of the ideas, within bounds: then three in four can learn from others."""
    return min(most, max(_FEWEST, ideas // _GENERATIONS))


def image_of(settings: Settings, recipe: Recipe, folder: Path) -> str | None:
    """Return the absolute path of the settings' image, or else the recipe's; None for neither.

    Raises UsageError when the settings' image does not exist.
    """
    if not settings.image:
        return recipe.image
    path = (folder / expanded(settings.image)).absolute()
    if not path.exists():
        raise UsageError(f"--image {path}: does not exist; see containers/README.md")
    return str(path)
