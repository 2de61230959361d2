"""Panels of reviewers: ensemble, reflection, area chair, long papers, and going on after a kill."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from judge_kit import FORM, NEURIPS, Judge, filled, kind, summed_up, text_of, use

from hpcscientist.config.settings import REVIEW, Settings
from hpcscientist.errors import ContextOverflow, EndpointError, ReplyError, UsageError
from hpcscientist.files.rundir import ReviewPaths
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.models.role_client import RoleClient
from hpcscientist.records.model_calls import ModelRequest
from hpcscientist.records.reviews import Review
from hpcscientist.reviews import form as forms
from hpcscientist.reviews import page, paper
from hpcscientist.reviews.form import Form
from hpcscientist.reviews.reading import PaperReader, Subject, split
from hpcscientist.reviews.review import NotReviewed, ReviewOptions, examples_of, review_all
from hpcscientist.reviews.reviewer import Example, Panel, PanelReview, Reviewers, spread, spreads

PAPER = paper.of_text("idea-0007", "# Shifts\n\n## Method\n\nWe shift.\n\n## Results\n\nIt is 0.9.")
LONG = "# Long\n\n" + "\n\n".join(
    f"## Part {n}\n\n" + " ".join(f"Sentence {n}.{k} tells something." for k in range(60))
    for n in range(20)
)


def one_round(request: ModelRequest) -> dict[str, Any]:
    if kind(request) == "reconsider":
        return {"remarks": "Nothing.", "done": True, "review": None}
    return summed_up() if kind(request) == "meta" else filled()


def ask(
    judge: Judge, folder: Path, panel: Panel, form: Form = FORM, of: Any = PAPER, context: int = 0
) -> PanelReview:
    client = RoleClient(judge, "review", REVIEW, window=Window(context))
    subject = Subject(of.name, 7)
    reader = PaperReader(client, subject, folder / "reading.json")
    return asyncio.run(Reviewers(client, form, panel).review(of, subject, reader))


def wanted(folder: Path, **more: Any) -> ReviewOptions:
    return ReviewOptions(
        **({"form": FORM, "settings": Settings(), "out": folder, "model": "m"} | more)
    )


def test_each_reviewer_has_a_seed_of_its_own_and_stops_when_it_has_nothing_to_change(
    tmp_path: Path,
) -> None:
    judge = Judge(one_round)
    found = ask(judge, tmp_path, Panel(ensemble=3, reflections=5))
    assert [(m.member, m.rounds, m.settled) for m in found.members] == [
        (1, 2, True), (2, 2, True), (3, 2, True),
    ]  # fmt: skip
    assert judge.stages() == [
        "meta/1", "reconsider/102", "reconsider/202", "reconsider/302",
        "review/1", "review/2", "review/3",
    ]  # fmt: skip
    assert len({r.seed for r in judge.asked if kind(r) == "review"}) == 3


def test_a_reflection_changes_the_review_until_the_rounds_are_used_up(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> dict[str, Any]:
        if kind(request) != "reconsider":
            return one_round(request)
        assert '"overall": ' in text_of(request)
        number = request.ordinal % 100
        return {"remarks": "Worse.", "done": False, "review": filled(overall=number)}

    found = ask(Judge(script), tmp_path, Panel(ensemble=1, reflections=4, chair=False))
    (member,) = found.members
    assert (member.rounds, member.settled, member.marks["overall"].sampled) == (4, False, 4)


def test_one_reflection_means_none(tmp_path: Path) -> None:
    judge = Judge(one_round)
    ask(judge, tmp_path, Panel(ensemble=1, reflections=1, chair=False))
    assert judge.stages() == ["review/1"]


def test_a_reviewer_without_a_usable_reply_is_left_out_and_told(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> str | dict[str, Any]:
        bad = kind(request) == "review" and request.ordinal == 2
        return "I would rather not." if bad else one_round(request)

    found = ask(Judge(script), tmp_path, Panel(ensemble=3, reflections=1))
    assert [m.member for m in found.members] == [1, 3]
    assert [text[:10] for text in found.lost] == ["reviewer 2"]
    with pytest.raises(ReplyError):
        ask(Judge(lambda _: "no"), tmp_path, Panel(ensemble=2))


def test_a_broken_reflection_leaves_the_review_as_it_was(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> str | dict[str, Any]:
        return "broken" if kind(request) == "reconsider" else one_round(request)

    found = ask(Judge(script), tmp_path, Panel(ensemble=1, reflections=3, chair=False))
    assert (found.members[0].rounds, found.members[0].settled) == (1, False)


def test_the_chair_sees_all_reviews_and_gives_no_scores(tmp_path: Path) -> None:
    judge = Judge(lambda r: summed_up(NEURIPS) if kind(r) == "meta" else filled(NEURIPS))
    found = ask(judge, tmp_path, Panel(ensemble=3, reflections=1), NEURIPS)
    (chair,) = [r for r in judge.asked if kind(r) == "meta"]
    assert text_of(chair).count("### Reviewer") == 3
    assert found.chair is not None and found.chair.marks == {}
    assert found.chair.choices["decision"] == "reject"


def test_a_score_is_its_expectation_within_its_own_scale(tmp_path: Path) -> None:
    # Odds beside the scale of 1 to 4 are no part of it; a reviewer's overall is as told.
    judge = Judge(one_round, odds=lambda r, n: {n: 0.5, min(10, n + 1): 0.3, 9: 0.2})
    found = ask(judge, tmp_path, Panel(ensemble=2, reflections=1, chair=False))
    marks = found.members[0].marks
    assert marks["originality"].sampled == 2
    assert marks["originality"].expected == pytest.approx((2 * 0.5 + 3 * 0.3) / 0.8)
    assert marks["overall"].expected == pytest.approx(5 * 0.5 + 6 * 0.3 + 9 * 0.2)
    scores = spreads(FORM, found.members)
    assert scores["overall"].value == marks["overall"].expected
    assert scores["overall"].sampled == 5


def test_a_corrected_review_has_its_own_expectations(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> dict[str, Any]:
        if kind(request) == "reconsider":
            return {"remarks": "Better.", "done": True, "review": filled(overall=8)}
        return one_round(request)

    judge = Judge(script, odds=lambda r, n: {n: 0.9, 1: 0.1})
    found = ask(judge, tmp_path, Panel(ensemble=1, reflections=3, chair=False))
    assert found.members[0].marks["overall"].sampled == 8
    assert found.members[0].marks["overall"].expected == pytest.approx(7.3)


def test_spread_of_marks() -> None:
    from hpcscientist.records.reviews import Mark  # noqa: PLC0415

    found = spread([Mark(sampled=3), Mark(sampled=5), Mark(sampled=7)])
    assert (found.value, found.deviation, found.expected, found.count) == (5, 2, None, 3)
    # Student's t with 2 degrees of freedom: 4.303 standard errors.
    assert found.interval == (pytest.approx(5 - 4.9683, abs=1e-3), pytest.approx(9.9683, abs=1e-3))
    assert spread([Mark(sampled=3)] * 2).interval is None


# Papers that are longer than the context


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40, 128])
def test_parts_hold_all_of_a_text(count: int) -> None:
    parts = split(LONG, count)
    told = re.sub(r"## Part \d+ \(continued\)", "", "\n".join(parts))
    assert "".join(told.split()) == "".join(LONG.split())
    assert len(parts) <= 2 * count


def test_a_table_longer_than_a_part_is_parted_and_not_cut() -> None:
    table = "\n".join(f"row {n} | {n * n} | {n + 1}" for n in range(500))
    assert "".join("".join(split(table, 8)).split()) == "".join(table.split())


def notes(request: ModelRequest) -> dict[str, Any]:
    if kind(request) != "read":
        return one_round(request)
    seen = re.findall(r"Sentence (\d+\.\d+) ", text_of(request))
    return {"summary": f"From {seen[0]} to {seen[-1]}.", "results": ["0.91 over 5 seeds"]}


def test_a_long_paper_is_read_by_parts_and_every_sentence_is_read(tmp_path: Path) -> None:
    judge = Judge(notes)
    long = paper.of_text("long", LONG)
    found = ask(judge, tmp_path, Panel(ensemble=2, reflections=1), of=long, context=7000)
    assert found.parts > 1
    read = " ".join(text_of(r) for r in judge.asked if kind(r) == "read")
    assert set(re.findall(r"Sentence (\d+\.\d+) ", read)) == {
        f"{n}.{k}" for n in range(20) for k in range(60)
    }
    shown = [text_of(r) for r in judge.asked if kind(r) == "review"]
    assert all("0.91 over 5 seeds" in text and "Sentence 3.4 tells" not in text for text in shown)
    assert len(json.loads((tmp_path / "reading.json").read_text())["parts"]) == 1


def test_whoever_goes_on_reads_the_same_parts_whatever_was_learnt_since(tmp_path: Path) -> None:
    long = paper.of_text("long", LONG)
    first, again = Judge(notes), Judge(notes)
    ask(first, tmp_path, Panel(ensemble=1, reflections=1), of=long, context=7000)
    ask(again, tmp_path, Panel(ensemble=1, reflections=1), of=long, context=9000)
    assert first.stages() == again.stages()


def test_a_server_that_tells_its_context_by_refusing_is_believed(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> dict[str, Any]:
        size = len(text_of(request)) // 3
        if size > 7000:
            raise ContextOverflow("too long", context=7000, prompt_tokens=size)
        return notes(request)

    judge = Judge(script)
    long = paper.of_text("long", LONG)
    found = ask(judge, tmp_path, Panel(ensemble=2, reflections=1, chair=False), of=long)
    assert found.parts > 1
    assert len(found.members) == 2


def test_notes_that_are_too_long_are_read_by_parts_in_their_turn(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> dict[str, Any]:
        if kind(request) == "read" and request.ordinal < 1000:
            return {"summary": "Sentence 0.0 at length. " * 60}
        if kind(request) == "read":
            return {"summary": "In brief."}
        return one_round(request)

    judge = Judge(script)
    long = paper.of_text("long", LONG)
    ask(judge, tmp_path, Panel(ensemble=1, reflections=1), of=long, context=6000)
    assert any(kind(r) == "read" and r.ordinal > 1000 for r in judge.asked)
    assert len(json.loads((tmp_path / "reading.json").read_text())["parts"]) == 2


def test_examples_go_before_the_paper_is_read_by_parts(tmp_path: Path) -> None:
    example = Example("# Another\n\n" + "Its words. " * 3000, "{}")
    judge = Judge(one_round)
    panel = Panel(ensemble=1, reflections=1, examples=(example,), chair=False)
    found = ask(judge, tmp_path, panel, context=6000)
    assert found.parts == 1
    assert "Its words." not in text_of(judge.asked[0])
    roomy = Judge(one_round)
    ask(roomy, tmp_path, panel, context=60000)
    assert "Worked example 1" in text_of(roomy.asked[0])


# The record


def test_a_review_is_written_with_all_that_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, {"m": Judge(one_round)})
    (made,) = review_all([PAPER], wanted(tmp_path, ensemble=3, reflections=2))
    assert isinstance(made, Review)
    paths = ReviewPaths(tmp_path / made.review_id)
    assert Review.model_validate_json(paths.review.read_text()) == made
    assert (made.decision, made.spread["overall"].value, made.models) == (
        "reject", 5.0, ("scripted",),
    )  # fmt: skip
    assert not made.calibrated.applied
    assert made.effort.replies == 7
    assert len(paths.idea("any").chat.read_text().splitlines()) == 7
    assert page.of_review(made, FORM) == paths.page.read_text()


@pytest.mark.parametrize("after", range(7))
def test_whoever_is_ended_goes_on_and_comes_to_the_same_review(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, {"m": Judge(by_place)})
    (whole,) = review_all([PAPER], wanted(tmp_path / "whole", ensemble=3, reflections=2))

    def dies(request: ModelRequest) -> dict[str, Any]:
        if len(killed.asked) > after:
            raise EndpointError("the server is gone")
        return by_place(request)

    killed, second = Judge(dies), Judge(by_place)
    use(monkeypatch, {"m": killed})
    with pytest.raises(EndpointError):
        review_all([PAPER], wanted(tmp_path / "killed", ensemble=3, reflections=2))
    use(monkeypatch, {"m": second})
    (made,) = review_all([PAPER], wanted(tmp_path / "killed", ensemble=3, reflections=2))
    assert made == whole
    assert len(second.asked) == 7 - after


KILLED = """
import os, signal, sys
from pathlib import Path
import test_reviewing as here

def dies(request):
    if len(judge.asked) > int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return here.by_place(request)

judge = here.Judge(dies)
here.use(here.pytest.MonkeyPatch(), {"m": judge})
here.review_all([here.PAPER], here.wanted(Path(sys.argv[1]), ensemble=3, reflections=2))
"""


def by_place(request: ModelRequest) -> dict[str, Any]:
    """Scores that differ between reviewers."""
    if kind(request) == "review":
        return filled(overall=request.ordinal + 3)
    return one_round(request)


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("after", [4, 6])
def test_whoever_is_killed_goes_on_and_asks_for_what_is_lacking_alone(
    after: int, torn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, {"m": Judge(by_place)})
    (whole,) = review_all([PAPER], wanted(tmp_path / "whole", ensemble=3, reflections=2))
    place = tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(place), str(after)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    (chat,) = place.rglob("chat.jsonl")
    recorded = chat.read_bytes()
    if torn:
        chat.write_bytes(recorded[:-20])
    second = Judge(by_place)
    use(monkeypatch, {"m": second})
    (made,) = review_all([PAPER], wanted(place, ensemble=3, reflections=2))
    assert made == whole
    assert 0 < recorded.count(b"\n") <= after
    assert len(second.asked) == 7 - recorded.count(b"\n") + torn


def test_a_larger_ensemble_asks_the_further_reviewers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, {"m": Judge(one_round)})
    review_all([PAPER], wanted(tmp_path, ensemble=2, reflections=1, chair=False))
    more = Judge(one_round)
    use(monkeypatch, {"m": more})
    (made,) = review_all([PAPER], wanted(tmp_path, ensemble=4, reflections=1, chair=False))
    assert more.stages() == ["review/3", "review/4"]
    assert isinstance(made, Review) and len(made.members) == 4


@pytest.mark.parametrize(
    "change", [{"temperature": 0.1}, {"form": NEURIPS}, {"settings": Settings(seed=3)}]
)
def test_another_request_is_another_review(
    change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = change.get("form", FORM)
    judge = Judge(lambda r: summed_up(form) if kind(r) == "meta" else filled(form))
    use(monkeypatch, {"m": Judge(one_round)})
    (first,) = review_all([PAPER], wanted(tmp_path, ensemble=1, reflections=1))
    use(monkeypatch, {"m": judge})
    (second,) = review_all([PAPER], wanted(tmp_path, ensemble=1, reflections=1, **change))
    assert isinstance(first, Review) and isinstance(second, Review)
    assert first.review_id != second.review_id


def test_a_paper_that_nobody_can_review_costs_no_other_its_review(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = paper.of_text("other", "# Other\n\n## Text\n\nUnreviewable.")
    use(monkeypatch, {"m": Judge(lambda r: "no" if "Unrev" in text_of(r) else one_round(r))})
    first, second = review_all([PAPER, other], wanted(tmp_path, ensemble=1, reflections=1))
    assert isinstance(first, Review)
    assert isinstance(second, NotReviewed) and second.paper == "other"


# Forms and examples


def test_forms_of_the_package_ask_what_they_should() -> None:
    assert forms.names() == ["ai-scientist", "neurips"]
    assert {of.id: of.highest for of in FORM.scores} == {
        "originality": 4, "quality": 4, "clarity": 4, "significance": 4, "soundness": 4,
        "presentation": 4, "contribution": 4, "overall": 10, "confidence": 5,
    }  # fmt: skip
    assert {of.id: of.highest for of in NEURIPS.scores} == {
        "quality": 4, "clarity": 4, "significance": 4, "originality": 4, "overall": 6,
        "confidence": 5,
    }  # fmt: skip
    assert (FORM.reply.highest, NEURIPS.reply.highest) == (10, 6)


OWN = """
title = "A workshop"
guidance = "Be brief."
overall = "worth"
accept = 3
[[fields]]
id = "remarks"
kind = "text"
ask = "What you think."
[[fields]]
id = "worth"
kind = "score"
highest = 5
ask = "How good it is."
"""


def test_a_venue_has_a_form_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "workshop").mkdir()
    (tmp_path / "workshop" / "form.toml").write_text(OWN)
    own = forms.load("workshop", tmp_path)
    judge = Judge(lambda r: {"remarks": "Fine.", "worth": 4})
    found = ask(judge, tmp_path, Panel(ensemble=1, reflections=1, chair=False), own)
    assert spreads(own, found.members)["worth"].value == 4
    told = re.search(r"^- `worth`: How good it is\. .*", text_of(judge.asked[0]), re.MULTILINE)
    assert told and re.findall(r"\d+", told[0]) == ["1", "5"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('overall = "worth"', 'overall = "remarks"'),
        ("highest = 5", "highest = 1"),
        ('id = "worth"', 'id = "remarks"'),
        ("title", "titel"),
        ('overall = "worth"', 'overall = "worth"\ndecision = "remarks"'),
        ("accept = 3", "accept = "),
    ],
)
def test_a_form_that_makes_no_sense_is_refused(old: str, new: str, tmp_path: Path) -> None:
    (tmp_path / "form.toml").write_text(OWN.replace(old, new, 1))
    with pytest.raises(UsageError):
        forms.load(".", tmp_path)


def test_what_small_models_write_for_lists_and_choices_is_taken() -> None:
    answers = filled(strengths="only one", decision=" Accept.", ethical_concerns="No", summary="")
    read = FORM.read(FORM.reply.model_validate_json(json.dumps(answers)), 1, 1, True)
    assert read.lists["strengths"] == ("only one",)
    assert read.choices == {"ethical_concerns": "no", "decision": "accept"}
    assert read.texts["summary"]


def test_examples_are_papers_beside_their_reviews(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("# One\n\nIts text.")
    with pytest.raises(UsageError):
        examples_of(tmp_path, FORM)
    (tmp_path / "one.json").write_text(json.dumps(filled(overall=7)))
    (found,) = examples_of(tmp_path, FORM)
    assert "Its text." in found.paper and '"overall": 7' in found.review
    (tmp_path / "one.json").write_text(json.dumps(filled(overall=11)))
    with pytest.raises(UsageError):
        examples_of(tmp_path, FORM)


def test_a_revision_is_told_with_the_score_before_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scipy.stats import ttest_ind  # noqa: PLC0415

    def script(request: ModelRequest) -> dict[str, Any]:
        if kind(request) == "review":
            raised = "Now better." in text_of(request)
            return filled(overall=request.ordinal + (2 if raised else 0))
        return one_round(request)

    use(monkeypatch, {"m": Judge(script)})
    again = paper.of_text("idea-0007", "# Shifts\n\n## Results\n\nIt is 0.9. Now better.")
    (old,) = review_all([PAPER], wanted(tmp_path, ensemble=3, reflections=1))
    assert isinstance(old, Review)
    (new,) = review_all([again], wanted(tmp_path, ensemble=4, reflections=1, before=old))
    assert isinstance(new, Review) and new.before is not None
    own = ttest_ind([3, 4, 5, 6], [1, 2, 3], equal_var=False).confidence_interval(0.95)
    assert (new.before.overall, new.before.gain.value) == (2, 2.5)
    assert new.before.gain.interval == (pytest.approx(own.low), pytest.approx(own.high))
    gain = page.measure(new.before.gain)
    assert any(" 2.00" in line and gain in line for line in page.verdict(new))
    with pytest.raises(UsageError):
        use(monkeypatch, {"m": Judge(script, name="another")})
        review_all([again], wanted(tmp_path / "b", ensemble=2, reflections=1, before=old))
