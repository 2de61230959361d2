"""Which run a number is of (the idea itself or an ablation), and which hyperparameter it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hpcscientist.papers.walls.finding import Found, write
from hpcscientist.papers.walls.mentions import setting_name
from hpcscientist.papers.walls.scopes.told import Told
from hpcscientist.papers.walls.sentences import Mention, Sentence, bind
from hpcscientist.papers.walls.vocabulary import stem, words
from hpcscientist.records.facts import BASELINE, Fact, FactKind
from hpcscientist.records.manuscript import DefectCode

_ABLATES = frozenset(
    words(
        """
        ablation ablations ablate ablated ablating removing removed remove leaving left omitting
        omitted dropping disabling disabled excluding without minus
        """
    )
)


def run(n: Told) -> Iterator[Found]:
    """Hold an ablation's number, or the main run's, against the run that is spoken of."""
    runs = {part.scope.run for part in n.quantity.parts} - {None}
    further = [p for p in n.quantity.parts if p.scope.run not in (None, "main")]
    part_words = _part_words(n)
    first, last = n.sentence.clause(n.at)
    clause = n.words[first:last]
    ablates = any(
        word in _ABLATES and (word != "without" or _ablates_part(n, place + first))
        for place, word in enumerate(clause)
    )
    varies = bool(set(clause) & {"sensitivity"})
    named = _named_parts(n, clause)
    if further:
        right = further[0].scope
        idea = n.reading.sheet.idea_by_id.get(right.idea or "")
        title = idea.parts.get(right.attempt or 0, "") if idea is not None else ""
        kinds = set(clause) & {"ablation", "sensitivity", "follow-up"}
        if kinds and right.run not in kinds and not named:
            yield _run_wrong(n, None)
        elif named and right.attempt not in named and not (named & _attempts(n, further)):
            yield _run_wrong(n, min(named))
        elif right.run == "ablation" and not ablates and not named:
            yield n.wrong(DefectCode.WRONG_RUN, f"this is an ablation ({title}): say so")
        elif right.run != "ablation" and not named and not varies and not ablates:
            yield n.wrong(DefectCode.WRONG_RUN, f"this is a {right.run} run ({title}): say so")
    elif "main" in runs and n.fact.kind is not FactKind.HYPERPARAMETER:
        own = n.quantity.parts[0].scope.idea
        if own == BASELINE:
            return
        beside = [at for at in n.sentence.numbers if at != n.at and first <= at < last]
        if (
            ablates
            or (named and varies)
            or (named and (_changed(n, clause) or _is_titled(n, clause)))
        ) and not beside:
            target = min(named) if named else None
            yield _run_wrong(n, target)
    del part_words


def _attempts(n: Told, facts: Sequence[Fact]) -> set[int]:
    return {fact.scope.attempt for fact in facts if fact.scope.attempt is not None}


def _changed(n: Told, clause: Sequence[str]) -> bool:
    return bool(set(clause) & {"with", "without", "at", "under"}) and not set(clause) & {"schedule"}


def _is_titled(n: Told, clause: Sequence[str]) -> bool:
    """Whether a clause has the whole title of a further run."""
    idea = n.reading.sheet.idea_by_id.get(n.quantity.parts[0].scope.idea or "")
    said = " ".join(clause)
    return idea is not None and any(title.lower() in said for title in idea.parts.values())


def _part_words(n: Told) -> dict[int, set[str]]:
    """The words of the idea's further runs by attempt."""
    idea = n.reading.sheet.idea_by_id.get(n.quantity.parts[0].scope.idea or "")
    if idea is None:
        return {}
    whole = _content(idea.title)
    told = {attempt: _content(title) for attempt, title in idea.parts.items()}
    # "Half as much momentum" of the momentum idea is told by "half".
    return {a: (part - whole if idea.parts and part - whole else part) for a, part in told.items()}


def _named_parts(n: Told, clause: Sequence[str]) -> set[int]:
    """Return the further runs of the idea that a clause names by the words of their titles."""
    said = {stem(word) for token in clause for word in token.split("-")} | {stem(w) for w in clause}
    named = {
        attempt: words_
        for attempt, words_ in _part_words(n).items()
        if words_ and len(words_ & said) >= max(1, (len(words_) + 1) // 2)
    }
    if not named:
        return set()
    most = max(len(words_ & said) / len(words_) for words_ in named.values())
    return {a for a, words_ in named.items() if len(words_ & said) / len(words_) == most}


def _ablates_part(n: Told, at: int) -> bool:
    """Whether "without" is followed by what an ablation leaves out."""
    said = {stem(word) for token in n.words[at + 1 : at + 6] for word in token.split("-")}
    sheet = n.reading.sheet
    return any(said & _content(title) for idea in sheet.ideas for title in idea.parts.values())


def _run_wrong(n: Told, attempt: int | None) -> Found:
    if attempt is None:
        return n.wrong(
            DefectCode.WRONG_RUN,
            "this is the idea as a whole, and no ablation: write the ablation's",
        )
    own = n.quantity.parts[0].scope
    for fact in n.reading.sheet.facts:
        scope = fact.scope
        same = (scope.idea, scope.attempt) == (own.idea, attempt)
        if same and (scope.metric, scope.split, scope.statistic) == (
            own.metric,
            own.split,
            own.statistic,
        ):
            return n.wrong(DefectCode.WRONG_RUN, write(fact, ""))
    return n.wrong(DefectCode.WRONG_RUN, f"the sentence speaks of attempt {attempt} of {own.idea}")


def named_setting(n: Told) -> Iterator[Found]:
    """A hyperparameter is called by its name: LEARNING_RATE is "the learning rate"."""
    fact = n.fact
    if fact.kind not in (FactKind.HYPERPARAMETER, FactKind.SETTING):
        return
    names = n.reading.settings
    own = setting_name(fact)
    if own is None or own not in names.values():
        return
    mentions = setting_mentions(n.sentence, names)
    after = [m for m in mentions if n.at < m.first <= n.at + 3]
    between = n.words[n.at + 1 : after[0].first] if after else []
    if after and not set(between) & {",", "and", ";", "for", "with", "of", "(", ")"}:
        bound: Mention[str] | None = after[0]
    else:
        bound = bind(n.sentence, n.at, mentions)
    if bound is None or bound.value != own:
        said = f"the sentence says {bound.value}" if bound is not None else "say so"
        yield n.wrong(DefectCode.WRONG_STATISTIC, f"this is {own}: {said}")


def setting_mentions(
    sentence: Sentence, names: Mapping[tuple[str, ...], str]
) -> list[Mention[str]]:
    """Return the settings that a sentence names, by the stems of their words."""
    stems = [stem(word) for word in sentence.words]
    found: list[Mention[str]] = []
    taken: set[int] = set()
    for phrase in sorted(names, key=len, reverse=True):
        for first in range(len(stems) - len(phrase) + 1):
            span = set(range(first, first + len(phrase)))
            if tuple(stems[first : first + len(phrase)]) == phrase and not span & taken:
                taken |= span
                found.append(Mention(names[phrase], first, max(span)))
    return found


def _content(title: str) -> set[str]:
    skipped = {
        "no",
        "the",
        "a",
        "an",
        "of",
        "for",
        "without",
        "with",
        "as",
        "much",
        "to",
        "in",
        "and",
    }
    found = {stem(p) for w in title.lower().split() for p in w.split("-")}
    return {word for word in found if word not in skipped and len(word) > 1}
