"""Finds the ideas, splits, metrics and statistics that a sentence mentions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from hpcscientist.papers.walls.finding import stem, words
from hpcscientist.papers.walls.sentences import HOLE, Finder, Mention, Sentence
from hpcscientist.records.facts import (
    BASELINE,
    Fact,
    FactIdea,
    FactKind,
    FactSheet,
    Statistic,
)
from hpcscientist.records.trial import Split

_STOP = frozenset(
    words(
        """
        about after against along also among another because before being between beyond both could
        does each from have into itself less more most must near none only other over same should
        some such than that their them then there these they this those through under until upon
        very were what when where which while will with without your plain small large high better
        best good whole used uses using make makes made more first last next rate rates value
        values layer layers network networks model models training train data learning method
        reference baseline idea image images digit digits input inputs pixel pixels feature features
        hidden unit units class classes prediction predictions final set sets experiment experiments
        search classifier classifiers accuracy report choose every each enlarge keep simple deep
        wide wider width linear recording recordings sample samples label labels strong heavy second
        test validation seed seeds step steps epoch epochs batch size half double single different
        based approach gradient gradients loss error weight weights function functions against
        """
    )
)
_HEAD_ENDS = frozenset(words("of on by with for at in from to as and that which through before"))
_SPLITS: Mapping[tuple[str, ...], Split] = {
    **{
        tuple(phrase.split("_")): Split.TEST
        for phrase in words("test held-out_test unseen held-out test-split test-set heldout")
    },
    **{
        tuple(phrase.split("_")): Split.VALIDATION
        for phrase in words(
            "validation held-out_validation development_set dev_set dev development_split "
            "development_data"
        )
    },
}
_WEAK_SPLITS: Mapping[tuple[str, ...], Split] = {
    **{
        tuple(phrase.split("_")): Split.TEST
        for phrase in words(
            "fresh_seeds final confirmation confirmed finally generalise generalize"
        )
    },
    **{
        tuple(phrase.split("_")): Split.VALIDATION
        for phrase in words("search during_search tuning selection")
    },
}
_NO_TEST_BEFORE = frozenset(
    words("t paired statistical one-sided two-sided significance we to permutation sign-flip a")
)
_NO_TEST_AFTER = frozenset(
    words("whether if that of removes shows uses gives compares is statistic")
)


class Level:
    """The classes of statistics that words distinguish."""

    MEAN = frozenset({Statistic.MEAN})
    BEST = frozenset({Statistic.BEST})
    WORST = frozenset({Statistic.WORST})
    SD = frozenset({Statistic.SD})
    INTERVAL = frozenset({Statistic.INTERVAL, Statistic.LOW, Statistic.HIGH})
    LOW = frozenset({Statistic.LOW})
    HIGH = frozenset({Statistic.HIGH})
    P = frozenset({Statistic.P, Statistic.P_ADJUSTED})
    SHRINKAGE = frozenset({Statistic.SHRINKAGE})
    CHANGE = frozenset({Statistic.DELTA, Statistic.LOW, Statistic.HIGH})
    NONE: frozenset[Statistic] = frozenset()  # a statistic without facts, such as the median


_STATISTICS: Mapping[tuple[str, ...], frozenset[Statistic]] = {
    tuple(phrase.split("_")): level
    for level, phrases in (
        (
            Level.MEAN,
            "mean means average averages averaged averaging on_average in_the_mean expected "
            "expectation typical typically",
        ),
        (
            Level.BEST,
            "best_seed best_run best_of best_value at_best peak maximum max maximal up_to "
            "best-case luckiest highest_seed strongest_seed top_seed as_much_as as_high_as "
            "best_seeds luckiest_seed single_best best_result lucky_seed lucky_run "
            "at_its_best at_their_best",
        ),
        (
            Level.WORST,
            "at_its_worst at_their_worst worst_seed worst_run worst_of at_worst worst minimum min "
            "minimal worst-case weakest weakest_seed lowest_seed worst_seeds unluckiest",
        ),
        (
            Level.SD,
            "standard_deviation sd std spread deviation standard_deviations scatter \u00b1 "
            "variability vary_by varies_by varied_by differ_among",
        ),
        (Level.INTERVAL, "interval intervals confidence_interval ci confidence_bounds"),
        (Level.LOW, "lower_end lower_bound lower_limit low_end"),
        (Level.HIGH, "upper_end upper_bound upper_limit high_end"),
        (Level.P, "p-value p-values p probability_of_chance p_="),
        (Level.SHRINKAGE, "shrinkage shrinks shrank shrunk lost_on_the_test"),
        (
            Level.NONE,
            "median medians mode variance variances quantile percentile iqr interquartile "
            "standard_error standard_errors sem range a_seed any_seed each_seed every_seed "
            "one_seed individual_seeds individual_seed",
        ),
        (
            Level.CHANGE,
            "gain gains improvement improvements difference differences delta gap margin lead "
            "advantage increase decrease drop decline loss_of change effect benefit deficit "
            "reduction rise fall",
        ),
    )
    for phrase in words(phrases)
}
_COMPARES = frozenset(
    words(
        """
        over than against versus vs compared relative above below beyond behind exceed exceeds
        exceeded outperform outperforms outperformed beat beats surpass surpasses surpassed match
        matches matched unlike overtakes tops trails to
        """
    )
)
_THROUGH = frozenset(
    words(
        """
        the a an that those of with mean average its recipe recipe's reference's score value in on
        upon unchanged plain same one both this our strong all and or other code
        """
    )
)


@dataclass(frozen=True)
class Vocabulary:
    """The names of a campaign's ideas, metrics and settings, as finders of words.

    `ours` is the idea of a manuscript about one idea.
    """

    sheet: FactSheet
    ours: str | None = None

    @cached_property
    def _ideas(self) -> Finder[str]:
        strong: dict[tuple[str, ...], str] = {}
        heads = Counter[tuple[str, ...]]()
        pairs = Counter(pair for idea in self._named for pair in _pairs(idea.title))
        for idea in self._named:
            strong[(idea.idea_id,)] = idea.idea_id
            if title := _split(idea.title):
                strong[title] = idea.idea_id
                heads[_head(title)] += 1
        for idea in self._named:
            head = _head(_split(idea.title))
            telling = sum(_telling(word) for word in head)
            if len(head) > 1 and telling and heads[head] == 1 and head not in strong:
                strong[head] = idea.idea_id
            for pair in _pairs(idea.title):
                if pairs[pair] == 1:
                    strong.setdefault(pair, idea.idea_id)
            for name in idea.names:
                strong.setdefault(_split(name), idea.idea_id)
        for name in ("baseline", "reference"):
            strong[(name,)] = BASELINE
        if self.ours:
            for phrase in (
                *("our method", "our approach", "our idea", "our variant", "our change"),
                *("the proposed method", "the proposed approach", "the proposed idea"),
                *("the method", "the approach", "the idea", "this idea", "this method", "we"),
            ):
                strong.setdefault(tuple(phrase.split()), self.ours)
        return Finder(strong, fits=_is_idea)

    @cached_property
    def _telling(self) -> Mapping[str, str]:
        """The idea of each stem that only one idea's title contains."""
        own = Counter(word for idea in self._named for word in _distinctive(idea))
        metrics = {stem(word) for word in self._metric_words}
        return {
            word: idea.idea_id
            for idea in self._named
            for word in _distinctive(idea)
            if own[word] == 1 and word not in metrics
        }

    @property
    def _named(self) -> Iterable[FactIdea]:
        return (idea for idea in self.sheet.ideas if idea.idea_id != BASELINE)

    @cached_property
    def settings(self) -> Mapping[tuple[str, ...], str]:
        """The names of hyperparameters and knobs by the stems that prose uses for them.

        The key is all words of a name, or one word that no other name has.
        """
        names = dict.fromkeys(filter(None, map(setting_name, self.sheet.facts)))
        told = {
            name: tuple(stem(w) for w in re.split(r"[\W_]+", name.lower()) if w) for name in names
        }
        own = Counter(word for words_ in told.values() for word in set(words_))
        found = {words_: name for name, words_ in told.items()}
        for name, words_ in told.items():
            for word in words_:
                if own[word] == 1 and len(word) > 2:
                    found.setdefault((word,), name)
        return found

    @cached_property
    def _metric_words(self) -> frozenset[str]:
        return frozenset(
            word for m in self.sheet.metrics for word in re.split(r"\W|_", m.name.lower())
        )

    @cached_property
    def _metrics(self) -> Finder[str]:
        strong: dict[tuple[str, ...], str] = {}
        for metric in self.sheet.metrics:
            parts = tuple(_metric_parts(metric.name))
            for phrase in (parts, (metric.name.lower(),), ("-".join(parts),), ("_".join(parts),)):
                strong[phrase] = metric.name
                strong[*phrase[:-1], _plural(phrase[-1])] = metric.name
            strong[(f"{metric.name.lower()}-score",)] = metric.name
        of_word = Counter(word for m in self.sheet.metrics for word in _metric_parts(m.name))
        for metric in self.sheet.metrics:  # "the test error" of balanced_error
            for part in _metric_parts(metric.name):
                if part in _FOREIGN_METRICS and of_word[part] == 1:
                    strong.setdefault((part,), metric.name)
        foreign = {(word,): word for word in _FOREIGN_METRICS if not self._knows(word)}
        return Finder(strong | foreign, fits=self._is_metric)

    def _knows(self, word: str) -> bool:
        return word in self._metric_words

    def _is_metric(self, sentence: Sentence, first: int, last: int) -> bool:
        """Return whether the words at a place mention a metric.

        A metric that the recipe lacks, and a part of a metric's name, count only beside a number.
        """
        said = _metric_parts(" ".join(sentence.words[first : last + 1]))
        names = [_metric_parts(metric.name) for metric in self.sheet.metrics]
        singular = [part.removesuffix("s") for part in said]
        if any(len(name) <= len(said) and set(name) & {*said, *singular} for name in names):
            return True
        before = sentence.words[first - 1] if first else ""
        window = sentence.tokens[last + 1 : last + 9]
        near = [token.quantity is not None for token in window]
        between = [token.word for token in window[: near.index(True)]] if any(near) else ["-"]
        after = sentence.tokens[first - 2 : first] if first >= 2 else []
        behind = bool(after) and after[0].quantity is not None and before in ("in", "of")
        return behind or all(
            word in _BESIDE or word in ("the", "baseline", "reference") or word.startswith("idea-")
            for word in between
        )

    def ideas(self, sentence: Sentence) -> list[Mention[str]]:
        """Return the mentions of ideas, including the baseline.

        A mention by a single word of a title is weak.
        """
        known: list[Mention[str]] | None = sentence.known.get("ideas")
        if known is None:
            known = sentence.known["ideas"] = self._find_ideas(sentence)
        return known

    def _find_ideas(self, sentence: Sentence) -> list[Mention[str]]:
        found = self._ideas(sentence)
        taken = {at for m in found for at in range(m.first, m.last + 1)}
        for at, word in enumerate(sentence.words):
            idea = self._telling.get(stem(word))
            if at not in taken and idea is not None:
                found.append(Mention(idea, at, at, is_weak=True))
        found.sort(key=lambda mention: mention.first)
        return [replace(m, is_comparand=_compared(sentence, m.first)) for m in found]

    def metrics(self, sentence: Sentence) -> list[Mention[str]]:
        """Return the mentions of metrics, including metrics that the recipe lacks."""
        known: list[Mention[str]] | None = sentence.known.get("metrics")
        if known is None:
            known = sentence.known["metrics"] = self._metrics(sentence)
        return known

    @staticmethod
    def splits(sentence: Sentence) -> list[Mention[Split]]:
        """Return the mentions of splits; "never used in the search" mentions the test split."""
        found = _SPLIT_FINDER(sentence)
        for at, word in enumerate(sentence.words):
            kind = _COMPOUND_SPLITS.get(word.partition("-")[0]) if "-" in word else None
            if kind is not None and not any(m.first <= at <= m.last for m in found):
                found.append(Mention(kind, at, at))
        return [_unseen(sentence, mention) for mention in found]

    @staticmethod
    def statistics(sentence: Sentence) -> list[Mention[frozenset[Statistic]]]:
        """Return the mentions of statistics."""
        return _STATISTIC_FINDER(sentence)


def setting_name(fact: Fact) -> str | None:
    """Return the name of a fact's hyperparameter or knob; None for other facts."""
    of = fact.scope.of or ""
    if fact.kind is FactKind.HYPERPARAMETER:
        return of
    return of.split(".")[1] if fact.kind is FactKind.SETTING and of.startswith("knob.") else None


_FOREIGN_METRICS = words(
    """
    accuracy accuracies error errors loss losses f1 auc auroc precision recall perplexity bleu rouge
    rmse mse mae iou dice latency throughput runtime entropy likelihood correlation kappa wer cer
    map ndcg psnr ssim fid
    """
)
_BESIDE = frozenset(
    words(
        "rate rates of is was at reaches reached equals to on test validation ( with by a in are "
        "falls rises"
    )
)


def _is_test(sentence: Sentence, first: int, last: int) -> bool:
    """Return whether "test" is the split and not a statistical test."""
    if sentence.words[last] != "test" or first < last:
        return True
    before = sentence.words[first - 1] if first else ""
    after = sentence.words[last + 1] if last + 1 < len(sentence.tokens) else ""
    if after in ("split", "set", "data"):
        return True
    return before not in _NO_TEST_BEFORE and after not in _NO_TEST_AFTER


_SPLIT_FINDER = Finder(dict(_SPLITS), dict(_WEAK_SPLITS), _is_test)


_COMPOUND_SPLITS = {
    "test": Split.TEST,
    "validation": Split.VALIDATION,
    "search": Split.VALIDATION,
}


def _unseen(sentence: Sentence, mention: Mention[Split]) -> Mention[Split]:
    near = sentence.words[max(0, mention.first - 5) : mention.last + 4]
    never = {"never", "unseen", "unused", "untouched"} & set(near)
    if mention.is_weak and mention.value is Split.VALIDATION and never:
        return replace(mention, value=Split.TEST)
    return mention


def _is_statistic(sentence: Sentence, first: int, last: int) -> bool:
    word = sentence.words[first]
    following = sentence.words[last + 1] if last + 1 < len(sentence.tokens) else ""
    if word == "p":
        return following in ("=", "<") or following == HOLE
    if word in ("best", "worst") and sentence.words[last] == "of":
        return bool(set(sentence.words[last + 1 : last + 5]) & {"seed", "seeds", "runs"})
    if word in ("averaged", "averages"):
        return following != "over"
    return True


_BEST_METRIC = Finder({("best",): Level.BEST, ("highest",): Level.BEST, ("top",): Level.BEST})


def _statistics(sentence: Sentence) -> list[Mention[frozenset[Statistic]]]:
    found = Finder(dict(_STATISTICS), fits=_is_statistic)(sentence)
    taken = {m.first for m in found}
    # "The best F1 of idea-0001" means a seed; "the best idea" does not.
    for mention in _BEST_METRIC(sentence):
        following = sentence.words[mention.last + 1 : mention.last + 2]
        told = following and (following[0] in _SCORES or following[0] == ")")
        if mention.first not in taken and told:
            found.append(mention)
    extreme = any(m.value in (Level.BEST, Level.WORST) for m in found)
    if extreme:  # "the best accuracy of a seed"
        found = [m for m in found if m.value is not Level.NONE or "seed" not in _said(sentence, m)]
    return sorted(found, key=lambda mention: mention.first)


def _said(sentence: Sentence, mention: Mention[frozenset[Statistic]]) -> str:
    return " ".join(sentence.words[mention.first : mention.last + 1])


_SCORES = frozenset((*_FOREIGN_METRICS, "score", "value", "result", "f1-score", "balanced"))
_STATISTIC_FINDER = _statistics


def _is_idea(sentence: Sentence, first: int, last: int) -> bool:
    if sentence.words[first] == "reference":  # not "with reference to"
        return sentence.words[first - 1 : first] != ["with"]
    return True


def _compared(sentence: Sentence, first: int) -> bool:
    """Return whether the thing named at a place is what something else is compared with."""
    at = first - 1
    while at >= 0 and first - at <= 7:
        word = sentence.words[at]
        if word in _COMPARES:
            if word == "to":
                return sentence.words[at - 1 : at] in (["compared"], ["relative"], ["superior"])
            return True
        if word in ("on", "upon") and any(
            w.startswith("improve") for w in sentence.words[max(0, at - 4) : at]
        ):
            return True
        if word not in _THROUGH and not _is_metric_word(word):
            return False
        at -= 1
    return False


def _is_metric_word(word: str) -> bool:
    return word in _SCORES


def _split(title: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[^\W_]+(?:[-'][^\W_]+)*", title.lower()))


def _head(title: tuple[str, ...]) -> tuple[str, ...]:
    """Return a title up to its first preposition, without an article."""
    words_ = list(title)
    if words_ and words_[0] in ("a", "an", "the"):
        words_ = words_[1:]
    for at, word in enumerate(words_):
        if at and word in _HEAD_ENDS:
            return tuple(words_[:at])
    return tuple(words_)


def _pairs(title: str) -> set[tuple[str, ...]]:
    """Return the pairs of adjacent words of a title in which at least one word is distinctive."""
    told = _split(title)
    return {
        pair
        for pair in pairwise(told)
        if any(map(_telling, pair)) and all(len(word) > 3 for word in pair)
    }


def _metric_parts(name: str) -> list[str]:
    return [part for part in re.split(r"[\W_]+", name.lower()) if part]


def _telling(word: str) -> bool:
    return len(word) >= 4 and word not in _STOP


def _distinctive(idea: FactIdea) -> set[str]:
    return {stem(word) for word in _split(idea.title) if _telling(word)}


def _plural(word: str) -> str:
    return (
        f"{word[:-1]}ies"
        if word.endswith("y")
        else f"{word}es"
        if word.endswith("s")
        else f"{word}s"
    )
