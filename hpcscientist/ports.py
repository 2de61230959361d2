"""Ports: the package's main protocols. Each has at least two adapters and a contract test suite.

`Tell` and `Notify` are no ports: they are the types of callbacks for messages to people.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hpcscientist.records.authoring import (
    Brief,
    CompleteTask,
    Draft,
    ExtendTask,
    FixTask,
    GaveUp,
    ImproveTask,
    RedraftTask,
)
from hpcscientist.records.idea import Proposal
from hpcscientist.records.literature import FormulaHit, Hit, Paper, SearchBy, SymbolHit
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.records.proposing import ProposalTask, Proposed, Repeated
from hpcscientist.records.trial import Answer, Batch, Capacity, Change, Intent, RunId, TrialSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    Rows = NDArray[np.float32] | csr_array[np.float32]


# The port to where trials run: a scheduler, or this machine.


class Backend(Protocol):
    """Runs batches of trials whose folders are prepared, and reports the changes of each run.

    Obligations:

    - `adopt` is called once, before anything else. A worker or job that an earlier driver left is
      followed and never duplicated, even if it is found without an intent. A failed query proves
      nothing: what may have been queued counts as queued until the truth is known.
    - A batch is queued completely or not at all. It is not larger than the reported `capacity` for
      its trials, and all its trials ask for the same resources.
    - Each run that was accepted, unknown or adopted gets one `Ended`, and one `Started` before it
      if it was seen under way. Changes are reported as soon as they are known, not when the batch
      ends; queue time is not run time. A run with a valid result is `ENDED`, however its job ended.
      Any other end is reported once the scheduler's word is final and no file system can still hide
      a result. A run that the scheduler will requeue by itself has not ended.
    - A batch may be added to elements that are under way, after what they have. What comes too late
      for that ends as `NOT_SUBMITTED`. A later driver follows what was added, and nothing else.
    - If an element is lost, the trial under way in it ends for that reason, and the trials after it
      end as `NOT_RUN`.
    - `changes` waits until there is something to report. If it is cancelled, the next call reports
      what it did not deliver.
    - `cancel` returns once nothing of the runs can continue, or after its patience; each run has
      its `Ended`. Runs that shared an element with one of them and had not ended are `NOT_RUN`.
    - A backend never judges: see `execution.trial_outcome`.

    Three things that a scheduler knows are not reported as changes. A run that it requeues has not
    ended, and whether it is under way again makes no difference to the caller. Accounting data come
    with `Ended` if they decide how a run ended; the worker measures what a trial used and writes
    it to the result. And there is no opening: a backend is created without asking anybody, and
    `adopt` is the first call that may fail.

    All calls come from one event loop. Any call may raise SchedulerRefused for what no waiting
    fixes, RunDirectoryError if workers do not see the run directory, SiteError for a profile that
    cannot submit anything, DiskFull, OSError; after that nothing more is reported.
    """

    @property
    def outlives_driver(self) -> bool:
        """Return whether queued trials continue without the driver."""
        ...

    @property
    def gather_s(self) -> float:
        """The time for which to gather trials before submitting them, in seconds."""
        ...

    async def adopt(self, intents: Sequence[Intent]) -> Collection[RunId]:
        """Take over what earlier drivers left; return the runs that it follows from now on."""
        ...

    async def capacity(self, like: TrialSpec, expect_s: float = math.inf) -> Capacity:
        """Return how many trials like this one may be submitted now; `expect_s`: its duration."""
        ...

    async def submit(self, batch: Batch) -> Answer:
        """Queue a batch."""
        ...

    async def changes(self) -> Sequence[Change]:
        """Wait until there are changes, and return them in chronological order."""
        ...

    async def cancel(self, runs: Collection[RunId]) -> None:
        """End runs, queued or under way."""
        ...

    async def sweep(self) -> None:
        """End everything left of the campaign, followed or not, and clean up after it.

        Raises SchedulerSilent if the scheduler does not answer: then it is left to be found later.
        """
        ...

    async def close(self) -> None:
        """Stop following runs, without ending any. Idempotent."""
        ...


# The port to a language model.


class Model(Protocol):
    """A language model that answers requests.

    Obligations: `complete` may be called many times concurrently from one event loop. It bounds its
    own concurrency. It returns text that may not fit the request's schema: the caller checks that.
    It is cancellable. It raises EndpointError when the endpoint is at fault, PlaneLost when the
    campaign's model server is gone, ReplyError when this one request is refused or has no recorded
    reply, PlaybookExhausted when nothing is recorded for this or any later idea, and nothing else.
    """

    @property
    def name(self) -> str:
        """The model's name, as recorded in results."""
        ...

    async def probe(self) -> None:
        """Return once the model answers; raise EndpointError, naming the fix, if it does not."""
        ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request."""
        ...

    async def close(self) -> None:
        """Release connections. Idempotent."""
        ...


# The port to a proposer of ideas: a language model, or the control arm.

Reconsider = Callable[[ProposalTask, Repeated], Awaitable[Proposal]]
"""Proposes another idea for one that repeats an earlier one. Raises as `Proposer.propose` does."""


class Proposer(Protocol):
    """Proposes one idea at a time.

    Obligations: `propose` may be called concurrently, in any order. If `by_outcomes` is true, tasks
    list only the outcomes of a fixed set of its own earlier ideas, and the proposal depends only on
    the task and the proposer's seed, not on earlier calls. Raises PlaybookExhausted when there is
    nothing left to propose, ReplyError when a model gave no usable proposal.
    """

    @property
    def by_outcomes(self) -> bool:
        """Return whether its tasks hold outcomes, not texts, so that it cannot depend on timing."""
        ...

    async def propose(self, task: ProposalTask) -> Proposed:
        """Propose the idea with the task's number."""
        ...


# The port to an author, who turns an idea into code.


class Author(Protocol):
    """Writes the code of ideas, fixes it, completes it, improves it, and varies it.

    Obligations: an author returns complete sets of files and never touches the disk. Only files
    that the recipe makes editable differ from the reference code, or from the task's files. A draft
    compiles, and is not the unchanged reference code. A draft for a task is none of the versions in
    the task's `seen`; one that fixes, completes, improves or extends is another program than the
    task's. Methods may be called concurrently, even for one idea. An author that cannot go on
    returns GaveUp with a one-line reason; endpoint faults are raised as EndpointError.
    """

    async def write(self, brief: Brief) -> Draft | GaveUp:
        """Write the first version, starting from the reference code."""
        ...

    async def redraft(self, task: RedraftTask) -> Draft | GaveUp:
        """Write another first version, from the reference code, unlike the earlier ones."""
        ...

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        """Fix a version whose trial failed."""
        ...

    async def complete(self, task: CompleteTask) -> Draft | GaveUp:
        """Add what a reviewer found missing to a version that runs."""
        ...

    async def improve(self, task: ImproveTask) -> Draft | GaveUp:
        """Improve a version that runs, by the primary metric."""
        ...

    async def extend(self, task: ExtendTask) -> Draft | GaveUp:
        """Change a scored version as a further run asks."""
        ...


# The port to an embedder, which measures the similarity of texts.

V = TypeVar("V")


class Index(Protocol[V]):
    """An index of texts for similarity search, as vectors of the embedder's own kind.

    Obligations: `prepare` does the slow part, and may be called from any thread, even while another
    thread is in any method. All other methods are for one thread. A comparison reads the vectors
    once, needs no memory that grows with their number, and gives a pair of texts the same cosine
    whatever else is in the index. The cost of `add` does not grow with the number of texts.
    """

    def __len__(self) -> int:
        """Return the number of texts."""
        ...

    def prepare(self, text: str) -> V:
        """Return a text's vector, for `add` and `nearest`. Raises what `Embedder.embed` does."""
        ...

    def prepare_each(self, texts: Sequence[str]) -> list[V]:
        """Return the vectors of several texts, embedded together.

        They equal those of `prepare` up to rounding.
        """
        ...

    def add(self, vector: V) -> None:
        """Add a text; its position is the number of texts before it."""
        ...

    def nearest(self, vector: V) -> tuple[int, float] | None:
        """Return the position of the most similar text, and the cosine with it.

        The first on a tie, None if the index is empty. Equal vectors have cosine 1 exactly, and an
        empty text has cosine 0 with all.
        """
        ...

    def nearest_each(self, vectors: Sequence[V]) -> list[tuple[int, float] | None]:
        """Return the results of `nearest` for several vectors, in one pass over the texts."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors.

    Obligations: the same text has the same vector, up to rounding, in every process whose embedder
    has the same `fingerprint`. Any thread may call it.
    """

    @property
    def name(self) -> str:
        """Its name for people, such as "keyword vectors"."""
        ...

    @property
    def device(self) -> str | None:
        """The device of its model, "cpu" or "cuda"; None for an embedder without a model."""
        ...

    @property
    def fingerprint(self) -> str:
        """A string that is equal only for embedders that return the same vectors."""
        ...

    def embed(self, texts: Sequence[str]) -> Rows:
        """Return one float32 row for each text, of length 1, or 0 for an empty text.

        The rows are sparse if nearly all their entries are zero; either way `rows @ rows.T` holds
        the cosines. Raises ModelError when the vectors cannot be computed.
        """
        ...

    def index(self) -> Index[Any]:
        """Return an empty index of this embedder's vectors."""
        ...


# The port to a library of papers and code.


class Library(Protocol):
    """Searches papers, formulas and code.

    Obligations: a search without hits returns an empty tuple and raises nothing. The same query on
    the same library finds the same, in the same order, in every process. Any thread may search. A
    source that is temporarily out of reach (a network) finds nothing, which is no evidence. Raises
    LibraryError if the library itself is damaged.
    """

    @property
    def fingerprint(self) -> str:
        """A string that is equal only for libraries with the same content."""
        ...

    def __len__(self) -> int:
        """Return the number of papers."""
        ...

    def search(self, query: str, limit: int = 10, by: SearchBy = "both") -> tuple[Hit, ...]:
        """Return at most `limit` papers, the best match first."""
        ...

    def paper(self, paper_id: str) -> Paper | None:
        """Return a complete paper, None if it is not in the library."""
        ...

    def formulas(self, query: str, limit: int = 10) -> tuple[FormulaHit, ...]:
        """Return the formulas in papers that match best."""
        ...

    def symbols(self, query: str, limit: int = 10) -> tuple[SymbolHit, ...]:
        """Return the symbols in reference code that match best."""
        ...


# Callbacks for messages to people: one line each, with a name if a campaign's journal keeps it.

Tell = Callable[[str], None]
Notify = Callable[[str, str], None]

_LOG = logging.getLogger(__name__)


def logged(name: str, text: str) -> None:
    """Log a note, as a `Notify` for callers without a journal."""
    _LOG.warning("%s: %s", name, text)
