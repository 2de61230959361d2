"""Facts: every number that a manuscript may contain, with its unit, its scope and its source.

A manuscript contains no numbers itself. It refers to facts by id, or by formulas over facts. The
fact's `text` is printed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field

from hpcscientist.records.base import Record
from hpcscientist.records.findings import Verdict
from hpcscientist.records.trial import Direction, Split

FACT_ID: Final = r"[A-Za-z][A-Za-z0-9_\-]*(?:\.[A-Za-z0-9_\-]+)*"
_NAME = re.compile(FACT_ID)
_DEEPEST = 8  # formulas within formulas
_SHOWN = 4  # significant digits of a value without a known uncertainty
_PLAIN: Final = (1e-4, 1e6)  # smaller and larger values are printed with a power of ten

MINUS: Final = "\N{MINUS SIGN}"
BASELINE: Final = "baseline"


class FactKind(StrEnum):
    """The kind of a fact's number."""

    METRIC = "metric"
    INTERVAL = "interval"
    P_VALUE = "p_value"
    COUNT = "count"
    COST = "cost"
    SIZE = "size"
    SETTING = "setting"  # a budget, a level or a rule of the campaign or the recipe
    HYPERPARAMETER = "hyperparameter"
    PUBLISHED = "published"
    RATIO = "ratio"  # shares and quotients, without a unit


class Statistic(StrEnum):
    """A statistic of the values of several seeds."""

    MEAN = "mean"
    SD = "sd"
    N = "n"
    BEST = "best"  # of all seeds, in the metric's direction
    WORST = "worst"
    DELTA = "delta"  # idea minus baseline
    LOW = "low"  # ends of the interval of a delta
    HIGH = "high"
    INTERVAL = "interval"
    P = "p"
    P_ADJUSTED = "p_adjusted"
    SHRINKAGE = "shrinkage"  # the share of the gain that was lost on the test split


RunOf = Literal["main", "ablation", "sensitivity", "follow-up"]


class Scope(Record):
    """What a fact is about; None where a field does not apply. `run` says why an attempt was run.

    `of` is the setting, kind of failure or name to which a count or hyperparameter belongs.
    """

    idea: str | None = None  # "baseline" for the reference
    attempt: int | None = None
    run: RunOf | None = None
    split: Split | None = None
    metric: str | None = None
    statistic: Statistic | None = None
    of: str | None = None


class TrialRow(Record):
    """One measured value: its row's key in the result files, the value and the row's hash.

    `file` is relative to the run directory. `row_hash` covers all columns of the row.
    """

    trial: str
    run: int
    position: int
    seed: int
    value: float
    file: str
    row_hash: str


class FileHash(Record):
    """A file that a fact is based on, by its SHA-256; relative to the run directory."""

    file: str
    sha256: str


class Source(Record):
    """Where a fact comes from.

    `trials` are the rows from which a statistic is computed. `lines` are the first and last line
    in `files[0]`, from 1, both included. `paper` is an id in the library. `method` describes the
    computation in words.
    """

    method: str = ""
    trials: tuple[TrialRow, ...] = ()
    files: tuple[FileHash, ...] = ()
    lines: tuple[int, int] | None = None
    paper: str | None = None
    setup: str = ""  # of a published number: the setup in which it was measured


class Fact(Record):
    """One number that may be printed. `text` is printed, without the unit: the prose states it.

    `unit` is the metric's name for values of the metric, else a word such as "seeds", "CPU-hours",
    "percent" or "percentage points", or "" for a number without a unit. `upper` is the upper end
    of an interval. `uncertainty` is in the unit of the value. `share`: the value is a share of 1,
    so it can be stated in percent. `signed`: the text has a sign.
    """

    id: str = Field(pattern=rf"^{FACT_ID}$")
    label: str
    kind: FactKind
    unit: str = ""
    value: float
    upper: float | None = None
    uncertainty: float | None = Field(default=None, ge=0)
    text: str
    share: bool = False
    signed: bool = False
    scope: Scope = Scope()
    source: Source = Source()


class FactRef(Record):
    """A reference to a fact by its id."""

    kind: Literal["fact"] = "fact"
    id: str = Field(pattern=rf"^{FACT_ID}$")

    def __str__(self) -> str:
        """Return the text that stands between braces."""
        return self.id

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the facts in it."""
        return (self.id,)


class Op(StrEnum):
    """An operation that a formula may apply to facts."""

    DIFFERENCE = "difference"
    RATIO = "ratio"
    PERCENT = "percent"  # of a share or a ratio
    POINTS = "points"  # percentage points: of a difference of shares
    POWER_OF_TEN = "power_of_ten"
    SUM = "sum"
    COUNT = "count"  # how many facts are listed
    MAGNITUDE = "magnitude"  # without the sign


class Formula(Record):
    """An operation on facts and on other formulas."""

    kind: Literal["formula"] = "formula"
    op: Op
    args: tuple[Annotated[FactRef | Formula, Field(discriminator="kind")], ...] = Field(
        min_length=1, max_length=64
    )

    def __str__(self) -> str:
        """Return the text that stands between braces."""
        return f"{self.op}({', '.join(map(str, self.args))})"

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the facts in it, in order."""
        return tuple(fact for arg in self.args for fact in arg.ids)


Formula.model_rebuild()
Reference = Annotated[FactRef | Formula, Field(discriminator="kind")]


class FactIdea(Record):
    """A campaign's findings about an idea, against which a manuscript's sentences are checked.

    `names` are the names that prose may use for it besides its id: its title. `confirmed` is None
    if the idea had no access to the test split. `parts` names its further runs by attempt.
    """

    idea_id: str
    title: str
    status: Literal["baseline", "scored", "failed", "rejected"]
    arm: Literal["model", "control"] = "model"
    verdict: Verdict | None = None
    confirmed: bool | None = None
    reason: str | None = None
    failure: str | None = None
    attempt: int | None = None
    names: tuple[str, ...] = ()
    parts: dict[int, str] = Field(default={})


class FactMetric(Record):
    """A metric of the recipe. The first of a recipe's metrics is the primary one."""

    name: str
    direction: Direction
    share: bool


class FactSheet(Record):
    """`facts.json`: all facts of a campaign, with its ideas, metrics and names.

    `names` are the recipe's words that contain digits; a manuscript may contain them as text.
    """

    version: Literal[1] = 1
    campaign_id: str
    recipe: str
    metrics: tuple[FactMetric, ...]
    ideas: tuple[FactIdea, ...]
    names: tuple[str, ...] = ()
    facts: tuple[Fact, ...]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy without the cached lookups `by_id` and `idea_by_id`."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("by_id", "idea_by_id"):
            copied.__dict__.pop(name, None)
        return copied

    @cached_property
    def by_id(self) -> Mapping[str, Fact]:
        """The facts by their ids."""
        return {fact.id: fact for fact in self.facts}

    @cached_property
    def idea_by_id(self) -> Mapping[str, FactIdea]:
        """The ideas by their ids, the baseline included."""
        return {idea.idea_id: idea for idea in self.ideas}


class BadReference(ValueError):
    """The text between braces is neither a fact's id nor a formula; the message says why."""


def parse_reference(text: str) -> FactRef | Formula:
    """Return the reference that is written between braces: an id, or `op(a, b)` of references.

    Raises BadReference.
    """
    found, rest = _reference(text.strip(), 0)
    if rest:
        raise BadReference(f"{text!r} goes on after its end with {rest[:20]!r}")
    return found


def _reference(text: str, depth: int) -> tuple[FactRef | Formula, str]:
    if depth > _DEEPEST:
        raise BadReference(f"formulas nest deeper than {_DEEPEST}")
    name = _NAME.match(text)
    if name is None:
        raise BadReference(f"{text[:40]!r} is no id of a fact: write {{id}} or {{op(id, id)}}")
    rest = text[name.end() :].lstrip()
    if not rest.startswith("("):
        return FactRef(id=name[0]), rest
    if name[0] not in set(Op):  # in Python 3.11 `in Op` accepts only members, not strings
        raise BadReference(f"{name[0]!r} is no operation; there are {', '.join(Op)}")
    args: list[FactRef | Formula] = []
    while rest[:1] in ("(", ","):
        arg, rest = _reference(rest[1:].lstrip(), depth + 1)
        args.append(arg)
    if not rest.startswith(")"):
        raise BadReference(f"{name[0]}(…) is not closed")
    if len(args) > 64:
        raise BadReference(f"{name[0]}(…) has more than 64 arguments")
    return Formula(op=Op(name[0]), args=tuple(args)), rest[1:].lstrip()


def decimals_for(uncertainty: float) -> int:
    """Return how many decimals show two digits of an uncertainty; negative for tens, hundreds."""
    places = 1 - math.floor(math.log10(uncertainty))
    # 0.0996 rounds to 0.10, which has its two digits one place earlier.
    return places - 1 if round(uncertainty, places) >= 10.0 ** (2 - places) else places


def printed(value: float, uncertainty: float | None = None, *, signed: bool = False) -> str:
    """Return a number as printed: rounded so that its uncertainty has two digits.

    Without an uncertainty, integers have all of their digits, other numbers four significant ones.
    """
    if uncertainty:
        places = decimals_for(uncertainty)
        rounded = round(value, places)
        text = f"{abs(rounded):.{max(0, places)}f}"
    elif float(value).is_integer() and abs(value) < 1e15:
        text = f"{abs(value):.0f}"
    else:
        text = significant(abs(value), _SHOWN)
    negative = value < 0 and any(digit in "123456789" for digit in text)
    sign = MINUS if negative else "+" if signed else ""
    return sign + text


def exact(value: float) -> str:
    """Return an exactly known number, such as a setting, with all of its digits (at most 12)."""
    text = f"{abs(value):.12g}"
    return (MINUS if value < 0 else "") + text.replace("e-0", "e-").replace("e+", "e")


def significant(value: float, digits: int) -> str:
    """Return a non-negative value with `digits` significant digits, without an exponent if it is
    between 0.0001 and a million.
    """
    if value == 0:
        return "0"
    low, high = _PLAIN
    if not low <= value < high:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    rounded = float(f"{value:.{digits - 1}e}")
    places = max(0, digits - 1 - math.floor(math.log10(rounded)))
    return f"{rounded:.{places}f}"


# How tables write units after a number. Prose states units in its own words. The text of a fact has
# no unit, so that the unit in prose can be checked against the fact.
SUFFIXES: Final[Mapping[str, str]] = {
    "percent": "%",
    "seconds": " s",
}


def with_unit(text: str, unit: str) -> str:
    """Return a printed number with its unit, as tables show it."""
    return text + SUFFIXES.get(unit, f" {unit}" if unit else "")
