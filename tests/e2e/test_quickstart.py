"""The first command of README: each of the playbook's ideas has the outcome it deserves."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from campaigns import HPCSCI, hpcsci

from hpcscientist.recipe.load import shipped_folder

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def launched(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("quickstart")
    return folder, hpcsci("launch", "--ideas", "14", "--run-dir", "run", cwd=folder)


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
    "idea-0007": ("scored", {"maintenance"}, ""),  # looks for the labels
    "idea-0008": ("scored", {"improvement"}, ""),  # mended from its traceback
    "idea-0009": ("rejected", NOTHING, "looks like idea-0002"),  # a near duplicate
    "idea-0010": ("failed", NOTHING, "timeout: "),  # past its deadline, with a daemon
    "idea-0011": ("scored", {"decline"}, ""),  # binarised pixels
    "idea-0012": ("scored", {"maintenance"}, ""),  # claims a metric it did not earn
    "idea-0013": ("scored", {"improvement"}, ""),  # a wider layer
    "idea-0014": ("scored", {"maintenance"}, ""),  # dropout
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
        assert reason in (row["reason"] or ""), row


def test_cheats_gain_nothing(rows: list[dict[str, Any]]) -> None:
    found = {row["idea_id"]: row for row in rows}
    for cheat in ("idea-0007", "idea-0012"):
        assert found[cheat]["delta"] == 0
    assert found["idea-0008"]["attempts"] == 2


def test_at_least_two_improvements_beyond_their_intervals(rows: list[dict[str, Any]]) -> None:
    improved = [row for row in rows if row["finding"] == "improvement"]
    assert len(improved) >= 2
    assert all(row["ci_low"] > 0 and row["p_adjusted"] <= 0.05 for row in improved)


def test_numbers_are_null_where_nothing_was_measured(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if row["status"] in ("rejected", "failed"):
            assert row["finding"] is None
        if row["n"] is None:
            assert row["mean"] is None
            assert row["delta"] is None
        assert row["confirmed"] is None
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
    assert status["ideas"]["proposed"] == 14
    ended = status["ideas"]["scored"] + status["ideas"]["failed"] + status["ideas"]["rejected"]
    assert ended == 14
    assert status["trials"]["queued"] == status["trials"]["running"] == 0
    assert status["tokens"]["completion"] > 0
    assert status["cpu_hours"] > 0
    assert status["gpu_hours"] == 0


def test_same_seed_gives_the_same_findings(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    done = hpcsci("launch", "--ideas", "4", "--run-dir", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = json.loads(hpcsci("results", "run", "--format", "json", cwd=tmp_path).stdout)
    for first, second in zip(rows, again, strict=False):
        assert (first["mean"], first["delta"]) == (second["mean"], second["delta"])


def test_exhausted_playbook_says_so_and_ends_normally(tmp_path: Path) -> None:
    playbook = tmp_path / "short.jsonl"
    lines = (shipped_folder() / "digits" / "playbook.jsonl").read_text().splitlines()
    playbook.write_text("\n".join(line for line in lines if json.loads(line)["idea"] == 1) + "\n")
    options = ["--model", f"playbook:{playbook}", "--allow-unsandboxed", "--run-dir", "run"]
    done = hpcsci("launch", "--ideas", "5", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "playbook" in done.stderr.splitlines()[-2]
    status = json.loads(hpcsci("status", "run", "--json", cwd=tmp_path).stdout)
    assert (status["state"], status["ideas"]["proposed"]) == ("finished", 1)
