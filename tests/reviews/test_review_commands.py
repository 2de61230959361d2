"""`hpcsci review` and `hpcsci compare` as people run them, from recorded replies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from attack_kit import SEEN, write
from judge_kit import labelled

from hpcscientist.cli.main import run
from hpcscientist.records.reviews import PaperComparison, Review

RECORDED = Path(__file__).resolve().parents[2] / "recipes" / "digits" / "reviews.jsonl"
TEXT = "# Warm-up and cosine decay\n\n## Results\n\nThe mean accuracy rises over 5 seeds.\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory with two papers, and the working directory beside it."""
    for name in ("idea-0008", "idea-0001"):
        folder = tmp_path / "run" / "papers" / name
        folder.mkdir(parents=True)
        (folder / "paper.txt").write_text(TEXT + name)
    (tmp_path / "run" / "recipe").mkdir()
    (tmp_path / "run" / "campaign.toml").write_text("")
    shutil.copyfile(RECORDED, tmp_path / "run" / "recipe" / "reviews.jsonl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCSCI_CONFIG", str(tmp_path / "none.toml"))
    (tmp_path / "none.toml").write_text("")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert run([*arguments, "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(("form", "overall"), [("ai-scientist", 3.6), ("neurips", 2.8)])
def test_a_paper_of_the_quickstart_is_reviewed_offline_in_both_forms(
    form: str, overall: float, capsys: pytest.CaptureFixture[str]
) -> None:
    place = "run/papers/idea-0008/paper.txt"
    (told,) = said(capsys, "review", place, "--model", "playbook", "--form", form)
    made = Review.model_validate_json(json.dumps(told))
    assert len(made.members) == 5 and made.lost == ()
    assert made.spread["overall"].sampled == pytest.approx(overall)
    assert made.chair is not None and made.chair.choices["decision"] == "reject"
    assert (made.spread["overall"].expected is not None) == (form == "ai-scientist")
    folder = Path("reviews") / made.review_id
    assert Review.model_validate_json((folder / "review.json").read_text()) == made
    assert made.members[2].rounds == (3 if form == "ai-scientist" else 2)


def test_two_papers_are_compared_offline(capsys: pytest.CaptureFixture[str]) -> None:
    papers = [f"run/papers/{name}/paper.txt" for name in ("idea-0008", "idea-0001")]
    (told,) = said(capsys, "compare", *papers, "--judges", f"playbook:{RECORDED}")
    made = PaperComparison.model_validate_json(json.dumps(told))
    assert made.aspects["overall"].rating.value == pytest.approx(0.125)
    assert len(made.judges[0].samples) == 16


def test_for_people_it_says_that_nothing_was_calibrated_and_what_was_left_out(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = here / "run" / "papers" / "idea-0008"
    shutil.copyfile(write(here, SEEN[0], ".txt"), folder / "paper.txt")
    assert run(["review", str(folder / "paper.txt"), "--model", "playbook"]) == 0
    out = capsys.readouterr().out
    assert "uncalibrated" in out
    assert SEEN[0].payload in out


def test_a_paper_that_the_playbook_does_not_know_is_told_and_the_others_are_reviewed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    papers = ["run/papers/idea-0001/paper.txt", "run/papers/idea-0008/paper.txt"]
    found = said(capsys, "review", *papers, "--model", f"playbook:{RECORDED}", code=1)
    assert [one["paper"] for one in found] == ["idea-0008"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["review", "missing.pdf", "--model", "playbook"],
        ["review", "run/papers/idea-0008/paper.txt"],  # nobody reviews
        ["review", "run/papers/idea-0008/paper.txt", "--model", "playbook", "--form", "none"],
        ["review", "run/campaign.toml", "--model", "playbook"],
        ["review", "none.toml", "--model", "playbook"],
        ["compare", "none.toml", "none.toml", "--samples", "3"],
        ["bench", "review"],
        ["bench", "review", "--labelled", ".", "--planted"],
        ["bench", "review", "--labelled", "."],
        ["review", "run/papers/idea-0008/paper.txt", "--examples", "run", "--model", "playbook"],
    ],
)
def test_wrong_use_is_one_line_and_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and captured.out == ""


def test_a_bench_from_recorded_replies_ends_in_a_calibration_that_a_review_takes(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every paper has the same recorded reviews, so the judge tells nothing apart."""
    (here / "set").mkdir()
    labelled(here / "set", 16)
    lines = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    kept = [line | {"idea": 0} for line in lines if line["stage"].endswith("-ai-scientist")]
    book = here / "all.jsonl"
    book.write_text("".join(json.dumps(line) + "\n" for line in kept))
    options = ["--model", f"playbook:{book}", "--reflections", "1", "--ensemble", "2"]
    (report,) = said(capsys, "bench", "review", "--labelled", "set", *options)
    assert report["calibration"]["measures"]["AUROC"]["value"] == 0.5
    (here / "new.txt").write_text(TEXT)
    (told,) = said(capsys, "review", "new.txt", *options, "--calibration", report["file"])
    assert told["calibrated"]["applied"] and told["calibrated"]["papers"] == 16
    (off,) = said(capsys, "review", "new.txt", *options[:4], "--calibration", report["file"])
    assert not off["calibrated"]["applied"]
