"""Checks the idea, the split and the metric of a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hpcscientist.papers.walls.finding import SentenceDefect, same_but, stem, words, write
from hpcscientist.papers.walls.mentions import Level
from hpcscientist.papers.walls.scopes.told import NumberInSentence
from hpcscientist.papers.walls.sentences import Mention, Sentence, bind
from hpcscientist.records.facts import BASELINE, FactKind, Statistic
from hpcscientist.records.manuscript import DefectCode
from hpcscientist.records.trial import Split

_LINKS = frozenset(
    words(
        """
        's mean of ( at with value a an the average score is in f1 accuracy which has its reaches
        unchanged plain code recipe on test validation split itself
        """
    )
)
_PUBLISHED_WORDS = frozenset(
    words("published reported literature prior original authors paper others theirs their")
)
_SETUP_WORDS = frozenset(
    words(
        """
        setup set-up setting settings protocol split splits conditions hardware comparable
        configuration own different data recordings
        """
    )
)


def idea(n: NumberInSentence) -> Iterator[SentenceDefect]:
    """Check the idea of a number against the idea that the sentence names for it."""
    scope, against = n.fact.scope, n.quantity.against
    own = n.quantity.parts[0].scope.idea
    if own is None or n.fact.kind is FactKind.PUBLISHED:
        return
    named = n.reading.ideas
    if n.fact.kind is FactKind.HYPERPARAMETER:  # "a weight decay of {x}" names no idea
        settings = {word for phrase in n.reading.settings for word in phrase}
        named = [m for m in named if not _stems(n, m) <= settings]
    is_change = n.fact.scope.statistic in Level.CHANGE or n.fact.kind is FactKind.INTERVAL
    is_change = is_change or scope.statistic in (
        *Level.P,
        Statistic.SHRINKAGE,
        Statistic.INTERVAL,
    )
    other = against.scope.idea if against is not None else BASELINE
    if is_change or against is not None:
        yield from _change_of(n, named, own, other)
    else:
        yield from _level_of(n, named, own)


def _change_of(
    n: NumberInSentence, named: Sequence[Mention[str]], own: str, other: str | None
) -> Iterator[SentenceDefect]:
    """Check the idea of a change: the idea that is not the comparand.

    A comparison with the baseline need not be stated.
    """
    if own == BASELINE and other not in (None, BASELINE):
        subjects = [m for m in named if not m.is_comparand]
    else:
        subjects = [m for m in named if m.value != BASELINE and not m.is_comparand]
        if not subjects:
            subjects = [m for m in named if m.value != BASELINE]
    first, last = n.sentence.clause(n.at)
    # "larger than that of idea-0002, {x}": the other's own change
    own_of = [m for m in named if m.is_comparand and {"that", "those"} & _before(n, m)]
    behind = [m for m in own_of if m.last < n.at]
    against = [
        m.value for m in named if m.is_comparand and m not in own_of and first <= m.first < last
    ]
    if against and other is not None and other not in against and own != other:
        right = same_but(n.reading.sheet, n.fact, idea=own)
        yield n.wrong(
            DefectCode.WRONG_IDEA,
            f"this is against {other}, and the sentence says {against[-1]}: "
            f"{write(right, f'say {other}')}",
        )
        return
    bound = behind[-1] if behind else bind(n.sentence, n.at, _clear(subjects))
    if bound is None:
        yield from _unnamed(n, own)
    elif bound.value != own and not _is_outdone(n, bound, named, own):
        yield _whose(n, bound.value)


def _stems(n: NumberInSentence, mention: Mention[str]) -> set[str]:
    return {stem(word) for word in n.words[mention.first : mention.last + 1]}


def _before(n: NumberInSentence, mention: Mention[str]) -> set[str]:
    return set(n.words[max(0, mention.first - 4) : mention.first])


def _is_outdone(
    n: NumberInSentence, bound: Mention[str], named: Sequence[Mention[str]], own: str
) -> bool:
    """Return whether the bound mention is weak while the sentence clearly names the own idea."""
    weak = {(m.first, m.value) for m in named if m.is_weak}
    clear = {m.value for m in named if not m.is_weak}
    return (bound.first, bound.value) in weak and own in clear


def _level_of(
    n: NumberInSentence, named: Sequence[Mention[str]], own: str
) -> Iterator[SentenceDefect]:
    if not named:
        yield from _unnamed(n, own)
        return
    comparand = _adjacent_comparand(n, named)
    if comparand is not None:
        bound: Mention[str] | None = comparand
    else:
        subjects = [m for m in named if not m.is_comparand]
        with_comparands = _follows_with_preposition(n.sentence, n.at, named)
        if with_comparands is not None:
            bound = with_comparands
        elif n.sentence.words[n.at - 1 : n.at] == ["from"] and own == BASELINE:
            return
        else:
            bound = bind(n.sentence, n.at, _clear(subjects or named), shared=False)
    if bound is None:
        yield from _unnamed(n, own)
    elif bound.value != own and not _is_outdone(n, bound, named, own):
        yield _whose(n, bound.value)


def _adjacent_comparand(n: NumberInSentence, named: Sequence[Mention[str]]) -> Mention[str] | None:
    """Return the comparand right before the number: "than the baseline's {x}"."""
    for mention in named:
        if mention.is_comparand and mention.last < n.at:
            between = n.words[mention.last + 1 : n.at]
            if len(between) <= 8 and all(w in _LINKS for w in between):
                return mention
    return None


def _unnamed(n: NumberInSentence, own: str) -> Iterator[SentenceDefect]:
    """Check a number whose sentence names no idea, by earlier sentences, section and paper."""
    reading = n.reading
    known = reading.earlier_ideas or reading.context_ideas
    if known:
        if own not in known and not (own == BASELINE and BASELINE in known):
            yield _whose(n, known[-1])
        return
    if reading.ours is not None:
        if own not in (reading.ours, BASELINE):
            yield _whose(n, reading.ours)
        return
    if own == BASELINE:
        # A hyperparameter of the baseline describes the setup and needs no name.
        if n.fact.kind is not FactKind.HYPERPARAMETER:
            yield n.wrong(DefectCode.WRONG_IDEA, "say that this is the baseline's")
    else:
        yield n.wrong(DefectCode.WRONG_IDEA, f"say that this is of {own}")


def _whose(n: NumberInSentence, said: str) -> SentenceDefect:
    right = same_but(n.reading.sheet, n.fact, idea=said)
    own = n.quantity.parts[0].scope.idea
    return n.wrong(
        DefectCode.WRONG_IDEA,
        f"this is of {own} and the sentence says {said}: {write(right, f'name {own}')}",
    )


def split(n: NumberInSentence) -> Iterator[SentenceDefect]:
    """Check a fact's split against the split that the text names; the default is the test split."""
    own, reading = n.fact.scope.split, n.reading
    against = n.quantity.against
    bound = bind(n.sentence, n.at, reading.splits)
    if bound is not None:
        said: Split | None = bound.value
        if (
            len({m.value for m in reading.splits}) > 1
            and against is not None
            and against.scope.split != own
        ):
            return
    elif reading.earlier_splits:
        said = reading.earlier_splits[-1]
    elif reading.context_splits:
        said = reading.context_splits[-1]
    else:
        said = Split.TEST
        if own is Split.VALIDATION:
            right = same_but(reading.sheet, n.fact, split=Split.TEST)
            yield n.wrong(
                DefectCode.WRONG_SPLIT,
                f"say that this is on validation, or {write(right, 'nothing else is known')}",
            )
            return
    if said is not own and said is not None:
        right = same_but(reading.sheet, n.fact, split=said)
        yield n.wrong(
            DefectCode.WRONG_SPLIT,
            f"this is on {own}, and the sentence says {said}: {write(right, f'say {own}')}",
        )


def metric(n: NumberInSentence) -> Iterator[SentenceDefect]:
    """Check a fact's metric against the metric that the text names; the default is the primary."""
    own, reading = n.fact.scope.metric, n.reading
    if own is None or n.fact.scope.statistic is Statistic.N:
        return
    bound = bind(n.sentence, n.at, reading.metrics)
    primary = reading.sheet.metrics[0].name if reading.sheet.metrics else own
    said = bound.value if bound is not None else None
    if said is None:
        said = reading.earlier_metrics[-1] if reading.earlier_metrics else primary
    if said != own:
        right = same_but(reading.sheet, n.fact, metric=said)
        yield n.wrong(
            DefectCode.WRONG_METRIC,
            f"this is {own}, and the sentence says {said}: {write(right, f'say {own}')}",
        )


def published(n: NumberInSentence) -> Iterator[SentenceDefect]:
    """Check that the sentence says who reported a published number, and in which setup."""
    said = set(n.words)
    whose = said & _PUBLISHED_WORDS
    setup = said & _SETUP_WORDS
    if not (whose and setup):
        source = next(
            (p.source.setup for p in n.quantity.parts if p.kind is FactKind.PUBLISHED), ""
        )
        yield n.wrong(
            DefectCode.FOREIGN_SETUP,
            f"say that this was reported by others, and in whose setup: {source[:120]}",
        )


def _clear(mentions: Sequence[Mention[str]]) -> list[Mention[str]]:
    """Return mentions with none marked as weak."""
    return [replace(mention, is_weak=False) for mention in mentions]


def _follows_with_preposition(
    sentence: Sentence, at: int, named: Sequence[Mention[str]]
) -> Mention[str] | None:
    """Return the idea that follows with a preposition: "for the baseline", "of idea-0001"."""
    for place in range(at + 1, min(len(sentence.tokens), at + 12)):
        token = sentence.tokens[place]
        if (
            token.quantity is not None
            or token.text in ",;:()"
            or token.word
            in (
                "and",
                "while",
                "whereas",
                "but",
                "than",
                "against",
                "versus",
                "over",
                "above",
                "below",
            )
        ):
            return None
        for mention in named:
            if mention.first == place:
                before = sentence.words[max(at + 1, place - 3) : place]
                if set(before) & {"for", "of", "by", "with", "under", "from", "in"}:
                    return mention
                return None
    return None
