"""A trial of several processes: nothing passes from one to the next but the files it names."""

from __future__ import annotations

from pathlib import Path

import pytest
from container_kit import image, needs_container
from trialkit import Bench, contained

from hpcscientist.execution import trial
from hpcscientist.records.trial import IdeaFailed, Outcome, ProcessSpec, Scored, Split

CODED = (
    ProcessSpec(name="fit", sees=("train",), file="model", max_bytes=100),
    ProcessSpec(name="encode", sees=("split",), reads=("fit",), file="code", max_bytes=4),
    ProcessSpec(name="decode", reads=("fit", "encode")),
)
GOOD = """
seen = sorted(p.name for p in DATA.iterdir())
note("progress.jsonl", "{}\\n")
if ARGS.process == "fit":
    assert seen == ["train"], seen
    note("model", "m")
elif ARGS.process == "encode":
    assert seen == ["fit", ARGS.split], seen
    note("code", (DATA / ARGS.split / "x").read_text())
else:
    assert seen == ["encode", "fit"], seen
    assert (DATA / "fit" / "model").read_text() == "m"
    predict("\\n".join((DATA / "encode" / "code").read_text()) + "\\n")
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path).prepare()
    for split in Split:
        (tmp_path / "data" / split.value).mkdir()
        (tmp_path / "data" / split.value / "x").write_text("1010")
    return made


def run(bench: Bench, body: str, in_image: str = "") -> Outcome:
    spec = bench.trial(body)
    spec = contained(spec, in_image) if in_image else spec
    sources = spec.sources.model_copy(update={"processes": CODED})
    spec = spec.model_copy(update={"sources": sources})
    return trial.run(spec, bench.run.trial(spec.trial_id)).outcome


def failure(outcome: Outcome) -> tuple[str, str]:
    assert isinstance(outcome, IdeaFailed)
    return outcome.failure.value, outcome.detail


def test_each_sees_what_it_should_and_what_was_handed_on(bench: Bench) -> None:
    outcome = run(bench, GOOD)
    assert isinstance(outcome, Scored), outcome
    assert outcome.metrics["accuracy"] == 1.0
    out = bench.run.trial("trial-1").out
    assert sorted(path.name for path in out.iterdir()) == ["predictions.csv", "progress.jsonl"]
    assert (out / "progress.jsonl").read_text() == "{}\n" * 3


class TestInAContainer:
    pytestmark = needs_container

    def test_each_sees_what_it_should(self, bench: Bench) -> None:
        outcome = run(bench, GOOD, image())
        assert isinstance(outcome, Scored), outcome

    def test_the_last_has_no_way_to_the_inputs(self, bench: Bench) -> None:
        body = """
        if ARGS.process == "decode":
            found = [p for p in pathlib.Path("/data").rglob("*") if p.is_file()]
            assert [p.name for p in found if p.name == "x"] == [], found
            predict()
        else:
            note({"fit": "model", "encode": "code"}[ARGS.process], "1")
        """
        assert isinstance(run(bench, body, image()), Scored)


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        ("note('code', '10100')", "bad_predictions"),  # a byte too many
        ("pass", "bad_predictions"),
        ("os.symlink(DATA / ARGS.split / 'x', OUT / 'code')", "tampering"),
        ("os.mkdir(OUT / 'code')", "tampering"),
    ],
)
def test_a_file_that_cannot_be_handed_on_ends_the_trial(bench: Bench, act: str, kind: str) -> None:
    body = f"""
    if ARGS.process == "fit":
        note("model", "m")
    elif ARGS.process == "encode":
        {act}
    else:
        predict()
    """
    found, detail = failure(run(bench, body))
    assert (found, "code" in detail) == (kind, True)
    assert not (bench.run.trial("trial-1").out / "predictions.csv").exists()


def test_nothing_else_is_left_for_the_next(bench: Bench) -> None:
    body = """
    home = pathlib.Path(os.environ["HOME"])
    left = [p for place in (OUT, home) for p in place.iterdir()]
    assert not left, left
    (OUT / "note").write_text("the inputs")
    (home / "note").write_text("the inputs")
    note({"fit": "model", "encode": "code", "decode": "predictions.csv"}[ARGS.process], "1")
    if ARGS.process == "decode":
        predict()
    """
    assert isinstance(run(bench, body), Scored)


def test_the_first_that_fails_is_the_end(bench: Bench) -> None:
    body = """
    print("this is", ARGS.process)
    note("model", "m")
    predict()
    sys.exit(ARGS.process == "encode")
    """
    assert failure(run(bench, body))[0] == "error"
    said = bench.run.trial("trial-1").log.read_text()
    assert said.split() == ["this", "is", "fit", "this", "is", "encode"]
