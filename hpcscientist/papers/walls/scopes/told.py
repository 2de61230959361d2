"""What a sentence mentions, and a number in it: the input of the checks of this folder."""

from __future__ import annotations

from hpcscientist.papers.formulas import Quantity
from hpcscientist.papers.walls.finding import SentenceDefect
from hpcscientist.papers.walls.mentions import Vocabulary
from hpcscientist.papers.walls.sentences import Flat, Sentence, sentences
from hpcscientist.records.facts import BASELINE, Fact, FactSheet
from hpcscientist.records.manuscript import DefectCode
from hpcscientist.records.trial import Split


class SentenceContext:
    """What a sentence mentions, and what the sentences before it and the section title mention."""

    def __init__(self, sheet: FactSheet, vocabulary: Vocabulary, sentence: Sentence) -> None:
        self.sheet, self.sentence = sheet, sentence
        self.ideas = vocabulary.ideas(sentence)
        self.splits = vocabulary.splits(sentence)
        self.metrics = vocabulary.metrics(sentence)
        self.statistics = vocabulary.statistics(sentence)
        self.ours = vocabulary.ours
        self.settings = vocabulary.settings
        self.earlier_ideas: list[str] = []
        self.earlier_splits: list[Split] = []
        self.earlier_metrics: list[str] = []
        before = sentence.before
        while before is not None:
            if not self.earlier_ideas:
                named = vocabulary.ideas(before)
                own = [m.value for m in named if m.value != BASELINE]
                self.earlier_ideas = own or [m.value for m in named]
            if not self.earlier_splits:
                self.earlier_splits = [m.value for m in vocabulary.splits(before)]
            if not self.earlier_metrics:
                self.earlier_metrics = [m.value for m in vocabulary.metrics(before)]
            before = before.before
        context = context_sentence(sentence.context)
        self.context_splits = [m.value for m in vocabulary.splits(context)] if context else []
        self.context_ideas = [m.value for m in vocabulary.ideas(context)] if context else []


def context_sentence(context: str) -> Sentence | None:
    """Return a section's title as a sentence."""

    found = sentences(Flat(context, ()))
    return found[0] if found else None


class NumberInSentence:
    """One number in its sentence."""

    def __init__(self, reading: SentenceContext, at: int) -> None:
        self.reading, self.at, self.sentence = reading, at, reading.sentence
        token = reading.sentence.tokens[at]
        assert token.quantity is not None
        assert token.ref is not None
        self.quantity: Quantity = token.quantity
        self.written = str(token.ref.part)
        self.words = reading.sentence.words

    @property
    def fact(self) -> Fact:
        """The fact that is printed."""
        return self.quantity.fact

    def wrong(self, code: DefectCode, fix: str) -> SentenceDefect:
        """Return a defect of this number."""
        return SentenceDefect(code, self.written, fix)
