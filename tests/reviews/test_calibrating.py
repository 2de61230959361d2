"""Labelled sets, the calibration that comes of one, and reviews that say how far they err."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from judge_kit import FORM, NEURIPS, Judge, filled, kind, labelled, noisy, text_of, use

from hpcscientist.config.settings import Settings
from hpcscientist.errors import UsageError
from hpcscientist.records.model_calls import ModelRequest
from hpcscientist.records.reviews import Review
from hpcscientist.reviews import calibrated, page, paper
from hpcscientist.reviews.calibration import bench
from hpcscientist.reviews.calibration import labelled as sets
from hpcscientist.reviews.review import ReviewOptions, review_all

_WORTH = re.compile(r"worth=([\d.]+)")


def reads(request: ModelRequest) -> float:
    found = _WORTH.search(text_of(request))
    return float(found[1]) if found else 5.0


def knows(request: ModelRequest) -> dict[str, Any]:
    """A reviewer of known noise that is too kind, and less so of good papers."""
    worth = reads(request)
    return filled(
        overall=noisy(request, 0.6 * worth + 3.7, 0.5, 10, f"overall {worth}"),
        quality=noisy(request, worth / 2.5, 0.4, 4, f"quality {worth}"),
    )


def wanted(folder: Path, **more: Any) -> ReviewOptions:
    fixed = {"form": FORM, "settings": Settings(), "out": folder, "model": "m", "reflections": 1}
    return ReviewOptions(**(fixed | {"ensemble": 3} | more))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bench.Report:
    folder, out = tmp_path_factory.mktemp("set"), tmp_path_factory.mktemp("out")
    labelled(folder, 80)
    with pytest.MonkeyPatch.context() as patch:
        use(patch, {"m": Judge(knows)})
        return bench.calibrate(sets.read(folder), wanted(out), lambda _: None)


def test_a_reviewer_that_is_too_kind_is_put_right(made: bench.Report) -> None:
    of = made.calibration
    assert (of.fitted, of.held_out) == (40, 40)
    right, raw = of.measures, of.uncalibrated
    assert (right["FPR"].value or 1) < (raw["FPR"].value or 0) - 0.1
    assert (right["balanced accuracy"].value or 0) >= (raw["balanced accuracy"].value or 1)
    assert (right["AUROC"].value or 0) > 0.8
    assert (right["ECE"].value or 1) < 0.25
    assert (right["Spearman with humans"].value or 0) > 0.7
    for measure in (*right.values(), *raw.values()):
        assert measure.interval is not None and measure.count > 0


def test_the_reviewer_s_noise_is_recovered_within_its_interval(made: bench.Report) -> None:
    one = made.run_deviation["one reviewer, sampled"]
    assert one.interval is not None
    # Rounding to whole numbers adds 1/12 to the variance.
    assert one.interval[0] <= (0.5**2 + 1 / 12) ** 0.5 <= one.interval[1]
    all_of_them = made.run_deviation["all reviewers, sampled"]
    assert (all_of_them.value or 0) == pytest.approx((one.value or 0) / 3**0.5, abs=1e-5)


def test_all_of_it_is_printed(made: bench.Report) -> None:
    lines = "\n".join(bench.of_report(made))
    for word in (*made.calibration.measures, "humans", "SD from run to run", "tokens read"):
        assert word in lines
    assert made.cost["replies"] == 3
    assert made.humans["Spearman between humans"].interval is not None


def test_the_file_has_the_model_s_name_and_reads_back(made: bench.Report) -> None:
    path = Path(made.file)
    assert path.name == "scripted.ai-scientist.json"
    assert calibrated.load(path) == made.calibration
    path.with_name("broken.json").write_text("{}")
    with pytest.raises(UsageError):
        calibrated.load(path.with_name("broken.json"))


def test_a_review_says_whether_it_was_calibrated_on_what_and_how_far_it_errs(
    made: bench.Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, {"m": Judge(knows)})
    papers = [paper.of_text("bad", "worth=2.0"), paper.of_text("good", "worth=8.0")]
    bad, good = review_all(papers, wanted(tmp_path, calibration=made.calibration))
    assert isinstance(bad, Review) and isinstance(good, Review)
    assert bad.calibrated.applied and good.calibrated.applied
    assert (bad.calibrated.decision, good.calibrated.decision) == ("reject", "accept")
    assert (bad.calibrated.probability or 1) < 0.5 < (good.calibrated.probability or 0)
    told = "\n".join(page.verdict(bad))
    assert made.calibration.labelled in told
    assert page.measure(made.calibration.measures["FPR"]) in told
    scores = calibrated.values(bad)
    assert bad.calibrated.probability == made.calibration.map.probability(scores)


@pytest.mark.parametrize(
    "change", [{"ensemble": 2}, {"temperature": 0.1}, {"reflections": 2}, {"form": NEURIPS}]
)
def test_a_calibration_of_another_reviewer_is_not_applied(
    change: dict[str, Any], made: bench.Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = change.get("form", FORM)

    def script(request: ModelRequest) -> dict[str, Any]:
        if kind(request) == "reconsider":
            return {"remarks": "Fine.", "done": True}
        return filled(form)

    use(monkeypatch, {"m": Judge(script)})
    one = paper.of_text("one", "worth=5.0")
    more = {"calibration": made.calibration, "chair": False} | change
    (found,) = review_all([one], wanted(tmp_path, **more))
    assert isinstance(found, Review)
    assert not found.calibrated.applied
    assert any(name in found.calibrated.note for name in change)


def test_another_model_s_calibration_is_not_applied(
    made: bench.Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, {"m": Judge(knows, name="another")})
    one = paper.of_text("one", "worth=5.0")
    (found,) = review_all([one], wanted(tmp_path, calibration=made.calibration, chair=False))
    assert isinstance(found, Review) and not found.calibrated.applied
    assert "another" in found.calibrated.note


def test_expectations_tell_papers_apart_that_samples_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small model gives every paper a 7; how likely its other numbers are says more."""
    labelled(tmp_path, 60, seed=2)

    def odds(request: ModelRequest, sampled: int) -> dict[int, float]:
        share = min(0.9, max(0.02, reads(request) / 12))
        return {sampled: 1 - share, min(10, sampled + 1): share}

    use(monkeypatch, {"m": Judge(lambda r: filled(overall=7), odds=odds)})
    made = bench.calibrate(sets.read(tmp_path), wanted(tmp_path / "out"), lambda _: None)
    assert made.scores["all reviewers, sampled"].value == 0.5
    expected, gain = (made.scores[f"all reviewers, {of}"] for of in ("expected", "gain"))
    assert expected.value is not None and expected.value > 0.8
    assert gain.value == pytest.approx(expected.value - 0.5, abs=1e-6)
    assert gain.interval is not None and gain.interval[0] > 0
    assert gain.count == 60
    assert made.calibration.expected


def test_a_set_goes_on_where_it_was_ended_and_names_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labelled(tmp_path, 30)
    (tmp_path / "003.txt").write_text("unreviewable")
    script = lambda r: "no" if "unreviewable" in text_of(r) else knows(r)  # noqa: E731
    use(monkeypatch, {"m": Judge(script)})
    first = bench.calibrate(sets.read(tmp_path), wanted(tmp_path / "out"), lambda _: None)
    again = Judge(script)
    use(monkeypatch, {"m": again})
    second = bench.calibrate(sets.read(tmp_path), wanted(tmp_path / "out"), lambda _: None)
    assert second == first
    assert again.asked == []  # what could not be used is recorded too
    assert [text[:5] for text in first.lost] == ["p003x"]


# Labelled sets


def test_halves_depend_on_ids_and_seed_alone(tmp_path: Path) -> None:
    labelled(tmp_path, 41)
    of = sets.read(tmp_path)
    first, second = of.halves(0)
    ids = [{p.paper_id for p in half} for half in (first, second)]
    assert ids[0] | ids[1] == {p.paper_id for p in of.papers} and not ids[0] & ids[1]
    assert abs(len(first) - len(second)) <= 1
    assert abs(sum(p.accepted for p in first) - sum(p.accepted for p in second)) <= 1
    turned = sets.LabelledSet(of.name, of.sha256, of.papers[::-1], ())
    assert {p.paper_id for p in turned.halves(0)[0]} == ids[0]
    assert {p.paper_id for p in of.halves(1)[0]} != ids[0]


TABLE = "\t0\t1\t2\t3\tdecision\n" + "".join(
    f"id{n}\t{n % 10 + 1}\t{n % 7 + 1}\t\tnan\t{'Accept (Poster)' if n % 2 else 'Reject'}\n"
    for n in range(12)
)


def test_the_ai_scientist_s_layout_is_read(tmp_path: Path) -> None:
    more = "gone\t3\t3\t3\t3\tReject\nasked\t5\t5\t5\t5\tUnknown\nid1\t1\t1\t1\t1\tReject\n"
    (tmp_path / "ratings_subset.tsv").write_text(TABLE + more)
    (tmp_path / "iclr_parsed").mkdir()
    for number in range(12):
        (tmp_path / "iclr_parsed" / f"id{number}.txt").write_text(f"# Paper {number}\n\nText.")
    of = sets.read(tmp_path)
    assert [p.paper_id for p in of.papers] == [f"id{n}" for n in range(12)]
    assert of.missing == ("gone",)
    assert (of.papers[3].scores, of.papers[3].accepted) == ((4.0, 4.0), True)
    assert of.papers[0].read().title == "Paper 0"
    few = sets.read(tmp_path, limit=8)
    assert sum(p.accepted for p in few.papers) == 4 and len(few.papers) == 8


def line(**change: Any) -> str:
    return json.dumps({"id": "a", "text": "a.txt", "scores": [3], "decision": "accept"} | change)


@pytest.mark.parametrize(
    "lines",
    [
        "",
        line(decision="maybe"),
        line(text="../a.txt"),
        "\n".join([line(), line()]),
        "{",
        "\n".join(line(id=f"p{n}") for n in range(9)),  # all of them accepted
    ],
)
def test_a_set_that_cannot_be_used_is_refused(lines: str, tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text(lines)
    (tmp_path / "a.txt").write_text("Text.")
    with pytest.raises(UsageError):
        sets.read(tmp_path)


def test_a_folder_without_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        sets.read(tmp_path)
