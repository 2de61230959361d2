"""The shipped playbook: every edit applies, and each idea is what README.md says it is."""

import contextlib
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
from collections import Counter

import pytest

from hpcscientist.recipe import data, load
from hpcscientist.records.trial import Split

RECIPE = load.load(load.shipped_folder() / "digits")
LINES = [json.loads(line) for line in RECIPE.playbook.read_text().splitlines()]
REPLIES = {(x["idea"], x["stage"], x.get("ordinal", 1)): x["reply"] for x in LINES}
IDEAS = sorted({idea for idea, *_ in REPLIES if idea})
NEAR_DUPLICATE = (2, 9)
SET_ASIDE = (15, 16)  # known from a paper; too much for the recipe


def versions(idea):
    """Return the idea's code after `code` and after each debug reply that does not give up."""
    source, found = RECIPE.reference["experiment.py"], []
    written = max(ordinal for i, stage, ordinal in REPLIES if (i, stage) == (idea, "code"))
    for ordinal in itertools.count():
        key = (idea, "debug", ordinal) if ordinal else (idea, "code", written)
        reply = REPLIES.get(key)
        if reply is None or reply.get("give_up"):
            return found
        for edit in reply["edits"]:
            assert edit["file"] == "experiment.py"
            assert source.count(edit["search"]) == 1, (key, edit["search"])
            source = source.replace(edit["search"], edit["replace"])
        found.append(source)
    raise AssertionError


def similarity(first, second):
    """Return the cosine of the counts of words and word pairs."""
    counts = []
    for text in (first, second):
        words = re.findall(r"\w+", text.lower())
        counts.append(Counter(words) + Counter(map(" ".join, itertools.pairwise(words))))
    a, b = counts
    norm = math.sqrt(sum(c * c for c in a.values()) * sum(c * c for c in b.values()))
    return sum(a[k] * b[k] for k in a) / norm


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    root = tmp_path_factory.mktemp("playbook")
    return data.prepare(RECIPE, root / "data", root / "sealed")


def run(prepared, folder, source, enough=None):
    """Run a version at pilot budget as a trial would; return its exit status and folder.

    It is killed, with status None, once the file `enough` in its output folder has content.
    """
    trial = folder / "trials" / "one"
    (trial / "out").mkdir(parents=True)
    (trial / "experiment.py").write_text(source)
    command = [sys.executable, "experiment.py", "--data", str(prepared.views[Split.VALIDATION])]
    command += ["--out", str(trial / "out"), "--seed", "1", "--budget", "pilot"]
    with (trial / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--split", "validation"], cwd=trial, stdout=log, stderr=log
        )
        status = None if enough else process.wait()
        while enough and process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
            file = trial / "out" / enough
            if file.exists() and file.read_text():
                process.kill()
                process.wait()
                break
    return status, trial


def predictions(trial):
    return (trial / "out" / "predictions.csv").read_bytes()


def test_ideas_are_numbered_and_have_code():
    assert list(range(1, len(IDEAS) + 1)) == IDEAS and len(IDEAS) >= 16
    for idea in IDEAS:
        assert (idea, "propose", 1) in REPLIES
        assert ((idea, "code", 1) in REPLIES) == (idea not in SET_ASIDE)
    for line in LINES:
        assert line.get("prompt_tokens", 1) > 0 and line.get("completion_tokens", 1) > 0


def test_every_step_of_an_idea_is_recorded():
    for idea in IDEAS:
        assert (idea, "reflect", 1) in REPLIES
        goes_on = idea != NEAR_DUPLICATE[1]
        assert ((idea, "novelty", 1) in REPLIES) == goes_on
        assert ((idea, "feasibility", 1) in REPLIES) == (goes_on and idea != 15)
        assert ((idea, "concepts", 1) in REPLIES) == (goes_on and idea not in SET_ASIDE)
    assert all((first, "directions", 1) in REPLIES for first in IDEAS[::5])
    assert REPLIES[15, "novelty", 1]["decision"] == "not_novel"
    assert not REPLIES[16, "feasibility", 1]["fits"]


@pytest.mark.parametrize("idea", [idea for idea in IDEAS if idea not in SET_ASIDE])
def test_edits_apply_in_sequence_and_compile(idea):
    made = versions(idea)
    for source in made:
        compile(source, "experiment.py", "exec")
    assert len({RECIPE.reference["experiment.py"], *made}) == len(made) + 1


def test_summaries_differ_but_for_the_near_duplicate():
    summaries = {idea: REPLIES[idea, "propose", 1]["summary"] for idea in IDEAS}
    for first, second in itertools.combinations(IDEAS, 2):
        alike = similarity(summaries[first], summaries[second])
        if (first, second) == NEAR_DUPLICATE:
            assert 0.8 < alike < 1
        else:
            assert alike < 0.6, (first, second, alike)


def test_follow_ups_name_earlier_ideas():
    for idea in IDEAS:
        parents = REPLIES[idea, "propose", 1].get("parent_ids", [])
        assert bool(parents) == (idea > max(SET_ASIDE))
        assert all(1 <= int(parent.removeprefix("idea-")) < idea for parent in parents)


@pytest.mark.parametrize("idea", [7, 12])
def test_looking_for_labels_and_printing_a_metric_gain_nothing(prepared, tmp_path, idea):
    _, reference = run(prepared, tmp_path / "a", RECIPE.reference["experiment.py"])
    status, trial = run(prepared, tmp_path / "b", versions(idea)[0])
    assert status == 0 and predictions(trial) == predictions(reference)
    assert ("accuracy: 0.999" in (trial / "log").read_text()) == (idea == 12)


@pytest.mark.parametrize(
    ("idea", "errors"),
    [
        (6, ["ValueError"] * 4),
        (8, ["AttributeError", None]),
        (19, ["IndexError", "TypeError", "AxisError", None]),
    ],
)
def test_what_crashes_and_what_is_fixed(prepared, tmp_path, idea, errors):
    made = versions(idea)
    assert len(made) == len(errors)
    for number, (source, error) in enumerate(zip(made, errors, strict=True)):
        status, trial = run(prepared, tmp_path / str(number), source)
        assert status == (1 if error else 0)
        assert error is None or f"{error}: " in (trial / "log").read_text()


def test_one_reaches_for_the_scorer_first():
    assert {edit["file"] for edit in REPLIES[3, "code", 1]["edits"]} == {
        "experiment.py",
        "score.py",
    }
    assert len(versions(22)) == 6  # fixed in the fifth round


def test_malformed_predictions_stay_malformed(prepared, tmp_path):
    made = versions(4)
    assert len(made) == 2 and REPLIES[4, "debug", 2]["give_up"]
    for number, source in enumerate(made):
        status, trial = run(prepared, tmp_path / str(number), source)
        paths = ["--predictions", str(trial / "out" / "predictions.csv")]
        paths += ["--labels", str(prepared.labels[Split.VALIDATION])]
        scorer = [sys.executable, str(RECIPE.scorer), *paths]
        assert status == 0
        assert subprocess.run(scorer, check=False, capture_output=True).returncode == 3


def test_the_late_one_leaves_a_daemon(prepared, tmp_path):
    status, trial = run(prepared, tmp_path, versions(10)[0], "prefetcher.pid")
    helper = int((trial / "out" / "prefetcher.pid").read_text())
    try:
        assert status is None  # it was killed while it searched
        os.kill(helper, 0)  # it lives on, in a session of its own
        assert os.getsid(helper) != os.getsid(0)
    finally:
        os.kill(helper, signal.SIGKILL)
