"""A world in which `decide` is driven: it answers actions with events, as performers would.

What an action comes to depends on the world's seed, on the action and on what is on record, and
never on when. A run that was submitted goes on without its driver, as it does in a scheduler.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from hpcscientist.conduct.actions import (
    Action,
    Admit,
    BriefIdea,
    Compact,
    Decide,
    Finish,
    JudgeFindings,
    Propose,
    RunTrial,
    Spend,
    Stop,
    Take,
)
from hpcscientist.conduct.agenda import AgendaCache
from hpcscientist.conduct.decide import decide
from hpcscientist.conduct.rules import ConfirmationRules, Judging, Proposing, Rules
from hpcscientist.conduct.strategy.steps import (
    Abandon,
    Climb,
    Conclude,
    Read,
    Review,
    Seeds,
    SetAside,
    Write,
)
from hpcscientist.conduct.strategy.strategy import LinearSearch, Strategies, TreeSearch
from hpcscientist.conduct.strategy.strategy_replay import Measuring
from hpcscientist.config.extent import Extent
from hpcscientist.config.settings import LoopSettings, Settings
from hpcscientist.feedback.effort import Schedule
from hpcscientist.history.state import CampaignState, fold
from hpcscientist.records.events import (
    AttemptReviewed,
    AttemptWritten,
    AuthorGaveUp,
    BudgetDecided,
    CampaignEnded,
    CampaignStarted,
    DriverStarted,
    DriverStopped,
    Event,
    IdeaAdmitted,
    IdeaBriefed,
    IdeaEnded,
    IdeaProposed,
    IdeaSetAside,
    IdeasJudged,
    ProposalsExhausted,
    ResultsCompacted,
    RunsRead,
    SeedsDecided,
    SplitSpent,
    TrialEnded,
    TrialQueued,
    TrialStarted,
)
from hpcscientist.records.experiment import FurtherRun
from hpcscientist.records.idea import BASELINE_ID, idea_id_of
from hpcscientist.records.objective import Objective
from hpcscientist.records.trial import (
    Direction,
    IdeaFailed,
    IdeaFailure,
    MachineFailed,
    MachineFailure,
    MetricSpec,
    Outcome,
    Scored,
    Stage,
    TrialReport,
    Usage,
)

METRIC = MetricSpec(name="m", direction=Direction.MAXIMIZE)
RUN = FurtherRun(kind="ablation", title="t", purpose="p", change="c")
MOST = 4  # seeds
CONFIRMED = (7, 8)  # their seeds


@dataclass(frozen=True)
class Shape:
    """How a campaign is set up."""

    ideas: int = 5
    rounds: int = 0
    window: int = 3
    lag: int = 2
    control: float = 0.0
    in_order: bool = False
    follows: bool = False
    grows: bool = False
    analysed: bool = False
    scheduled: bool = False
    early: bool = False
    drift_every: int = 2
    retries: int = 1


SEARCH = Settings.model_validate(
    {
        "seed": 3,
        "loop": {"debug_rounds": 1},
        "authoring": {
            **{"advice_rounds": 1, "further_runs": 1, "drafts": 2, "nodes": 5, "workers": 3},
            "debug_depth": 1,
        },
    }
)


def rules_of(shape: Shape) -> Rules:
    """The rules of a campaign of this shape."""
    schedule = Schedule((2, MOST)) if shape.scheduled else None
    return Rules(
        extent=Extent(
            ideas=shape.ideas,
            rounds=shape.rounds,
            in_flight=shape.window,
            lag=shape.lag,
            model_name="",
            seed=3,
            control=shape.control,
        ),
        settings=Settings(
            ideas=shape.ideas,
            rounds=shape.rounds,
            loop=LoopSettings(drift_every=shape.drift_every),
        ),
        objective=Objective(primary=METRIC),
        published=None,
        judging=Judging(hopeless=0.5, piloted=True, catches_nothing_done=True),
        proposing=Proposing(in_order=shape.in_order, follows=shape.follows, batch=2),
        confirmation=ConfirmationRules(enabled=True, early=shape.early),
        strategies=Strategies(
            kind=TreeSearch() if shape.grows else LinearSearch(),
            settings=SEARCH,
            objective=Objective(primary=METRIC),
            advised=True,
            analysed=shape.analysed,
            measuring=Measuring(2, 1 if shape.scheduled else 0, schedule),
        ),
        budgets=("half",) if shape.scheduled else (),
        schedule=schedule,
        seeds=MOST if shape.scheduled else 2,
        retries=shape.retries,
        pause_s=2.0,
        compact_after=9,
    )


@dataclass(frozen=True)
class Luck:
    """How often what goes wrong in a world, per cent. `patience`: a machine fails a trial at most
    so often, all drivers together.
    """

    fails: int = 25
    infra_failed: int = 10
    patience: int = 1
    gives_up: int = 8
    doubles: int = 10
    rejects: int = 15
    unusable: int = 5
    exhausted: int = 0  # the number from which on nothing is left to propose


class Killed(Exception):
    """The driver was, after an event."""


@dataclass
class World:
    """One campaign: its journal, and what machines made of its trials."""

    shape: Shape
    luck: Luck
    seed: int
    journal: list[Event] = field(default_factory=list)
    results: dict[tuple[str, int], Outcome] = field(default_factory=dict)
    decisions: int = 0

    def __post_init__(self) -> None:
        """Derive the rules."""
        self.rules = rules_of(self.shape)

    def chance(self, *what: object) -> float:
        """A number from 0 to 100 that depends on `what` and on nothing else."""
        return zlib.crc32(repr((self.seed, *what)).encode()) % 10_000 / 100

    # -- driving ------------------------------------------------------

    def drive(self, generation: int, draw: random.Random, events: int = 10**9) -> CampaignState:
        """Drive to the end, or until the driver stops. Raises Killed after so many events."""
        state, left = fold(self.journal), events
        if state.ended:
            return state

        def record(event: Event) -> None:
            nonlocal left
            self.journal.append(event)
            state.apply(event)
            left -= 1
            if not left:
                raise Killed

        busy: dict[str, Action] = {}
        done: set[str] = set()  # what is recorded of them is all, and nobody has noticed yet
        memory = AgendaCache()
        now = 1000.0 * generation
        if generation == 1:
            record(CampaignStarted(campaign_id="c"))
        record(_driver(generation))
        while not state.ended and state.stopped is None:
            self.decisions += 1
            found = decide(state, self.rules, busy.keys(), now, memory)
            if self.decisions % 7 == 0:
                assert found == decide(state, self.rules, busy.keys(), now)
            self._check(state, found.actions, busy)
            under_way = [action for key, action in busy.items() if key not in done]
            self._check_room(state, [*under_way, *found.actions])
            for action in found.actions:
                busy[action.key] = action
                if isinstance(action, RunTrial):
                    self._queue(action, state, record)
            if not busy:
                assert found.wake_at is not None, "nothing is done, and nothing waited for"
                assert found.wake_at > now
                now = found.wake_at
                continue
            now += 0.01
            key = draw.choice(list(busy))
            if key not in done:
                for event in self.events(busy[key], state, now):
                    record(event)
                done.add(key)
                if draw.random() < 0.3:
                    continue
            done.discard(key)
            del busy[key]
        return state

    def _check(self, state: CampaignState, found: tuple[Action, ...], busy: object) -> None:
        keys = [action.key for action in found]
        assert len(set(keys)) == len(keys)
        last = [action for action in found if isinstance(action, Stop | Finish)]
        assert not last or len(found) == 1
        for action in found:
            if isinstance(action, RunTrial):
                before = state.trials.get(action.trial_id)
                assert before is None or before.phase != "scored"
                assert (action.trial_id, action.run) not in self._settled(state)
        # A run is asked for by nobody else, whatever it is called.
        runs = [a.trial_id for a in found if isinstance(a, RunTrial)]
        under_way = getattr(busy, "values", tuple)()
        runs += [a.trial_id for a in under_way if isinstance(a, RunTrial)]
        assert len(set(runs)) == len(runs)

    def _check_room(self, state: CampaignState, actions: list[Action]) -> None:
        asked = {action.number for action in actions if isinstance(action, Propose)}
        pursued = {a.idea_id for a in actions if isinstance(a, Take | BriefIdea | Decide)}
        assert len(asked) + len(pursued) <= self.shape.window
        if any(idea.set_aside for idea in state.ideas.values()) or state.progress.aside:
            return  # they come back beside the others, of whatever round these are
        beside = [number for number in state.progress.open.values() if number not in asked]
        assert len(asked) + len(beside) <= self.shape.window
        rounds = {self.rules.extent.round_of(number) for number in (*asked, *beside)}
        assert len(rounds) <= 1

    @staticmethod
    def _settled(state: CampaignState) -> set[tuple[str, int]]:
        return {(name, t.run) for name, t in state.trials.items() if t.has_ended}

    def _queue(self, action: RunTrial, state: CampaignState, record: object) -> None:
        before = state.trials.get(action.trial_id)
        if before is not None and before.run == action.run:
            return  # an earlier driver had it queued
        assert callable(record)
        record(
            TrialQueued(
                trial_id=action.trial_id,
                idea_id=action.idea_id,
                attempt=action.attempt,
                stage=action.stage,
                seed=CONFIRMED[action.index] if action.stage is Stage.CONFIRM else action.index,
                run=action.run,
                generation=state.generation,
            )
        )

    # -- what actions come to -----------------------------------------

    def events(self, action: Action, state: CampaignState, now: float) -> Iterator[Event]:
        """Yield the events that an action comes to."""
        match action:
            case RunTrial():
                yield from self._run(action, state, now)
            case Propose(number):
                yield self._proposed(state, number)
            case Admit(number):
                yield self._admitted(state, idea_id_of(number))
            case BriefIdea(idea_id):
                yield self._briefed(idea_id)
            case Take(idea_id, step):
                yield self._taken(state, idea_id, step)
            case Decide(idea_id, after):
                yield self._decided(idea_id, after)
            case JudgeFindings() | Spend() | Compact() | Stop() | Finish():
                yield self._of_campaign(action, state)

    def _run(self, action: RunTrial, state: CampaignState, now: float) -> Iterator[Event]:
        name, run = action.trial_id, action.run
        outcome = self.results.get((name, run))
        if outcome is None:  # else an earlier driver had it started, and did not see its end
            outcome = self.results[name, run] = self._outcome(action, state)
            yield TrialStarted(trial_id=name, run=run, generation=state.generation)
        usage = Usage(started_at=now - 1, ended_at=now, node=f"n{int(self.chance(name, run)) % 3}")
        same = action.stage is Stage.PILOT and self.chance("idle", name) < 10
        predicted = "reference" if same or action.idea_id == BASELINE_ID else name
        report = TrialReport(
            trial_id=name,
            run=run,
            outcome=outcome,
            usage=usage,
            predictions_hash=predicted if isinstance(outcome, Scored) else None,
        )
        yield TrialEnded(idea_id=action.idea_id, report=report, at=now)

    def _outcome(self, action: RunTrial, state: CampaignState) -> Outcome:
        name, run = action.trial_id, action.run
        own = state.ideas.get(action.idea_id)
        learned = "" if own is None else own.idea_hash
        if run <= self.luck.patience and self.chance("machine", name, run) < self.luck.infra_failed:
            lost = self.chance("lost", name, run) < 30
            failure = MachineFailure.LOST if lost else MachineFailure.NODE
            return MachineFailed(failure=failure, detail="gone")
        if action.idea_id != BASELINE_ID and self.chance("fails", name, learned) < self.luck.fails:
            return IdeaFailed(failure=IdeaFailure.ERROR, detail="ValueError")
        return Scored(metrics={"m": 1 + self.chance("value", name, learned)})

    def _proposed(self, state: CampaignState, number: int) -> Event:
        if 0 < self.luck.exhausted <= number:
            return ProposalsExhausted(number=number, reason="nothing is left")
        idea_id = idea_id_of(number)
        return IdeaProposed(
            idea_id=idea_id,
            number=number,
            round=self.rules.extent.round_of(number),
            title="",
            parent_ids=(),
            arm=self.rules.extent.arm(number),
            summary="",
            knobs=None,
            shown=(),
            idea_hash=""
            if self.chance("unusable", number) < self.luck.unusable
            else f"learned {self.chance(self._learned(state, number))}",
        )

    def _learned(self, state: CampaignState, number: int) -> object:
        """The outcomes that an idea's proposer is told, which may not depend on what is faster."""
        extent, shape = self.rules.extent, self.shape
        round_number, before = extent.round_of(number), 0
        if shape.in_order or extent.arm(number) == "control":
            before = max(number - extent.lag + 1, extent.first_of(round_number))
        elif shape.follows:
            before = max(1, extent.batch(number, round_number, 2)[0] - 2)
        return [
            (idea.idea_id, None if idea.ended is None else idea.ended.status)
            for idea in sorted(state.ideas.values(), key=lambda idea: idea.number)
            if idea.number < before and (not extent.control or idea.arm == extent.arm(number))
        ]

    def _admitted(self, state: CampaignState, idea_id: str) -> Event:
        if not state.ideas[idea_id].idea_hash:
            return _ended(idea_id, "failed", "no usable proposal")
        own = state.ideas[idea_id]
        before = sum(i.arm == own.arm and i.admitted for i in state.ideas.values())
        if self.chance("alike", idea_id, before) < self.luck.rejects:
            return _ended(idea_id, "rejected", "looks like another")
        return IdeaAdmitted(idea_id=idea_id)

    def _briefed(self, idea_id: str) -> Event:
        if self.chance("known", idea_id) < self.luck.rejects / 2:
            return IdeaEnded(
                idea_id=idea_id, status="rejected", reason="known", attempt=None, vetted=True
            )
        return IdeaBriefed(idea_id=idea_id, parts=("a norm",))

    def _taken(self, state: CampaignState, idea_id: str, step: object) -> Event:
        match step:
            case Write(version, task):
                return self._written(idea_id, version.number, version.parent, task)
            case Abandon(task, reason, number):
                return AuthorGaveUp(idea_id=idea_id, task=task, reason=reason, attempt=number)
            case Review(number):
                complete = self.chance("complete", idea_id, number) < 60
                return AttemptReviewed(
                    idea_id=idea_id,
                    attempt=number,
                    complete=complete,
                    same_as_reference=False,
                    marks=(),
                    lacking="" if complete else "a norm is absent",
                )
            case Read(number):
                run = RUN if self.chance("run", idea_id, number) < 60 else None
                return RunsRead(idea_id=idea_id, number=number, run=run)
            case Conclude(status, reason, attempt):
                return _ended(idea_id, status, reason, attempt)
            case SetAside(trial_id, reason):
                return IdeaSetAside(
                    idea_id=idea_id,
                    generation=state.generation,
                    trial_id=trial_id,
                    reason=reason,
                )
            case _:
                raise AssertionError(step)

    def _written(self, idea_id: str, number: int, parent: int, task: str) -> Event:
        if self.chance("gives up", idea_id, task) < self.luck.gives_up:
            return AuthorGaveUp(idea_id=idea_id, task=task, reason="no idea")
        double = self.chance("double", idea_id, task) < self.luck.doubles
        return AttemptWritten(
            idea_id=idea_id,
            attempt=number,
            code_hash="double" if double else f"{idea_id}/{task}",
            parent=parent,
            kind="draft",
            note_hash="",
        )

    def _decided(self, idea_id: str, after: Climb | Seeds) -> Event:
        number = after.version.number
        if isinstance(after, Climb):
            return BudgetDecided(
                idea_id=idea_id,
                attempt=number,
                budget="half",
                value=1.0,
                goes_on=self.chance("climbs", idea_id, number) < 70,
                reason="",
            )
        seeds = after.which.stop
        more = MOST - seeds if self.chance("more", idea_id, number, seeds) < 60 else 0
        return SeedsDecided(
            idea_id=idea_id,
            attempt=number,
            seeds=seeds,
            more=more,
            reason="",
            given_up=not more and self.chance("given up", idea_id, number) < 50,
        )

    def _of_campaign(
        self, action: JudgeFindings | Spend | Compact | Stop | Finish, state: CampaignState
    ) -> Event:
        match action:
            case JudgeFindings(ended, last):
                return IdeasJudged(ended=ended, improved=self._improved(state), last=last)
            case Spend(idea_id):
                attempt = 1
                if idea_id != BASELINE_ID:
                    ended = state.ideas[idea_id].ended
                    assert ended is not None
                    assert ended.attempt is not None
                    attempt = ended.attempt
                return SplitSpent(idea_id=idea_id, attempt=attempt, seeds=CONFIRMED)
            case Compact():
                return ResultsCompacted(trials=state.progress.settled)
            case Stop(_, why):
                return DriverStopped(
                    generation=state.generation, reason=why, failed=True, lets_go=False
                )
            case Finish():
                return CampaignEnded()

    def _improved(self, state: CampaignState) -> tuple[str, ...]:
        return tuple(
            idea.idea_id
            for idea in state.ideas.values()
            if idea.ended is not None
            and idea.ended.status == "scored"
            and self.chance("improved", idea.idea_id) < 50
        )


def _driver(generation: int) -> Event:
    return DriverStarted(
        generation=generation, host="h", pid=1, package_version="", package_hash="", python=""
    )


def _ended(idea_id: str, status: str, reason: str | None, attempt: int | None = None) -> Event:
    return IdeaEnded.model_validate(
        {"idea_id": idea_id, "status": status, "reason": reason, "attempt": attempt}
    )


def drive(world: World, draw: random.Random, kills: int = 0) -> CampaignState:
    """Drive a campaign to its end, with drivers killed after 1 to `kills` events (0: none is)."""
    for generation in range(1, 400):
        events = draw.randint(1, kills) if kills and generation < 100 else 10**9
        try:
            state = world.drive(generation, draw, events)
        except Killed:
            continue
        if state.ended:
            return state
    raise AssertionError(f"no driver came to an end: {state.stopped}")
