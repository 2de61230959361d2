"""The loop, top to bottom: baseline; then ideas that flow through propose, admit, author, run.

Re-execution is the recovery: on resume every coroutine starts from its beginning, and what
was done is not done again, for model replies come from chat.jsonl, trials from the journal
or their result files, and known events are dropped by the journal. So nothing here may
depend on timing except the feedback a language model is shown, and that is recorded.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from hpcscientist.authoring import attempts
from hpcscientist.campaign.compaction import Compactor
from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.knowledge import IN_PROGRESS, Knowledge
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.campaign.state import CampaignState
from hpcscientist.campaign.trials import TrialRunner
from hpcscientist.errors import (
    BaselineFailed,
    MachineTrouble,
    PlaybookExhausted,
    ReplyError,
    RunDirectoryError,
)
from hpcscientist.files.atomic import read_tail, write_text
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ideation.bank import Bank
from hpcscientist.ports.author import Author
from hpcscientist.ports.proposer import Proposer
from hpcscientist.records.authoring import Draft, FixTask, GaveUp
from hpcscientist.records.events import AttemptWritten, IdeaEnded, IdeaProposed, NoteTaken
from hpcscientist.records.idea import Attempt, Idea, Proposal, idea_id_of
from hpcscientist.records.outcome import IdeaFailed, IdeaFailure, MachineFailed, Outcome, Scored
from hpcscientist.records.proposing import ProposalTask
from hpcscientist.records.trial import TrialSpec

LOG_TAIL = 16 * 1024


@dataclass(frozen=True, slots=True)
class Plan:
    """How far and how wide the loop goes. `rounds` 0 means steady state."""

    ideas: int
    rounds: int
    in_flight: int
    debug_rounds: int
    model_name: str
    seed: int

    def first_of(self, round_number: int) -> int:
        """The first idea of a round."""
        rounds = min(self.rounds, self.ideas) or 1
        return (round_number - 1) * self.ideas // rounds + 1

    def chunks(self) -> Iterator[tuple[int, range]]:
        """Yield (round, idea numbers); there is a barrier after each."""
        rounds = min(self.rounds, self.ideas) or 1
        for index in range(rounds):
            yield index + 1, range(self.first_of(index + 1), self.first_of(index + 2))


def _events() -> defaultdict[int, asyncio.Event]:
    return defaultdict(asyncio.Event)


@dataclass(slots=True)
class Conductor:
    """Conducts one campaign for one driver."""

    plan: Plan
    paths: RunPaths
    journal: Journal
    state: CampaignState
    knowledge: Knowledge
    specs: SpecFactory
    trials: TrialRunner
    proposer: Proposer
    author: Author
    bank: Bank
    compactor: Compactor
    _admitted: defaultdict[int, asyncio.Event] = field(default_factory=_events)
    _ended: defaultdict[int, asyncio.Event] = field(default_factory=_events)
    _exhausted: bool = False
    _set_aside: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """Run the campaign to its end.

        Raises BaselineFailed, EndpointError, DiskFull or RunDirectoryError; whatever was
        recorded by then is kept, and `run` of a new conductor goes on from there.
        """
        async with asyncio.TaskGroup() as group:
            # First in the queue; a baseline that fails ends everything else at once.
            for spec in self.specs.baseline():
                group.create_task(self._run_baseline(spec))
            group.create_task(self._run_ideas())
        if self._set_aside:
            raise MachineTrouble(
                f"the machine failed trials of {len(self._set_aside)} ideas again and again, of "
                f"{self._set_aside[0]}; mend that and run `hpcsci resume`, which tries them anew"
            )

    async def _run_baseline(self, spec: TrialSpec) -> None:
        (report,) = await self.trials.run([spec])
        outcome = report.outcome
        if isinstance(outcome, MachineFailed):
            raise MachineTrouble(
                f"the baseline could not be run ({outcome.failure.value}): {outcome.detail}; "
                "mend that and run `hpcsci resume`"
            )
        if not isinstance(outcome, Scored):
            raise BaselineFailed(
                f"the reference code fails at baseline ({outcome.failure.value}): "
                f"{outcome.detail}; mend it and try `hpcsci recipe check --run` on the recipe"
            )

    async def _run_ideas(self) -> None:
        window = asyncio.Semaphore(self.plan.in_flight)
        for round_number, numbers in self.plan.chunks():
            async with asyncio.TaskGroup() as group:
                for number in numbers:
                    await self._enter(number, window)
                    if self._exhausted:
                        return
                    group.create_task(self._run_idea(number, round_number, window))

    async def _enter(self, number: int, window: asyncio.Semaphore) -> None:
        """Wait for a place in flight; in order of idea numbers where timing must not matter."""
        if self.proposer.ordered and number > self.plan.in_flight:
            await self._ended[number - self.plan.in_flight].wait()
        await window.acquire()

    async def _run_idea(self, number: int, round_number: int, window: asyncio.Semaphore) -> None:
        try:
            idea = await self._propose(number, round_number)
            if idea is not None:
                await self._pursue(idea)
                await self.compactor.step()
        finally:
            self._admitted[number].set()
            self._ended[number].set()
            window.release()

    async def _propose(self, number: int, round_number: int) -> Idea | None:
        """Have an idea proposed and admit it; None where it goes no further."""
        if self.proposer.ordered:
            await self._turn(number)
        idea_id = idea_id_of(number)
        known = self._known(idea_id)
        if known is not None and not self.proposer.ordered:
            await self._turn(number)
            return self._enter_bank(known)
        task = self._task(idea_id, number, round_number)
        try:
            proposed = await self.proposer.propose(task)
        except PlaybookExhausted as error:
            self._exhausted = True
            self.journal.record(NoteTaken(name="exhausted", text=str(error)))
            return None
        except ReplyError as error:
            await self._turn(number)
            self._record_proposed(_unusable(idea_id, number, round_number, self.plan))
            self._end(idea_id, "failed", f"no usable proposal: {error}", None)
            return None
        await self._turn(number)  # look-alikes are judged in order of proposal
        idea = Idea(
            idea_id=idea_id,
            number=number,
            round=round_number,
            proposal=proposed.proposal,
            model=self.plan.model_name,
            seed=self.plan.seed,
            shown=proposed.shown,
            knobs=proposed.knobs,
        )
        if known is not None and (known.knobs, known.proposal) != (idea.knobs, idea.proposal):
            raise RunDirectoryError(
                f"{idea_id}: the search proposes other knobs than before, as another version of "
                "Optuna may; resume with the versions in campaign.toml, or launch anew"
            )
        return self._enter_bank(idea)

    def _known(self, idea_id: str) -> Idea | None:
        """The idea as it was recorded before this driver took the campaign up."""
        try:
            return Idea.model_validate_json(self.paths.idea(idea_id).idea.read_bytes())
        except FileNotFoundError:
            return None

    def _enter_bank(self, idea: Idea) -> Idea | None:
        """Record an idea whose turn it is, and let it in unless it repeats another."""
        path = self.paths.idea(idea.idea_id).idea
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, idea.model_dump_json(indent=2) + "\n")
        self._record_proposed(idea)
        admitted = self._admit(idea)
        self._admitted[idea.number].set()
        return idea if admitted else None

    def _task(self, idea_id: str, number: int, round_number: int) -> ProposalTask:
        if self.proposer.ordered:
            return ProposalTask(
                idea_id=idea_id,
                number=number,
                round=round_number,
                feedback="",
                archive=(),
                scores=self.knowledge.scores(before=self._settled(number, round_number)),
            )
        feedback, archive = self.knowledge.feedback(), self.knowledge.archive()
        told = {entry.idea_id for entry in archive if entry.finding != IN_PROGRESS}
        shown = tuple(sorted(told.union(feedback.shown)))
        return ProposalTask(
            idea_id=idea_id,
            number=number,
            round=round_number,
            feedback=feedback.text,
            archive=archive,
            scores=(),
            shown=shown,
        )

    def _settled(self, number: int, round_number: int) -> int:
        """The first idea whose outcome an ordered proposal may not depend on."""
        first_of_round = self.plan.first_of(round_number)
        return max(number - self.plan.in_flight + 1, first_of_round)

    async def _turn(self, number: int) -> None:
        if number > 1:
            await self._admitted[number - 1].wait()

    def _record_proposed(self, idea: Idea) -> None:
        self.knowledge.remember(idea)
        self.journal.record(
            IdeaProposed(
                idea_id=idea.idea_id,
                number=idea.number,
                round=idea.round,
                title=idea.proposal.title,
                parent_ids=idea.proposal.parent_ids,
            )
        )

    def _admit(self, idea: Idea) -> bool:
        """Reject a look-alike of an earlier idea; otherwise put the idea in the bank."""
        reason: str | None = None
        if idea.knobs is not None:
            same = self.bank.same_knobs(idea.knobs)
            reason = f"has the same knobs as {same}" if same else None
        else:
            near = self.bank.look_alike(idea.proposal.summary)
            reason = f"looks like {near.idea_id} (cosine {near.cosine:.2f})" if near else None
        if reason is not None:
            self._end(idea.idea_id, "rejected", reason, None)
            return False
        self.bank.add(idea.idea_id, idea.proposal.summary, idea.knobs)
        return True

    async def _pursue(self, idea: Idea) -> None:
        """Write the code, try it out, mend it from its failure, until it runs or is given up."""
        if self.state.ideas[idea.idea_id].ended is not None:
            return
        written = await self.author.write(idea)
        notes: list[str] = []
        seen: list[str] = []
        failed: IdeaFailed | None = None
        for number in range(1, self.plan.debug_rounds + 2):
            if isinstance(written, GaveUp):
                break
            attempt = self._snapshot(idea, number, written)
            notes.append(written.note)
            seen.append(attempt.code_hash)
            outcome, trial_id = await self._try_out(idea, attempt)
            if isinstance(outcome, Scored):
                self._end(idea.idea_id, "scored", None, number)
                return
            if isinstance(outcome, MachineFailed):
                self._give_up_for_now(idea, number, outcome, trial_id)
                return
            failed = outcome
            if outcome.failure is IdeaFailure.TAMPERING or number > self.plan.debug_rounds:
                break
            task = FixTask(
                idea=idea,
                files=written.files,
                outcome=outcome,
                log_tail=read_tail(self.paths.trial(trial_id).log, LOG_TAIL),
                round=number,
                rounds=self.plan.debug_rounds,
                earlier=tuple(notes[1:]),  # the first is no diagnosis
                seen=tuple(seen),
            )
            written = await self.author.fix(task)
        reason = _reason(failed, written, len(seen))
        standing = self._standing(idea, len(seen)) if seen else None
        self._end(idea.idea_id, "failed", reason, standing)

    def _give_up_for_now(
        self, idea: Idea, number: int, outcome: MachineFailed, trial_id: str
    ) -> None:
        """Set an idea aside that the machine failed; end it if that happened under two drivers."""
        reason = f"machine failed ({outcome.failure.value}): {outcome.detail}"
        if self.state.trials[trial_id].run > self.trials.retries + 1:
            self._end(idea.idea_id, "failed", reason, self._standing(idea, number))
        else:
            self._set_aside.append(f"{idea.idea_id}: {reason}")

    def _snapshot(self, idea: Idea, number: int, draft: Draft) -> Attempt:
        attempt = attempts.save(
            self.paths.idea(idea.idea_id), number, draft, self.specs.recipe.reference
        )
        before = self.state.ideas[idea.idea_id].code_hashes.get(number)
        if before not in (None, attempt.code_hash):
            raise RunDirectoryError(
                f"{idea.idea_id}: attempt {number} has other code than when it was run; restore "
                "the run directory, or launch anew"
            )
        self.journal.record(
            AttemptWritten(idea_id=idea.idea_id, attempt=number, code_hash=attempt.code_hash)
        )
        return attempt

    async def _try_out(self, idea: Idea, attempt: Attempt) -> tuple[Outcome, str]:
        """Pilot, then all seeds; return the first outcome that is not scored, or the last."""
        tokens = self.state.tokens.get(idea.idea_id, 0)
        pilot = self.specs.pilot(idea, attempt, tokens)
        (report,) = await self.trials.run([pilot])
        if not isinstance(report.outcome, Scored):
            return report.outcome, pilot.trial_id
        reports = await self.trials.run(self.specs.full(idea, attempt, tokens))
        for report in reports:
            if not isinstance(report.outcome, Scored):
                return report.outcome, report.trial_id
        return reports[-1].outcome, reports[-1].trial_id

    def _standing(self, idea: Idea, last: int) -> int:
        """The latest attempt with scored seeds: a later failure never discards a good run."""
        metric = self.specs.recipe.spec.primary.name
        for number in range(last, 0, -1):
            if self.state.scores(idea.idea_id, number, metric):
                return number
        return last

    def _end(self, idea_id: str, status: str, reason: str | None, attempt: int | None) -> None:
        event = IdeaEnded.model_validate(
            {"idea_id": idea_id, "status": status, "reason": reason, "attempt": attempt}
        )
        self.journal.record(event)


def _reason(failed: IdeaFailed | None, written: Draft | GaveUp, attempts_made: int) -> str:
    parts = []
    if failed is not None:
        parts.append(f"{failed.failure.value}: {failed.detail}")
    if isinstance(written, GaveUp):
        parts.append(f"given up: {written.reason}")
    elif attempts_made > 1:
        parts.append(f"after {attempts_made} attempts")
    return "; ".join(parts)


def _unusable(idea_id: str, number: int, round_number: int, plan: Plan) -> Idea:
    """A place holder in the record for a proposal that never came."""
    nothing = "(the model gave no usable proposal)"
    return Idea(
        idea_id=idea_id,
        number=number,
        round=round_number,
        proposal=Proposal(
            title=nothing,
            hypothesis=nothing,
            method=nothing,
            experiment_plan=nothing,
            summary=nothing,
        ),
        model=plan.model_name,
        seed=plan.seed,
    )
