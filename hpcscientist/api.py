"""Campaigns from Python: the functions that the command line is built on.

    import hpcscientist

    campaign = hpcscientist.launch(recipe="digits", ideas=3, model="search", allow_unsandboxed=True)
    campaign.to_pandas()[["idea_id", "status", "delta", "confirmed"]]
    hpcscientist.load_campaign("scratch/digits-1b2c").findings

Errors are those in `hpcscientist.errors`; each message is one line and names the fix.
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
from hpcscientist.launching.jobs.dispatch import controller_state, is_controlled
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
    """A campaign in its run directory, running or ended. Each access reads the files again.

    Methods and properties raise RunDirectoryError if the run directory is damaged.
    """

    path: Path

    @property
    def paths(self) -> RunPaths:
        """The paths of its files."""
        return RunPaths(self.path)

    def status(self) -> dict[str, Any]:
        """Return the content of `hpcsci status --json`: phase, counts, tokens, hours."""
        return status(self.paths, in_queue=controller_state(self.paths).in_queue)

    @property
    def ideas(self) -> tuple[Idea, ...]:
        """All ideas with a usable proposal, rejected ones too, in order of their numbers.

        Each has its proposal, parents, papers and seed.
        """
        read, place = frozen.reader(self.paths), self.paths.idea
        ideas = read_state(self.paths).in_order()
        found = (read_idea(place(one.idea_id).idea, one.idea_hash, read) for one in ideas)
        return tuple(idea for idea in found if idea is not None)

    def results(self) -> Summary:
        """Return the content of `hpcsci results`: a row for the baseline and each ended idea."""
        return read_rows(self.paths)

    @property
    def findings(self) -> tuple[ResultRow, ...]:
        """The rows of ideas that improved on the baseline, the largest effect first."""
        rows = [row for row in self.results().rows if row.finding is Verdict.IMPROVEMENT]
        return tuple(sorted(rows, key=lambda row: abs(row.delta or 0.0), reverse=True))

    def to_arrow(self) -> pa.Table:
        """Return the rows of `results` as an Arrow table; values not measured are null."""
        return export.as_arrow(self.results().rows)

    def to_pandas(self) -> Any:
        """Return the rows of `results` as a pandas.DataFrame. Needs `pip install pandas`."""
        return self.to_arrow().to_pandas()

    def resume(self, observe: Observer = lambda event, state: None) -> Campaign:
        """Run the campaign to its end, whatever interrupted it, and return it.

        `observe` is called with each event. If a Slurm job drives the campaign, this follows the
        job. Raises CampaignBusy, Interrupted, and the error that stops the campaign.
        """
        with _driving(_settings({})):
            _in_turn(lambda: go_on(self.paths, observe))
        return self


def launch(observe: Observer = lambda event, state: None, **settings: Any) -> Campaign:
    """Run a campaign to its end and return it, like `hpcsci launch`.

    `settings` are keys of the configuration, sections as dictionaries: `ideas=20`,
    `model="search"`, `loop={"confirm": False}`. They override HPCSCI_* variables and configuration
    files. `observe` is called with each event as it is recorded. Raises ConfigError, UsageError,
    and the error that stops the campaign.
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
    """Make the run directory of a checked launch, and return the result of `drive_it`.

    The run directory is removed again if the campaign never really began: if its baseline fails and
    no model reply costs anything, or if Slurm refuses the driver's job.
    """
    claimed = create_run_dir.claim(checked)
    tell_of_it()
    create_run_dir.furnish(checked, claimed)
    try:
        return drive_it(claimed.paths)
    except BaselineFailed:
        # The campaign cannot go on, since its recipe is frozen. Keep what was paid for.
        if not checked.is_paid:
            claimed.undo()
        raise
    except SchedulerRefused:
        if not claimed.paths.journal.exists():  # no driver ever ran
            claimed.undo()
        raise


def go_on(
    paths: RunPaths,
    observe: Observer,
    tell: Tell = lambda text: None,
    detach: Callable[[str], None] | None = None,
    embedder: Embedder | None = None,
) -> CampaignState:
    """Drive a campaign here, or follow the job that drives it; return its state at the end.

    `embedder` is the one that the launch has already opened; see `drive_by_job` for `detach`.
    """
    if is_controlled(frozen.read(paths)):
        return drive_by_job(paths, observe, tell, detach)
    return drive(paths, observe, tell, embedder=embedder)


def _settings(given: Mapping[str, Any]) -> Settings:
    """Return the settings of all layers, overridden by the given ones."""
    flat = dict[str, Any]()
    for key, value in given.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{inner}": own for inner, own in value.items()}
        else:
            flat[key] = str(value) if isinstance(value, Path) else value
    return resolve(flat, os.environ, Path.cwd())[0]


@contextmanager
def _driving(settings: Settings) -> Iterator[None]:
    """Set the folder of keys, and restore the endpoint keys that a driver removes from the
    environment.
    """
    vault.use_root(default_private_root(settings))
    keys = {name: os.environ[name] for name in KEY_VARIABLES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(keys)


def _in_turn(work: Callable[[], T]) -> T:
    """Run work that starts an event loop; in a thread if one already runs, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()
