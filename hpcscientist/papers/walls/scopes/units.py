"""Checks the characters, bounds, units and nouns beside a number."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hpcscientist.papers.formulas import PERCENT, POINTS
from hpcscientist.papers.walls.finding import SentenceDefect, words
from hpcscientist.papers.walls.mentions import Level
from hpcscientist.papers.walls.scopes.told import NumberInSentence
from hpcscientist.records.facts import FactKind, Op, Statistic
from hpcscientist.records.manuscript import DefectCode

# Nouns after a number, and the units of facts that they may stand for.
_NOUNS: dict[str, frozenset[str]] = {}
for _unit, _names in (
    ("ideas", "idea ideas failure failures proposal proposals candidate candidates improvement "
              "improvements method methods variant variants"),
    ("seeds", "seed seeds run runs repetition repetitions replicate replicates initialisations "
              "initializations trial trials n"),
    ("trials", "trial trials failure failures run runs experiment experiments execution "
               "executions"),
    ("looks", "look looks looked idea ideas improvement improvements"),
    ("attempts", "attempt attempts version versions"),
    ("rounds", "round rounds"),
    ("tokens", "token tokens"),
    ("rows", "row rows image images example examples sample samples recording recordings "
             "item items instance instances input inputs document documents observation "
             "observations clip clips point points text texts sequence sequences"),
    ("metrics", "metric metrics"),
    ("CPU-hours", "cpu-hours cpu-hour"),
    ("GPU-hours", "gpu-hours gpu-hour"),
    ("seconds", "seconds second s"),
    ("MiB", "mib"),
    ("CPUs", "cpu cpus core cores processor processors"),
    ("GPUs", "gpu gpus"),
    (PERCENT, "percent % per_cent"),
    (POINTS, "percentage_points percentage_point points point pp"),
    ("minutes", "minutes minute min"),
    ("hours", "hours hour h"),
    ("days", "days day"),
    ("GB", "gb gib gigabytes tb kb mb megabytes kib"),
    ("papers", "paper papers"),
    ("epochs", "epoch epochs"),
    ("steps", "step steps"),
    ("ms", "ms milliseconds"),
):  # fmt: skip
    for _name in words(_names):
        _NOUNS[_name] = _NOUNS.get(_name, frozenset()) | {_unit}
_ATOMIC_UNITS = frozenset(
    {PERCENT, POINTS, "CPU-hours", "GPU-hours", "minutes", "hours", "days", "GB", "MiB", "ms"}
)
_APPROXIMATE = (
    ("more", "than"),
    ("less", "than"),
    ("fewer", "than"),
    ("at", "least"),
    ("at", "most"),
    ("nearly",),
    ("almost",),
    ("well", "over"),
    ("well", "above"),
    ("as", "many", "as"),
)
_BETWEEN = frozenset({"of", "the", "all", "and", "to", "or", "from", "\u2013"})
_NOUN_ENDS = frozenset(
    words("is was are were has have had while but which that because by for with over than on")
)


def glued(n: NumberInSentence) -> Iterator[SentenceDefect]:
    """Yield defects for digits, signs and letters right beside a number that change it."""
    tokens, at = n.sentence.tokens, n.at
    before = tokens[at - 1] if at else None
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    if (
        before is not None
        and before.end == tokens[at].start
        and before.text not in (*"(\"'\u201c\u2018=\u00b1\u2013\u2014/",)
    ):
        if before.text in ("-", "\u2212", "+"):
            yield n.wrong(DefectCode.WRONG_SIGN, "remove the sign: the fact has its own")
        else:
            yield n.wrong(
                DefectCode.TYPED_NUMBER,
                f"put a blank before it; {before.text!r} changes the number",
            )
    if before is not None and before.word in (
        "minus",
        "negative",
        "-",
        "\u2212",
        "~",
        "\u2248",
        "<",
        ">",
        "\u2264",
        "\u2265",
    ):
        yield n.wrong(DefectCode.WRONG_SIGN, f"remove {before.text!r}: the fact has its own sign")
    if after is not None and after.start == tokens[at].end:
        if after.quantity is not None or after.text[0].isalnum() or after.text in ("^", "_", "'"):
            yield n.wrong(
                DefectCode.TYPED_NUMBER,
                f"put a blank after it; {after.text!r} changes the number",
            )
        elif (
            after.text in ".,/"
            and at + 2 < len(tokens)
            and tokens[at + 2].start == after.end
            and (tokens[at + 2].quantity is not None)
        ):
            yield n.wrong(DefectCode.TYPED_NUMBER, "two facts make one number: part them")


def approximate(n: NumberInSentence) -> Iterator[SentenceDefect]:
    """Yield defects for false bounds: "more than {x}" for a value that is {x}."""
    statistic = n.fact.scope.statistic
    for phrase in _APPROXIMATE:
        first = n.at - len(phrase)
        if first < 0 or not n.sentence.phrase(phrase, first):
            continue
        if phrase == ("at", "least") and statistic in (Statistic.LOW, Statistic.WORST):
            continue
        if phrase == ("at", "most") and (
            statistic in (Statistic.HIGH, Statistic.BEST) or n.fact.kind is FactKind.SETTING
        ):
            continue
        code = (
            DefectCode.WRONG_COUNT if n.fact.kind is FactKind.COUNT else DefectCode.WRONG_STATISTIC
        )
        yield n.wrong(code, f"remove {' '.join(phrase)!r}: the fact is the number itself")


def unit(n: NumberInSentence) -> Iterator[SentenceDefect]:
    """Check a fact's unit against the noun after the number, or before it."""
    unit, kind = n.fact.unit, n.fact.kind
    said, noun = _noun(n)
    in_metric = unit in {metric.name for metric in n.reading.sheet.metrics}
    if in_metric or kind is FactKind.INTERVAL:
        if said and said & _ATOMIC_UNITS and not _unit_of(n, said, unit):
            hint = ""
            if said & {PERCENT, POINTS} and n.fact.share:
                change = n.fact.scope.statistic in Level.CHANGE
                op = "points" if change else "percent"
                unit_word = POINTS if change else PERCENT
                hint = f": write {{{op}({_bare(n)})}} {unit_word}"
            yield n.wrong(DefectCode.WRONG_UNIT, f"this is not in {noun}{hint}")
        return
    is_change = n.fact.scope.statistic in Level.CHANGE and Op.RATIO not in n.quantity.ops
    if is_change and _is_relative(n):
        hint = "a relative change is {percent(ratio(change, baseline's mean))} percent"
        yield n.wrong(DefectCode.WRONG_UNIT, hint)
    if unit in (PERCENT, POINTS):
        if not said or unit not in said or (unit == POINTS and noun == "point"):
            yield n.wrong(DefectCode.WRONG_UNIT, f"this is in {unit}: write that after it")
        return
    if not unit:
        if said and said & _ATOMIC_UNITS:
            hint = f": write {{percent({_bare(n)})}}" if n.fact.share and PERCENT in said else ""
            yield n.wrong(DefectCode.WRONG_UNIT, f"this is not in {noun}{hint}")
        return
    said_there = said or _noun_before(n)
    if unit not in said_there:
        code = (
            DefectCode.WRONG_COUNT
            if kind in (FactKind.COUNT, FactKind.SIZE) or unit == "seeds"
            else DefectCode.WRONG_UNIT
        )
        what = (
            f"this is a number of {unit}"
            if code is DefectCode.WRONG_COUNT
            else f"this is in {unit}"
        )
        yield n.wrong(code, f"{what}: say so")


def _is_relative(n: NumberInSentence) -> bool:
    """Return whether the number is called relative: "a relative gain of", not "relative to"."""
    first = max([0, *(at + 1 for at in n.sentence.numbers if at < n.at)])
    near = n.words[first : n.at + 4]
    return any(
        word in ("relative", "relatively", "proportional") and following != "to"
        for word, following in pairwise([*near, ""])
    )


def _bare(n: NumberInSentence) -> str:
    return n.written.strip("{}")


def _unit_of(n: NumberInSentence, said: frozenset[str], unit: str) -> bool:
    return any(unit.lower().endswith(f"_{word.lower()}") or unit == word for word in said)


def _noun(n: NumberInSentence) -> tuple[frozenset[str], str]:
    """Return the units that the noun after the number may mean, and the noun."""
    tokens = n.sentence.tokens
    for place in range(n.at + 1, min(len(tokens), n.at + 7)):
        token = tokens[place]
        following = tokens[place + 1].word if place + 1 < len(tokens) else ""
        pair, tail = f"{token.word}_{following}", token.word.rpartition("-")[2]
        is_hyphened = place == n.at + 1 and token.start == tokens[n.at].end  # "{n}-seed"
        if pair in _NOUNS:
            return _NOUNS[pair], pair.replace("_", " ")
        if token.word in _NOUNS or (tail in _NOUNS and (is_hyphened or "-" in token.word)):
            noun = token.word if token.word in _NOUNS else tail
            return _NOUNS[noun], noun
        if token.quantity is not None:  # "{a} of {b} ideas": the noun belongs to both
            if tokens[place - 1].word not in _BETWEEN:
                break
        elif token.word in _NOUN_ENDS or token.text in ",;:.)":
            break
    return frozenset(), ""


def _noun_before(n: NumberInSentence) -> frozenset[str]:
    """Return the units of the last noun before the number: "n = {x}", "of 12 ideas, {x}"."""
    for place in range(n.at - 1, -1, -1):
        word = n.words[place]
        if word in _NOUNS and word != "s":
            return _NOUNS[word]
    return frozenset()
