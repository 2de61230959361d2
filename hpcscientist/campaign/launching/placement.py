"""Where a campaign's trials run: which backend and why, on which site, in which image, how many."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hpcscientist.config.settings import Settings
from hpcscientist.config.site import load_site
from hpcscientist.errors import UsageError
from hpcscientist.execution import isolation
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.files.place import expanded
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.site import Site
from hpcscientist.records.trial import Isolation
from hpcscientist.system import gpus

Kind = Literal["local", "slurm"]

# Asking whether Slurm is here must not hold a launch up.
_PING_S = 10.0
_FEWEST, _MOST, _GENERATIONS = 4, 64, 4


@dataclass(frozen=True, slots=True)
class Placement:
    """Where trials run. `why` says in words why this backend was chosen.

    `slots`: trials at once on this machine; with Slurm, those that may be in the queue or run.
    `image` is None where there is no sandbox.
    """

    backend: Kind
    why: str
    site: Site
    isolation: Isolation
    image: str | None
    slots: int
    in_flight: int
    lag: int


def place(settings: Settings, recipe: Recipe, folder: Path) -> Placement:
    """Choose where a launch from a working directory runs its trials.

    Asks Slurm's controller at most once, and only for `--backend auto`. Raises ConfigError (site
    profile) or UsageError (no Slurm, no image).
    """
    site = load_site(settings.site, folder, settings.slurm)
    backend, why = choose_backend(settings)
    image = image_of(settings, recipe, folder)
    chosen = isolation.choose(image, elsewhere=backend == "slurm")
    if settings.image and chosen is Isolation.NONE:
        raise UsageError(
            f"--image {image}: there is no Apptainer on this machine; install it, or leave "
            "--image out"
        )
    if backend == "slurm":
        in_flight = settings.loop.ideas_in_flight or _generation(settings.ideas)
        slots = in_flight * recipe.spec.seeds
    else:
        _check_gpus(recipe)
        cores = len(os.sched_getaffinity(0))
        slots = settings.local.slots or max(1, cores // recipe.spec.resources.cpus)
        in_flight = settings.loop.ideas_in_flight or max(_FEWEST, 2 * slots)
    return Placement(
        backend=backend,
        why=why,
        site=site,
        isolation=chosen,
        image=image if chosen is Isolation.APPTAINER else None,
        slots=slots,
        in_flight=in_flight,
        # It follows from the campaign alone: where that runs must not change what it finds.
        lag=settings.loop.lag or _generation(settings.ideas),
    )


def _generation(ideas: int) -> int:
    """A quarter of the ideas, within bounds: so three in four can learn from others."""
    return min(_MOST, max(_FEWEST, ideas // _GENERATIONS))


def _check_gpus(recipe: Recipe) -> None:
    """Raise UsageError where a trial asks for more GPUs than this machine is known to have."""
    asked, here = recipe.spec.resources.gpus, gpus.count(os.environ)
    if here is not None and asked > here:
        has = f"has {here}" if here else "has none"
        raise UsageError(
            f"recipe {recipe.spec.name}: resources.gpus asks for {asked} a trial and this machine "
            f"{has}; lower it in recipe.toml, or launch where they are (--backend slurm)"
        )


def choose_backend(settings: Settings) -> tuple[Kind, str]:
    """Return the backend and why. Raises UsageError when Slurm is wanted and not there."""
    if settings.backend == "local":
        return "local", "as --backend says"
    slurm = Slurm(_PING_S)
    wanted = "--backend slurm" if settings.backend == "slurm" else "--site" * bool(settings.site)
    if wanted and not slurm.is_there():
        raise UsageError(
            f"{wanted}: there is no sbatch on PATH; load your site's Slurm module, or use "
            "--backend local"
        )
    if wanted:
        return "slurm", f"as {wanted} says"
    if not slurm.is_there():
        return "local", "this machine has no Slurm"
    if not slurm.answers():
        return "local", "Slurm is installed here, but its controller does not answer"
    return "slurm", "its controller answers"


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
