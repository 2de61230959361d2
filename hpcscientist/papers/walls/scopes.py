"""Whether each number of a sentence is what the sentence says it is.

A reference has a scope and a type; the words around it name an idea, a split, a metric, a
statistic, a unit, a direction. All of them have to agree. What is not said has a meaning, too: the
primary metric, the test split, the mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hpcscientist.papers.formulas import PERCENT, POINTS, Quantity, signed_value
from hpcscientist.papers.walls.finding import Found, nearest_id, same_but, write
from hpcscientist.papers.walls.mentions import Level, Vocabulary, setting_name
from hpcscientist.papers.walls.sentences import Mention, Sentence, bind
from hpcscientist.papers.walls.vocabulary import stem, words
from hpcscientist.records.facts import (
    BASELINE,
    Fact,
    FactKind,
    FactSheet,
    Op,
    Statistic,
)
from hpcscientist.records.manuscript import DefectCode, Number
from hpcscientist.records.trial import Direction, Split

_LEVELS = (Statistic.MEAN, Statistic.BEST, Statistic.WORST)
_MEASURED = (FactKind.METRIC, FactKind.INTERVAL, FactKind.P_VALUE)

# Words for a change of the value, and words for a change to the better or the worse.
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
_ABLATES = frozenset(
    words(
        """
        ablation ablations ablate ablated ablating removing removed remove leaving left omitting
        omitted dropping disabling disabled excluding without minus
        """
    )
)
_SENSITIVITY = frozenset(words("sensitivity sensitive half varied varying halving changed instead"))
_GIVES_LEVEL = frozenset(
    words("reach reaches reached score scores scored attain attains attained has have had at")
)

# Nouns after a number, and the units of facts that they may stand for.
_NOUNS: dict[str, frozenset[str]] = {}
for _unit, _names in (
    ("ideas", "idea ideas proposal proposals candidate candidates improvement improvements method "
              "methods variant variants"),
    ("seeds", "seed seeds run runs repetition repetitions replicate replicates initialisations "
              "initializations trial trials n"),
    ("trials", "trial trials run runs experiment experiments execution executions"),
    ("looks", "look looks time times"),
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
_NEUTRAL_UNITS = frozenset({"epochs", "steps", "rows", "seeds"})
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


@dataclass(frozen=True, slots=True)
class ScopeWall:
    """Holds the numbers of sentences against the words around them."""

    sheet: FactSheet
    vocabulary: Vocabulary

    def check(self, sentence: Sentence) -> Iterator[Found]:
        """Return what is wrong with a sentence's numbers."""
        for at, token in enumerate(sentence.tokens):
            if token.ref is None or not isinstance(token.ref.part, Number):
                continue
            if token.ref.problem is not None:
                yield self._unresolved(
                    token.ref.part, token.ref.problem.unknown, str(token.ref.problem)
                )
        reading = _Reading(self.sheet, self.vocabulary, sentence)
        for at in sentence.numbers:
            yield from _Check(reading, at).all()
        yield from _pairs(reading)

    def _unresolved(self, part: Number, unknown: str | None, why: str) -> Found:
        if unknown is None:
            return Found(DefectCode.BAD_FORMULA, str(part), why)
        close = nearest_id(self.sheet, unknown)
        fact = self.sheet.by_id.get(close) if close else None
        return Found(DefectCode.UNKNOWN_FACT, str(part), write(fact, "write the id of a fact"))


class _Reading:
    """What a sentence speaks of; what it does not say is inherited from those before it."""

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
    from hpcscientist.papers.walls.sentences import Flat, sentences  # noqa: PLC0415

    found = sentences(Flat(context, ()))
    return found[0] if found else None


class _Check:
    """One number in its sentence."""

    def __init__(self, reading: _Reading, at: int) -> None:
        self.reading, self.at, self.sentence = reading, at, reading.sentence
        quantity = reading.sentence.tokens[at].quantity
        assert quantity is not None
        self.quantity: Quantity = quantity
        self.fact = quantity.fact
        ref = reading.sentence.tokens[at].ref
        self.written = str(ref.part) if ref is not None else ""
        self.words = reading.sentence.words

    def all(self) -> Iterator[Found]:
        """Return all that is wrong with it."""
        yield from self._glued()
        yield from self._approximate()
        if self.quantity.is_counted:
            yield from self._units()
            return
        yield from self._idea()
        yield from self._run()
        yield from self._named_setting()
        yield from self._qualified()
        if self.fact.scope.split is not None:
            yield from self._split()
        if self.fact.kind in _MEASURED or self.fact.scope.statistic is not None:
            yield from self._metric()
            yield from self._statistic()
        yield from self._sign()
        yield from self._units()
        if self.fact.kind is FactKind.PUBLISHED or any(
            part.kind is FactKind.PUBLISHED for part in self.quantity.parts
        ):
            yield from self._published()

    def _wrong(self, code: DefectCode, fix: str) -> Found:
        return Found(code, self.written, fix)

    # What stands right beside it.

    def _glued(self) -> Iterator[Found]:
        tokens, at = self.sentence.tokens, self.at
        before = tokens[at - 1] if at else None
        after = tokens[at + 1] if at + 1 < len(tokens) else None
        if (
            before is not None
            and before.end == tokens[at].start
            and before.text not in (*"(\"'\u201c\u2018=\u00b1\u2013\u2014/",)
        ):
            if before.text in ("-", "\u2212", "+"):
                yield self._wrong(DefectCode.WRONG_SIGN, "remove the sign: the fact has its own")
            else:
                yield self._wrong(
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
            yield self._wrong(
                DefectCode.WRONG_SIGN, f"remove {before.text!r}: the fact is the number itself"
            )
        if after is not None and after.start == tokens[at].end:
            if (
                after.quantity is not None
                or after.text[0].isalnum()
                or after.text in ("^", "_", "'")
            ):
                yield self._wrong(
                    DefectCode.TYPED_NUMBER,
                    f"put a blank after it; {after.text!r} changes the number",
                )
            elif (
                after.text in ".,/"
                and at + 2 < len(tokens)
                and tokens[at + 2].start == after.end
                and (tokens[at + 2].quantity is not None)
            ):
                yield self._wrong(
                    DefectCode.TYPED_NUMBER, "two facts make one number; put words between them"
                )

    def _approximate(self) -> Iterator[Found]:
        statistic = self.fact.scope.statistic
        for phrase in _APPROXIMATE:
            first = self.at - len(phrase)
            if first < 0 or not self.sentence.phrase(phrase, first):
                continue
            if phrase == ("at", "least") and statistic in (Statistic.LOW, Statistic.WORST):
                continue
            if phrase == ("at", "most") and (
                statistic in (Statistic.HIGH, Statistic.BEST) or self.fact.kind is FactKind.SETTING
            ):
                continue
            code = (
                DefectCode.WRONG_COUNT
                if self.fact.kind is FactKind.COUNT
                else DefectCode.WRONG_STATISTIC
            )
            yield self._wrong(code, f"remove {' '.join(phrase)!r}: the fact is the number itself")

    # Whose number it is.

    def _idea(self) -> Iterator[Found]:
        scope, against = self.fact.scope, self.quantity.against
        own = self.quantity.parts[0].scope.idea
        if own is None or self.fact.kind is FactKind.PUBLISHED:
            return
        named = self.reading.ideas
        is_change = self.fact.scope.statistic in Level.CHANGE or self.fact.kind is FactKind.INTERVAL
        is_change = is_change or scope.statistic in (
            *Level.P,
            Statistic.SHRINKAGE,
            Statistic.INTERVAL,
        )
        other = against.scope.idea if against is not None else BASELINE
        if is_change or against is not None:
            yield from self._change_of(named, own, other)
        else:
            yield from self._level_of(named, own)

    def _change_of(
        self, named: Sequence[Mention[str]], own: str, other: str | None
    ) -> Iterator[Found]:
        """A change is of the idea that is not compared with; the baseline is understood."""
        if own == BASELINE and other not in (None, BASELINE):
            subjects = [m for m in named if not m.is_comparand]
        else:
            subjects = [m for m in named if m.value != BASELINE and not m.is_comparand]
            if not subjects:
                subjects = [m for m in named if m.value != BASELINE]
        first, last = self.sentence.clause(self.at)
        against = [m.value for m in named if m.is_comparand and first <= m.first < last]
        if against and other is not None and other not in against and own != other:
            right = same_but(self.reading.sheet, self.fact, idea=own)
            yield self._wrong(
                DefectCode.WRONG_IDEA,
                f"this is against {other}, and the sentence says {against[-1]}: "
                f"{write(right, f'say {other}')}",
            )
            return
        bound = bind(self.sentence, self.at, _clear(subjects))
        if bound is None:
            yield from self._unnamed(own)
        elif bound.value != own and not self._is_outdone(bound, named, own):
            yield self._whose(bound.value)

    def _is_outdone(self, bound: Mention[str], named: Sequence[Mention[str]], own: str) -> bool:
        """Whether a mere word of another idea's title stands beside the clear name of this one."""
        weak = {(m.first, m.value) for m in named if m.is_weak}
        clear = {m.value for m in named if not m.is_weak}
        return (bound.first, bound.value) in weak and own in clear

    def _level_of(self, named: Sequence[Mention[str]], own: str) -> Iterator[Found]:
        if not named:
            yield from self._unnamed(own)
            return
        comparand = self._adjacent_comparand(named)
        if comparand is not None:
            bound: Mention[str] | None = comparand
        else:
            subjects = [m for m in named if not m.is_comparand]
            with_comparands = _follows_with_preposition(self.sentence, self.at, named)
            if with_comparands is not None:
                bound = with_comparands
            elif self.sentence.words[self.at - 1 : self.at] == ["from"] and own == BASELINE:
                return
            else:
                bound = bind(self.sentence, self.at, _clear(subjects or named), shared=False)
        if bound is None:
            yield from self._unnamed(own)
        elif bound.value != own and not self._is_outdone(bound, named, own):
            yield self._whose(bound.value)

    def _adjacent_comparand(self, named: Sequence[Mention[str]]) -> Mention[str] | None:
        """Return what is compared with right before the number: "than the baseline's {x}"."""
        for mention in named:
            if mention.is_comparand and mention.last < self.at:
                between = self.words[mention.last + 1 : self.at]
                if len(between) <= 8 and all(w in _LINKS for w in between):
                    return mention
        return None

    def _unnamed(self, own: str) -> Iterator[Found]:
        """No idea is named in the sentence: those before it, the section or the paper tell."""
        reading = self.reading
        known = reading.earlier_ideas or reading.context_ideas
        if known:
            if own not in known and not (own == BASELINE and BASELINE in known):
                yield self._whose(known[-1])
            return
        if reading.ours is not None:
            if own not in (reading.ours, BASELINE):
                yield self._whose(reading.ours)
            return
        if own == BASELINE:
            if self.fact.kind is not FactKind.HYPERPARAMETER:  # else the setup is described
                yield self._wrong(DefectCode.WRONG_IDEA, "say that this is the baseline's")
        else:
            yield self._wrong(DefectCode.WRONG_IDEA, f"say that this is of {own}")

    def _whose(self, said: str) -> Found:
        right = same_but(self.reading.sheet, self.fact, idea=said)
        own = self.quantity.parts[0].scope.idea
        return self._wrong(
            DefectCode.WRONG_IDEA,
            f"this is of {own} and the sentence says {said}: {write(right, f'name {own}')}",
        )

    # Which run: the idea itself, or one of its ablations.

    def _run(self) -> Iterator[Found]:
        runs = {part.scope.run for part in self.quantity.parts} - {None}
        further = [p for p in self.quantity.parts if p.scope.run not in (None, "main")]
        part_words = self._part_words()
        first, last = self.sentence.clause(self.at)
        clause = self.words[first:last]
        ablates = any(
            word in _ABLATES and (word != "without" or self._ablates_part(place + first))
            for place, word in enumerate(clause)
        )
        varies = bool(set(clause) & {"sensitivity"})
        named = self._named_parts(clause)
        if further:
            right = further[0].scope
            idea = self.reading.sheet.idea_by_id.get(right.idea or "")
            title = idea.parts.get(right.attempt or 0, "") if idea is not None else ""
            if named and right.attempt not in named and not (named & self._attempts(further)):
                yield self._run_wrong(min(named))
            elif right.run == "ablation" and not ablates and not named:
                yield self._wrong(DefectCode.WRONG_RUN, f"this is an ablation ({title}): say so")
            elif right.run != "ablation" and not named and not varies and not ablates:
                yield self._wrong(
                    DefectCode.WRONG_RUN, f"this is a {right.run} run ({title}): say so"
                )
        elif "main" in runs and self.fact.kind is not FactKind.HYPERPARAMETER:
            own = self.quantity.parts[0].scope.idea
            if own == BASELINE:
                return
            beside = [at for at in self.sentence.numbers if at != self.at and first <= at < last]
            if (ablates or (named and varies) or (named and self._changed(clause))) and not beside:
                target = min(named) if named else None
                yield self._run_wrong(target)
        del part_words

    def _attempts(self, facts: Sequence[Fact]) -> set[int]:
        return {fact.scope.attempt for fact in facts if fact.scope.attempt is not None}

    def _changed(self, clause: Sequence[str]) -> bool:
        return bool(set(clause) & {"with", "without", "at", "under"}) and not set(clause) & {
            "schedule"
        }

    def _part_words(self) -> dict[int, set[str]]:
        """The words of the idea's further runs by attempt."""
        idea = self.reading.sheet.idea_by_id.get(self.quantity.parts[0].scope.idea or "")
        if idea is None:
            return {}
        whole = _content(idea.title)
        told = {attempt: _content(title) for attempt, title in idea.parts.items()}
        # "Half as much momentum" of the momentum idea is told by "half".
        return {
            a: (part - whole if idea.parts and part - whole else part) for a, part in told.items()
        }

    def _named_parts(self, clause: Sequence[str]) -> set[int]:
        """Return the further runs of the idea that a clause names by the words of their titles."""
        said = {stem(word) for token in clause for word in token.split("-")} | {
            stem(w) for w in clause
        }
        named = {
            attempt: words_
            for attempt, words_ in self._part_words().items()
            if words_ and len(words_ & said) >= max(1, (len(words_) + 1) // 2)
        }
        if not named:
            return set()
        most = max(len(words_ & said) / len(words_) for words_ in named.values())
        return {a for a, words_ in named.items() if len(words_ & said) / len(words_) == most}

    def _ablates_part(self, at: int) -> bool:
        """Whether "without" is followed by what an ablation leaves out."""
        said = {stem(word) for token in self.words[at + 1 : at + 6] for word in token.split("-")}
        sheet = self.reading.sheet
        return any(said & _content(title) for idea in sheet.ideas for title in idea.parts.values())

    def _run_wrong(self, attempt: int | None) -> Found:
        if attempt is None:
            return self._wrong(
                DefectCode.WRONG_RUN,
                "this is the idea as a whole, and no ablation: write the ablation's",
            )
        own = self.quantity.parts[0].scope
        for fact in self.reading.sheet.facts:
            scope = fact.scope
            same = (scope.idea, scope.attempt) == (own.idea, attempt)
            if same and (scope.metric, scope.split, scope.statistic) == (
                own.metric,
                own.split,
                own.statistic,
            ):
                return self._wrong(DefectCode.WRONG_RUN, write(fact, ""))
        return self._wrong(
            DefectCode.WRONG_RUN, f"the sentence speaks of attempt {attempt} of {own.idea}"
        )

    # Which setting, and which of two p-values or costs that differ by an adjective.

    def _named_setting(self) -> Iterator[Found]:
        """A hyperparameter is called by its name: LEARNING_RATE is "the learning rate"."""
        fact = self.fact
        if fact.kind not in (FactKind.HYPERPARAMETER, FactKind.SETTING):
            return
        names = self.reading.settings
        own = setting_name(fact)
        if own is None or own not in names.values():
            return
        mentions = setting_mentions(self.sentence, names)
        after = [m for m in mentions if self.at < m.first <= self.at + 3]
        between = self.words[self.at + 1 : after[0].first] if after else []
        if after and not set(between) & {",", "and", ";", "for", "with", "of", "(", ")"}:
            bound: Mention[str] | None = after[0]
        else:
            bound = bind(self.sentence, self.at, mentions)
        if bound is None or bound.value != own:
            said = f"the sentence says {bound.value}" if bound is not None else "say so"
            yield self._wrong(DefectCode.WRONG_STATISTIC, f"this is {own}: {said}")

    def _qualified(self) -> Iterator[Found]:
        own, said = self.fact.scope.statistic, set(self.words)
        adjusted = bool(said & _ADJUSTED) and not said & _UNADJUSTED
        adjusted = adjusted and not self.sentence.phrase(("without",), self._before_any(_ADJUSTED))
        if own is Statistic.P_ADJUSTED and not adjusted:
            yield self._wrong(DefectCode.WRONG_STATISTIC, "this is the adjusted p-value: say so")
        elif own is Statistic.P and (adjusted or "one-sided" in said):
            right = same_but(self.reading.sheet, self.fact, statistic=Statistic.P_ADJUSTED)
            fix = write(right, "say that it is the two-sided p-value, without adjustment")
            yield self._wrong(DefectCode.WRONG_STATISTIC, fix)
        of = self.fact.scope.of
        if self.fact.unit == "tokens" and of in _TOKENS:
            named = {kind for kind, words_ in _TOKENS.items() if said & words_}
            near = set(self.words[max(0, self.at - 2) : self.at + 6])
            close = {kind for kind, words_ in _TOKENS.items() if near & words_} or named
            if close and of not in close and not (of == "total" and len(close) > 1):
                yield self._wrong(DefectCode.WRONG_COUNT, f"these are the {of} tokens")

    def _before_any(self, wanted: frozenset[str]) -> int:
        places = [at for at, word in enumerate(self.words) if word in wanted]
        return places[0] - 1 if places else -1

    # On which split.

    def _split(self) -> Iterator[Found]:
        own, reading = self.fact.scope.split, self.reading
        against = self.quantity.against
        bound = bind(self.sentence, self.at, reading.splits)
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
                right = same_but(reading.sheet, self.fact, split=Split.TEST)
                yield self._wrong(
                    DefectCode.WRONG_SPLIT,
                    f"say that this is on validation, or {write(right, 'nothing else is known')}",
                )
                return
        if said is not own and said is not None:
            right = same_but(reading.sheet, self.fact, split=said)
            yield self._wrong(
                DefectCode.WRONG_SPLIT,
                f"this is on {own}, and the sentence says {said}: {write(right, f'say {own}')}",
            )

    # In which metric.

    def _metric(self) -> Iterator[Found]:
        own, reading = self.fact.scope.metric, self.reading
        if own is None or self.fact.scope.statistic is Statistic.N:
            return
        bound = bind(self.sentence, self.at, reading.metrics)
        primary = reading.sheet.metrics[0].name if reading.sheet.metrics else own
        said = bound.value if bound is not None else None
        if said is None:
            said = reading.earlier_metrics[-1] if reading.earlier_metrics else primary
        if said != own:
            right = same_but(reading.sheet, self.fact, metric=said)
            yield self._wrong(
                DefectCode.WRONG_METRIC,
                f"this is {own}, and the sentence says {said}: {write(right, f'say {own}')}",
            )

    # Which statistic.

    def _statistic(self) -> Iterator[Found]:
        own, reading = self.fact.scope.statistic, self.reading
        if own in (None, Statistic.N):
            return
        named = reading.statistics
        if own in _LEVELS and self._told_as_change():
            yield self._statistic_wrong("a change", Statistic.DELTA)
            return
        if own is Statistic.DELTA and self._told_as_level():
            yield self._statistic_wrong("a value", Statistic.MEAN)
            return
        # A change may be "of the mean"; it is no mean itself.
        relevant = [
            m
            for m in named
            if not (own in Level.CHANGE and m.value is Level.MEAN)
            and not (
                own in (*Level.P, Statistic.SHRINKAGE, Statistic.INTERVAL)
                and m.value in (Level.MEAN, Level.CHANGE)
            )
            and not (own in _LEVELS and m.value is Level.CHANGE and not self._is_noun_of(m))
            and not (own is not Statistic.SHRINKAGE and m.value is Level.SHRINKAGE)
        ]
        bound = self._nearest(relevant)
        if bound is None:
            if own in (Statistic.MEAN, Statistic.DELTA):
                return
            if own in (Statistic.LOW, Statistic.HIGH) and self._in_range():
                return
            yield self._wrong(DefectCode.WRONG_STATISTIC, f"say that this is the {_NAMES[own]}")
        elif own not in bound.value:
            if own in (Statistic.LOW, Statistic.HIGH) and bound.value is Level.CHANGE:
                return
            said = min(bound.value, default=None)
            yield self._statistic_wrong(" ".join(self.words[bound.first : bound.last + 1]), said)

    def _in_range(self) -> bool:
        """Whether it stands in brackets or in "from … to …" of a sentence about an interval."""
        return "interval" in self.words

    def _nearest(
        self, mentions: Sequence[Mention[frozenset[Statistic]]]
    ) -> Mention[frozenset[Statistic]] | None:
        """Return the statistic that is said of the number: right after it, or last before it."""
        tokens = self.sentence.tokens
        for mention in mentions:
            if mention.first > self.at:
                between = tokens[self.at + 1 : mention.first]
                marks = {token.text for token in between}
                if (
                    len(between) <= 2
                    and not any(t.quantity for t in between)
                    and (marks <= {"(", "at", "in", "on"} or not between)
                ):
                    return mention
        return (
            bind(
                self.sentence,
                self.at,
                [m for m in mentions if m.last < self.at] or mentions,
                shared=True,
            )
            if mentions
            else None
        )

    def _is_noun_of(self, mention: Mention[frozenset[Statistic]]) -> bool:
        """Whether the number is what a noun of change is said to be: "the gain is {x}"."""
        if mention.last >= self.at:
            return False
        between = self.words[mention.last + 1 : self.at]
        if "to" in between[-1:] or any(word in _COMPARES_WORDS for word in between):
            return False
        return bool(set(between) & {"is", "was", "of", "are", "amounts"})

    def _told_as_change(self) -> bool:
        before = self.words[max(0, self.at - 1) : self.at]
        if before == ["by"]:
            earlier = set(self.words[: self.at])
            return bool(earlier & (UP | DOWN | BETTER | WORSE | {"changes", "differs", "change"}))
        verbs = {"gains", "adds", "loses", "gained", "added", "lost", "gain", "add", "lose"}
        return bool(before) and before[0] in verbs

    def _told_as_level(self) -> bool:
        before = self.words[max(0, self.at - 1) : self.at]
        if not before or self.quantity.fact.unit == PERCENT:
            return False
        changes = UP | DOWN | BETTER | WORSE | COSTS | _CHANGE_NOUNS
        if before[0] in {"reaches", "scores", "attains", "reached", "scored", "attained"}:
            return True
        if (
            before[0] == "to"
            and set(self.words[: self.at]) & changes
            and "from" not in self.words[: self.at]
        ):
            return True
        return not set(self.words) & changes

    def _statistic_wrong(self, said: str, statistic: Statistic | None) -> Found:
        own = self.fact.scope.statistic
        right = same_but(self.reading.sheet, self.fact, statistic=statistic) if statistic else None
        name = _NAMES.get(own, "value") if own else "value"
        return self._wrong(
            DefectCode.WRONG_STATISTIC,
            f"this is the {name}, and the sentence says {said!r}: {write(right, f'say {name}')}",
        )

    # Which way.

    def _sign(self) -> Iterator[Found]:
        statistic = self.fact.scope.statistic
        if statistic is not Statistic.DELTA or self.fact.kind not in (
            FactKind.METRIC,
            FactKind.RATIO,
        ):
            return
        value = signed_value(self.quantity)
        if value == 0 or self._moves():
            return
        minimised = self._minimised()
        found = self._direction()
        if found is None:
            if Op.MAGNITUDE in self.quantity.ops and not set(self.words) & (
                COSTS | {"differ", "differs", "gap", "apart"}
            ):
                yield self._wrong(DefectCode.WRONG_SIGN, "say which way the value changed")
            return
        word, place = found
        quality = -value if minimised else value
        right = (
            (word in UP and value > 0)
            or (word in DOWN and value < 0)
            or (word in BETTER and quality > 0)
            or (word in WORSE and quality < 0)
        )
        ablated = self.quantity.against is not None and self.quantity.against.scope.run not in (
            None,
            "main",
        )
        if ablated and word in COSTS | DOWN | WORSE:
            right = True
        if not right and not self._negated(place):
            way = "rose" if value > 0 else "fell"
            yield self._wrong(
                DefectCode.WRONG_SIGN,
                f"the value {way} ({self.fact.text}), and the sentence says {word!r}",
            )

    def _moves(self) -> bool:
        """Whether it is an end of "from {a} to {b}", which is held against the pair's values."""
        before = self.words[self.at - 1 : self.at]
        return before == ["from"] or (before == ["to"] and "from" in self.words[: self.at])

    def _minimised(self) -> bool:
        metrics = {m.name: m.direction for m in self.reading.sheet.metrics}
        return metrics.get(self.fact.scope.metric or "") is Direction.MINIMIZE

    def _direction(self) -> tuple[str, int] | None:
        """Return the word of direction that belongs to the number, and its place."""
        all_words = UP | DOWN | BETTER | WORSE | COSTS
        first, last = self.sentence.clause(self.at)
        lowest = max([first, *(at + 1 for at in self.sentence.numbers if at < self.at)])
        # Not "lower" of "the lower end", and no word of another number's side.
        for place in range(self.at - 1, lowest - 1, -1):
            if self.words[place] in all_words and not self._is_name(place):
                return self._as_found(place)
        for place in range(self.at + 1, last):
            if self.sentence.tokens[place].quantity is not None:
                break
            if self.words[place] in all_words and not self._is_name(place):
                return self._as_found(place)
        for place in range(lowest - 1, first - 1, -1):
            if self.words[place] in all_words and not self._is_name(place):
                return self._as_found(place)
        return None

    def _as_found(self, place: int) -> tuple[str, int] | None:
        word = self.words[place]
        return None if word in COSTS - (UP | DOWN | BETTER | WORSE) else (word, place)

    def _is_name(self, place: int) -> bool:
        """Whether a word is part of a name or of a metric, such as the metric "loss"."""
        named = [*self.reading.ideas, *self.reading.metrics]
        return any(m.first <= place <= m.last for m in named)

    def _negated(self, place: int) -> bool:
        return bool(_NEGATIONS & set(self.words[max(0, place - 4) : place]))

    # In which unit, and of what.

    def _units(self) -> Iterator[Found]:
        unit, kind = self.fact.unit, self.fact.kind
        said, noun = self._noun()
        in_metric = unit in {metric.name for metric in self.reading.sheet.metrics}
        if in_metric or kind is FactKind.INTERVAL:
            if said and said & _ATOMIC_UNITS and not self._unit_of(said, unit):
                hint = ""
                if said & {PERCENT, POINTS} and self.fact.share:
                    change = self.fact.scope.statistic in Level.CHANGE
                    op = "points" if change else "percent"
                    unit_word = POINTS if change else PERCENT
                    hint = f": write {{{op}({self._bare()})}} {unit_word}"
                yield self._wrong(DefectCode.WRONG_UNIT, f"this is not in {noun}{hint}")
            return
        if unit in (PERCENT, POINTS):
            if not said or unit not in said or (unit == POINTS and noun == "point"):
                yield self._wrong(DefectCode.WRONG_UNIT, f"this is in {unit}: write that after it")
            return
        if not unit:
            if said and said & _ATOMIC_UNITS:
                hint = (
                    f": write {{percent({self._bare()})}}"
                    if self.fact.share and PERCENT in said
                    else ""
                )
                yield self._wrong(DefectCode.WRONG_UNIT, f"this is not in {noun}{hint}")
            return
        said_there = said or self._noun_before()
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
            yield self._wrong(code, f"{what}: say so")

    def _bare(self) -> str:
        return self.written.strip("{}")

    def _unit_of(self, said: frozenset[str], unit: str) -> bool:
        return any(unit.lower().endswith(f"_{word.lower()}") or unit == word for word in said)

    def _noun(self) -> tuple[frozenset[str], str]:
        """Return the units that the noun after the number stands for, and the noun."""
        tokens = self.sentence.tokens
        for place in range(self.at + 1, min(len(tokens), self.at + 7)):
            token = tokens[place]
            if place == self.at + 1 and token.text == "%":
                return frozenset({PERCENT}), "%"
            pair = f"{token.word}_{tokens[place + 1].word}" if place + 1 < len(tokens) else ""
            if pair in _NOUNS:
                return _NOUNS[pair], pair.replace("_", " ")
            if token.word in _NOUNS:
                if token.word in ("points", "point") and PERCENT not in (PERCENT,):
                    continue
                return _NOUNS[token.word], token.word
            tail = token.word.rpartition("-")[2]
            if token.text.startswith("-") or (
                tail in _NOUNS and token.word not in _NOUNS and place == self.at + 1
            ):
                if tail in _NOUNS:
                    return _NOUNS[tail], tail
            if token.quantity is not None:
                if tokens[place - 1].word in ("of", "and", "to", "or", "from", "\u2013"):
                    continue  # "{a} of {b} ideas"
                return frozenset(), ""
            if token.word in _NOUN_ENDS or (token.text in ",;:." and place > self.at + 1):
                return frozenset(), ""
            if token.text in ",;:.)":
                return frozenset(), ""
        return frozenset(), ""

    def _noun_before(self) -> frozenset[str]:
        """Return the units that are named before the number: "n = {x}", "of 12 ideas, {x}"."""
        for place in range(self.at - 1, -1, -1):
            word = self.words[place]
            if word in _NOUNS and not (word == "s"):
                return _NOUNS[word]
        return frozenset()

    def _published(self) -> Iterator[Found]:
        said = set(self.words)
        whose = said & _PUBLISHED_WORDS
        setup = said & _SETUP_WORDS
        if not (whose and setup):
            source = next(
                (p.source.setup for p in self.quantity.parts if p.kind is FactKind.PUBLISHED), ""
            )
            yield self._wrong(
                DefectCode.FOREIGN_SETUP,
                f"say that this was reported by others, and in whose setup: {source[:120]}",
            )


_LINKS = frozenset(
    words(
        """
        's mean of ( at with value a an the average score is in f1 accuracy which has its reaches
        unchanged plain code recipe on test validation split itself
        """
    )
)
_ADJUSTED = frozenset(words("adjusted corrected adjustment correction"))
_UNADJUSTED = frozenset(words("unadjusted uncorrected raw nominal"))
_TOKENS = {
    "prompt": frozenset(words("read reads prompt prompts input inputs")),
    "completion": frozenset(words("wrote written writes completion completions output generated")),
    "total": frozenset(words("total altogether overall all")),
}
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
_NOUN_ENDS = frozenset(
    words("is was are were has have had while but which that because by for with over than on")
)
_PUBLISHED_WORDS = frozenset(
    words("published reported literature prior original authors paper others theirs their")
)
_SETUP_WORDS = frozenset(
    words(
        """
        setup set-up setting settings protocol split splits conditions hardware comparable recordings
        configuration own different data
        """
    )
)


def _clear(mentions: Sequence[Mention[str]]) -> list[Mention[str]]:
    """Return mentions, words of titles among them, all as clear ones."""
    return [replace(mention, is_weak=False) for mention in mentions]


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


def _follows_with_preposition(
    sentence: Sentence, at: int, named: Sequence[Mention[str]]
) -> Mention[str] | None:
    """Return the idea that follows as "for the baseline", "of idea-0001", "by idea-0002"."""
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


def _pairs(reading: _Reading) -> Iterator[Found]:
    """Hold "rises from {a} to {b}" and "{a} is higher than {b}" against the values."""
    sentence, numbers = reading.sentence, reading.sentence.numbers
    for first, second in zip(numbers, numbers[1:], strict=False):
        one, other = sentence.tokens[first].quantity, sentence.tokens[second].quantity
        assert one is not None
        assert other is not None
        if not _comparable(one.fact, other.fact):
            continue
        if sentence.words[first - 1 : first] == ["from"] and sentence.words[
            second - 1 : second
        ] == ["to"]:
            yield from _moves(reading, first, one.fact, other.fact)
        else:
            yield from _compares(reading, first, second, one.fact, other.fact)


def _comparable(a: Fact, b: Fact) -> bool:
    if a.kind is not FactKind.METRIC or a.kind is not b.kind or a.unit != b.unit:
        return False
    return a.scope.statistic is b.scope.statistic


def _moves(reading: _Reading, at: int, start: Fact, end: Fact) -> Iterator[Found]:
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


def _compares(reading: _Reading, first: int, second: int, a: Fact, b: Fact) -> Iterator[Found]:
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
    reading: _Reading, word: str, place: int, change: float, a: Fact, b: Fact, at: int
) -> Iterator[Found]:
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
        yield Found(
            DefectCode.WRONG_SIGN,
            str(ref.part) if ref is not None else word,
            f"{a.label} is {a.text}, {b.label} is {b.text}, and the sentence says {word!r}",
        )


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
