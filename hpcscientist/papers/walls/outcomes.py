"""Checks what a sentence says of named ideas: their status, their rank, having no effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hpcscientist.papers.walls.finding import SentenceDefect, words
from hpcscientist.papers.walls.mentions import Vocabulary
from hpcscientist.papers.walls.sentences import Mention, Sentence
from hpcscientist.records.facts import BASELINE, Fact, FactIdea, FactSheet, Statistic
from hpcscientist.records.findings import Verdict
from hpcscientist.records.manuscript import DefectCode
from hpcscientist.records.trial import Direction, Split

_LARGEST = frozenset(words("largest biggest greatest highest strongest best top most-improved"))
_SMALLEST = frozenset(words("smallest lowest weakest worst least"))
_MOST = frozenset(
    ("most", word)
    for word in words("effective successful promising accurate beneficial helpful useful powerful")
)
_FIRST = frozenset(
    (verb, place)
    for verb in words("ranks ranked comes came is was finished placed")
    for place in ("first", "top", "best")
)
_OF_CHANGE = frozenset(
    words(
        "gain gains improvement improvements effect effects delta difference margin increase lead"
    )
)
_OF_FALL = frozenset(words("decline declines drop drops fall loss decrease harm damage"))
_OF_IDEA = frozenset(words("idea ideas method methods variant variants candidate approach change"))
_OF_LEVEL = frozenset(words("mean score value result"))
_NULL = frozenset(words("effect effects difference influence impact change"))
_NEGATIONS = frozenset(words("no not without nothing never"))
_STATUS: Mapping[str, frozenset[str]] = {
    "rejected": frozenset(words("rejected")),
    "failed": frozenset(words("failed crashed")),
    "scored": frozenset(words("scored measured evaluated")),
}
_KINDS: Mapping[str, frozenset[str]] = {
    "timeout": frozenset(words("timeout deadline time-limit")),
    "error": frozenset(words("error exception traceback")),
    "out_of_memory": frozenset(words("memory")),
    "bad_predictions": frozenset(words("malformed predictions")),
}
_TO_BE = frozenset(words("was were is are been has have had all also both and then"))


@dataclass(frozen=True, slots=True)
class OutcomeWall:
    """A check of statements about named ideas against their outcomes."""

    sheet: FactSheet
    vocabulary: Vocabulary

    def check(self, sentence: Sentence) -> Iterator[SentenceDefect]:
        """Yield the statements that contradict an idea's outcome."""
        ideas = [m for m in self.vocabulary.ideas(sentence) if m.value != BASELINE]
        yield from self._statuses(sentence, ideas)
        yield from self._superlatives(sentence, ideas)
        yield from self._no_effect(sentence, ideas)

    def _statuses(self, sentence: Sentence, ideas: list[Mention[str]]) -> Iterator[SentenceDefect]:
        for mention in ideas:
            idea = self.sheet.idea_by_id.get(mention.value)
            at = mention.last + 1
            while at < len(sentence.tokens) and sentence.words[at] in _TO_BE:
                at += 1
            if idea is None or mention.is_weak or at >= len(sentence.tokens):
                continue
            word = sentence.words[at]
            if sentence.words[at + 1 : at + 2] == ["to"]:  # "failed to improve"
                continue
            for status, said in _STATUS.items():
                if word in said and idea.status != status:
                    yield self._otherwise(idea, word)
            if word in _STATUS["failed"] and idea.failure is not None:
                yield from self._kind(sentence, idea, at)

    def _kind(self, sentence: Sentence, idea: FactIdea, at: int) -> Iterator[SentenceDefect]:
        near = set(sentence.words[at + 1 : at + 12])
        for kind, said in _KINDS.items():
            if near & said and idea.failure != kind:
                yield self._otherwise(idea, min(near & said))

    def _otherwise(self, idea: FactIdea, word: str) -> SentenceDefect:
        what = f"{idea.status} ({idea.failure})" if idea.failure else idea.status
        return SentenceDefect(DefectCode.CONTRADICTED, word, f"{idea.idea_id} was {what}")

    def _superlatives(
        self, sentence: Sentence, ideas: list[Mention[str]]
    ) -> Iterator[SentenceDefect]:
        for at, written in enumerate(sentence.words):
            pair = tuple(sentence.words[at : at + 2])
            word = "largest" if pair in _MOST | _FIRST else written
            if word not in _LARGEST | _SMALLEST:
                continue
            kind, place = ("change", at + 1) if pair in _FIRST else self._kind_of(sentence, at)
            if kind is None:
                continue
            subject = self._subject(sentence, at, ideas)
            if subject is None:
                continue
            ranked = self._ranked(sentence, at, kind)
            own = ranked.get(subject)
            if own is None:
                continue
            highest = (word in _LARGEST) == (kind != "fall")
            if kind == "level" and word in ("best", "worst") and self._minimised(sentence, at):
                highest = not highest
            choose: Callable[..., str] = max if highest else min
            right = choose(ranked, key=ranked.__getitem__)
            if ranked[right] != own:
                said = " ".join(token.text for token in sentence.tokens[at : place + 1])
                yield SentenceDefect(
                    DefectCode.CONTRADICTED, said, f"that is {right}, and not {subject}"
                )

    def _kind_of(self, sentence: Sentence, at: int) -> tuple[str | None, int]:
        """Return whether a superlative ranks a change, a fall or a level, and the noun's place.

        The first item is None for anything else.
        """
        metrics = self.vocabulary.metrics(sentence)
        for place in range(at + 1, min(len(sentence.tokens), at + 5)):
            word = sentence.words[place]
            if word in _OF_CHANGE or (word in _OF_IDEA):
                return "change", place
            if word in _OF_FALL and not any(m.first <= place <= m.last for m in metrics):
                return "fall", place
            if word in _OF_LEVEL or any(m.first <= place <= m.last for m in metrics):
                following = sentence.words[place + 1 : place + 2]
                if following and following[0] in _OF_CHANGE:
                    return "change", place + 1
                return "level", place
            if word in ("of", "seed", "seeds", "run", "runs"):
                is_idea = word == "of" and bool(
                    set(sentence.words[place + 1 : place + 4]) & (_OF_IDEA | {"all"})
                )
                return ("change", place) if is_idea else (None, place)
        return None, at

    def _subject(self, sentence: Sentence, at: int, ideas: list[Mention[str]]) -> str | None:
        named = [m.value for m in ideas if not m.is_comparand]
        numbers = [sentence.tokens[place].quantity for place in sentence.numbers]
        own = [
            q.parts[0].scope.idea
            for q in numbers
            if q is not None and q.parts and q.parts[0].scope.split is not None
        ]
        whose = dict.fromkeys([*named, *(idea for idea in own if idea not in (None, BASELINE))])
        return str(next(iter(whose))) if len(whose) == 1 else None

    def _metric(self, sentence: Sentence) -> str:
        named = [m.value for m in self.vocabulary.metrics(sentence)]
        return named[0] if named else self.sheet.metrics[0].name

    def _minimised(self, sentence: Sentence, at: int) -> bool:
        directions = {m.name: m.direction for m in self.sheet.metrics}
        return directions.get(self._metric(sentence)) is Direction.MINIMIZE

    def _ranked(self, sentence: Sentence, at: int, kind: str) -> dict[str, float]:
        """Return the ideas' values: changes, signed so that higher is better, or levels."""
        if not self.sheet.metrics:
            return {}
        metric = self._metric(sentence)
        named = [m.value for m in self.vocabulary.splits(sentence)]
        split = named[0] if named else Split.TEST
        statistic = Statistic.MEAN if kind == "level" else Statistic.DELTA
        sign = -1.0 if kind != "level" and self._minimised(sentence, at) else 1.0
        return {
            fact.scope.idea: sign * fact.value
            for fact in self.sheet.facts
            if fact.scope.idea not in (None, BASELINE) and _is(fact, metric, split, statistic)
            if fact.scope.idea is not None
        }

    def _no_effect(self, sentence: Sentence, ideas: list[Mention[str]]) -> Iterator[SentenceDefect]:
        """Check that "has no effect" is said only of ideas with a finding of maintenance."""
        for at, word in enumerate(sentence.words):
            near = sentence.words[max(0, at - 3) : at]
            denied = word in _NULL and near[-1:] in (["no"], ["any"]) and set(near) & _NEGATIONS
            alone = word in ("unaffected", "ineffective") or (
                word == "nothing" and sentence.words[at - 1 : at] in (["changes"], ["changed"])
            )
            if not (denied or alone):
                continue
            for mention in ideas:
                idea = self.sheet.idea_by_id.get(mention.value)
                if idea is None or mention.is_comparand or idea.verdict is None:
                    continue
                if idea.verdict is not Verdict.MAINTENANCE:
                    yield SentenceDefect(
                        DefectCode.CONTRADICTED,
                        f"{near[-1] if near else ''} {word}".strip(),
                        f"{idea.idea_id} came to {idea.verdict}",
                    )


def _is(fact: Fact, metric: str, split: Split, statistic: Statistic) -> bool:
    scope = fact.scope
    return (scope.metric, scope.split, scope.statistic, scope.run) == (
        *(metric, split, statistic),
        "main",
    )
