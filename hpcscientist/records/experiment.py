"""An idea's experiment plan, the review of its code, and its further runs."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from hpcscientist.records.base import Prose, Record, Scored

Mark = Annotated[int, Field(ge=1, le=5)]  # the correctness scale of Scientist-Bench
Implemented = Literal["implemented", "partial", "missing"]
RunKind = Literal["ablation", "sensitivity", "follow-up"]
Symptom = Literal["undertrained", "overfit", "diverged"]  # what a learning curve shows


class ExperimentPlan(Record):
    """How one idea is carried out; the reply schema of stage `plan`, kept in plan.json.

    `parts` are what the code must have for the idea to have been carried out: the atomic
    concepts that a reviewer looks for afterwards.
    """

    data: Prose = Field(min_length=1, description="Which data is used, and how it is prepared.")
    model: Prose = Field(min_length=1, description="The model, with its sizes.")
    training: Prose = Field(min_length=1, description="How it is trained.")
    testing: Prose = Field(min_length=1, description="How the predictions are made.")
    comparison: Prose = Field(
        min_length=1, description="What is compared with what, by which metric."
    )
    parts: tuple[Prose, ...] = Field(
        min_length=1, description="What the code must contain, one atomic concept each."
    )
    ablations: tuple[Prose, ...] = Field(
        default=(), description="Parts to be left out in later runs, to see what they give."
    )
    files: tuple[Prose, ...] = Field(
        min_length=1, description="Files of the reference that change, and new ones."
    )
    packages: tuple[Prose, ...] = Field(default=(), description="What the code imports.")
    seconds: float = Field(ge=0, description="Seconds of one full run, estimated.")
    memory_mb: float = Field(ge=0, description="Memory of one run in MiB, estimated.")


class ConceptCheck(Record):
    """One atomic concept as a reviewer found it in the code; part of a reply."""

    concept: Prose = Field(min_length=1, description="Its name, as listed in the prompt.")
    state: Implemented
    file: str | None = Field(default=None, description="Where it stands, or null.")
    first: int | None = Field(default=None, ge=1, description="First line, counted from 1.")
    last: int | None = Field(default=None, ge=1, description="Last line.")
    remark: Prose = Field(min_length=1, description="What shows it, or what is lacking.")


class ReviewReply(Scored):
    """The reply schema of stage `advise`: one judgement of an attempt's code."""

    highest: ClassVar[int] = 5

    checks: tuple[ConceptCheck, ...] = Field(min_length=1)
    toy: bool = Field(description="True if the method is only pretended or simplified away.")
    correctness: Mark = Field(description="1 (wrong) to 5 (does all that the idea says).")
    advice: Prose = Field(min_length=1, description="What the coder should change, or why nothing.")


class CodeReview(Record):
    """An advisor's combined judgements of one attempt; saved as review.json beside the code.

    `checks` holds one entry per concept: the least favourable of the judgements, unless most of
    them agree on another state. `marks` holds the correctness of each judgement, so that their
    number and spread are known; `expected` their expected values (the mark itself if the server
    reported no odds). `same_as_reference`: the attempt's predictions equal those of the unchanged
    reference with the same seed, so its changes have no effect. `judged` is false if no judgement
    could be obtained.
    """

    attempt: int = Field(ge=1)
    checks: tuple[ConceptCheck, ...] = ()
    marks: tuple[Mark, ...] = ()
    expected: tuple[float, ...] = ()
    toy: bool = False
    same_as_reference: bool = False
    judged: bool = True
    advice: str = ""

    @property
    def lacking(self) -> tuple[ConceptCheck, ...]:
        """The concepts that are not fully implemented."""
        return tuple(check for check in self.checks if check.state != "implemented")

    @property
    def complete(self) -> bool:
        """Return whether the attempt implements the idea, as far as it was judged."""
        return not (self.lacking or self.toy or self.same_as_reference)


class FurtherRun(Record):
    """A run that an analyst asks for after seeing results; part of a reply."""

    kind: RunKind
    title: Prose = Field(min_length=1, max_length=200)
    purpose: Prose = Field(min_length=1, description="Which question it answers.")
    change: Prose = Field(min_length=1, description="What to change in the code, precisely.")


class AnalysisReply(Record):
    """The reply schema of stage `analyse`: what the results show, and the next run, if any."""

    reading: Prose = Field(min_length=1, description="What the results show, with figures.")
    run: FurtherRun | None = Field(default=None, description="The next run, or null if none.")


class RunOutcome(Record):
    """One measured run of an idea, as an analyst sees it.

    `kind` is "main" for the idea itself. Values by metric: mean, standard deviation (ddof 1; None
    for one seed) and number of seeds. `failure` is set if the run was not scored; `change` is the
    requested change of a further run.
    """

    attempt: int = Field(ge=1)
    kind: Literal["main", "ablation", "sensitivity", "follow-up"]
    title: str
    change: str = ""
    values: dict[str, tuple[float, float | None, int]] = Field(default={})
    failure: str | None = None
