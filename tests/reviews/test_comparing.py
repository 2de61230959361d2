"""Comparisons of two papers: swapped positions, judges, aspects, intervals."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judge_kit import Judge, text_of, use
from scipy.stats import t, ttest_1samp

from hpcscientist.config.settings import Settings
from hpcscientist.errors import EndpointError
from hpcscientist.feedback.statistics import wilson
from hpcscientist.records.model_calls import ModelRequest
from hpcscientist.records.reviews import Mark, Sample
from hpcscientist.reviews import page, paper
from hpcscientist.reviews.compare import ASPECTS, ComparisonOptions, compare, result

GOOD = paper.of_text("good", "# Good\n\n## Text\n\nThe better paper.")
BAD = paper.of_text("bad", "# Bad\n\n## Text\n\nThe worse paper.")
NAMES = [name for name, _ in ASPECTS]


def told(value: int, **more: int) -> dict[str, Any]:
    return {"reason": "Because.", **dict.fromkeys(NAMES, value), **more}


def fair(request: ModelRequest, gap: float = 2.0, bias: float = 0.0, noise: float = 0.0) -> int:
    """A judge that knows which paper is better by how much, likes the first, and is noisy."""
    text = text_of(request)
    good_first = text.index("The better paper.") < text.index("The worse paper.")
    drawn = random.Random(f"{request.seed}/{request.key}").gauss(0, noise) if noise else 0.0
    return min(7, max(1, round(4 + (gap if good_first else -gap) + bias + drawn)))


def run(
    monkeypatch: pytest.MonkeyPatch, folder: Path, judges: dict[str, Judge], samples: int = 8
) -> Any:
    use(monkeypatch, judges)
    return compare(GOOD, BAD, ComparisonOptions(Settings(), folder, tuple(judges), samples))


def test_every_other_sample_has_the_papers_in_the_other_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge(lambda r: told(fair(r)))
    made = run(monkeypatch, tmp_path, {"j": judge})
    papers = ("The better paper.", "The worse paper.")
    assert sum(all(paper in text_of(r) for paper in papers) for r in judge.asked) == 8
    (of,) = made.judges
    assert [s.swapped for s in of.samples] == [False, True] * 4
    assert {s.marks["overall"].sampled for s in of.samples} == {2}
    aspect = of.aspects["rigor"]
    assert (aspect.rating.value, aspect.consistency.value, aspect.position.value) == (2, 1, 0)
    assert aspect.comparable.value == 1
    assert aspect.comparable.interval == wilson(8, 8)
    # Both of a pair are asked with one seed, so that the order is all that differs.
    seeds = [r.seed for r in sorted(judge.asked, key=lambda r: r.ordinal)]
    assert seeds[::2] == seeds[1::2] and len(set(seeds)) == 4


def test_a_judge_that_likes_whatever_stands_first_is_seen_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run(monkeypatch, tmp_path, {"j": Judge(lambda r: told(6))})
    aspect = made.aspects["overall"]
    assert aspect.rating.value == 0
    assert made.judges[0].aspects["overall"].position.value == 2
    assert made.judges[0].aspects["overall"].consistency.value == 0
    assert made.judges[0].aspects["overall"].comparable.value == 0.5


def test_aspects_are_judged_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def script(request: ModelRequest) -> dict[str, Any]:
        return told(fair(request, 1), innovation=fair(request, -3))

    made = run(monkeypatch, tmp_path, {"j": Judge(script)}, 4)
    ratings = {name: of.rating.value for name, of in made.judges[0].aspects.items()}
    assert ratings == {"innovation": -3, "rigor": 1, "validation": 1, "overall": 1}


def test_a_rating_s_expectation_is_on_its_own_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge(lambda r: told(fair(r, 1)), odds=lambda r, n: {n: 0.75, 4: 0.15, 9: 0.1})
    made = run(monkeypatch, tmp_path, {"j": judge}, 4)
    assert made.judges[0].aspects["overall"].expected.value == pytest.approx(0.75 / 0.9)
    assert made.judges[0].aspects["overall"].rating.value == 1


def test_over_judges_each_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judges = {
        f"j{gap}": Judge(lambda r, g=gap: told(fair(r, g)), name=f"m{gap}") for gap in (0, 1, 2)
    }
    made = run(monkeypatch, tmp_path, judges, 4)
    rating = made.aspects["overall"].rating
    low, high = t.interval(0.95, 2, 1.0, 1 / np.sqrt(3))
    assert (rating.value, rating.count) == (1, 3)
    assert rating.interval == (pytest.approx(low), pytest.approx(high))
    assert [of.models for of in made.judges] == [("m0",), ("m1",), ("m2",)]


def test_a_lost_sample_costs_its_pair_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge(lambda r: "no" if r.ordinal == 3 else told(fair(r)))
    made = run(monkeypatch, tmp_path, {"j": judge}, 6)
    (of,) = made.judges
    assert len(of.samples) == 5 and len(of.lost) == 1
    assert of.aspects["overall"].rating.count == 2
    assert of.aspects["overall"].comparable.count == 5


def test_a_comparison_goes_on_where_it_was_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(monkeypatch, tmp_path / "whole", {"j": Judge(lambda r: told(fair(r, noise=1)))})

    def dies(request: ModelRequest) -> dict[str, Any]:
        if len(killed.asked) > 3:
            raise EndpointError("gone")
        return told(fair(request, noise=1))

    killed, second = Judge(dies), Judge(lambda r: told(fair(r, noise=1)))
    with pytest.raises(EndpointError):
        run(monkeypatch, tmp_path / "killed", {"j": killed})
    made = run(monkeypatch, tmp_path / "killed", {"j": second})
    assert made == whole
    assert len(second.asked) == 5
    found = (tmp_path / "killed" / made.comparison_id / "review.md").read_text()
    assert found == page.of_comparison(made)


def test_papers_that_do_not_fit_beside_each_other_are_read_by_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "\n\n".join(f"Sentence {n} of many, which tells something." for n in range(600))
    one = paper.of_text("one", f"# One\n\n{long}\n\nThe better paper.")
    other = paper.of_text("other", f"# Other\n\n{long}\n\nThe worse paper.")

    def script(request: ModelRequest) -> dict[str, Any]:
        if request.stage == "read":
            better = "The better paper." in text_of(request)
            worse = "The worse paper." in text_of(request)
            said = "The better paper." if better else "The worse paper." if worse else "More."
            return {"summary": said}
        return told(fair(request))

    judge = Judge(script)
    use(monkeypatch, {"j": judge}, context=9000)
    made = compare(one, other, ComparisonOptions(Settings(), tmp_path, ("j",), 4))
    assert made.aspects["overall"].rating.value == 2
    read = [r for r in judge.asked if r.stage == "read"]
    assert {r.ordinal > 500 for r in read} == {False, True}


MARKS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=12)


def samples_of(pairs: list[tuple[int, int]]) -> list[Sample]:
    flat = [mark for pair in pairs for mark in pair]
    return [
        Sample(number=n, swapped=n % 2 == 0, marks={"overall": Mark(sampled=mark)}, reason="r")
        for n, mark in enumerate(flat, start=1)
    ]


@given(MARKS)
def test_figures_are_those_of_scipy(pairs: list[tuple[int, int]]) -> None:
    found = result(samples_of(pairs), "overall")
    means = np.mean(pairs, axis=1)
    assert found.rating.value == pytest.approx(means.mean())
    if np.ptp(means) > 0:
        own = ttest_1samp(means, 0).confidence_interval(0.95)
        assert found.rating.interval == (pytest.approx(own.low), pytest.approx(own.high))
    else:
        assert found.rating.interval is None
    signs = np.sign(pairs)
    assert found.consistency.value == pytest.approx((signs[:, 0] == signs[:, 1]).mean())
    assert found.comparable.value == pytest.approx((np.asarray(pairs) >= -1).mean())
    assert found.position.value == pytest.approx(np.diff(pairs, axis=1).mean() / -2)


@given(MARKS)
def test_to_swap_the_papers_is_to_change_the_sign(pairs: list[tuple[int, int]]) -> None:
    one = result(samples_of(pairs), "overall")
    other = result(samples_of([(-b, -a) for a, b in pairs]), "overall")
    assert one.rating.value == pytest.approx(-(other.rating.value or 0))
    assert one.consistency == other.consistency
    assert one.position.value == pytest.approx(other.position.value)


def test_a_judge_of_known_gap_and_bias_is_recovered_within_its_intervals() -> None:
    """Of 200 comparisons, the intervals of rating and of position hold the truth in 95%."""
    drawn = np.random.default_rng(5)
    held = {"rating": 0, "position": 0}
    for _ in range(200):
        gap, bias = 0.7, 0.4
        noise = drawn.normal(0, 0.8, size=(8, 2))
        pairs = np.array([gap + bias, gap - bias]) + noise  # as marks of the first paper
        samples = [
            Sample(
                number=n + 1, swapped=n % 2 == 1, reason="r",
                marks={"overall": Mark(sampled=0, expected=float(pairs[n // 2, n % 2]))},
            )
            for n in range(16)
        ]  # fmt: skip
        found = result(samples, "overall")
        for name, measure, truth in (
            ("rating", found.expected, gap),
            ("position", found.position, bias),
        ):
            assert measure.interval is not None
            held[name] += measure.interval[0] <= truth <= measure.interval[1]
    assert all(180 <= count <= 199 for count in held.values()), held
