"""Checks which statistic a sentence calls a number: mean, best seed, change, p-value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpcscientist.papers.formulas import PERCENT
from hpcscientist.papers.walls.finding import SentenceDefect, same_but, words, write
from hpcscientist.papers.walls.mentions import Level
from hpcscientist.papers.walls.scopes.directions import BETTER, COSTS, DOWN, UP, WORSE
from hpcscientist.papers.walls.scopes.told import NumberInSentence
from hpcscientist.papers.walls.sentences import Mention, bind
from hpcscientist.records.facts import Statistic
from hpcscientist.records.manuscript import DefectCode

_LEVELS = (Statistic.MEAN, Statistic.BEST, Statistic.WORST)
_ENDS = (Statistic.LOW, Statistic.HIGH)
_NAMES = {
    Statistic.MEAN: "mean",
    Statistic.SD: "standard deviation",
    Statistic.BEST: "best seed",
    Statistic.WORST: "worst seed",
    Statistic.DELTA: "difference from the baseline",
    Statistic.LOW: "lower end of the interval",
    Statistic.HIGH: "upper end of the interval",
    Statistic.INTERVAL: "interval of the difference",
    Statistic.P: "p-value",
    Statistic.P_ADJUSTED: "adjusted p-value",
    Statistic.SHRINKAGE: "shrinkage of the gain",
    Statistic.N: "number of seeds",
}
_CHANGE_NOUNS = frozenset(
    words(
        """
        gain gains difference differences delta gap margin lead advantage change changes changed
        differ differs effect deficit apart by improvement interval shrinkage
        """
    )
)
_COMPARES_WORDS = frozenset({"against", "than", "versus", "vs"})
_ADJUSTED = frozenset(words("adjusted corrected adjustment correction"))
_UNADJUSTED = frozenset(words("unadjusted uncorrected raw nominal"))
_TOKENS = {
    "prompt": frozenset(words("read reads prompt prompts input inputs")),
    "completion": frozenset(words("wrote written writes completion completions output generated")),
    "total": frozenset(words("total altogether overall all")),
}


def statistic_of(n: NumberInSentence) -> Iterator[SentenceDefect]:
    """Check a fact's statistic against the one that the sentence names; the default is the mean."""
    own, reading = n.fact.scope.statistic, n.reading
    if own is None or own is Statistic.N:
        return
    if own in _LEVELS and _told_as_change(n):
        yield _statistic_wrong(n, "a change", Statistic.DELTA)
        return
    if own is Statistic.DELTA and _told_as_level(n):
        yield _statistic_wrong(n, "a value", Statistic.MEAN)
        return
    if _is_other_end(n):
        yield _statistic_wrong(n, "the other end", None)
        return
    bound = _nearest(n, [m for m in reading.statistics if _may_tell(n, m)])
    if bound is None:
        understood = own in (Statistic.MEAN, Statistic.DELTA)
        if not understood and not (own in _ENDS and "interval" in n.words):
            yield n.wrong(DefectCode.WRONG_STATISTIC, f"say that this is the {_NAMES[own]}")
    elif own not in bound.value and not (own in _ENDS and bound.value is Level.CHANGE):
        said = min(bound.value, default=None)
        yield _statistic_wrong(n, " ".join(n.words[bound.first : bound.last + 1]), said)


def _is_other_end(n: NumberInSentence) -> bool:
    """Return whether the sentence calls one end of an interval the other end."""
    own, ends = n.fact.scope.statistic, (Level.LOW, Level.HIGH)
    named = [m.value for m in n.reading.statistics if m.value in ends]
    return own in _ENDS and len(set(named)) == 1 and own not in named[0]


def _may_tell(n: NumberInSentence, mention: Mention[frozenset[Statistic]]) -> bool:
    """Return whether a mentioned statistic may be that of the number.

    A change "of the mean" is no mean, and a level may appear beside a gain.
    """
    own, said = n.fact.scope.statistic, mention.value
    if said is Level.SHRINKAGE:
        return own is Statistic.SHRINKAGE
    if own in Level.CHANGE:
        return said is not Level.MEAN
    if own in (*Level.P, Statistic.SHRINKAGE, Statistic.INTERVAL):
        return said not in (Level.MEAN, Level.CHANGE)
    return not (own in _LEVELS and said is Level.CHANGE and not _is_noun_of(n, mention))


def _nearest(
    n: NumberInSentence, mentions: Sequence[Mention[frozenset[Statistic]]]
) -> Mention[frozenset[Statistic]] | None:
    """Return the mention of the number's statistic: right after it, or the last before it."""
    tokens = n.sentence.tokens
    for mention in mentions:
        if mention.first > n.at:
            between = tokens[n.at + 1 : mention.first]
            marks = {token.text for token in between}
            if (
                len(between) <= 2
                and not any(t.quantity for t in between)
                and (marks <= {"(", "at", "in", "on"} or not between)
            ):
                return mention
    return (
        bind(
            n.sentence,
            n.at,
            [m for m in mentions if m.last < n.at] or mentions,
            shared=True,
        )
        if mentions
        else None
    )


def _is_noun_of(n: NumberInSentence, mention: Mention[frozenset[Statistic]]) -> bool:
    """Return whether the number is the value of a noun of change: "the gain is {x}"."""
    if mention.last >= n.at:
        return False
    between = n.words[mention.last + 1 : n.at]
    if "to" in between[-1:] or any(word in _COMPARES_WORDS for word in between):
        return False
    return bool(set(between) & {"is", "was", "of", "are", "amounts"})


def _told_as_change(n: NumberInSentence) -> bool:
    before = n.words[max(0, n.at - 1) : n.at]
    if before == ["by"]:
        earlier = set(n.words[: n.at])
        return bool(earlier & (UP | DOWN | BETTER | WORSE | {"changes", "differs", "change"}))
    verbs = {"gains", "adds", "loses", "gained", "added", "lost", "gain", "add", "lose"}
    return bool(before) and before[0] in verbs


def _told_as_level(n: NumberInSentence) -> bool:
    before = n.words[max(0, n.at - 1) : n.at]
    if not before or n.quantity.fact.unit == PERCENT:
        return False
    changes = UP | DOWN | BETTER | WORSE | COSTS | _CHANGE_NOUNS
    if before[0] in {"reaches", "scores", "attains", "reached", "scored", "attained"}:
        return True
    amounts = n.words[max(0, n.at - 2) : n.at - 1] in (["amounts"], ["amounted"], ["comes"])
    if before[0] == "to" and not amounts and "from" not in n.words[: n.at]:
        return bool(set(n.words[: n.at]) & changes)
    return not set(n.words) & changes


def _statistic_wrong(n: NumberInSentence, said: str, statistic: Statistic | None) -> SentenceDefect:
    own = n.fact.scope.statistic
    right = same_but(n.reading.sheet, n.fact, statistic=statistic) if statistic else None
    name = _NAMES.get(own, "value") if own else "value"
    return n.wrong(
        DefectCode.WRONG_STATISTIC,
        f"this is the {name}, and the sentence says {said!r}: {write(right, f'say {name}')}",
    )


def qualified(n: NumberInSentence) -> Iterator[SentenceDefect]:
    """Check adjusted against unadjusted p-values, and the kinds of tokens, by their adjectives."""
    own, said = n.fact.scope.statistic, set(n.words)
    adjusted = bool(said & _ADJUSTED) and not said & _UNADJUSTED
    adjusted = adjusted and not n.sentence.phrase(("without",), _before_any(n, _ADJUSTED))
    if own is Statistic.P_ADJUSTED and not adjusted:
        yield n.wrong(DefectCode.WRONG_STATISTIC, "this is the adjusted p-value: say so")
    elif own is Statistic.P and (adjusted or "one-sided" in said):
        right = same_but(n.reading.sheet, n.fact, statistic=Statistic.P_ADJUSTED)
        fix = write(right, "say that it is the two-sided p-value, without adjustment")
        yield n.wrong(DefectCode.WRONG_STATISTIC, fix)
    of = n.fact.scope.of
    if n.fact.unit == "tokens" and of in _TOKENS:
        named = {kind for kind, words_ in _TOKENS.items() if said & words_}
        near = set(n.words[max(0, n.at - 2) : n.at + 6])
        close = {kind for kind, words_ in _TOKENS.items() if near & words_} or named
        if close and of not in close and not (of == "total" and len(close) > 1):
            yield n.wrong(DefectCode.WRONG_COUNT, f"these are the {of} tokens")


def _before_any(n: NumberInSentence, wanted: frozenset[str]) -> int:
    places = [at for at, word in enumerate(n.words) if word in wanted]
    return places[0] - 1 if places else -1
