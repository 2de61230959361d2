"""The first command of README: each of the playbook's ideas has the outcome it deserves.

HPCTEST_QUICKSTART names a folder with that command's `stdout` and `stderr`, and its campaign as
`run`: .ci/gate has run it already. Without it the campaign is run here.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from campaigns import HPCSCI, hpcsci
from comings import FREE, comes_to
from newcomers_page import excerpts, files, is_part, section

from hpcscientist.bench.papers.campaign import PaperShelf
from hpcscientist.bench.papers.statements import Statement, defects
from hpcscientist.campaign.agents import Session, model_agents
from hpcscientist.campaign.campaign_rules import rules_of
from hpcscientist.conduct.actions import Stop
from hpcscientist.conduct.decide import decide
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen, journal
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.papers.facts.collect import collect
from hpcscientist.recipe.load import load, shipped_folder

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def launched(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    earlier = os.environ.get("HPCTEST_QUICKSTART")
    if earlier:
        folder = Path(earlier)
        said = [(folder / name).read_text() for name in ("stdout", "stderr")]
        return folder, subprocess.CompletedProcess(["launch"], 0, *said)
    folder = tmp_path_factory.mktemp("quickstart")
    return folder, hpcsci("launch", "--ideas", "16", "--run-dir", "run", cwd=folder)


@pytest.fixture(scope="module")
def rows(launched: tuple[Path, subprocess.CompletedProcess[str]]) -> list[dict[str, Any]]:
    done = hpcsci("results", "run", "--format", "json", cwd=launched[0])
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


# What each idea of the playbook deserves: (status, finding, word of the reason).
NOTHING: set[str | None] = {None}
DESERVED: dict[str, tuple[str, set[str | None], str]] = {
    "idea-0001": ("scored", {"improvement"}, ""),  # momentum
    "idea-0002": ("scored", {"decline"}, ""),  # too much weight decay
    "idea-0003": ("scored", {"maintenance"}, ""),  # other hidden units
    "idea-0004": ("failed", NOTHING, "bad_predictions: "),  # malformed predictions
    "idea-0005": ("scored", {"improvement"}, ""),  # standardised pixels
    "idea-0006": ("failed", NOTHING, "error: ValueError"),  # cannot be fixed
    "idea-0007": ("failed", NOTHING, "unchanged reference"),  # looks for the labels
    "idea-0008": ("scored", {"improvement"}, ""),  # fixed from its traceback
    "idea-0009": ("rejected", NOTHING, "looks like idea-0002"),  # a near duplicate
    "idea-0010": ("failed", NOTHING, "timeout: "),  # past its deadline, with a daemon
    "idea-0011": ("scored", {"decline"}, ""),  # binarised pixels
    "idea-0012": ("failed", NOTHING, "unchanged reference"),  # claims a metric it did not earn
    "idea-0013": ("scored", {"improvement"}, ""),  # a wider layer
    "idea-0014": ("scored", {"maintenance"}, ""),  # dropout
    "idea-0015": ("rejected", NOTHING, "not novel: doi:10.1109/icdar.2003"),  # a paper has it
    "idea-0016": ("rejected", NOTHING, r"\b5,400 s\b.*\b20 s\b.*\b6,000 MiB\b.*\b1,024 MiB\b"),
}


def test_ends_well_and_says_what_is_not_protected(
    launched: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    done = launched[1]
    assert done.returncode == 0, done.stderr
    assert "no --model given" in done.stderr
    assert "NO SANDBOX" in done.stderr
    assert "improvement" in done.stdout


def test_each_idea_has_the_outcome_it_deserves(rows: list[dict[str, Any]]) -> None:
    found = {row["idea_id"]: row for row in rows}
    assert list(found) == ["baseline", *DESERVED]
    for idea_id, (status, verdicts, reason) in DESERVED.items():
        row = found[idea_id]
        assert row["status"] == status, row
        assert row["finding"] in verdicts, row
        assert re.search(reason, row["reason"] or ""), row


def test_ideas_are_grounded_in_the_recipes_library(
    launched: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, done = launched
    assert re.search(r"^library  .*\breferences\b", done.stderr, re.M)
    assert "14 papers retrieved, 12 kept" in done.stderr
    idea = json.loads((folder / "run" / "ideas" / "idea-0008" / "idea.json").read_text())
    assert idea["papers"]
    assert idea["direction"] == "Annealed learning rate"
    assert {ref["chat"] for ref in idea["prompts"]} == {"survey", "idea-0006", "idea-0008"}
    found = hpcsci("library", "search", "--library", "run/library", "momentum", cwd=folder)
    assert found.returncode == 0, found.stderr
    assert "On the importance of initialization and momentum" in found.stdout


def test_cheats_gain_nothing(rows: list[dict[str, Any]]) -> None:
    """They predict what the reference predicts, and cost no seeds."""
    found = {row["idea_id"]: row for row in rows}
    for cheat in ("idea-0007", "idea-0012"):
        assert found[cheat]["mean"] is None
    assert found["idea-0008"]["attempts"] == 2


def idea_file(folder: Path, idea: str, name: str) -> str:
    return (folder / "run" / "ideas" / idea / name).read_text()


def test_what_a_reviewer_finds_lacking_is_completed(
    launched: tuple[Path, subprocess.CompletedProcess[str]], rows: list[dict[str, Any]]
) -> None:
    first, second = (
        json.loads(idea_file(launched[0], "idea-0014", f"attempts/{n}/review.json")) for n in (1, 2)
    )
    assert [check["state"] for check in first["checks"]] == ["implemented", "missing"]
    assert [check["state"] for check in second["checks"]] == ["implemented", "implemented"]
    diff = idea_file(launched[0], "idea-0014", "attempts/2/diff.patch")
    assert "/ (1.0 - DROPOUT)" in diff
    (row,) = (row for row in rows if row["idea_id"] == "idea-0014")
    assert (row["attempts"], row["reason"]) == (2, None)
    done = hpcsci("results", "run", cwd=launched[0])
    assert "code: completeness" in done.stderr


def test_further_runs_leave_the_main_one_standing(
    launched: tuple[Path, subprocess.CompletedProcess[str]], rows: list[dict[str, Any]]
) -> None:
    (row,) = (row for row in rows if row["idea_id"] == "idea-0001")
    assert (row["status"], row["n"], row["attempts"]) == ("scored", 5, 3)
    plan = json.loads(idea_file(launched[0], "idea-0001", "plan.json"))
    assert plan["ablations"]
    notes = idea_file(launched[0], "idea-0001", "notes.md")
    heads = [line for line in notes.splitlines() if line.startswith("## ")]
    assert heads == [
        "## Plan",
        "## Attempt 1: first version",
        "## Reading 1",
        "## Attempt 2: sensitivity, further run 1",
        "## Reading 2",
        "## Attempt 3: ablation, further run 2",
        "## No repair, further run 2",
        "## Reading 3",
        "## In the end",
    ]


def test_an_edit_of_the_scorer_is_refused(
    launched: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    chat = idea_file(launched[0], "idea-0003", "chat.jsonl")
    calls = {json.loads(line)["key"]: line for line in chat.splitlines()}
    assert "such file; editable: experiment.py" in calls["code/2"]
    code = launched[0] / "run" / "ideas" / "idea-0003" / "attempts" / "1" / "code"
    assert [path.name for path in code.iterdir()] == ["experiment.py"]


def test_at_least_two_improvements_beyond_their_intervals(rows: list[dict[str, Any]]) -> None:
    improved = [row for row in rows if row["finding"] == "improvement"]
    assert len(improved) >= 2
    assert all(row["ci_low"] > 0 and row["p_adjusted"] <= 0.05 for row in improved)


def test_every_improvement_was_held_against_the_test_split(
    launched: tuple[Path, subprocess.CompletedProcess[str]], rows: list[dict[str, Any]]
) -> None:
    improved = [row for row in rows if row["finding"] == "improvement"]
    for row in improved:
        assert row["confirmed"] or row["test_ci_low"] <= 0, row
        assert row["test_ci_low"] < row["test_delta"] < row["test_ci_high"]
    held = sum(row["confirmed"] for row in improved)
    assert held >= 2
    assert f"confirmed: {held} of {len(improved)} " in launched[1].stderr


def test_numbers_are_null_where_nothing_was_measured(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if row["status"] in ("rejected", "failed"):
            assert row["finding"] is None
        if row["n"] is None:
            assert row["mean"] is None
            assert row["delta"] is None
        if row["finding"] != "improvement":
            assert row["confirmed"] is None
        if row["confirmed"] is None:
            assert row["test_delta"] is None
    assert rows[0]["n"] == 5


def test_timed_out_idea_left_no_process(
    launched: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    campaign = json.loads(hpcsci("status", "run", "--json", cwd=launched[0]).stdout)["campaign"]
    left = []
    for process in psutil.process_iter():
        try:
            # The mark is inherited, also by a daemon in another folder under another name.
            if process.environ().get("HPCSCI_CAMPAIGN") == campaign:
                left.append(process.cmdline())
        except psutil.Error:
            continue
    assert left == []


def test_all_formats_tell_the_same(
    launched: tuple[Path, subprocess.CompletedProcess[str]], rows: list[dict[str, Any]]
) -> None:
    folder = launched[0]
    as_csv = hpcsci("results", "run", "--format", "csv", cwd=folder).stdout
    ids = [row["idea_id"] for row in csv.DictReader(io.StringIO(as_csv))]
    assert ids == [row["idea_id"] for row in rows]
    with (folder / "results.arrow").open("wb") as file:
        command = ["results", "run", "--format", "arrow"]
        hpcsci_to(file, folder, *command)
    with pa.ipc.open_stream(str(folder / "results.arrow")) as reader:
        assert reader.read_all().to_pylist() == rows


def hpcsci_to(file: Any, folder: Path, *arguments: str) -> None:
    subprocess.run(
        [*HPCSCI, *arguments], cwd=folder, stdout=file, stderr=subprocess.DEVNULL, check=True
    )


def test_status_fits_the_contract(
    launched: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    status = json.loads(hpcsci("status", "run", "--json", cwd=launched[0]).stdout)
    assert status["state"] == "finished"
    assert status["ideas"]["proposed"] == 16
    ended = status["ideas"]["scored"] + status["ideas"]["failed"] + status["ideas"]["rejected"]
    assert ended == 16
    assert status["trials"]["queued"] == status["trials"]["running"] == 0
    assert status["tokens"]["completion"] > 0
    assert status["cpu_hours"] > 0
    assert status["gpu_hours"] == 0


@pytest.mark.full
def test_same_seed_gives_the_same_findings(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    done = hpcsci("launch", "--ideas", "4", "--run-dir", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = json.loads(hpcsci("results", "run", "--format", "json", cwd=tmp_path).stdout)
    for first, second in zip(rows, again, strict=False):
        assert (first["mean"], first["delta"]) == (second["mean"], second["delta"])


@pytest.mark.full
def test_exhausted_playbook_says_so_and_ends_normally(tmp_path: Path) -> None:
    playbook = tmp_path / "short.jsonl"
    lines = (shipped_folder() / "digits" / "playbook.jsonl").read_text().splitlines()
    playbook.write_text("\n".join(line for line in lines if json.loads(line)["idea"] == 1) + "\n")
    options = ["--model", f"playbook:{playbook}", "--allow-unsandboxed", "--run-dir", "run"]
    done = hpcsci("launch", "--ideas", "5", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert any("playbook" in note for note in notes)
    status = json.loads(hpcsci("status", "run", "--json", cwd=tmp_path).stdout)
    assert (status["state"], status["ideas"]["proposed"]) == ("finished", 1)


def test_whatever_line_a_kill_cuts_the_journal_at_the_next_driver_does_what_came_next(
    launched: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    paths = RunPaths(launched[0] / "run")
    config, recipe = frozen.read(paths), load(paths.recipe)
    events, state = journal.read(paths.journal), CampaignState()
    book = PlaybookModel(paths.recipe / "playbook.jsonl")
    with closing(Journal(tmp_path / "journal.jsonl", state.apply)) as nobodys:
        agents = model_agents(book, config, recipe, Session(paths, nobodys, state, generation=1))
        rules = rules_of(config, recipe, agents)
    assert len(events) > 300
    for number, (event, then) in enumerate(pairwise(events), 1):
        state.apply(event)
        found = decide(state, rules, (), 0.0)
        told = f"after line {number}, before {then}: {found.actions}"
        assert found.actions, told
        assert not any(isinstance(action, Stop) for action in found.actions), told
        if then.type not in FREE:
            assert any(comes_to(action, then, state) for action in found.actions), told
    state.apply(events[-1])
    assert state.ended


def test_the_newcomers_page_tells_what_happened(
    launched: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    page = section("One idea, from proposal to finding")
    run = launched[0] / "run"
    for name in files(page):
        assert (run / name).is_file(), name
    lines = (run / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    events = iter([json.loads(line)["event"] for line in lines])
    for quoted in excerpts(page):  # in this order
        assert any(is_part(quoted, event) for event in events), quoted


def test_what_a_trial_wrote_is_shown(
    launched: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    done = hpcsci("results", "run", "--log", "idea-0006-a1-pilot-0", cwd=launched[0])
    assert (done.returncode, done.stderr) == (0, "")
    assert "Traceback (most recent call last)" in done.stdout
    for wrong in ("idea-0006", "../idea-0006-a1-pilot-0/x", ""):
        done = hpcsci("results", "run", "--log", wrong, cwd=launched[0])
        assert (done.returncode, done.stdout) == (1, "")
        assert "no trial" in done.stderr
        assert "idea-0001-a1-pilot-0" in done.stderr
    done = hpcsci("results", "nowhere", "--log", "idea-0006-a1-pilot-0", cwd=launched[0])
    assert (done.returncode, done.stdout) == (2, "")
    assert "no trial" not in done.stderr


def test_a_paper_is_written_of_it_also_without_tex(launched: Any, tmp_path: Path) -> None:
    """No PDF is made, and that is said; LaTeX, HTML, figures and the trace are there."""
    folder, out = launched[0], tmp_path / "papers"
    before = {p: p.read_bytes() for p in (folder / "run").iterdir() if p.is_file()}
    bare = {**os.environ, "PATH": ""}
    ideas = ("--idea", "idea-0014", "--idea", "idea-0013")  # of the first no reply is recorded
    done = hpcsci("paper", "run", *ideas, "--out", out, cwd=folder, env=bare)
    assert done.returncode == 1, done.stderr
    assert "idea-0014: not written: " in done.stdout
    assert not (out / "idea-0014" / "paper.html").exists()
    assert "texlive" in done.stdout
    assert "defect:" not in done.stdout
    paper = out / "idea-0013"
    assert not (paper / "paper.pdf").exists()
    for name in ("source/paper.tex", "source/hpcpaper.sty", "references.bib", "REPRODUCE.md"):
        assert (paper / name).stat().st_size > 0
    page, traced = ((paper / name).read_text() for name in ("paper.html", "trace.html"))
    numbers = re.findall(r'class="number" href="trace.html#([^"]+)"', page)
    assert len(numbers) > 20
    assert set(numbers) <= set(re.findall(r'<section class="fact" id="([^"]+)"', traced))
    figures = {path.stem for path in (paper / "figures").glob("*.pdf")}
    assert {
        "effects",
        "search-confirmed",
        "learning-curves",
        "attempts",
        "recipe-effects",
    } <= figures
    assert {p: p.read_bytes() for p in (folder / "run").iterdir() if p.is_file()} == before

    rows = json.loads(hpcsci("paper", "--trace", paper, "--json", cwd=folder).stdout)
    assert {row["formula"].replace(" ", "") for row in rows} == set(numbers)

    facts = json.loads((paper / "facts.json").read_text())
    used = {name for row in rows for name in row["facts"]}
    fact = next(f for f in facts["facts"] if f["id"] in used and f["source"]["trials"])
    fact["source"]["trials"][0]["value"] += 0.25
    (paper / "facts.json").write_text(json.dumps(facts))
    found = json.loads(hpcsci("paper", "run", "--check", paper, "--json", cwd=folder).stdout)
    assert (found["sound"], found["unread"] is None) == (False, False)
    (defect,) = found["defects"]
    assert defect["code"] == "changed_evidence"
    assert fact["source"]["trials"][0]["trial"] in defect["found"] + defect["fix"]


def test_false_statements_about_it_are_told_from_true_ones(
    launched: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    collected = collect(RunPaths(launched[0] / "run"))
    assert collected.problems == ()
    told = {}
    for name in ("false", "true"):
        lines = (Path(__file__).parent / "quickstart_statements" / f"{name}.txt").read_text()
        told[name] = {
            line: [str(d) for d in defects(Statement(name, line), collected.sheet, PaperShelf())]
            for line in lines.splitlines()
        }
    assert [line for line, found in told["false"].items() if not found] == []
    assert {line: found for line, found in told["true"].items() if found} == {}
