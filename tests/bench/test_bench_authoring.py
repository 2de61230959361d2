"""`benchmarks authoring`: three modes of debugging on ideas that are really run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from authoring_bench_kit import LIMITS, PLAYBOOK, endpoint, executed, recipe
from benchmarks.authoring import conduct
from benchmarks.authoring.outcomes import MODES
from benchmarks.command_line import run
from campaigns import BENCHMARKS

from hpcscientist.feedback.statistics import wilson

KILL_DRIVER = Path(__file__).parent.parent / "e2e" / "kill_driver.py"
FIELDS = ["name", "value", "unit", "compared_with", "ratio", "target", "spread", "runs"]
SCRIPT = ["authoring", "--recipe", "./tiny", *LIMITS]
RECORDED = [*SCRIPT, "--model", "playbook", "--ideas", "9", "--rounds", "4", "--dir", "run"]

Recorded = tuple[Path, list[Any], str]
Printed = tuple[dict[str, Any], str]


def bench(*arguments: str, capsys: pytest.CaptureFixture[str]) -> Printed:
    """Run the command with --json; return its figures by name, and what it said."""
    capsys.readouterr()
    code = run([*arguments, "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    rows = json.loads(out)
    assert all(list(row) == FIELDS for row in rows)
    return {row["name"]: row for row in rows}, err


ONCE = ("attempt_written:7:after",)
THRICE = ("reply_recorded:9:torn", *ONCE, "trial_ended:6:before")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(ONCE, id="killed once"),
        pytest.param(THRICE, id="killed three times", marks=pytest.mark.full),
    ],
)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A whole bench that was killed: its folder, figures, and what it said."""
    folder = tmp_path_factory.mktemp("recorded")
    recipe(folder)
    for moment in request.param:
        killed = drive(folder, moment)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        known = answered(folder)
        asked = asked_for(folder)
        (folder / f"known-{len(known):03d}.json").write_text(
            json.dumps({call: asked[call] for call in known})
        )
    done = drive(folder, "never")
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout), done.stderr


def answered(folder: Path) -> set[str]:
    """Calls whose reply is on the disk, as "idea key"."""
    return {
        f"{chat.parent.name} {json.loads(line)['key']}"
        for chat in (folder / "run").glob("ideas/*/chat.jsonl")
        for line in chat.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    }


def asked_for(folder: Path) -> Counter[str]:
    """How often each call reached the model."""
    return Counter((folder / "asked").read_text().splitlines())


def drive(folder: Path, moment: str) -> subprocess.CompletedProcess[str]:
    """Run the bench in a process that dies at a moment (see kill_driver) or `never`."""
    command = [sys.executable, str(KILL_DRIVER), str(folder / "asked"), moment, "--", "benchmarks"]
    return subprocess.run(
        [*command, *RECORDED, "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )


def test_every_figure_of_a_playbook_is_as_it_must_be(recorded: Recorded) -> None:
    found = {row["name"]: row for row in recorded[1]}
    assert len(found) == len(recorded[1]) == 1 + 3 * 6 + 2
    assert found["ran at first"]["value"] == 1 / 5
    for mode in MODES:
        shares = [found[f"ran after at most {n}, {mode}"] for n in ("1 round", "3 rounds")]
        assert [share["value"] for share in shares] == [2 / 5, 3 / 5]
        low, high = wilson(3, 5)
        assert shares[1]["unit"] == f"of 5 ideas (95%: {low:.3f} to {high:.3f})"
        assert shares[1]["spread"] == pytest.approx(high - low)
        assert found[f"ran after at most 4 rounds, {mode}"]["value"] == 3 / 5
        # Rounds asked for: 1, 3 and 2 of the three ideas that failed and had code.
        assert found[f"rounds of debugging, {mode}"]["value"] == 6 / 3
        assert found[f"rounds of debugging, {mode}"]["spread"] == 2
        assert found[f"rounds of debugging, {mode}"]["runs"] == 3
        assert found[f"prompt tokens of debugging, {mode}"]["value"] == 600 / 3
        assert found[f"completion tokens of debugging, {mode}"]["value"] == 60 / 3
    difference = found["ran in the end, traceback minus none"]
    assert (difference["value"], difference["ratio"], difference["runs"]) == (0, None, 5)
    assert difference["compared_with"] == "none: 0 ideas gained, 0 lost"
    assert "McNemar p 1" in difference["unit"]
    assert found["ran after at most 3 rounds, traceback"]["compared_with"] == "none 0.600"
    assert found["ran after at most 3 rounds, traceback"]["ratio"] == 1


def test_each_version_is_really_run_and_the_first_one_for_all_modes(
    recorded: Recorded,
) -> None:
    folder, _, said = recorded
    ended = ["baseline-a1-pilot-0", "idea-0001-a1-pilot-0"]
    for mode in MODES:
        ended += [f"{mode}-0002-a2-pilot-0", f"{mode}-0003-a4-pilot-0"]
        assert (folder / "run" / "trials" / f"{mode}-0003-a3-pilot-0" / "result.arrow").exists()
    assert executed(folder) == dict.fromkeys(ended, 1)  # the others fail before they count
    (counts,) = (line for line in said.splitlines() if line.startswith("5 ideas"))
    assert re.findall(r"\d+", counts)[:5] == ["5", "9", "1", "3", "1"]
    assert re.search(r"\bidea 4, none: .* 2: hopeless$", said, re.MULTILINE)
    assert re.search(r"\bidea 3, structure: runs .* 3$", said, re.MULTILINE)
    first = said.splitlines()[2]
    assert re.search(r"\balready: 10 .*\b118 .*\b120 s\b.*; no model", first)
    assert conduct.RECORDED in said.splitlines()[3]
    row = next(line for line in said.splitlines() if line.startswith("runs as the reference"))
    assert row.split()[-3:] == ["1", "1", "1"]


def test_what_a_kill_interrupts_is_done_once(recorded: Recorded) -> None:
    folder, figures, said = recorded
    assert "goes on" in said.splitlines()[0]
    again = drive(folder, "never")
    assert json.loads(again.stdout) == figures
    assert set(executed(folder).values()) == {1}
    assert {f"idea-{n:04d} propose/1" for n in range(1, 6)} <= answered(folder)
    assert "traceback-0003 debug/3" in answered(folder)
    asked = asked_for(folder)
    for file in sorted(folder.glob("known-*.json")):
        for call, before in json.loads(file.read_text()).items():
            assert asked[call] == before, f"{call} was answered, and asked for again"
    outcomes = json.loads((folder / "run" / "outcomes.json").read_text())
    assert [outcome["first"] for outcome in outcomes] == [
        *("ran", "failed", "failed", "failed", "no code"),
    ]
    assert [fixed["ran_after"] for fixed in outcomes[2]["fixed"]] == [3, 3, 3]


@pytest.mark.full
def test_modes_differ_where_the_model_needs_what_they_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe(tmp_path)
    monkeypatch.chdir(tmp_path)
    refused: list[subprocess.CompletedProcess[str]] = []

    def intrude(stage: str) -> None:
        """A second bench in the same folder, while this one writes code."""
        if stage == "code" and not refused:
            own = [*BENCHMARKS, *SCRIPT, *model, "--dir", "run"]
            refused.append(subprocess.run(own, capture_output=True, text=True, check=False))

    with endpoint() as server:
        model = ["--model", server.spec, "--ideas", "2", "--rounds", "1"]
        server.disturb = intrude
        found, said = bench(*SCRIPT, *model, "--dir", "run", capsys=capsys)
        assert refused[0].returncode == 2
        assert re.search(rf"{tmp_path}/run: .*\b{os.getpid()}\b.*--dir", refused[0].stderr)
        assert server.asked["code"] == 2  # once for all modes
        assert server.asked["debug"] == 3 * 2
        assert server.asked["structure"] == 2 * 2  # nothing to analyse without a structure
        before = dict(server.asked)
        again, _ = bench(*SCRIPT, *model, "--dir", "run", capsys=capsys)
        assert again == found
        assert server.asked == before, "what was recorded is asked again"
    ran = {mode: found[f"ran after at most 1 round, {mode}"]["value"] for mode in MODES}
    assert ran == {"none": 0, "structure": 0.5, "traceback": 1}
    tokens = {m: found[f"prompt tokens of debugging, {m}"]["value"] for m in MODES}
    assert tokens == {"none": 7, "structure": 2 * 7, "traceback": 2 * 7}
    difference = found["ran in the end, traceback minus none"]
    assert difference["value"] == 1
    assert difference["compared_with"] == "none: 2 ideas gained, 0 lost"
    assert "exact McNemar p 0.5)" in difference["unit"]
    assert re.search(r"\bcost: 3 .*\b9 .*\b120 s\b", said)
    assert "about 14 requests with" in said
    assert conduct.RECORDED not in said
    assert said.splitlines()[-1].startswith("2 ideas: ")


def test_what_stops_it_names_the_way_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe(tmp_path)
    monkeypatch.chdir(tmp_path)
    with endpoint() as server:
        model = ["--model", server.spec, "--ideas", "1", "--rounds", "1", "--dir", "run"]
        stopped = threading.Event()

        def disturb(stage: str) -> None:
            """Stop it at the first repair, and answer none of those who ask what repairs show."""
            if stage == "debug":
                os.kill(os.getpid(), signal.SIGTERM)
            if stage in ("debug", "structure"):
                stopped.wait(60)

        server.disturb = disturb
        assert run([*SCRIPT, *model]) == 130
        stopped.set()
        said = capsys.readouterr().err.splitlines()[-1]
        assert re.search(f"SIGTERM; .* --dir {tmp_path}/run$", said)
        assert not list((tmp_path / "run" / ".submitit").glob("*"))
        # So with an endpoint that ends; and where it comes back, its port may be another.
        server.disturb = lambda stage: None
        server.refuses = "structure"
        assert run([*SCRIPT, *model]) == 1
        said = capsys.readouterr().err.splitlines()[-1]
        assert "no such key" in said
        assert re.search(rf"\(.* --dir {tmp_path}/run .*\)$", said)
    with endpoint() as server:
        model[1] = server.spec
        found, _ = bench(*SCRIPT, *model, capsys=capsys)
        assert found["ran in the end, traceback minus none"]["value"] == 1
        assert "propose" not in server.asked
        assert "code" not in server.asked


@pytest.mark.full
def test_nothing_that_failed_compares_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe(tmp_path)
    monkeypatch.chdir(tmp_path)
    found, said = bench(
        *SCRIPT, "--model", "playbook", "--ideas", "1", "--dir", "run", capsys=capsys
    )
    assert list(found) == ["ran at first"]
    assert found["ran at first"]["value"] == 1
    assert "NOTHING FAILED" in said
    # More ideas join those that are there; other rounds would be another bench.
    assert run([*SCRIPT, "--model", "playbook", "--ideas", "2", "--dir", "run"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["debugging", *MODES]
    assert out[1].split("  ")[0] == "ran at first"
    assert out[1].count("0.50 (0.09 to 0.91)") == 3
    assert run([*SCRIPT, "--model", "playbook", "--rounds", "2", "--dir", "run"]) == 2
    assert re.search(r"\bloop\.debug_rounds 5, .*\b2; .*--dir", capsys.readouterr().err)


def test_seed_ideas_are_written_where_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recipe(tmp_path, PLAYBOOK)
    monkeypatch.chdir(tmp_path)
    given = [*SCRIPT, "--model", "playbook", "--seed-ideas", "--dir", "run"]
    assert run(given) == 2
    assert re.search(r"'tiny' .*seed_ideas\.json.*--seed-ideas", capsys.readouterr().err)
    seed = PLAYBOOK[0]["reply"] | {"title": "A seed", "parent_ids": []}
    (path / "seed_ideas.json").write_text(json.dumps([seed]))
    found, _ = bench(*given, "--ideas", "1", capsys=capsys)
    assert found["ran at first"]["runs"] == 1
    idea = json.loads((tmp_path / "run" / "ideas" / "idea-0001" / "idea.json").read_text())
    assert idea["proposal"]["title"] == "A seed"
    assert run([*SCRIPT, "--model", "playbook", "--ideas", "1", "--dir", "run"]) == 1
    assert re.search(r"idea-0001/idea\.json: .*--dir", capsys.readouterr().err)


def test_bad_input_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCSCI_CLIENT_RETRIES", "0")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    tiny, own = ["--recipe", "./tiny"], ["--model", "playbook"]
    for arguments, code, words in (
        (["--recipe", "tinny"], 2, "'tinny'"),
        ([*tiny, "--model", "http://127.0.0.1:9/v1#x", LIMITS[0]], 1, "http://127.0.0.1:9/v1"),
        ([*tiny, "--model", "search", LIMITS[0]], 2, "--model search writes"),
        ([*tiny, "--model", "nothing"], 2, "'nothing'"),
        ([*tiny, *own], 2, "--allow-unsandboxed"),
        ([*tiny, *own, LIMITS[0], "--dir", "full"], 2, "not empty"),
        ([*tiny, *own, LIMITS[0], "--dir", "full/file"], 2, "no folder"),
        ([*tiny, *own, LIMITS[0], "--dir", "a\tb"], 2, "unprintable characters"),
        ([*tiny, *own, "--rounds", "0"], 2, "--rounds"),
    ):
        assert run(["authoring", *arguments]) == code
        out, err = capsys.readouterr()
        assert words in err
        assert out == ""
    assert sorted(tmp_path.rglob("*")) == before


def test_a_reference_that_fails_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recipe(tmp_path)
    reference = path / "reference" / "experiment.py"
    reference.write_text(reference.read_text().replace("int(args.seed)", 'int("x")'))
    monkeypatch.chdir(tmp_path)
    assert run([*SCRIPT, "--model", "playbook"]) == 1
    assert len(list((tmp_path / "scratch").glob("authoring-tiny-*/authoring.toml"))) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert re.search(r"\breference\b.*\bpilot\b.*\(error\)", said)
    assert "give another --dir" in said
