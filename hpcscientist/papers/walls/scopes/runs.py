"""Checks the run that a number belongs to (main run or ablation), and its hyperparameter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hpcscientist.papers.walls.finding import SentenceDefect, stem, words, write
from hpcscientist.papers.walls.mentions import setting_name
from hpcscientist.papers.walls.scopes.directions import COSTS
from hpcscientist.papers.walls.scopes.told import NumberInSentence
from hpcscientist.papers.walls.sentences import Mention, Sentence, SentenceToken, bind
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
_KINDS: dict[str, str] = {
    "ablation": "ablation",
    "ablations": "ablation",
    "sensitivity": "sensitivity",
    "follow-up": "follow-up",
}
_WITHOUT = frozenset({"without", "minus", "excluding", "leaving", "left", "dropped", "removed"})
_LEADS = frozenset({"with", "at", "under", "no", "using"})


def run(n: NumberInSentence) -> Iterator[SentenceDefect]:
    """Check the run of a number against the run that its clause is about."""
    further = [p for p in n.quantity.parts if p.scope.run not in (None, "main")]
    spoken = _Spoken(n)
    if further:
        yield from _further(n, further, spoken)
        return
    own = n.quantity.parts[0]
    is_main = own.scope.run == "main" and own.scope.idea != BASELINE
    if is_main and own.kind is not FactKind.HYPERPARAMETER and spoken.is_of_further_run:
        yield _run_wrong(n, min(spoken.named, default=None))


def _further(
    n: NumberInSentence, further: Sequence[Fact], spoken: _Spoken
) -> Iterator[SentenceDefect]:
    right = further[0].scope
    attempts = {fact.scope.attempt for fact in further}
    idea = n.reading.sheet.idea_by_id.get(right.idea or "")
    title = idea.parts.get(right.attempt or 0, "") if idea is not None else ""
    if spoken.named:
        if not spoken.named & attempts:
            yield _run_wrong(n, min(spoken.named))
    elif spoken.kinds and right.run not in spoken.kinds:
        yield _run_wrong(n, None)
    elif not spoken.kinds and not spoken.ablates:
        yield n.wrong(DefectCode.WRONG_RUN, f"this is of the {right.run} run {title!r}: say so")


class _Spoken:
    """The further runs of the number's idea that its clause mentions.

    `kinds` are the kinds of run that it names, `named` the attempts whose title words it uses, and
    `ablates` says whether it leaves something out.
    """

    def __init__(self, n: NumberInSentence) -> None:
        self._n = n
        first, last = n.sentence.clause(n.at)
        self._clause = n.words[first:last]
        self._stems = [{stem(p) for p in (*w.split("-"), w)} for w in self._clause]
        self.kinds = {_KINDS[word] for word in self._clause if word in _KINDS}
        self.ablates = any(
            (word in _ABLATES and word not in _WITHOUT)
            or (word in _WITHOUT | COSTS and self._leaves_out(at))
            for at, word in enumerate(self._clause)
        )
        self.named = self._named()
        self._beside = [
            at
            for at in n.sentence.numbers
            if at != n.at and first <= at < last and _is_further(n.sentence.tokens[at])
        ]

    @property
    def is_of_further_run(self) -> bool:
        """Return whether the clause is only about a further run, not about the idea beside it."""
        told = self.ablates or bool(self.kinds) or (bool(self.named) and self._is_led_to())
        return told and not self._beside

    def _parts(self) -> dict[int, tuple[set[str], bool]]:
        """Return each further run's distinctive stems, and whether the idea's title lacks them.

        "Half as much momentum" of the momentum idea is recognised by "half". "No warm-up" of the
        warm-up idea is recognised only by the word that leaves it out.
        """
        idea = self._n.reading.sheet.idea_by_id.get(self._n.quantity.parts[0].scope.idea or "")
        if idea is None:
            return {}
        whole = _content(idea.title)
        told = {attempt: _content(title) for attempt, title in idea.parts.items()}
        return {a: (part - whole or part, bool(part - whole)) for a, part in told.items()}

    def _named(self) -> set[int]:
        said = set[str]().union(*self._stems)
        shares = {
            attempt: len(part & said) / len(part)
            for attempt, (part, is_own) in self._parts().items()
            if part and (is_own or self.ablates or "no" in self._clause)
        }
        most = max(shares.values(), default=0.0)
        return {a for a, share in shares.items() if share == most} if most >= 0.5 else set()

    def _leaves_out(self, at: int) -> bool:
        """Return whether the part that an ablation leaves out is named near a word.

        It may follow "without", or precede "left out" or "accounts for".
        """
        said = set[str]().union(*self._stems[max(0, at - 5) : at + 6])
        return any(said & part for part, _ in self._parts().values()) or any(
            said & _content(title)
            for idea in self._n.reading.sheet.ideas
            for title in idea.parts.values()
        )

    def _is_led_to(self) -> bool:
        """Return whether a run's title words follow "with" or "at", or its whole title appears."""
        wanted = {word for attempt in self.named for word in self._parts()[attempt][0]}
        for at, stems in enumerate(self._stems):
            if stems & wanted and _LEADS & set(self._clause[max(0, at - 3) : at]):
                return True
        idea = self._n.reading.sheet.idea_by_id.get(self._n.quantity.parts[0].scope.idea or "")
        said = " ".join(self._clause)
        return idea is not None and any(title.lower() in said for title in idea.parts.values())


def _is_further(token: SentenceToken) -> bool:
    parts = token.quantity.parts if token.quantity is not None else ()
    return any(part.scope.run not in (None, "main") for part in parts)


def _run_wrong(n: NumberInSentence, attempt: int | None) -> SentenceDefect:
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


def named_setting(n: NumberInSentence) -> Iterator[SentenceDefect]:
    """Check that a hyperparameter is named: LEARNING_RATE is "the learning rate"."""
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
    """Return the mentions of settings in a sentence, matched by stems."""
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
