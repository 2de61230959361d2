"""Checks that counts match their sentence: which ideas, how many seeds, all or none of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hpcscientist.papers.walls.finding import SentenceDefect, words, write
from hpcscientist.papers.walls.sentences import Sentence
from hpcscientist.records.facts import Fact, FactKind, FactSheet, Statistic
from hpcscientist.records.manuscript import DefectCode

# The words of a sentence for the states of ideas and trials.
_STATES: dict[str, str] = {}
for _state, _said in (
    ("proposed", "proposed tried suggested generated considered explored ideas-in-all"),
    ("rejected", "rejected refused look-alikes look-alike duplicates discarded dismissed"),
    ("failed", "failed fail fails failing crashed broke failures failure"),
    ("scored", "scored measured evaluated completed finished"),
    ("improved", "improved improve improves improving improvement improvements gained beat better"),
    ("declined", "declined decline declines worsened worse harmed harmful hurt"),
    ("unchanged", "unchanged neutral maintained"),
    ("undecided", "undecided open"),
    ("confirmed", "confirmed replicated held survived"),
    ("unconfirmed", "unconfirmed refuted"),
    ("timeout", "timeout timeouts deadline time timed"),
    ("error", "error errors exception exceptions traceback tracebacks bug bugs"),
    ("out_of_memory", "memory"),
    ("bad_predictions", "predictions malformed"),
    ("tampering", "tampering tampered cheating"),
    ("unsaid", "run ran conducted executed"),
):
    for _word in words(_said):
        _STATES[_word] = _state
_TOTALS = frozenset({"proposed", "run", "written", "looks"})
_SAME = {"run": {"unsaid"}, "machine_failed": {"failed"}}
_NEGATED = {"confirmed": "unconfirmed", "scored": "failed", "improved": "unimproved"}
_NOUNS = {
    "ideas": "ideas", "idea": "ideas", "proposals": "ideas", "trials": "trials", "trial": "trials",
    "improvements": "improvements",
    "improvement": "improvements", "seeds": "seeds", "runs": "trials",
}  # fmt: skip
_ALL, _NONE = frozenset({"all", "every", "each"}), frozenset({"no", "none"})
_STOPS = frozenset({"while", "whereas", "but", ";"})


@dataclass(frozen=True, slots=True)
class CountWall:
    """A check of counts against what the sentence says they count."""

    sheet: FactSheet

    def check(self, sentence: Sentence) -> Iterator[SentenceDefect]:
        """Yield the defects of a sentence's counts."""
        for at in sentence.numbers:
            quantity = sentence.tokens[at].quantity
            assert quantity is not None
            if quantity.is_counted:
                yield from self._listed(sentence, at)
            elif quantity.fact.kind is FactKind.COUNT and quantity.fact.scope.of is not None:
                yield from self._state(sentence, at, quantity.fact)
            if quantity.fact.unit == "seeds":
                yield from self._seeds(sentence, at, quantity.fact)
            if quantity.fact.kind is FactKind.SIZE:
                yield from self._size(sentence, at, quantity.fact)
        yield from self._quantified(sentence)

    def _state(self, sentence: Sentence, at: int, fact: Fact) -> Iterator[SentenceDefect]:
        of = (fact.scope.of or "").split(".")
        said = self._said(sentence, at)
        is_denominator = self._is_denominator(sentence, at)
        if of[0] in _TOTALS and (is_denominator or not said):
            return
        accepted = {of[0], of[-1], *_SAME.get(of[0], ())}
        # "ideas that failed with an error": both words are of the same count.
        if len(of) > 1 and of[-1] not in said:
            yield self._wrong(sentence, at, f"this counts those that {' '.join(of)}: say so")
        elif len(of) == 1 and said & _KINDS and of[0] == "failed":
            kind = min(said & _KINDS)
            right = self.sheet.by_id.get(f"campaign.ideas.failed.{kind}")
            yield self._wrong(sentence, at, write(right, f"this counts all that {of[0]}"))
        elif said and not said & accepted:
            state = min(said)
            right = self.sheet.by_id.get(f"campaign.{fact.unit}.{state}")
            yield self._wrong(
                sentence, at, f"this counts those that {of[0]}: {write(right, f'say {of[0]}')}"
            )
        elif (not said and of[0] not in _TOTALS) or (
            is_denominator
            and of[0] not in _TOTALS
            and not self._has_own_state(sentence, at, accepted)
        ):
            yield self._wrong(sentence, at, f"say that this counts those that {of[0]}")

    def _said(self, sentence: Sentence, at: int) -> set[str]:
        """Return the states that a sentence gives for a count: after it, else before it."""
        if at and (verb := _STATES.get(sentence.words[at - 1])) and verb != "unsaid":
            kinds = self._after(sentence, at) & _KINDS
            return {verb, *kinds}  # "we rejected {n} ideas"
        after, before = self._after(sentence, at), self._before(sentence, at)
        return after or before

    def _after(self, sentence: Sentence, at: int) -> set[str]:
        found: set[str] = set()
        tokens = sentence.tokens
        negated = False
        for place in range(at + 1, len(tokens)):
            word = tokens[place].word
            if tokens[place].quantity is not None and not self._passes(sentence, at, place):
                break
            if word in _STOPS or (word == "and" and found):
                break
            negated = negated or word in ("not", "never", "without")
            state = _STATES.get(word)
            if state and self._is_denominator(sentence, at) and found:
                break  # "of {m} ideas proposed, {n} were …": the verb belongs to the numerator
            if state and not (state == "unsaid" and found):
                found.add(_NEGATED.get(state, state) if negated else state)
        return found

    def _passes(self, sentence: Sentence, at: int, place: int) -> bool:
        """Return whether a number is the denominator of the one before it: "{n} of {m} ideas"."""
        return (
            sentence.words[place - 1] in ("of", "the", "all")
            and "of" in sentence.words[at + 1 : place]
        )

    def _before(self, sentence: Sentence, at: int) -> set[str]:
        found: set[str] = set()
        for place in range(at - 1, -1, -1):
            word = sentence.tokens[place].word
            if word in _STOPS or sentence.tokens[place].quantity is not None:
                break
            if word in _STATES:
                found.add(_STATES[word])
        return found

    def _is_denominator(self, sentence: Sentence, at: int) -> bool:
        before = [w for w in sentence.words[max(0, at - 3) : at] if w not in ("the", "all")]
        return before[-1:] == ["of"]

    def _has_own_state(self, sentence: Sentence, at: int, accepted: set[str]) -> bool:
        """Return whether the denominator's noun phrase has its state: "of {m} scored ideas"."""
        near = sentence.words[at + 1 : at + 4]
        return any(_STATES.get(word) in accepted for word in near)

    def _listed(self, sentence: Sentence, at: int) -> Iterator[SentenceDefect]:
        """Check a count of listed ideas against the state of each listed idea."""
        quantity = sentence.tokens[at].quantity
        assert quantity is not None
        said = self._said(sentence, at)
        for part in quantity.parts:
            idea = self.sheet.idea_by_id.get(part.scope.idea or "")
            if idea is None:
                continue
            right = {
                "confirmed": idea.confirmed is True,
                "improved": idea.verdict == "improvement",
                "declined": idea.verdict == "decline",
                "failed": idea.status == "failed",
                "rejected": idea.status == "rejected",
                "scored": idea.status == "scored",
            }
            for state in sorted(said & right.keys()):
                if not right[state]:
                    yield self._wrong(sentence, at, f"{idea.idea_id} is not {state}")

    def _seeds(self, sentence: Sentence, at: int, fact: Fact) -> Iterator[SentenceDefect]:
        """Check a number of seeds against the seeds of the measurement in the same clause."""
        first, last = sentence.clause(at)
        beside = [
            other
            for place in sentence.numbers
            if place != at and first <= place < last
            for other in [sentence.tokens[place].quantity]
            if other is not None and other.fact.scope.split is not None
            if other.fact.scope.statistic is not Statistic.N
        ]
        for other in beside[-1:]:
            scope = other.parts[0].scope
            ran = [
                n
                for n in self.sheet.facts
                if n.scope.statistic is Statistic.N
                and (n.scope.idea, n.scope.attempt, n.scope.split, n.scope.metric)
                == (scope.idea, scope.attempt, scope.split, scope.metric)
            ]
            if ran and all(n.value != fact.value for n in ran):
                yield self._wrong(sentence, at, write(ran[0], ""))

    def _size(self, sentence: Sentence, at: int, fact: Fact) -> Iterator[SentenceDefect]:
        """Check a data size against the part of the data that the sentence names."""
        own = fact.scope.of or ""
        parts = {f.scope.of or "": f for f in self.sheet.facts if f.kind is FactKind.SIZE}
        named = {_PARTS.get(word, word): place for place, word in enumerate(sentence.words)}
        said = [(place, part) for part, place in named.items() if part in parts]
        earlier = [part for place, part in sorted(said) if place < at]
        others = [place for place in sentence.numbers if place > at]
        until = min([at + 5, *others])
        after = [part for place, part in sorted(said) if at < place < until]
        bound = after[:1] or earlier[-1:]
        if bound and bound[0] != own and own in parts:
            yield self._wrong(sentence, at, write(parts[bound[0]], ""))

    def _quantified(self, sentence: Sentence) -> Iterator[SentenceDefect]:
        """Check "all ideas were scored" and "no trial failed" against the counts."""
        for at, word in enumerate(sentence.words):
            if word not in _ALL | _NONE:
                continue
            nouns = [
                (p, w) for p, w in enumerate(sentence.words[at + 1 : at + 5], at + 1) if w in _NOUNS
            ]
            if not nouns or any(sentence.tokens[p].quantity for p in range(at, nouns[0][0])):
                continue
            place, noun = nouns[0]
            unit = _NOUNS[noun]
            after = sentence.words[place + 1 : place + 7]
            ends = [p for p, w in enumerate(after) if w in (",", ";", "that", "which", "those")]
            states = [_STATES[w] for w in after[: min(ends, default=6)] if w in _STATES]
            # "Every idea is scored on …" describes the method, not a count.
            if not states or {"is", "are"} & set(after[:2]):
                continue
            yield from self._held(sentence, at, place, word in _NONE, unit, states[0])

    def _held(
        self, sentence: Sentence, at: int, place: int, none: bool, unit: str, state: str
    ) -> Iterator[SentenceDefect]:
        total_of = {"ideas": "campaign.ideas.proposed", "trials": "campaign.trials.run",
                    "improvements": "campaign.ideas.improved"}  # fmt: skip
        of = "ideas" if unit == "improvements" else unit
        counted = self.sheet.by_id.get(f"campaign.{of}.{state}")
        total = self.sheet.by_id.get(total_of.get(unit, ""))
        if counted is None or total is None:
            return
        wanted = 0.0 if none else total.value
        if counted.value != wanted:
            text = " ".join(token.text for token in sentence.tokens[at : place + 1])
            yield SentenceDefect(DefectCode.WRONG_COUNT, text, write(counted, ""))

    def _wrong(self, sentence: Sentence, at: int, fix: str) -> SentenceDefect:
        ref = sentence.tokens[at].ref
        return SentenceDefect(DefectCode.WRONG_COUNT, str(ref.part) if ref else "", fix)


_KINDS = frozenset({"timeout", "error", "out_of_memory", "bad_predictions", "tampering"})
_PARTS = {"training": "train", "tests": "test", "development": "validation"}
