"""Ideas written once and fixed in each mode of debugging, each version really run.

The code is written and its pilot run once for all modes, so that these differ in the debugging
alone. What a mode does with an idea is kept under an id of its own (`traceback-0003`), whose
number is the idea's: a playbook answers by it, and seeds come from it. All calls and trials are
recorded; a bench that is taken up again runs from its beginning, and nothing is done twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.authoring.outcomes import MODES, Fixed, Mode, Written
from benchmarks.authoring.proposals import Proposals
from hpcscientist.authoring.coder import ModelAuthor
from hpcscientist.campaign.proposals.idea_file import proposed
from hpcscientist.campaign.pursuit.attempt_store import AttemptStore, AttemptTrial
from hpcscientist.campaign.trial_runner import TrialRunner
from hpcscientist.errors import BaselineFailed, MachineTrouble
from hpcscientist.ports import Tell
from hpcscientist.records.authoring import Brief, Draft, FixTask, GaveUp
from hpcscientist.records.idea import AttemptKind, Idea
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.records.trial import DISQUALIFIED, IdeaFailed, MachineFailed, Scored, TrialReport


@dataclass(slots=True)
class Spent:
    """Tokens by idea id, repairs and analyses included; `estimated` where a server gave none."""

    prompt: dict[str, int] = field(default_factory=dict)
    completion: dict[str, int] = field(default_factory=dict)
    estimated: bool = False

    def add(self, request: ModelRequest, reply: ModelReply) -> None:
        """Count a reply, also one that was recorded before."""
        of = request.subject
        self.prompt[of] = self.prompt.get(of, 0) + reply.prompt_tokens
        self.completion[of] = self.completion.get(of, 0) + reply.completion_tokens
        self.estimated = self.estimated or reply.tokens_estimated


@dataclass(slots=True)
class Bench:
    """Has ideas proposed, written, run and fixed, in `rounds` rounds of debugging at most."""

    attempt_store: AttemptStore
    trials: TrialRunner
    proposals: Proposals
    authors: Mapping[Mode, ModelAuthor]
    rounds: int
    spent: Spent
    tell: Tell
    _reference: str | None = None  # the hash of its pilot's predictions

    async def run(self, count: int) -> list[Written]:
        """Return what became of `count` ideas, or of as many as there are, by number.

        Raises BaselineFailed, MachineTrouble, EndpointError, DiskFull, RunDirectoryError; a task
        group's where several ideas fail at once.
        """
        await self._run_reference()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._idea(idea)) async for idea in self.proposals.ideas(count)
            ]
        return [task.result() for task in tasks]

    async def _run_reference(self) -> None:
        """Where the reference does not run, no idea made from it is to blame."""
        (report,) = await self.trials.run([self.attempt_store.specs.baseline_pilot()])
        _check_machine(report, "the reference")
        if not isinstance(report.outcome, Scored):
            raise BaselineFailed(
                f"the reference code fails at the pilot budget ({report.outcome.failure.value}): "
                f"{report.outcome.detail}; fix it, see that "
                "`hpcsci recipe check --run` likes it, and give another --dir"
            )
        self._reference = report.predictions_hash

    async def _idea(self, idea: Idea) -> Written:
        """Write an idea and run it; where it fails, fix it in each mode, side by side."""
        draft = await self.authors[MODES[0]].write(Brief(idea=idea))
        title = idea.proposal.title
        if isinstance(draft, GaveUp):
            self.tell(f"idea {idea.number}: no code: {draft.reason}")
            return Written(idea.number, title, "no code")
        first = await self._pilot(idea, 1, draft, "draft")
        self.tell(f"idea {idea.number}: {_said(first, 'at first')}")
        if first.scored:
            unchanged = first.report.predictions_hash == self._reference
            return Written(idea.number, title, "ran", unchanged=unchanged)
        async with asyncio.TaskGroup() as group:
            fixing = [group.create_task(self._fix(mode, idea, first)) for mode in MODES]
        return Written(idea.number, title, "failed", tuple(task.result() for task in fixing))

    async def _fix(self, mode: Mode, idea: Idea, first: AttemptTrial) -> Fixed:
        """Debug an idea in one mode until its pilot is scored, or no repair is left."""
        own = idea.model_copy(update={"idea_id": f"{mode}-{idea.number:04d}"})
        tried, seen = first, [first.attempt.code_hash]
        notes: list[str] = []
        asked, why = 0, "the rounds are used up"
        while not tried.scored and asked < self.rounds:
            assert isinstance(tried.outcome, IdeaFailed)
            if tried.outcome.failure in DISQUALIFIED:
                why = "it tampered"
                break
            asked += 1
            task = FixTask(
                idea=own,
                files=tried.draft.files,
                outcome=tried.outcome,
                log_tail=self.attempt_store.log_tail(tried),
                round=asked,
                rounds=self.rounds,
                earlier=tuple(notes),
                seen=tuple(seen),
            )
            written = await self.authors[mode].fix(task)
            if isinstance(written, GaveUp):
                why = written.reason
                break
            tried = await self._pilot(own, asked + 1, written, "debug")
            self.tell(f"idea {idea.number}, {mode}: {_said(tried, f'after round {asked}')}")
            notes.append(written.note)
            seen.append(tried.attempt.code_hash)
        if not tried.scored:
            self.tell(f"idea {idea.number}, {mode}: given up after round {asked}: {why}")
        return Fixed(
            mode=mode,
            ran_after=asked if tried.scored else None,
            rounds=asked,
            prompt_tokens=self.spent.prompt.get(own.idea_id, 0),
            completion_tokens=self.spent.completion.get(own.idea_id, 0),
            unchanged=tried.scored and tried.report.predictions_hash == self._reference,
        )

    async def _pilot(
        self, idea: Idea, number: int, draft: Draft, kind: AttemptKind
    ) -> AttemptTrial:
        self.attempt_store.journal.record(proposed(idea, ""))
        attempt = self.attempt_store.keep(idea.idea_id, number, draft, number - 1, kind)
        tokens = self.attempt_store.state.tokens.get(idea.idea_id, 0)
        (report,) = await self.trials.run([self.attempt_store.specs.pilot(idea, attempt, tokens)])
        _check_machine(report, idea.idea_id)
        return AttemptTrial(attempt, draft, report)


def _check_machine(report: TrialReport, what: str) -> None:
    """Raise MachineTrouble where the machine failed: that says nothing of any mode."""
    if isinstance(report.outcome, MachineFailed):
        raise MachineTrouble(
            f"{what}: the machine failed ({report.outcome.failure.value}): "
            f"{report.outcome.detail}; fix that and run `hpcsci resume`"
        )


def _said(tried: AttemptTrial, when: str) -> str:
    outcome = tried.outcome
    if isinstance(outcome, Scored):
        return f"runs {when}"
    return f"fails {when} ({outcome.failure.value.replace('_', ' ')}: {outcome.detail})"
