"""Campaigns from Python: what the command line is made of, in one page.

    import hpcscientist

    campaign = hpcscientist.launch(recipe="digits", ideas=3, model="search", allow_unsandboxed=True)
    campaign.to_pandas()[["idea_id", "status", "delta", "confirmed"]]
    hpcscientist.load_campaign("scratch/digits-1b2c").findings

Errors are those of `hpcscientist.errors`, each one line that names the mend.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hpcscientist.campaign.proposals.idea_file import read_idea
from hpcscientist.config.layers import KEY_VARIABLES, default_private_root, resolve
from hpcscientist.config.settings import Settings
from hpcscientist.errors import BaselineFailed, SchedulerRefused
from hpcscientist.files import vault
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import read_state, status
from hpcscientist.judgement.summary import Summary, read_rows
from hpcscientist.launching import create_run_dir
from hpcscientist.launching import launch as launching
from hpcscientist.launching.drive import Observer, drive
from hpcscientist.launching.jobs.dispatch import is_controlled, standing_of
from hpcscientist.launching.jobs.follow import drive_by_job
from hpcscientist.launching.launch_plan import LaunchPlan, check
from hpcscientist.ports import Embedder, Tell
from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.records.idea import Idea
from hpcscientist.results import export

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Campaign:
    """A campaign in its run directory, running or ended. Everything is read anew each time.

    What is asked of it raises RunDirectoryError where the run directory is damaged.
    """

    path: Path

    @property
    def paths(self) -> RunPaths:
        """Where its files lie."""
        return RunPaths(self.path)

    def status(self) -> dict[str, Any]:
        """Return what `hpcsci status --json` prints: phase, counts, tokens, hours."""
        return status(self.paths, in_queue=standing_of(self.paths).in_queue)

    @property
    def ideas(self) -> tuple[Idea, ...]:
        """All ideas in their order, set aside or not: proposals, parents, papers, seeds."""
        read = (read_idea(self.paths.idea(i).idea) for i in read_state(self.paths).ideas)
        return tuple(idea for idea in read if idea is not None)

    def results(self) -> Summary:
        """Return what `hpcsci results` prints: a row for the baseline and for each ended idea."""
        return read_rows(self.paths)

    @property
    def findings(self) -> tuple[ResultRow, ...]:
        """The rows of ideas that improved on the baseline, the largest effect first."""
        rows = [row for row in self.results().rows if row.finding is Verdict.IMPROVEMENT]
        return tuple(sorted(rows, key=lambda row: abs(row.delta or 0.0), reverse=True))

    def to_arrow(self) -> pa.Table:
        """Return the rows of `results` as an Arrow table, nulls where nothing was measured."""
        return export.as_arrow(self.results().rows)

    def to_pandas(self) -> Any:
        """Return the rows of `results` as a pandas.DataFrame; `pip install pandas` first."""
        return self.to_arrow().to_pandas()

    def resume(self, observe: Observer = lambda event, state: None) -> Campaign:
        """Go on with it to its end, whatever interrupted it; `observe` is told each event.

        One that a job drives is followed. Raises CampaignBusy, Interrupted, and what stops it.
        """
        with _driving(_settings({})):
            _in_turn(lambda: go_on(self.paths, observe))
        return self


def launch(observe: Observer = lambda event, state: None, **settings: Any) -> Campaign:
    """Run a campaign to its end and return it; `hpcsci launch` with settings for options.

    `settings` are keys of the configuration, sections as dictionaries: `ideas=20`,
    `model="search"`, `loop={"confirm": False}`. They go over HPCSCI_* variables and configuration
    files. `observe` is told each event as it is recorded. Raises ConfigError, UsageError and what
    stops a campaign.
    """
    found = _settings(settings)
    with _driving(found):
        return _in_turn(lambda: _launched(found, observe))


def _launched(settings: Settings, observe: Observer) -> Campaign:
    checked = launching.check(settings, Path.cwd())
    check(checked)

    def drive_it(paths: RunPaths) -> Campaign:
        go_on(paths, observe, embedder=checked.embedder)
        return Campaign(paths.root)

    return begin(checked, drive_it)


def load_campaign(path: str | Path) -> Campaign:
    """Return the campaign in a run directory. Raises NoRunDirectory, RunDirectoryError."""
    paths = RunPaths(Path(path).absolute())
    vault.use_root(default_private_root(_settings({})))
    read_state(paths)
    return Campaign(paths.root)


def begin(
    checked: LaunchPlan,
    drive_it: Callable[[RunPaths], T],
    tell_of_it: Callable[[], None] = lambda: None,
) -> T:
    """Make the run directory of a launch that was checked, and return what driving it comes to.

    Where the campaign never came to begin, the run directory goes again: its baseline fails before
    anything was paid for, or Slurm refuses the driver's job.
    """
    claimed = create_run_dir.claim(checked)
    tell_of_it()
    create_run_dir.furnish(checked, claimed)
    try:
        return drive_it(claimed.paths)
    except BaselineFailed:
        # It cannot go on, for the recipe in it is frozen. What was paid for is kept.
        if not checked.is_paid:
            claimed.undo()
        raise
    except SchedulerRefused:
        if not claimed.paths.journal.exists():  # not even its driver was submitted
            claimed.undo()
        raise


def go_on(
    paths: RunPaths,
    observe: Observer,
    tell: Tell = lambda text: None,
    detach: Callable[[str], None] | None = None,
    embedder: Embedder | None = None,
) -> CampaignState:
    """Drive a campaign here, or follow the job that does; return its state at its end.

    `embedder` is what a launch opened already; see `drive_by_job` for `detach`.
    """
    if is_controlled(frozen.read(paths)):
        return drive_by_job(paths, observe, tell, detach)
    return drive(paths, observe, tell, embedder=embedder)


def _settings(given: Mapping[str, Any]) -> Settings:
    """Return the settings of all layers, below those that are given."""
    flat = dict[str, Any]()
    for key, value in given.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{inner}": own for inner, own in value.items()}
        else:
            flat[key] = str(value) if isinstance(value, Path) else value
    return resolve(flat, os.environ, Path.cwd())[0]


@contextmanager
def _driving(settings: Settings) -> Iterator[None]:
    """Have keys found where they lie, and those of endpoints kept, which a driver takes out."""
    vault.use_root(default_private_root(settings))
    keys = {name: os.environ[name] for name in KEY_VARIABLES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(keys)


def _in_turn(work: Callable[[], T]) -> T:
    """Run work that has a loop of its own: in another thread where one runs, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()
