"""Runs each trial exactly once, with the journal, the result files and the backend.

A run with a report in the journal never runs again. The intent is journalled first; then an
existing result file is read, and otherwise the backend is asked. A trial lost to a machine failure
is rerun within its retries; one that failed because of the idea is not, even if its worker was
lost: see `failure_attribution`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from hpcscientist.campaign.integrity import FileIntegrity, make_way
from hpcscientist.campaign.proposals.idea_file import known_idea
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.campaign.waiting import Runs
from hpcscientist.conduct.actions import RunTrial
from hpcscientist.confirmation import looks
from hpcscientist.errors import DiskFull, IdeaDamaged
from hpcscientist.execution import folders, presence, trial_outcome
from hpcscientist.execution.folders import keep_log
from hpcscientist.execution.trial import node_name
from hpcscientist.files.atomic import takes
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import SplitSpent, TrialEnded, TrialQueued, TrialStarted
from hpcscientist.records.idea import BASELINE_ID, Attempt
from hpcscientist.records.trial import (
    Ended,
    EndState,
    IdeaFailed,
    IdeaFailure,
    Isolation,
    MachineFailed,
    MachineFailure,
    Scored,
    Stage,
    TrialReport,
    TrialSpec,
    run_of,
)
from hpcscientist.results import store

# A disk with less than this is full: a result file and a log would not fit.
FULL_BYTES = 1 << 20
NEARLY_FULL_BYTES = 64 << 20  # with less than this, a worker may have found the disk full

# A node with as many failed trials is avoided from then on.
REPEATED = 2
_NOT_THE_NODES = (
    *(MachineFailure.PREEMPTED, MachineFailure.CANCELLED),
    *(MachineFailure.SCORER, MachineFailure.TAMPERED),
)


@dataclass(slots=True)
class TrialRunner:
    """Runs trials for one driver.

    `retries` bounds this driver's reruns of one trial after machine failures; a driver that
    resumes may make as many again. Before a rerun it waits `pause_s` seconds, doubled each time,
    because machine failures are often transient. `data_changes` returns how often the data that
    all candidates read were found changed, and restored.
    """

    paths: RunPaths
    journal: Journal
    state: CampaignState
    backend: Runs
    generation: int
    retries: int
    pause_s: float
    data_changes: Callable[[], int] = lambda: 0
    _data_changes: dict[str, int] = field(default_factory=dict)  # when each trial started
    _found: set[str] = field(default_factory=set)  # trials whose folder existed when they started
    _failures: Counter[str] = field(default_factory=Counter)  # machine failures by node
    _beside: dict[str, set[str]] = field(default_factory=dict)  # by trial: ideas that ran meanwhile

    async def run(self, specs: Sequence[TrialSpec]) -> list[TrialReport]:
        """Run trials to their ends and return their reports in the same order.

        A MachineFailed report is returned only when this driver's retries are used up. Raises what
        `once` raises.
        """
        for spec in specs:
            looks.guard_test_split(spec, self.state)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._run(spec)) for spec in specs]
        except ExceptionGroup as failed:
            error = failed.exceptions[0]
            raise error from error.__cause__
        return [task.result() for task in tasks]

    async def once(self, spec: TrialSpec) -> TrialReport:
        """Run a trial once to its end, journal its report and return it.

        The intent is journalled before anything is awaited. Raises DiskFull when the run
        directory's disk is full, and SplitGuarded, before anything runs, if the trial may not see
        the test split.
        """
        looks.guard_test_split(spec, self.state)
        # Run it alone if an earlier run was lost, or its folder was tampered with.
        alone = self.state.losses.of(spec.trial_id) > 0 or self._was_tampered_with(spec)
        spec = spec.model_copy(update={"alone": alone}) if spec.run > 1 else spec
        self._record_intent(spec)
        await self.journal.settled()
        if not self._known(spec):
            self._prepare(spec)
            self.backend.avoid(sorted(n for n, c in self._failures.items() if c >= REPEATED))
            await self.backend.run([spec], self._started, self._ended)
        return self._collect(spec)

    async def _run(self, spec: TrialSpec) -> TrialReport:
        while True:
            trial = self.state.trials.get(spec.trial_id)
            failures = 0 if trial is None else trial.failed_in(self.state.generation)
            if trial is not None and trial.infra_failed:
                report = trial.report
                if report is not None and failures > self.retries:
                    return report
                await asyncio.sleep(self.pause_s * 2 ** (failures - 1) if failures else 0.0)
            run = 1 if trial is None else trial.run + trial.infra_failed
            report = await self.once(spec.model_copy(update={"run": run}))
            if not self.state.trials[spec.trial_id].infra_failed:
                return report

    def _recorded(self, spec: TrialSpec) -> TrialReport | None:
        trial = self.state.trials.get(spec.trial_id)
        report = trial.report if trial is not None else None
        return report if report is not None and report.run == spec.run else None

    def _known(self, spec: TrialSpec) -> bool:
        if self._recorded(spec) is not None:
            return True
        return store.read_result(self.paths.trial(spec.trial_id), spec) is not None

    def _record_intent(self, spec: TrialSpec) -> None:
        self.journal.record(
            TrialQueued(
                trial_id=spec.trial_id,
                idea_id=spec.idea_id,
                attempt=spec.attempt,
                stage=spec.stage,
                seed=spec.seed,
                run=spec.run,
                generation=self.generation,
            )
        )

    def _prepare(self, spec: TrialSpec) -> None:
        """Prepare the trial's folder, without touching a live run."""
        trial = self.paths.trial(spec.trial_id)
        try:
            make_way(self.paths, trial.spec)
            if spec.run > 1:
                trial.result.unlink(missing_ok=True)
            trial.out.mkdir(parents=True, exist_ok=True)
            if not _holds(trial, spec):
                # A driver that resumes writes it again unless it is complete: see `_holds`. Without
                # it a result does not count and the trial runs again, which a trial on the test
                # split must not.
                folders.write_spec(trial, spec, durable=spec.stage is Stage.CONFIRM)
        except OSError as error:
            raise DiskFull(
                f"{trial.root}: cannot be written: {error.strerror}; fix that and run "
                "`hpcsci resume`"
            ) from error

    def _was_tampered_with(self, spec: TrialSpec) -> bool:
        trial = self.state.trials.get(spec.trial_id)
        report = trial.report if trial is not None else None
        return (
            report is not None
            and isinstance(report.outcome, MachineFailed)
            and report.outcome.failure is MachineFailure.TAMPERED
        )

    def _started(self, spec: TrialSpec) -> None:
        self._data_changes[spec.trial_id] = self.data_changes()
        if self.paths.trial(spec.trial_id).spec.exists():
            self._found.add(spec.trial_id)
        others = [self.state.trials[trial] for trial in self.state.running]
        self._beside[spec.trial_id] = {trial.idea_id for trial in others}
        for trial in others:
            self._beside.get(trial.trial_id, set()).add(spec.idea_id)
        self.journal.record(
            TrialStarted(trial_id=spec.trial_id, run=spec.run, generation=self.generation)
        )

    def _ended(self, spec: TrialSpec, ended: Ended | None) -> None:
        self._collect(spec, ended)

    def _collect(self, spec: TrialSpec, ended: Ended | None = None) -> TrialReport:
        """Record how a run ended: by its result file, else by the backend's word, else as lost."""
        recorded = self._recorded(spec)
        if recorded is not None:
            return recorded
        trial = self.paths.trial(spec.trial_id)
        result = store.read_result(trial, spec)
        ended = ended or self._unsaid(spec)
        report = trial_outcome.classify_end(spec, ended, result)
        assert report is not None, f"{spec.trial_id}: {ended.state} is for `Dispatcher` to fix"
        if report is not result:
            untold = ended.state is EndState.ENDED and result is None
            if untold and spec.isolation is Isolation.NONE and not trial.spec.exists():
                report = self._of_its_folder(spec, report)
            elif untold and trial.result.exists():
                report = _unsealed(spec, report)
            else:
                keep_log(trial, _last_words(ended, report))
            self._keep_report(spec, report)
        self._found.discard(spec.trial_id)
        report = self._cleared(spec, self._of_its_data(spec, self._blamed(spec, report)))
        outcome = report.outcome
        if isinstance(outcome, MachineFailed):
            if report.usage.node and outcome.failure not in _NOT_THE_NODES:
                self._failures[report.usage.node] += 1
            if self._is_full(report, outcome):
                self._stop_for_space(spec, outcome)
        self.journal.record(TrialEnded(idea_id=spec.idea_id, report=report, at=time.time()))
        return report

    def _blamed(self, spec: TrialSpec, report: TrialReport) -> TrialReport:
        """Return a run's report; a lost run is the idea's failure if its code is to blame."""
        with_driver = self._is_of_earlier_driver(spec)
        if not self.state.losses.are_its_own_doing(spec.idea_id, report, with_driver):
            return report
        assert isinstance(report.outcome, MachineFailed)
        count = self.state.losses.of(spec.trial_id) + 1
        detail = f"lost {count} times, at last with nothing beside it: {report.outcome.detail}"
        failed = IdeaFailed(failure=IdeaFailure.WORKER_LOST, detail=detail)
        report = report.model_copy(update={"outcome": failed})
        self._write(spec, report)
        return report

    def _of_its_folder(self, spec: TrialSpec, report: TrialReport) -> TrialReport:
        """Return the report of a trial whose folder is gone: tampering by the idea if the folder
        existed when the trial started, else a machine failure.
        """
        detail = "its folder was removed"
        outcome: IdeaFailed | MachineFailed = IdeaFailed(
            failure=IdeaFailure.TAMPERING, detail=detail
        )
        if spec.trial_id not in self._found:
            outcome = MachineFailed(
                failure=MachineFailure.TAMPERED, detail=f"{detail} as it waited"
            )
        return report.model_copy(update={"outcome": outcome})

    def _of_its_data(self, spec: TrialSpec, report: TrialReport) -> TrialReport:
        """Return a trial's report, as tampering if the data changed while it ran."""
        before = self._data_changes.pop(spec.trial_id, 0)
        if self.data_changes() == before or isinstance(report.outcome, MachineFailed):
            return report
        detail = "the prepared data, which all candidates read, were changed while it ran"
        failed = IdeaFailed(failure=IdeaFailure.TAMPERING, detail=detail)
        report = report.model_copy(update={"outcome": failed, "predictions_hash": None})
        self._write(spec, report)
        return report

    def _cleared(self, spec: TrialSpec, report: TrialReport) -> TrialReport:
        """Return a trial's report, as a machine failure if another idea's candidate may have caused
        the failure: the trial then runs again alone. The reference code never tampers.
        """
        outcome, beside = report.outcome, self._beside.pop(spec.trial_id, None)
        if not isinstance(outcome, IdeaFailed) or spec.isolation is not Isolation.NONE:
            return report
        is_reference = spec.idea_id == BASELINE_ID
        tampered = outcome.failure is IdeaFailure.TAMPERING
        # A trial that an earlier driver started may have run beside anything.
        others = beside is None or beside - {spec.idea_id, BASELINE_ID}
        if tampered and (others or is_reference):
            who = "which may have been another idea's candidate"
        elif is_reference and others and self.state.tampering:
            who = "while an idea that is suspected of tampering ran"
        else:
            return report
        failed = MachineFailed(failure=MachineFailure.TAMPERED, detail=f"{outcome.detail}, {who}")
        report = report.model_copy(update={"outcome": failed, "predictions_hash": None})
        self._write(spec, report)
        return report

    def _is_of_earlier_driver(self, spec: TrialSpec) -> bool:
        trial = self.state.trials[spec.trial_id]
        return trial.run == spec.run and 0 < trial.driver < self.generation

    def _keep_report(self, spec: TrialSpec, report: TrialReport) -> None:
        """Write the result that the worker did not write, unless the disk is full."""
        if self._free() < FULL_BYTES:
            self._stop_for_space(spec)
        self._write(spec, report)

    def _write(self, spec: TrialSpec, report: TrialReport) -> None:
        """Write a result, even if a candidate replaced or removed the trial's folder."""
        trial = self.paths.trial(spec.trial_id)
        make_way(self.paths, trial.result)
        store.write_result(trial, spec, report)

    def _is_full(self, report: TrialReport, outcome: MachineFailed) -> bool:
        """Return whether the run directory's disk is full.

        A full disk on another node is that node's failure.
        """
        full = outcome.failure is MachineFailure.DISK_FULL
        elsewhere = report.usage.node not in ("", node_name(os.environ))
        return self._free() < (NEARLY_FULL_BYTES if full else FULL_BYTES) or (
            full and not elsewhere
        )

    def _free(self) -> int:
        return shutil.disk_usage(self.paths.root).free

    def _stop_for_space(self, spec: TrialSpec, known: MachineFailed | None = None) -> NoReturn:
        """Raise DiskFull; `known` is what a worker reported, perhaps about another disk."""
        # Remove the partial result: the trial runs again on resume.
        self.paths.trial(spec.trial_id).result.unlink(missing_ok=True)
        fix = "free some and run `hpcsci resume`"
        root = self.paths.root
        if known is None or self._free() < FULL_BYTES or not takes(root, FULL_BYTES):
            raise DiskFull(f"{root}: no space left; {fix}")
        raise DiskFull(f"no space left for {spec.trial_id} ({known.detail}); {fix}")

    def _unsaid(self, spec: TrialSpec) -> Ended:
        """Return the end of a run for which the backend reported none."""
        now, began = time.time(), presence.began(self.paths.trial(spec.trial_id), spec.run)
        return Ended(
            run_of(spec), EndState.ENDED, ended_at=now, began_at=began, node=node_name(os.environ)
        )


def _unsealed(spec: TrialSpec, report: TrialReport) -> TrialReport:
    """Return the report of a run whose result file has no valid signature."""
    detail = (
        f"{spec.trial_id}/result.arrow does not bear this campaign's seal: either the "
        "worker did not find its key, so see that paths.private is the same on every "
        "node, or somebody else wrote it"
    )
    lost = MachineFailed(failure=MachineFailure.LOST, detail=detail)
    # Drop Slurm's state of a task that may still run: only its candidate or worker is to blame.
    usage = report.usage.model_copy(update={"slurm_state": None})
    return report.model_copy(update={"outcome": lost, "usage": usage})


def _last_words(ended: Ended, report: TrialReport) -> str:
    """Return the last output of a lost worker, with the failure it was classified as."""
    if ended.job is None or isinstance(report.outcome, Scored):
        return ended.said
    return f"{ended.said.strip()}\n{report.outcome.detail}\n".lstrip()


def _holds(trial: TrialPaths, spec: TrialSpec) -> bool:
    """Return whether the folder already holds this run's spec, from a driver that was killed."""
    if presence.live_worker(trial, spec.run) is not None:
        return True  # a live worker would take a rewritten spec for tampering
    try:
        old = folders.read_spec(trial)
    except (OSError, ValueError):
        return False
    # An idea that tries versions concurrently may have spent more tokens since: still the same run.
    same: dict[str, object] = {"queued_at": spec.queued_at, "tokens": spec.tokens, "seal": ""}
    if presence.began(trial, spec.run) is not None:  # on another host, where it may go on
        ours = spec.provenance
        version = {"package_version": ours.package_version, "package_hash": ours.package_hash}
        same["provenance"] = old.provenance.model_copy(update=version)
    return old.model_copy(update=same) == spec


# Turns the trial runs that `decide` wants into specs, from the journal and the frozen
# configuration.


@dataclass(frozen=True, slots=True)
class DueTrials:
    """The specs of the trials that one driver wants."""

    specs: SpecFactory
    state: CampaignState
    integrity: FileIntegrity

    def spec(self, action: RunTrial) -> TrialSpec:
        """Return a trial's spec. Raises IdeaDamaged if the idea or its attempt's code differs from
        what was recorded.
        """
        return self._first_run(action).model_copy(update={"run": action.run})

    def _first_run(self, action: RunTrial) -> TrialSpec:
        if action.idea_id == BASELINE_ID:
            return self._of_reference(action)
        paths, number = self.specs.paths.idea(action.idea_id), action.attempt
        standing = self.state.ideas[action.idea_id]
        code, known = paths.code(number), standing.code_hashes[number]
        if not self.integrity.holds(code, known):
            raise IdeaDamaged(
                f"{code}: has other code than when it was recorded; restore it from a backup, or "
                "launch anew"
            )
        attempt = Attempt(idea_id=action.idea_id, number=number, code_hash=known, note="")
        idea, index = known_idea(paths.idea, standing.idea_hash, self.integrity.read), action.index
        tokens = self.state.tokens.get(action.idea_id, 0)
        match action.stage:
            case Stage.PILOT:
                return self.specs.pilot(idea, attempt, tokens)
            case Stage.STEP:
                return self.specs.step(idea, attempt, index, tokens)
            case Stage.CONFIRM:
                seeds = _spent(standing.spent).seeds
                return self.specs.confirm(idea, attempt, index, seeds[index], tokens)
            case _:
                (spec,) = self.specs.full(idea, attempt, tokens, range(index, index + 1))
                return spec

    def _of_reference(self, action: RunTrial) -> TrialSpec:
        if action.stage is Stage.CONFIRM:
            seeds = _spent(self.state.baseline_spent).seeds
            return self.specs.confirm_baseline(action.index, seeds[action.index])
        return self.specs.reference(action.stage, action.index, action.attempt)


def _spent(spent: SplitSpent | None) -> SplitSpent:
    assert spent is not None  # else it has no confirmation trials
    return spent
