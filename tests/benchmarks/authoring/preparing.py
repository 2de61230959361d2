"""What must hold before a bench of authoring starts, and the folder it is kept in.

The folder is laid out as a campaign's run directory, whose file of settings has another name: a
campaign cannot be resumed in it, and a bench can, by giving the same command again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hpcscientist.config.settings import (
    EmbeddingSettings,
    LiteratureSettings,
    ProposingSettings,
    Settings,
)
from hpcscientist.errors import RunDirectoryError, UsageError
from hpcscientist.files import vault
from hpcscientist.files.lock import FolderLocked, Lock
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.launching import create_run_dir, launch
from hpcscientist.launching.launch_plan import LaunchPlan
from hpcscientist.models.open import parse_spec
from hpcscientist.recipe.load import Recipe, load
from hpcscientist.records.model_calls import Role
from hpcscientist.records.trial import Isolation

# What may differ where a bench is taken up again: nothing of it changes what is measured.
_FREE = ("ideas", "run_dir", "allow_unsandboxed", "client", "local", "paths")


class BenchPaths(RunPaths):
    """The paths of a bench's folder."""

    @property
    def campaign(self) -> Path:
        """The frozen settings."""
        return self.root / "authoring.toml"

    @property
    def outcomes(self) -> Path:
        """What became of each idea in each mode, once all have ended."""
        return self.root / "outcomes.json"


@dataclass(frozen=True, slots=True)
class Options:
    """What is to be measured: `rounds` of debugging at most, for the ideas of `settings`.

    `folder` None means a new one in `scratch/`. `seed_ideas`: the recipe's own ideas are written,
    not the model's proposals.
    """

    settings: Settings = field(default_factory=Settings)
    rounds: int = 5
    folder: Path | None = None
    seed_ideas: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """A bench that was checked. `config` is None for one whose folder is not made yet."""

    checked: LaunchPlan
    rounds: int
    seed_ideas: bool
    config: CampaignConfig | None

    @property
    def paths(self) -> BenchPaths:
        """The bench's folder."""
        return BenchPaths(self.checked.run_dir)

    @property
    def specs(self) -> Mapping[Role, str]:
        """Which model each role asks: as given now, but playbooks as they were at first."""
        now = self.checked.role_specs
        before = self.config.role_specs if self.config else {}
        return {
            role: before.get(role, own) if parse_spec(own).kind == "playbook" else own
            for role, own in now.items()
        }

    @property
    def recorded(self) -> bool:
        """Whether repairs are recorded replies, which no mode of debugging changes."""
        return parse_spec(self.checked.role_specs["code"]).kind == "playbook"


def prepare(options: Options, working: Path) -> Prepared:
    """Check a bench from a working directory; nothing is touched.

    Raises UsageError (recipe, model, sandbox, folder), EndpointError, RunDirectoryError.
    """
    settings = _settled(options)
    checked = launch.check(settings, working)
    _check_models(checked)
    if options.seed_ideas and not checked.recipe.seed_ideas:
        raise UsageError(
            f"recipe {checked.recipe.spec.name!r} has no seed ideas; write its seed_ideas.json, or "
            "leave --seed-ideas out"
        )
    folder = checked.run_dir.with_name(f"authoring-{checked.run_dir.name}")
    if options.folder is not None:
        folder = (working / options.folder).absolute()
    # No step before or after the code: what differs between modes is the debugging alone.
    checked = replace(checked, run_dir=folder, steps=(), settings=settings)
    config = _earlier(BenchPaths(folder))
    if config is not None:
        _check_same(checked, config)
    return Prepared(checked, options.rounds, options.seed_ideas, config)


def _settled(options: Options) -> Settings:
    """Return the settings of a bench: here, and without what a campaign has around the code."""
    loop = options.settings.loop.model_copy(update={"debug_rounds": options.rounds, "bank": ()})
    here: dict[str, Any] = {"run_dir": "", "nodes": 0, "rounds": 0, "backend": "local"}
    unused = {
        "embedding": EmbeddingSettings(),
        "literature": LiteratureSettings(),
        "proposing": ProposingSettings(),
        "authoring": options.settings.authoring.model_copy(update={"search": "line"}),
    }
    return options.settings.model_copy(update=here | unused | {"loop": loop})


def _check_models(checked: LaunchPlan) -> None:
    if not checked.role_specs:
        raise UsageError("--model search writes no code that could be fixed; give another --model")
    if any(parse_spec(spec).kind == "vllm" for spec in checked.role_specs.values()):
        raise UsageError(
            "a bench serves no models: start them with `hpcsci serve`, and give their "
            "http://HOST:PORT/v1#NAME"
        )


def _earlier(paths: BenchPaths) -> CampaignConfig | None:
    """Return the settings of a bench in this folder; None where it is empty or not there."""
    root = paths.root
    if not str(root).isprintable():  # it goes into TOML, JSON and people's terminals
        raise UsageError(f"{str(root)!r}: has unprintable characters; give another --dir")
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root}: is no folder; give another --dir")
    if paths.campaign.exists():
        return frozen.read(paths)
    if root.is_dir() and any(root.iterdir()):
        raise UsageError(f"{root}: is not empty, and no bench that began; give another --dir")
    return None


def _check_same(checked: LaunchPlan, config: CampaignConfig) -> None:
    """Raise UsageError where a bench is to go on with other settings than it began with."""
    root, again = checked.run_dir, "give those, or another --dir"
    if config.model_name != checked.model_name:
        raise UsageError(f"{root}: was begun with model {config.model_name}; {again}")
    if config.recipe_origin != str(checked.recipe.folder):
        raise UsageError(f"{root}: was begun with recipe {config.recipe_origin}; {again}")
    before, now = dict(_leaves(config.settings)), dict(_leaves(checked.settings))
    for key, value in before.items():
        if key not in ("model", "recipe") and not key.endswith(".model") and now[key] != value:
            raise UsageError(f"{root}: was begun with {key} {value!r}, not {now[key]!r}; {again}")


def _leaves(settings: Settings) -> Iterator[tuple[str, Any]]:
    """The settings that change what is measured, as `section.key` and value."""
    for name, value in settings.model_dump().items():
        if name in _FREE:
            continue
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", inner) for key, inner in value.items())
        else:
            yield name, value


@contextlib.contextmanager
def held(prepared: Prepared) -> Iterator[tuple[CampaignConfig, Recipe, Lock]]:
    """Hold a bench's folder, made if it is new; yield its settings and its copy of the recipe.

    Raises UsageError where another process holds it, RunDirectoryError where it was changed.
    """
    paths, config = prepared.paths, prepared.config
    if config is None:
        claimed = replace(create_run_dir.claim(prepared.checked), paths=paths)
        create_run_dir.furnish(prepared.checked, claimed)
        config = frozen.read(paths)
    try:
        lock = Lock(paths.lock)
    except FolderLocked as holder:
        raise UsageError(
            f"{paths.root}: {holder} runs a bench in it; wait for that, or give another --dir"
        ) from holder
    try:
        yield config, _recipe(paths, config), lock
    finally:
        lock.release()


def _recipe(paths: BenchPaths, config: CampaignConfig) -> Recipe:
    recipe = load(paths.recipe)
    if recipe.recipe_hash != config.recipe_hash:
        raise RunDirectoryError(f"{paths.recipe}: was changed; restore it, or give another --dir")
    gone = [key for key in config.labels.values() if not vault.path_of(key).is_dir()]
    if gone:
        raise RunDirectoryError(f"{vault.path_of(gone[0])}: the labels are gone; restore them")
    if config.isolation is Isolation.NONE and not config.has_intact_data():
        raise RunDirectoryError(
            f"{next(iter(config.views.values()))}: the prepared data were changed; delete them, "
            "and give another --dir"
        )
    return recipe
