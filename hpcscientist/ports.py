"""Ports: the protocols at the real seams. Each has at least two adapters and a contract suite.

`Tell` and `Notify` are none: they are the functions that work is handed to speak to people.
"""

from __future__ import annotations

import logging
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


# The port to wherever trials run: a scheduler, or this machine.


class Backend(Protocol):
    """Takes batches of trials whose folders are prepared, and tells what becomes of each run.

    Obligations:

    - `adopt` is called once, before all else. A worker or a job that an earlier driver left is
      followed and never doubled; what is found without an intent too. A query that fails answers
      nothing: what may have been queued counts as queued until it is known.
    - A batch is queued whole or not at all. It is not larger than the `capacity` that was told
      for its trials; what they ask for is equal.
    - Each run that was accepted, unknown or adopted is told one `Ended`, and one `Started` before
      it if it was under way while we looked. It is told as soon as it is known and not when its
      batch has ended; queue time is not run time. An end with a valid result is `ENDED`, however
      its job ended; any other is told once the scheduler's word is final and no file system hides
      a result any more. What the scheduler itself will run again has not ended.
    - Of the trials of an element, the one that was under way when the element was lost ends as
      that says, and those after it as `NOT_RUN`.
    - `changes` waits for something to tell. What was not taken when it is cancelled is told by the
      next call.
    - `cancel` returns once nothing of the runs can go on, or after its patience; each has its
      `Ended`. Runs that shared an element with one of them and had not ended are `NOT_RUN`.
    - It never judges: see `execution.trial_outcome`.

    Of what a scheduler knows, three things are no changes of their own. A run that it queues again
    has not ended, and is under way once more or not, which changes nothing for who waits. What
    accounting adds comes with `Ended` where it decides how a run ended; what a trial used is
    measured by its worker and stands in its result. And nothing is opened: a backend is made
    without asking anybody, and `adopt` is the first that may fail.

    All of it is called from one event loop. Raised by any call: SchedulerRefused for what no
    waiting fixes, RunDirectoryError where workers do not see that folder, SiteError for a profile
    that nothing can be submitted with, DiskFull, OSError; then nothing more is told.
    """

    @property
    def outlives_driver(self) -> bool:
        """Whether what was queued goes on without its driver."""
        ...

    @property
    def gather_s(self) -> float:
        """How long trials are best gathered before they are submitted. Seconds."""
        ...

    async def adopt(self, intents: Sequence[Intent]) -> Collection[RunId]:
        """Take over what earlier drivers left; return the runs that are followed from now on."""
        ...

    async def capacity(self, like: TrialSpec) -> Capacity:
        """Say what may be submitted now, of trials like this one."""
        ...

    async def submit(self, batch: Batch) -> Answer:
        """Queue a batch."""
        ...

    async def changes(self) -> Sequence[Change]:
        """Wait until there is something to tell, and return it in the order of its happening."""
        ...

    async def cancel(self, runs: Collection[RunId]) -> None:
        """End runs, whether they wait or are under way."""
        ...

    async def sweep(self) -> None:
        """End whatever of the campaign is left, followed or not, and remove what it left behind.

        Raises SchedulerSilent where nobody answers: then what is left stays to be found.
        """
        ...

    async def close(self) -> None:
        """Follow nothing any more; end nothing. Idempotent."""
        ...


# The port to a language model.


class Model(Protocol):
    """Answers requests.

    Obligations: `complete` may be called many times concurrently from one event loop; it
    bounds its own concurrency; it returns text that may or may not fit the request's
    schema (checking is the caller's); it is cancellable. It raises EndpointError when the
    endpoint is at fault, PlaneLost when the plane that served it is gone, ReplyError when
    this one request is refused or has no recorded reply, PlaybookExhausted when nothing is
    recorded for this or any later idea, and nothing else.
    """

    @property
    def name(self) -> str:
        """The model's name, as recorded in results."""
        ...

    async def probe(self) -> None:
        """Return when the model can be asked; raise EndpointError naming the fix if not."""
        ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer one request."""
        ...

    async def close(self) -> None:
        """Release connections. Idempotent."""
        ...


# The port to whatever proposes ideas: a language model, or the control arm.

Reconsider = Callable[[ProposalTask, Repeated], Awaitable[Proposal]]
"""Proposes another idea for one that repeats an earlier one. Raises as `Proposer.propose` does."""


class Proposer(Protocol):
    """Proposes one idea at a time.

    Obligations: `propose` may be called concurrently, in any order. Where `by_outcomes` is
    true, tasks list the outcomes of a fixed set of its own earlier ideas and nothing else, and
    the proposal follows from the task and the proposer's seed alone, whatever it was asked
    before. Raises PlaybookExhausted when there is nothing left to propose, ReplyError when a
    model gave no usable proposal.
    """

    @property
    def by_outcomes(self) -> bool:
        """Whether it is told outcomes instead of texts, and must not depend on timing."""
        ...

    async def propose(self, task: ProposalTask) -> Proposed:
        """Propose the idea with the task's number."""
        ...


# The port to whatever turns an idea into code.


class Author(Protocol):
    """Writes the code of ideas, fixes it, completes it, improves it, and varies it.

    Obligations: returns whole sets of files, never touches the disk; only files that the
    recipe lets be changed differ from the reference, or from the files of the task; a draft
    compiles, and is not the unchanged reference. One that answers a task is no version that the
    task has seen; one that fixes, completes, improves or extends is not the same program as the
    task's. May be called concurrently, for one idea too. An author that cannot go on returns
    GaveUp with a one-line reason; endpoint faults are raised as EndpointError.
    """

    async def write(self, brief: Brief) -> Draft | GaveUp:
        """Write the first version, from the reference."""
        ...

    async def redraft(self, task: RedraftTask) -> Draft | GaveUp:
        """Write another first version, from the reference, unlike the earlier ones."""
        ...

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        """Fix a version whose trial failed."""
        ...

    async def complete(self, task: CompleteTask) -> Draft | GaveUp:
        """Add to a version that runs what a reviewer found lacking."""
        ...

    async def improve(self, task: ImproveTask) -> Draft | GaveUp:
        """Make a version that runs better, as the primary metric has it."""
        ...

    async def extend(self, task: ExtendTask) -> Draft | GaveUp:
        """Change a version that was scored as a further run asks."""
        ...


# The port to whatever tells how alike two texts are.

V = TypeVar("V")


class Index(Protocol[V]):
    """Texts that others are compared with, as vectors of the embedder's own kind.

    Obligations: `prepare` does the slow part, and may be called from any thread, also while
    another thread is in any method. All else is for one thread. A comparison reads the vectors
    once, needs no memory that grows with their number, and gives a pair of texts the same
    cosine whatever else is in the index. `add` costs the same however many there are.
    """

    def __len__(self) -> int:
        """Return how many texts are in it."""
        ...

    def prepare(self, text: str) -> V:
        """Return a text's vector, for `add` and `nearest`. Raises what `Embedder.embed` does."""
        ...

    def prepare_each(self, texts: Sequence[str]) -> list[V]:
        """Return the vectors of texts that are embedded together, as `prepare` does of one.

        They are those of `prepare` up to rounding.
        """
        ...

    def add(self, vector: V) -> None:
        """Add a text; its position is the number of those before it."""
        ...

    def nearest(self, vector: V) -> tuple[int, float] | None:
        """Return the position of the text most like this one, and their cosine.

        The first on a tie; None while there is none. Equal vectors have cosine 1 exactly, and a
        text with nothing in it 0 with all.
        """
        ...

    def nearest_each(self, vectors: Sequence[V]) -> list[tuple[int, float] | None]:
        """Return what `nearest` does for each of several, from one pass over the texts."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors.

    Obligations: the same text has the same vector in every process that uses an embedder of
    the same `fingerprint`, up to rounding; any thread may call it.
    """

    @property
    def name(self) -> str:
        """What people are told, such as "keyword vectors"."""
        ...

    @property
    def device(self) -> str | None:
        """Where its model is, "cpu" or "cuda"; None for an embedder without a model."""
        ...

    @property
    def fingerprint(self) -> str:
        """A text that is equal only for embedders which give the same vectors."""
        ...

    def embed(self, texts: Sequence[str]) -> Rows:
        """Return a float32 row a text, of length 1, or 0 for a text with nothing in it.

        Sparse where nearly all of a row is zero; either way `rows @ rows.T` holds the
        cosines. Raises ModelError when the vectors cannot be computed.
        """
        ...

    def index(self) -> Index[Any]:
        """Return an empty index of this embedder's vectors."""
        ...


# The port to a library of papers and code.


class Library(Protocol):
    """Searches papers, formulas and code.

    Obligations: a search without any hit returns none and raises nothing; the same query on the
    same library finds the same in the same order, in every process; any thread may search. What
    is out of reach for the moment (a network) finds nothing: that is no evidence of anything.
    Raises LibraryError where the library itself is damaged.
    """

    @property
    def fingerprint(self) -> str:
        """A text that is equal only for libraries of the same content."""
        ...

    def __len__(self) -> int:
        """Return how many papers it holds."""
        ...

    def search(self, query: str, limit: int = 10, by: SearchBy = "both") -> tuple[Hit, ...]:
        """Return at most `limit` papers, the best first."""
        ...

    def paper(self, paper_id: str) -> Paper | None:
        """Return a paper whole; None if it is not in the library."""
        ...

    def formulas(self, query: str, limit: int = 10) -> tuple[FormulaHit, ...]:
        """Return formulas of the papers that fit best."""
        ...

    def symbols(self, query: str, limit: int = 10) -> tuple[SymbolHit, ...]:
        """Return reference code that fits best."""
        ...


# How work speaks to people: a line at a time, with a name where a campaign's journal keeps it.

Tell = Callable[[str], None]
Notify = Callable[[str, str], None]

_LOG = logging.getLogger(__name__)


def logged(name: str, text: str) -> None:
    """Log a note: for whoever keeps no journal."""
    _LOG.warning("%s: %s", name, text)
