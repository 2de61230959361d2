"""Reruns a claim's trials in another folder, with the campaign's runner and backends."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.campaign.claims import encode
from hpcscientist.campaign.dispatcher import journalled
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.campaign.trial_runner import TrialRunner
from hpcscientist.errors import (
    CampaignBusy,
    DiskFull,
    Interrupted,
    MachineTrouble,
    RunDirectoryError,
    UsageError,
)
from hpcscientist.execution.backends.slots import refuse_patterns
from hpcscientist.files import vault
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.handed import read_regular
from hpcscientist.files.lock import FolderLocked, Lock
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.launching.shutdown import STOP_SIGNALS
from hpcscientist.launching.sites import choosing
from hpcscientist.ports import Tell
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.events import CampaignStarted, Event, IdeaProposed, TrialEnded
from hpcscientist.records.findings import Claim, Measured
from hpcscientist.records.idea import BASELINE_ID, Attempt
from hpcscientist.records.trial import MachineFailed, Scored, Split, Stage, TrialReport, TrialSpec
from hpcscientist.reproduction.claim_integrity import RecordedIdea, read_idea

# The folder of a rerun: a new one, or an interrupted one that is resumed.
#
# Its layout is that of a run directory, with its own journal, trials and lock, but without a
# campaign.toml, so that it is not taken for a campaign. Its trials have their own id and key:
# ending the campaign's processes leaves them alone, and vice versa.


OUTCOME, CLAIM = "reproduction.json", "claim.json"


def choose_folder(campaign: RunPaths, claim: Claim, out: Path | None) -> RunPaths:
    """Create the folder of a rerun: `out`, or a new one in the campaign's `reproductions/`.

    A folder with an interrupted rerun of the same claim is resumed. Raises UsageError and
    RunDirectoryError.
    """
    try:
        refuse_patterns(campaign.root if out is None else out)
        root = _numbered(campaign, claim.idea_id) if out is None else out
        root.mkdir(parents=True, exist_ok=True)
        paths, copy = RunPaths(root), root / CLAIM
        if copy.exists():
            if read_regular(copy) != encode(claim):
                raise UsageError(f"--out {root}: holds the rerun of another claim; give another")
            if (root / OUTCOME).exists():
                raise UsageError(f"--out {root}: holds a finished rerun; give another")
        elif any(root.iterdir()):
            raise UsageError(f"--out {root}: is not empty; give another")
        else:
            write_atomic(copy, encode(claim))
        paths.trials.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise RunDirectoryError(
            f"{error.filename}: cannot be written: {error.strerror}; give --out DIR"
        ) from error
    return paths


def _numbered(campaign: RunPaths, idea_id: str) -> Path:
    campaign.reproductions.mkdir(exist_ok=True)
    number = 1
    while True:
        root = campaign.reproductions / f"{idea_id}-{number}"
        try:
            root.mkdir()
        except FileExistsError:
            number += 1
        else:
            return root


@contextmanager
def locked(paths: RunPaths) -> Iterator[int]:
    """Lock the folder against other processes; yield the lock's generation.

    Raises CampaignBusy, RunDirectoryError.
    """
    try:
        lock = Lock(paths.lock)
    except FolderLocked as holder:
        raise CampaignBusy(
            f"{paths.root}: {holder} fills it already; wait for that, or give another --out"
        ) from holder
    except OSError as error:
        raise RunDirectoryError(f"{paths.lock}: cannot be written: {error.strerror}") from error
    try:
        yield lock.generation
    finally:
        lock.release()


def rerun_id(paths: RunPaths) -> str:
    """Return the campaign id of this rerun's trials, and make a key for their results if none
    exists.

    A resumed rerun keeps its id.
    """
    known = (e.campaign_id for e in journal.read(paths.journal) if isinstance(e, CampaignStarted))
    own = next(known, f"again-{secrets.token_hex(4)}")
    try:
        if vault.campaign_key(own) is not None:
            return own
        # If a rerun's key is lost, none of its results count: run all of its trials again.
        paths.journal.unlink(missing_ok=True)
        vault.forget_campaign_key(own)
        vault.make_campaign_key(own)
    except OSError as error:
        raise RunDirectoryError(
            f"{error.filename}: cannot be written: {error.strerror}; set paths.private"
        ) from error
    return own


# Reuses baseline trials that were rerun for another claim of the same campaign.
#
# All claims of a campaign have the same baseline, seed by seed. If several claims are reproduced
# in turn, the baseline is rerun once: a trial is reused if its spec.json is the same, including
# all hashes, limits, paths and the package.


def baseline_reports(
    beside: Iterable[RunPaths], specs: Sequence[TrialSpec]
) -> dict[str, TrialReport]:
    """Return the reports, by trial id, of baseline trials that reruns in `beside` have scored.

    Failed trials are run again, because the cause may be other load on the machine. So are the
    trials of a rerun with a damaged journal.
    """
    wanted = {spec.trial_id: spec for spec in specs if spec.idea_id == BASELINE_ID}
    found: dict[str, TrialReport] = {}
    for paths in beside:
        try:
            events = journal.read(paths.journal)
        except RunDirectoryError:
            continue
        for event in events:
            if not isinstance(event, TrialEnded) or event.report.trial_id in found:
                continue
            report, spec = event.report, wanted.get(event.report.trial_id)
            scored = isinstance(report.outcome, Scored)
            if spec is not None and scored and _is_same(paths, spec):
                found[report.trial_id] = report
    return found


def _is_same(paths: RunPaths, spec: TrialSpec) -> bool:
    """Return whether another rerun's trial has this spec, except for its time and rerun id."""
    try:
        other = TrialSpec.model_validate_json(read_regular(paths.trial(spec.trial_id).spec))
    except (OSError, ValueError):
        return False
    own = {"campaign_id": spec.provenance.campaign_id}
    free = {
        "run": spec.run,
        "queued_at": spec.queued_at,
        "seal": "",
        "provenance": other.provenance.model_copy(update=own),
    }
    return other.model_copy(update=free) == spec


@dataclass(frozen=True, slots=True)
class ClaimRerun:
    """A rerun that is ready to start. `config` has the current places of data, image and
    interpreter.

    `beside` are reruns of the campaign's other claims; baseline trials that they ran are not run
    again. `asked` is the user's command without --out.
    """

    recorded: RecordedIdea
    claim: Claim
    recipe: Recipe
    config: CampaignConfig
    paths: RunPaths
    tell: Tell
    beside: Sequence[RunPaths] = ()
    asked: str = "hpcsci reproduce"

    def run(self) -> dict[str, TrialReport]:
        """Run all trials of the claim and return their reports by trial.

        Raises Interrupted on a signal, MachineTrouble if machine failures exhausted a trial's
        reruns, CampaignBusy, DiskFull, RunDirectoryError, SchedulerError; the rerun can be resumed
        after any of them.
        """
        with locked(self.paths) as generation:
            own = rerun_id(self.paths)
            specs: list[TrialSpec] = []
            state = CampaignState()
            live = False

            def observe(event: Event) -> None:
                state.apply(event)
                if live and isinstance(event, TrialEnded):
                    self._said(event.report, state, len(specs))

            journal = Journal(self.paths.journal, observe)
            try:
                live = True
                # Record the id first, so that a resumed rerun uses the same key after any failure.
                self._begin(journal, own)
                specs = self._specs(own)
                known = baseline_reports(self.beside, specs)
                specs = [spec for spec in specs if spec.trial_id not in known]
                if known:
                    self.tell(f"{len(known)} trials of the baseline were run again before")
                reports = asyncio.run(self._run(specs, journal, state, generation))
            except DiskFull as error:
                raise DiskFull(f"{self.paths.root}: no space left; {self._fix()}") from error
            finally:
                journal.close()
            failed = [r for r in reports if isinstance(r.outcome, MachineFailed)]
            if failed:
                first = failed[0].outcome
                assert isinstance(first, MachineFailed)
                raise MachineTrouble(
                    f"the machine failed {len(failed)} trials, {failed[0].trial_id} first "
                    f"({first.failure.value}): {first.detail}; {self._fix()}"
                )
            vault.forget_campaign_key(own)
            return known | {report.trial_id: report for report in reports}

    def _begin(self, journal: Journal, own: str) -> None:
        """Record the first events.

        The idea's use of the test split is copied if it was spent; only that allows trials on it.
        """
        idea = self.recorded.idea
        journal.record(CampaignStarted(campaign_id=own))
        journal.record(
            IdeaProposed(
                idea_id=idea.idea_id,
                number=idea.number,
                round=idea.round,
                title=idea.title,
                parent_ids=idea.parent_ids,
                arm=idea.arm,
                summary=idea.summary,
                knobs=idea.knobs,
                shown=idea.shown,
                idea_hash=idea.idea_hash,
            )
        )
        if idea.spent is not None:
            journal.record(idea.spent)

    def _specs(self, own: str) -> list[TrialSpec]:
        """Return every trial as the campaign specified it, with the current paths."""
        config = self.config.model_copy(update={"campaign_id": own})
        factory = SpecFactory(config=config, recipe=self.recipe, paths=self.recorded.paths)
        attempt = Attempt(
            idea_id=self.claim.idea_id,
            number=self.claim.attempt,
            code_hash=self.claim.code_hash,
            note="",
        )
        baseline = factory.baseline()[0]
        idea = factory.full(read_idea(self.recorded), attempt)[0]
        specs: list[TrialSpec] = []
        for split, evidence in self.claim.evidence.items():
            specs += [_like(baseline, trial, split, config) for trial in evidence.baseline]
            specs += [_like(idea, trial, split, config) for trial in evidence.idea]
        return specs

    async def _run(
        self,
        specs: Sequence[TrialSpec],
        journal: Journal,
        state: CampaignState,
        generation: int,
    ) -> list[TrialReport]:
        loop = self.config.settings.loop
        own, slots = specs[0].provenance.campaign_id, min(len(specs), self.config.slots)
        backend = journalled(
            choosing.of(self.config).open(self.paths, own, slots),
            *(journal, state, generation),
            notify=lambda name, text: self.tell(text),
        )
        runner = TrialRunner(
            paths=self.paths,
            journal=journal,
            state=state,
            backend=backend,
            generation=generation,
            retries=loop.machine_retries,
            pause_s=loop.machine_pause_s,
        )
        work, reason = asyncio.create_task(runner.run(specs)), ""

        def stop(number: signal.Signals) -> None:
            nonlocal reason
            reason = number.name
            work.cancel()

        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # keep nohup's choice
                asyncio.get_running_loop().add_signal_handler(number, stop, number)
        try:
            await asyncio.wait({work})
            if reason and work.cancelled():
                raise Interrupted(f"stopped by {reason}; {self._fix()}")
            return work.result()
        finally:
            await backend.close()

    def _said(self, report: TrialReport, state: CampaignState, total: int) -> None:
        done = state.count_trials("scored") + state.count_trials("failed")
        self.tell(f"[{done}/{total}] {report.trial_id} {report.outcome.kind.replace('_', ' ')}")

    def _fix(self) -> str:
        return f"go on with `{self.asked} --out {self.paths.root}`"


def _like(spec: TrialSpec, trial: Measured, split: Split, config: CampaignConfig) -> TrialSpec:
    """Return a search trial's spec for another seed, on either split."""
    places = {"data": config.views[split], "labels": config.labels[split]}
    return spec.model_copy(
        update={
            "trial_id": trial.trial_id,
            "seed": trial.seed,
            "split": split,
            "stage": Stage.CONFIRM if split is Split.TEST else spec.stage,
            "sources": spec.sources.model_copy(update=places),
        }
    )
