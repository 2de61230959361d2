"""Draws campaigns of any size to look at: a journal with times, result files, ideas' folders.

The files are those that a driver writes, but nothing is run: ideas are drawn at random. Some are
better than the baseline, some worse; code fails, nodes fail, and some ideas build on others.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from bench_campaign import CampaignBench
from event_kit import driver_started

from hpcscientist.campaign.specs import fresh_seeds, trial_seeds
from hpcscientist.files.atomic import write_text
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.upcasting import JournalLine, SignatureChain, group, text_of
from hpcscientist.records.events import (
    AttemptWritten,
    CampaignEnded,
    CampaignStarted,
    Event,
    IdeaAdmitted,
    IdeaEnded,
    IdeaProposed,
    ReplyRecorded,
    SplitSpent,
    TrialEnded,
    TrialQueued,
    TrialStarted,
)
from hpcscientist.records.idea import BASELINE_ID, AttemptKind, Idea, Proposal
from hpcscientist.records.literature import RankedPaper, Survey, TaskAttributes
from hpcscientist.records.proposing import Citation, NoveltyVerdict
from hpcscientist.records.trial import (
    IdeaFailed,
    IdeaFailure,
    MachineFailed,
    MachineFailure,
    Outcome,
    Scored,
    Split,
    Stage,
    TrialReport,
    Usage,
    trial_name,
)
from hpcscientist.results.compact import write_part
from hpcscientist.results.store import SCHEMA, VERSION

START = 1_790_000_000.0
WORDS = [
    *("cosine", "warm-up", "momentum", "dropout", "label-smoothing", "mixup", "wider", "deeper"),
    *("residual", "weight-decay", "augmentation", "normalised", "orthogonal", "annealed"),
    *("sharpness-aware", "ensemble", "distilled", "cyclic"),
]
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "</script></style></title><b>&lt;bold&gt;</b> --> ]]> ${1+1} {{7*7}}",
    "right \u202eto left\u202c \u2066isolated\u2069 \u0000 \x1b[31mred",
    "a title of ten thousand characters " + "x" * 10_000,
    "\u05e9\u05dc\u05d5\u05dd \u0639\u0631\u0628\u064a \u4e2d\u6587 \U0001f600 caf\u00e9\u2028new",
)
FAILURES = (
    IdeaFailed(failure=IdeaFailure.ERROR, detail="ValueError: shapes (64,10) (32,) do not match"),
    IdeaFailed(failure=IdeaFailure.TIMEOUT, detail="ran past 20 s"),
    IdeaFailed(failure=IdeaFailure.OUT_OF_MEMORY, detail="used more than 1024 MiB"),
    IdeaFailed(failure=IdeaFailure.BAD_PREDICTIONS, detail="row 17 is missing"),
)
LOST = MachineFailed(failure=MachineFailure.NODE, detail="node n3 failed")


@dataclass
class Drawing:
    """A campaign to draw; with `ended` false, the last ideas stay open as in a running campaign."""

    folder: Path
    ideas: int
    seed: int = 7
    ended: bool = True
    control: float = 0.0
    titles: tuple[str, ...] = ()
    files: bool = True
    name: str = "drawn-1"
    _lines: list[bytes] = field(default_factory=list)
    _rows: list[dict[str, Any]] = field(default_factory=list)

    def draw(self) -> RunPaths:
        """Write the campaign and return its paths."""
        self.bench = CampaignBench(self.folder, self.ideas)
        self.paths = self.bench.paths
        self.bench.config = self.bench.config.model_copy(update={"campaign_id": self.name})
        frozen.write(self.paths, self.bench.config)
        self.spec = self.bench.recipe.spec
        self._random = random.Random(self.seed)
        self._now = START
        self._free = {f"n{node}": [START] * 2 for node in range(1, 5)}
        self._record(CampaignStarted(campaign_id=self.bench.config.campaign_id))
        self._record(driver_started())
        self._searched = trial_seeds(0, self.spec.seeds)
        self._fresh = fresh_seeds(0, self.spec.seeds, self.spec.seeds)
        for index, seed in enumerate(self._searched):
            self._run(BASELINE_ID, 1, Stage.BASELINE, index, seed, 0.90)
        self._spend(BASELINE_ID, 0.90)
        last = self.ideas if self.ended else self.ideas - max(1, self.ideas // 10)
        for number in range(1, last + 1):
            self._idea(number)
        if not self.ended:
            for number in range(last + 1, last + 3):
                self._open(number)
        else:
            self._record(CampaignEnded())
        self._write()
        return self.paths

    def _record(self, event: Event) -> None:
        self._now += self._random.random() * 0.2
        line = JournalLine(n=len(self._lines) + 1, t=round(self._now, 3), event=event)
        self._lines.append(text_of(line))

    def _idea(self, number: int) -> None:
        draw = self._random
        idea_id, arm = self._propose(number)
        if draw.random() < 0.05 and number > 1:
            like = f"idea-{draw.randrange(1, number):04d}"
            self._end(idea_id, "rejected", f"looks like {like}", None, like)
            return
        self._record(IdeaAdmitted(idea_id=idea_id))
        attempt, parent = 1, 0
        kind: AttemptKind = "draft"
        while True:
            self._reply(
                idea_id, f"code/{attempt}" if kind == "draft" else f"debug/{attempt}", "code"
            )
            self._write_attempt(idea_id, attempt, parent, kind)
            if draw.random() > 0.25:
                self._run(idea_id, attempt, Stage.PILOT, 0, self._searched[0], 0.85)
                break
            failure = draw.choice(FAILURES)
            self._run(idea_id, attempt, Stage.PILOT, 0, self._searched[0], None, failure)
            if attempt == 3:
                self._end(idea_id, "failed", f"{failure.failure.value}: {failure.detail}", attempt)
                return
            attempt, parent, kind = attempt + 1, attempt, "debug"
        level = 0.90 + draw.choice((0.0, 0.0, 0.0, 0.02, -0.02, 0.035)) * (arm == "model" or 0.6)
        for index, seed in enumerate(self._searched):
            self._run(idea_id, attempt, Stage.SEEDS, index, seed, level)
        if level > 0.915:
            self._spend(idea_id, level - draw.choice((0.0, 0.004, 0.02)), attempt)
        self._end(idea_id, "scored", None, attempt)

    def _propose(self, number: int) -> tuple[str, str]:
        draw = self._random
        idea_id = f"idea-{number:04d}"
        is_control = draw.random() < self.control
        title = " ".join(draw.sample(WORDS, 4)).capitalize()
        if number <= len(self.titles):
            title = self.titles[number - 1]
        parents = (
            (f"idea-{draw.randrange(max(1, number - 30), number):04d}",)
            if number > 2 and draw.random() < 0.5
            else ()
        )
        knobs = {"HIDDEN": number} if is_control else None
        if not is_control:
            self._reply(idea_id, "propose/1", "ideation")
        event = IdeaProposed(
            idea_id=idea_id,
            number=number,
            round=1,
            title=title,
            parent_ids=parents,
            arm="control" if is_control else "model",
            summary=f"What {title[:80]} may do.",
            knobs=knobs,
            shown=(),
            idea_hash="",
        )
        self._record(event)
        if self.files:
            self._write_idea(event)
        return idea_id, event.arm

    def _open(self, number: int) -> None:
        idea_id, _ = self._propose(number)
        self._record(IdeaAdmitted(idea_id=idea_id))
        self._write_attempt(idea_id, 1, 0, "draft")
        name = trial_name(idea_id, 1, Stage.PILOT, 0)
        self._record(self._queued(name, idea_id, 1, Stage.PILOT, self._searched[0], 1))
        if number % 2:
            self._record(TrialStarted(trial_id=name, run=1, generation=1))

    def _end(
        self, idea_id: str, status: Any, reason: str | None, attempt: int | None, like: str = ""
    ) -> None:
        self._now = max(self._now, *(t for times in self._free.values() for t in times)) - 2
        self._record(
            IdeaEnded(
                idea_id=idea_id, status=status, reason=reason, attempt=attempt, like=like or None
            )
        )

    def _spend(self, idea_id: str, level: float, attempt: int = 1) -> None:
        self._record(SplitSpent(idea_id=idea_id, attempt=attempt, seeds=self._fresh))
        for index, seed in enumerate(self._fresh):
            self._run(idea_id, attempt, Stage.CONFIRM, index, seed, level)

    def _reply(self, idea_id: str, call: str, role: str) -> None:
        read, written = self._random.randrange(800, 6000), self._random.randrange(100, 1500)
        self._record(
            ReplyRecorded(
                idea_id=idea_id,
                call=call,
                prompt_tokens=read,
                completion_tokens=written,
                tokens_estimated=False,
                latency_s=written / 100,
                role=role,
                asked=1,
            )
        )

    def _queued(
        self, name: str, idea_id: str, attempt: int, stage: Stage, seed: int, run: int
    ) -> TrialQueued:
        return TrialQueued(
            trial_id=name,
            idea_id=idea_id,
            attempt=attempt,
            stage=stage,
            seed=seed,
            run=run,
            generation=1,
        )

    def _run(
        self,
        idea_id: str,
        attempt: int,
        stage: Stage,
        index: int,
        seed: int,
        level: float | None,
        failure: Outcome | None = None,
    ) -> None:
        draw = self._random
        name, run = trial_name(idea_id, attempt, stage, index), 1
        while True:
            self._record(self._queued(name, idea_id, attempt, stage, seed, run))
            node, slot = min(
                ((n, s) for n, times in self._free.items() for s in range(len(times))),
                key=lambda place: self._free[place[0]][place[1]],
            )
            began = max(self._now, self._free[node][slot]) + draw.random()
            took = draw.uniform(3, 15) * (0.4 if stage is Stage.PILOT else 1)
            self._free[node][slot] = ended = began + took
            self._record(TrialStarted(trial_id=name, run=run, generation=1))
            outcome = failure
            if outcome is None and draw.random() < 0.01:
                outcome = LOST
            # Paired: a seed has the same effect on all ideas.
            noise = random.Random(seed).gauss(0, 0.008) + draw.gauss(0, 0.003)
            if outcome is None:
                values = {metric.name: (level or 0.0) + noise for metric in self.spec.metrics}
                outcome = Scored(metrics=values)
            report = TrialReport(
                trial_id=name,
                run=run,
                outcome=outcome,
                usage=Usage(
                    started_at=began,
                    ended_at=ended,
                    cpu_s=took * 0.9,
                    peak_mb=draw.uniform(80, 400),
                    node=node,
                ),
                predictions_hash=f"{draw.getrandbits(256):064x}",
            )
            self._record(TrialEnded(idea_id=idea_id, report=report, at=ended))
            self._keep(report, idea_id, attempt, stage, seed)
            if outcome is not LOST:
                return
            run += 1

    def _keep(
        self, report: TrialReport, idea_id: str, attempt: int, stage: Stage, seed: int
    ) -> None:
        same = {
            **report.usage.model_dump(),
            "schema_version": VERSION,
            "campaign": self.bench.config.campaign_id,
            "idea": idea_id,
            "attempt": attempt,
            "trial": report.trial_id,
            "run": report.run,
            "stage": stage.value,
            "seed": seed,
            "split": (Split.TEST if stage is Stage.CONFIRM else Split.VALIDATION).value,
            "status": report.outcome.kind,
        }
        metrics = report.outcome.metrics if isinstance(report.outcome, Scored) else {"": None}
        for position, (metric, value) in enumerate(metrics.items()):
            self._rows.append(
                {**same, "position": position, "metric": metric or None, "value": value}
            )

    def _write_attempt(self, idea_id: str, number: int, parent: int, kind: AttemptKind) -> None:
        event = AttemptWritten(
            idea_id=idea_id,
            attempt=number,
            code_hash=f"{self._random.getrandbits(256):064x}",
            parent=parent,
            kind=kind,
            note_hash="",
        )
        self._record(event)
        if self.files:
            place = self.paths.idea(idea_id).attempt(number)
            place.mkdir(parents=True)
            change = f"-RATE = 0.1\n+RATE = 0.{number}\n" + " x = forward(x)\n" * 20
            write_text(
                place / "diff.patch",
                f"--- a/experiment.py\n+++ b/experiment.py\n@@ -1,3 +1,3 @@\n{change}",
                durable=False,
            )

    def _write_idea(self, event: IdeaProposed) -> None:
        place = self.paths.idea(event.idea_id)
        place.root.mkdir(parents=True)
        cited = f"arXiv:2401.{event.number % 12:05d}"
        proposal = Proposal(
            title=event.title[:200] or "t",
            hypothesis=f"{event.summary} The loss is flatter there.",
            method="Change the schedule, keep all else.",
            experiment_plan="All seeds.",
            summary=event.summary,
            papers=(cited,),
            parent_ids=event.parent_ids,
        )
        idea = Idea(
            idea_id=event.idea_id,
            number=event.number,
            round=1,
            proposal=proposal,
            model="m",
            seed=1,
            knobs=event.knobs,
            papers=(cited,),
        )
        write_text(place.idea, idea.model_dump_json(), durable=False)
        novelty = NoveltyVerdict(
            decision="novel",
            reason="No paper of the library does this.",
            evidence=(Citation(paper_id=cited, why="It anneals, but by steps."),),
        )
        write_text(place.verdict("novelty"), novelty.model_dump_json(), durable=False)

    def _write(self) -> None:
        chain = SignatureChain()
        chain.begin(self.bench.config.campaign_id)
        self.paths.journal.write_bytes(group(self._lines, chain))
        columns = {name: [row.get(name) for row in self._rows] for name in SCHEMA.names}
        write_part(self.paths.results, "part", SCHEMA, iter([pa.table(columns, schema=SCHEMA)]))
        if self.files:
            papers = tuple(
                RankedPaper(
                    paper_id=f"arXiv:2401.{n:05d}",
                    title=f"On schedule number {n}",
                    abstract="",
                    year=2024,
                    topic=1 + n % 10,
                    attributes=7,
                    reason="",
                    kept=n != 3,
                )
                for n in range(12)
            )
            survey = Survey(
                attributes=TaskAttributes(inputs="i", outputs="o"),
                queries=("q",),
                papers=papers,
                library="",
            )
            self.paths.survey.parent.mkdir()
            write_text(self.paths.survey, survey.model_dump_json(), durable=False)


def draw(folder: Path, ideas: int, **options: Any) -> RunPaths:
    """Write a campaign of this many ideas below a folder; return its paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return Drawing(folder, ideas, **options).draw()


if __name__ == "__main__":
    import sys

    print(draw(Path(sys.argv[1]), int(sys.argv[2]), control=0.2).root)
