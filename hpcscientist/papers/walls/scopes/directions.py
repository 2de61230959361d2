"""Checks words of direction (up, down, better, worse) against single numbers and pairs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hpcscientist.papers.formulas import signed_value
from hpcscientist.papers.walls.finding import SentenceDefect, words
from hpcscientist.papers.walls.scopes.told import NumberInSentence, SentenceContext
from hpcscientist.records.facts import Fact, FactKind, Op, Statistic
from hpcscientist.records.manuscript import DefectCode
from hpcscientist.records.trial import Direction

# Words for a change of the value (UP, DOWN), and of its quality (BETTER, WORSE).
UP = frozenset(
    words(
        """
        raise raises raised raising rise rises rose rising increase increases increased increasing
        lift lifts lifted add adds added higher more above exceed exceeds exceeded boost boosts
        boosted grow grows grew larger greater climb climbs up upward gain gains gained gaining
        """
    )
)
DOWN = frozenset(
    words(
        """
        lower lowers lowered lowering drop drops dropped dropping fall falls fell falling decrease
        decreases decreased decreasing reduce reduces reduced reducing reduction lose loses lost
        losing less fewer below decline declines declined declining shrink shrinks shrank smaller
        down cut cuts sink sinks sank
        """
    )
)
BETTER = frozenset(
    words(
        """
        improve improves improved improving improvement improvements better outperform outperforms
        outperformed beat beats benefit benefits help helps surpass surpasses surpassed lead leads
        superior gain gains gained advantage win wins ahead
        """
    )
)
WORSE = frozenset(
    words(
        """
        worsen worsens worsened worse degrade degrades degraded degrading degradation hurt hurts
        harm harms harmed damage damages inferior trail trails behind deficit
        """
    )
)
COSTS = frozenset(words("cost costs explains explain contributes contribute worth accounts owes"))
_NEGATIONS = frozenset(
    {"not", "no", "never", "without", "neither", "nor", "fails", "failed", "cannot"}
)


def sign(n: NumberInSentence) -> Iterator[SentenceDefect]:
    """Check the sign of a change against the word of direction that belongs to it."""
    statistic = n.fact.scope.statistic
    if statistic is not Statistic.DELTA or n.fact.kind not in (
        FactKind.METRIC,
        FactKind.RATIO,
    ):
        return
    value = signed_value(n.quantity)
    if value == 0 or _moves(n):
        return
    minimised = _minimised(n)
    found = _direction(n)
    if found is None:
        if Op.MAGNITUDE in n.quantity.ops and not set(n.words) & (
            COSTS | {"differ", "differs", "gap", "apart"}
        ):
            yield n.wrong(DefectCode.WRONG_SIGN, "say which way the value changed")
        return
    word, place = found
    quality = -value if minimised else value
    right = (
        (word in UP and value > 0)
        or (word in DOWN and value < 0)
        or (word in BETTER and quality > 0)
        or (word in WORSE and quality < 0)
    )
    ablated = n.quantity.against is not None and n.quantity.against.scope.run not in (
        None,
        "main",
    )
    if ablated and word in COSTS | DOWN | WORSE:
        right = True
    if not right and not _negated(n, place):
        way = "rose" if value > 0 else "fell"
        yield n.wrong(
            DefectCode.WRONG_SIGN,
            f"the value {way} ({n.fact.text}), and the sentence says {word!r}",
        )


def _moves(n: NumberInSentence) -> bool:
    """Return whether the number is an end of "from {a} to {b}", which `pairs` checks."""
    before = n.words[n.at - 1 : n.at]
    return before == ["from"] or (before == ["to"] and "from" in n.words[: n.at])


def _minimised(n: NumberInSentence) -> bool:
    metrics = {m.name: m.direction for m in n.reading.sheet.metrics}
    return metrics.get(n.fact.scope.metric or "") is Direction.MINIMIZE


def _direction(n: NumberInSentence) -> tuple[str, int] | None:
    """Return the word of direction that belongs to the number, and its place, or None."""
    all_words = UP | DOWN | BETTER | WORSE | COSTS
    first, last = n.sentence.clause(n.at)
    lowest = max([first, *(at + 1 for at in n.sentence.numbers if at < n.at)])
    # Search back to the number before this one, then forward, then the rest of the clause.
    for place in range(n.at - 1, lowest - 1, -1):
        if n.words[place] in all_words and not _is_name(n, place):
            return _as_found(n, place)
    for place in range(n.at + 1, last):
        if n.sentence.tokens[place].quantity is not None:
            break
        if n.words[place] in all_words and not _is_name(n, place):
            return _as_found(n, place)
    for place in range(lowest - 1, first - 1, -1):
        if n.words[place] in all_words and not _is_name(n, place):
            return _as_found(n, place)
    return None


def _as_found(n: NumberInSentence, place: int) -> tuple[str, int] | None:
    word = n.words[place]
    return None if word in COSTS - (UP | DOWN | BETTER | WORSE) else (word, place)


def _is_name(n: NumberInSentence, place: int) -> bool:
    """Return whether a word is part of a name or of a metric, such as the metric "loss"."""
    named = [*n.reading.ideas, *n.reading.metrics]
    return any(m.first <= place <= m.last for m in named)


def _negated(n: NumberInSentence, place: int) -> bool:
    return bool(_NEGATIONS & set(n.words[max(0, place - 4) : place]))


def pairs(reading: SentenceContext) -> Iterator[SentenceDefect]:
    """Check "rises from {a} to {b}" and "{a} is higher than {b}" against the values."""
    sentence, numbers = reading.sentence, reading.sentence.numbers
    for first, second in pairwise(numbers):
        one, other = sentence.tokens[first].quantity, sentence.tokens[second].quantity
        assert one is not None
        assert other is not None
        if not _comparable(one.fact, other.fact):
            continue
        if sentence.words[first - 1 : first] == ["from"] and sentence.words[
            second - 1 : second
        ] == ["to"]:
            yield from _moves_between(reading, first, one.fact, other.fact)
        else:
            yield from _compares(reading, first, second, one.fact, other.fact)


def _comparable(a: Fact, b: Fact) -> bool:
    if a.kind is not FactKind.METRIC or a.kind is not b.kind or a.unit != b.unit:
        return False
    return a.scope.statistic is b.scope.statistic


def _moves_between(
    reading: SentenceContext, at: int, start: Fact, end: Fact
) -> Iterator[SentenceDefect]:
    words_ = reading.sentence.words
    change = abs(end.value) - abs(start.value) if start.signed else end.value - start.value
    for place in range(at - 1, -1, -1):
        word = words_[place]
        if word in UP | DOWN | BETTER | WORSE:
            break
    else:
        return
    if any(m.first <= place <= m.last for m in (*reading.metrics, *reading.ideas)):
        return
    yield from _held(reading, word, place, change, start, end, at)


def _compares(
    reading: SentenceContext, first: int, second: int, a: Fact, b: Fact
) -> Iterator[SentenceDefect]:
    words_ = reading.sentence.words
    named = reading.ideas
    low, high = min(first, 0), second
    for place in range(high - 1, low - 1, -1):
        word = words_[place]
        if word not in UP | DOWN | BETTER | WORSE:
            continue
        if any(m.first <= place <= m.last for m in (*reading.metrics, *reading.ideas)):
            continue
        has_than = "than" in words_[place : second + 1] or word in (
            "above",
            "below",
            "exceeds",
            "exceed",
            "outperforms",
            "beats",
            "surpasses",
            "behind",
        )
        if not has_than:
            continue
        subjects = [m for m in named if not m.is_comparand and m.last < place]
        if not subjects or a.scope.idea == b.scope.idea:
            return
        subject = subjects[-1].value
        if subject == a.scope.idea:
            change = a.value - b.value
        elif subject == b.scope.idea:
            change = b.value - a.value
        else:
            return
        yield from _held(reading, word, place, change, a, b, first)
        return


def _held(
    reading: SentenceContext, word: str, place: int, change: float, a: Fact, b: Fact, at: int
) -> Iterator[SentenceDefect]:
    metrics = {m.name: m.direction for m in reading.sheet.metrics}
    quality = -change if metrics.get(a.scope.metric or "") is Direction.MINIMIZE else change
    right = (
        (word in UP and change > 0)
        or (word in DOWN and change < 0)
        or (word in BETTER and quality > 0)
        or (word in WORSE and quality < 0)
    )
    negated = _NEGATIONS & set(reading.sentence.words[max(0, place - 4) : place])
    if not right and not negated:
        ref = reading.sentence.tokens[at].ref
        yield SentenceDefect(
            DefectCode.WRONG_SIGN,
            str(ref.part) if ref is not None else word,
            f"{a.label} is {a.text}, {b.label} is {b.text}, and the sentence says {word!r}",
        )
