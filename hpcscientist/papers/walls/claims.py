"""Checks claims against the evidence: words of success need a confirmed claim of their scope.

The words of the sentence decide which idea is said to succeed, on which split, in which metric and
against what. A denied, asked or expected success is no claim. Denying a confirmed success is a
defect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from hpcscientist.papers.walls.finding import SentenceDefect, words
from hpcscientist.papers.walls.mentions import Vocabulary
from hpcscientist.papers.walls.sentences import Mention, Sentence
from hpcscientist.records.facts import BASELINE, FactIdea, FactKind, FactSheet
from hpcscientist.records.findings import Verdict
from hpcscientist.records.manuscript import DefectCode
from hpcscientist.records.trial import Split

Claim = Literal["success", "harm", "significance", "robust", "confirmed"]

_SUCCESS = frozenset(
    words(
        """
        improve improves improved improving improvement improvements outperform outperforms
        outperformed outperforming better beat beats beaten surpass surpasses surpassed superior
        superiority win wins winning succeed succeeds succeeded success successful successfully
        effective effectively effectiveness benefit benefits beneficial help helps helped helpful
        helping boost boosts boosted boosting advantage advantageous works worked promising excels
        excel reliable reliably consistent consistently substantial substantially considerable
        considerably dramatic dramatically remarkable remarkably impressive notable notably
        noticeable noticeably clear clearly marked markedly convincingly convincing strong strongly
        overtakes outshines dominates dominate tops exceeds exceed enhances enhance enhanced
        stronger replicates replicated reproducible reproducibly credible genuine
        """
    )
)
# These strengthen a claim but make none alone: "clearly written", "strong weight decay".
_ADVERBS = frozenset(
    words(
        """
        reliable reliably consistent consistently substantial substantially considerable
        considerably dramatic dramatically remarkable remarkably impressive notable notably
        noticeable noticeably clear clearly marked markedly convincing convincingly strong strongly
        stronger works worked credible genuine exceed exceeds tops
        """
    )
)
_EFFECT = frozenset(
    words(
        """
        gain gains gained effect effects raises raise raised rises increase increases increased lift
        lifts improvement improvements improve improves improved better outperforms beats difference
        change reduces reduced reduce lowers lowered lower higher advantage result results works
        boost boosts benefit lead margin
        """
    )
)
_HARM = frozenset(
    words(
        """
        worse worsen worsens worsened degrade degrades degraded hurt hurts harm harms harmed harmful
        damages damaging inferior detrimental
        """
    )
)
_SIGNIFICANT = frozenset(words("significant significantly significance"))
_ROBUST = frozenset(words("robust robustly robustness stable insensitive"))
_CONFIRMED = frozenset(words("confirmed confirms confirm confirming holds survives survived"))
_TERMS = frozenset(words("level levels test tests digit digits"))  # "significance level"
_KINDS: tuple[tuple[Claim, frozenset[str]], ...] = (
    ("robust", _ROBUST),
    ("confirmed", _CONFIRMED),
    ("harm", _HARM),
)
_NEGATIONS = frozenset(
    words(
        "not no never neither nor without fails failed fail cannot didn't doesn't isn't n't hardly"
    )
)
_HEDGES = frozenset(
    words(
        """
        whether if hypothesis hypothesise hypothesize hypothesised hypothesized expect expected
        expects may might could would should aim aims aimed intended intend hope hoped designed
        supposed question questions ask asks asked wanted meant proposed proposes claim claims
        believed argue argued suppose assume assumed ought
        """
    )
)
_ONE_RECIPE = "one recipe was run"
# Claims that no campaign can support, and why.
_BEYOND = (
    (
        r"\bstate[- ]of[- ]the[- ]art\b|\bsota\b|\bhuman[- ]level\b|\bsuperhuman\b|\boptimal\b"
        r"|\bbest (?:\w+ ){0,3}(?:in the literature|to date|anywhere|available)\b"
        r"|\bbest (?:known|possible|published|ever)\b|\bbest[- ]in[- ]class\b|\bleading method"
        r"|\bunmatched\b|\bunrivall?ed\b|\bunbeaten\b|\bperfect(?:ly)?\b|\bflawless(?:ly)?\b"
        r"|\bworld[- ]class\b|\brecord[- ](?:breaking|setting)\b|\ba new record\b"
        r"|\bcutting[- ]edge\b",
        "a campaign knows one setup, and not all others",
    ),
    (
        r"\bfirst (?:method|approach|model|work|study|system|result|time|demonstration"
        r"|to)\b|\b(?:is|are|was|were|be) the first\b|\bfirst of its kind\b|\bunprecedented\b"
        r"|\bnovel\b|\bbreakthrough\b|\bnever (?:been|before)\b|\bgroundbreaking\b",
        "nobody searched all that others did",
    ),
    (
        r"\bprov(?:e|es|ed|en|ing)\b|\bguarantee[sd]?\b|\bproof that\b",
        "trials prove nothing for sure",
    ),
    (
        r"\balways (?:improve|better|help|outperform|win|work|beat|gain)"
        r"|\bin (?:all|every) cases?\b"
        r"|\b(?:all|any|every|other|many|most|various|different|multiple) "
        r"(?:data ?sets?|tasks?|domains?|architectures?|benchmarks?|settings)\b"
        r"|\bacross (?:data ?sets|tasks|domains|architectures|benchmarks|models)\b"
        r"|\buniversal(?:ly)?\b|\bin general\b|\bgenerali[sz](?:e|es|ed|ing|ation)\b",
        _ONE_RECIPE,
    ),
)
_OURS = frozenset(words("we our ours us campaign search baseline reference idea ideas experiments"))
_EACH_SEED = re.compile(r"\b(?:all|every|each) (?:of (?:the|its) )?(?:single )?seeds?\b")
_WHATEVER = frozenset({"what", "whatever", "anything", "whichever", "whoever"})
_OTHERS = re.compile(
    r"\b(?:all|any|every|existing|previous|prior|competing|published|earlier|other|known)"
    r" (?:\w+ )?(?:methods?|systems?|approaches|models?|results?|techniques?|algorithms?|work)\b"
)
_REPORTS = frozenset(
    words("find found see saw observe observed show shown conclude claim claims say prove believe")
)
_QUANTIFIED = frozenset({"all", "every", "each", "both"})
_ORDER = {Split.VALIDATION: "validation", Split.TEST: "test"}


@dataclass(frozen=True, slots=True)
class ClaimWall:
    """A check of words of success against the findings and confirmations."""

    sheet: FactSheet
    vocabulary: Vocabulary

    def check(self, sentence: Sentence) -> Iterator[SentenceDefect]:
        """Yield the claims of a sentence that the evidence does not support."""
        ideas = self.vocabulary.ideas(sentence)
        if self._is_about_others(sentence, ideas):
            return
        yield from self._beyond(sentence)
        said: set[tuple[str, str]] = set()
        for at, word in enumerate(sentence.words):
            claim = self._claim(sentence, at, word)
            if claim is None or self._is_hedged(sentence, at):
                continue
            for found in self._judge(sentence, at, claim, ideas):
                if (found.code, found.fix) not in said:
                    said.add((found.code, found.fix))
                    yield found

    def _is_about_others(self, sentence: Sentence, ideas: Sequence[Mention[str]]) -> bool:
        """Return whether a sentence is only about a cited paper; `citations` checks that."""
        if not sentence.citations or sentence.numbers:
            return False
        own = any(
            mention.value.startswith("idea-") for mention in ideas if self._is_id(sentence, mention)
        )
        return not own and not set(sentence.words) & _OURS

    def _is_id(self, sentence: Sentence, mention: Mention[str]) -> bool:
        return sentence.words[mention.first] == mention.value

    def _beyond(self, sentence: Sentence) -> Iterator[SentenceDefect]:
        text = " ".join(sentence.words)
        for pattern, why in _BEYOND:
            for match in re.finditer(pattern, text):
                at = text[: match.start()].count(" ")
                first, last = sentence.clause(at)
                denied = self._is_negated(sentence, at) or (
                    why == _ONE_RECIPE and set(sentence.words[first:last]) & _NEGATIONS
                )
                if not self._is_hedged(sentence, at, purpose=False) and not denied:
                    yield SentenceDefect(
                        DefectCode.BEYOND_EVIDENCE, match[0], f"leave it out: {why}"
                    )

    def _claim(self, sentence: Sentence, at: int, word: str) -> Claim | None:
        """Return the kind of claim that a word makes; None for other words and parts of names."""
        if any(m.first <= at <= m.last for m in self.vocabulary.ideas(sentence)):
            return None
        if word in _SIGNIFICANT:
            following = sentence.words[at + 1 : at + 2]
            return None if following and following[0] in _TERMS else "significance"
        for kind, said in _KINDS:
            if word in said:
                return kind
        if word not in _ADVERBS:
            return "success" if word in _SUCCESS else None
        first, last = sentence.clause(at)
        near = set(sentence.words[max(first, at - 3) : min(last, at + 4)])
        return "success" if near & (_EFFECT | (_SUCCESS - _ADVERBS)) else None

    def _is_hedged(self, sentence: Sentence, at: int, *, purpose: bool = True) -> bool:
        """Return whether the claim is asked, expected or intended instead of asserted."""
        first, _ = sentence.clause(at)
        before = sentence.words[first:at]
        if set(before) & _HEDGES:
            return True
        if set(before) & {"not", "never", "cannot", "no"} and set(before) & _REPORTS:
            return True  # "we cannot claim that …", "we do not find that …"
        if not purpose:
            return False
        after = sentence.words[at + 1 : at + 4]
        if after[:1] in (["must"], ["needs"], ["requires"], ["means"], ["counts"]) or after[:2] in (
            ["has", "to"],
            ["have", "to"],
        ):
            return True  # a rule: "an improvement has to exceed …"
        # "to improve accuracy, we …": an intention
        return before[-1:] == ["to"] and before[-2:-1] not in (
            ["failed"],
            ["fails"],
            ["fail"],
            ["able"],
            ["manages"],
            ["managed"],
            ["shown"],
            ["found"],
            ["seen"],
            ["proved"],
            ["continues"],
        )

    def _is_negated(self, sentence: Sentence, at: int) -> bool:
        first, _ = sentence.clause(at)
        near = sentence.words[max(first, at - 5) : at]
        return bool(set(near) & _NEGATIONS) or "n't" in "".join(near)

    def _judge(
        self, sentence: Sentence, at: int, claim: Claim, ideas: Sequence[Mention[str]]
    ) -> Iterator[SentenceDefect]:
        word = sentence.tokens[at].text
        beaten = self._beaten_by_baseline(sentence, at, ideas)
        if beaten and claim in ("success", "significance"):
            for other in filter(None, map(self.sheet.idea_by_id.get, beaten)):
                if other.verdict is not Verdict.DECLINE and not self._is_negated(sentence, at):
                    yield self._unconfirmed(other, word, "was not found to decline")
            return
        subjects = self._subjects(sentence, at, ideas)
        if self._is_count(sentence, at):
            return
        negated = self._is_negated(sentence, at)
        split = self._split(sentence, at)
        if not subjects:
            yield from self._of_nobody(sentence, at, word, negated)
            return
        for subject in subjects:
            idea = self.sheet.idea_by_id.get(subject)
            if idea is None or subject == BASELINE:
                continue
            if negated:
                yield from self._denied(idea, word, claim, split)
                continue
            yield from self._held(sentence, at, idea, word, claim, split)
        if not negated and claim in ("success", "significance"):
            yield from self._against(sentence, at, word, ideas, subjects)

    def _beaten_by_baseline(
        self, sentence: Sentence, at: int, ideas: Sequence[Mention[str]]
    ) -> list[str]:
        """Return the ideas that the sentence says the baseline is better than."""
        first, last = sentence.clause(at)
        inside = [m for m in ideas if first <= m.first < last]
        earlier = [m for m in inside if not m.is_comparand and m.first < at]
        if not earlier or earlier[-1].value != BASELINE:
            return []
        return [m.value for m in inside if m.is_comparand and m.first > at and m.value != BASELINE]

    def _is_count(self, sentence: Sentence, at: int) -> bool:
        """Return whether the word says what a count counts: "{n} ideas improved"."""
        first, last = sentence.clause(at)
        return any(
            quantity.fact.kind is FactKind.COUNT and quantity.fact.unit in ("ideas", "looks")
            for place in sentence.numbers
            if first <= place < last
            for quantity in [sentence.tokens[place].quantity]
            if quantity is not None
        )

    def _subjects(
        self, sentence: Sentence, at: int, ideas: Sequence[Mention[str]]
    ) -> tuple[str, ...]:
        """Return the ideas that the claim is about."""
        first, last = sentence.clause(at)
        named = [m for m in ideas if not m.is_comparand and m.value != BASELINE]
        earlier = [m for m in named if first <= m.first < at]
        own = earlier or [m for m in named if at < m.first < last]
        own = own or [m for m in named if m.first < at][-1:] or named[:1]
        if own:
            return tuple(dict.fromkeys(m.value for m in self._coordinated(sentence, own, at)))
        if any(m.value != BASELINE for m in ideas):
            return ()
        if "ideas" in sentence.words and set(sentence.words) & _QUANTIFIED:
            scored = [i.idea_id for i in self.sheet.ideas if i.status == "scored"]
            return tuple(scored)
        before = sentence.before
        while before is not None and "ideas" not in sentence.words:
            known = [m.value for m in self.vocabulary.ideas(before) if m.value != BASELINE]
            if known:
                return tuple(dict.fromkeys(known[-1:]))
            before = before.before
        return (self.vocabulary.ours,) if self.vocabulary.ours else ()

    def _coordinated(
        self, sentence: Sentence, own: Sequence[Mention[str]], at: int
    ) -> Sequence[Mention[str]]:
        """Return the last mention before a word, and those that "and" or a comma joins to it."""
        before = [m for m in own if m.last < at]
        if not before:
            return own[:1] if len(own) == 1 else own
        chosen = [before[-1]]
        for mention in reversed(before[:-1]):
            between = sentence.words[mention.last + 1 : chosen[0].first]
            if all(w in _JOINS for w in between):
                chosen.insert(0, mention)
            else:
                break
        return chosen

    def _split(self, sentence: Sentence, at: int) -> Split:
        """Return the split that a claim is about; the test split if none is named."""
        splits = [m for m in self.vocabulary.splits(sentence) if not m.is_weak]
        first, last = sentence.clause(at)
        inside = [m for m in splits if first <= m.first < last] or splits
        if inside:
            nearest = min(inside, key=lambda m: abs(m.first - at))
            return nearest.value
        before = sentence.before
        while before is not None:
            known = [m.value for m in self.vocabulary.splits(before) if not m.is_weak]
            if known:
                return known[-1]
            before = before.before
        if "validation" in sentence.context.lower():
            return Split.VALIDATION
        return Split.TEST

    def _of_nobody(
        self, sentence: Sentence, at: int, word: str, negated: bool
    ) -> Iterator[SentenceDefect]:
        """Yield a defect for a word of success without an idea as its subject."""
        if self._are_all(sentence, at) or set(sentence.words[max(0, at - 2) : at]) & _WHATEVER:
            return  # "what improves on validation is run again": a rule, or a heading
        if not negated and not sentence.citations:
            fix = "name the idea that was confirmed to do so, or leave it out"
            yield SentenceDefect(DefectCode.UNCONFIRMED, word, fix)

    def _are_all(self, sentence: Sentence, at: int) -> bool:
        """Return whether it is about "confirmed ideas", or improvements that all were confirmed."""
        following = sentence.words[at + 1 : at + 2]
        if sentence.words[at] == "confirmed" and following and following[0] in _THINGS:
            return True
        improved = [i for i in self.sheet.ideas if i.verdict is Verdict.IMPROVEMENT]
        all_hold = bool(improved) and all(idea.confirmed is True for idea in improved)
        start = [w for w in sentence.words[:3] if w not in ("all", "the", "these", "every", "each")]
        return all_hold and start[:1] in (["improvements"], ["improvement"], ["gains"])

    def _denied(
        self, idea: FactIdea, word: str, claim: Claim, split: Split
    ) -> Iterator[SentenceDefect]:
        holds = idea.confirmed is True or (
            split is Split.VALIDATION and idea.verdict is Verdict.IMPROVEMENT
        )
        if claim == "harm":
            return
        if holds and claim in ("success", "significance", "confirmed"):
            yield SentenceDefect(
                DefectCode.BEYOND_EVIDENCE,
                f"not … {word}",
                f"{idea.idea_id} was {'confirmed' if idea.confirmed else 'found'} to improve",
            )

    def _held(
        self,
        sentence: Sentence,
        at: int,
        idea: FactIdea,
        word: str,
        claim: Claim,
        split: Split,
    ) -> Iterator[SentenceDefect]:
        harm = claim == "harm" or (
            claim == "significance" and bool(set(sentence.words) & (_HARM | _LOSSES))
        )
        if harm:
            if idea.verdict is not Verdict.DECLINE:
                yield self._unconfirmed(idea, word, "was not found to decline")
            return
        metric = self._secondary(sentence, at)
        if metric is not None and claim in ("success", "significance", "robust"):
            primary = self.sheet.metrics[0].name
            yield self._unconfirmed(
                idea, word, f"is judged by {primary}, and {metric} was never tested"
            )
            return
        if claim == "robust":
            if not (idea.confirmed and self._was_varied(idea)):
                yield self._unconfirmed(idea, word, "has no runs that vary it, or is not confirmed")
            return
        if claim == "confirmed" or split is Split.TEST:
            if idea.confirmed is not True:
                yield self._unconfirmed(idea, word, _status(idea))
        elif idea.verdict is not Verdict.IMPROVEMENT:
            yield self._unconfirmed(idea, word, _status(idea))

    def _secondary(self, sentence: Sentence, at: int) -> str | None:
        """Return the metric that a claim is about, unless it is the primary metric."""
        metrics = self.vocabulary.metrics(sentence)
        if not metrics or not self.sheet.metrics:
            return None
        first, last = sentence.clause(at)
        inside = [m for m in metrics if first <= m.first < last]
        if not inside:
            return None
        nearest = min(inside, key=lambda m: abs(m.first - at))
        return None if nearest.value == self.sheet.metrics[0].name else nearest.value

    def _was_varied(self, idea: FactIdea) -> bool:
        return any(
            fact.scope.idea == idea.idea_id and fact.scope.run == "sensitivity"
            for fact in self.sheet.facts
        )

    def _against(
        self,
        sentence: Sentence,
        at: int,
        word: str,
        ideas: Sequence[Mention[str]],
        subjects: Sequence[str],
    ) -> Iterator[SentenceDefect]:
        """Yield comparisons that were not made: each idea is compared with the baseline only."""
        first, last = sentence.clause(at)
        if seeds := _EACH_SEED.search(" ".join(sentence.words[first:last])):
            fix = "leave it out, or tell the worst seed: means were compared"
            yield SentenceDefect(DefectCode.BEYOND_EVIDENCE, seeds[0], fix)
        if others := _OTHERS.search(" ".join(sentence.words[first:last])):
            fix = "leave it out: ideas are compared with the baseline alone"
            yield SentenceDefect(DefectCode.BEYOND_EVIDENCE, others[0], fix)
        for mention in ideas:
            other = mention.value
            if mention.is_comparand and other != BASELINE and first <= mention.first < last:
                yield SentenceDefect(
                    DefectCode.BEYOND_EVIDENCE,
                    f"{word} … {other}",
                    f"{' and '.join(subjects)} and {other} were each compared with the baseline, "
                    "and not with each other",
                )

    def _unconfirmed(self, idea: FactIdea, word: str, why: str) -> SentenceDefect:
        return SentenceDefect(
            DefectCode.UNCONFIRMED, word, f"{idea.idea_id} {why}: leave {word!r} out"
        )


_THINGS = frozenset(
    words(
        "idea ideas improvement improvements gain gains claim claims effect effects finding "
        "findings"
    )
)
_JOINS = frozenset({"and", ",", "the", "both", "as", "well", "or"})
_LOSSES = frozenset(words("worse worsens declines decline declined degrades harms hurts"))


def _status(idea: FactIdea) -> str:
    if idea.status != "scored":
        return f"was {idea.status}, and has no result"
    if idea.verdict is None:
        return "came to no finding"
    if idea.verdict is not Verdict.IMPROVEMENT:
        return f"came to {idea.verdict} on validation"
    if idea.confirmed is None:
        return "was found on validation, and never let to the test split"
    return "was found on validation, and not confirmed on the test split"
