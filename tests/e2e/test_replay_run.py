"""A campaign replayed from another's run directory has the same ideas, findings and tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from campaigns import NOT_COMPARED, TinyCampaign, hpcsci

from hpcscientist.files.rundir import RunPaths

pytestmark = [pytest.mark.e2e, pytest.mark.full]


def rows(folder: Path, run: str) -> list[dict[str, Any]]:
    done = hpcsci("results", run, "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return [{k: v for k, v in row.items() if k not in NOT_COMPARED} for row in found]


def ideas(paths: RunPaths) -> dict[str, dict[str, Any]]:
    """Each idea's file, but for what names the model and its prompts."""
    files = sorted((paths.root / "ideas").glob("*/idea.json"))
    found = {file.parent.name: json.loads(file.read_text()) for file in files}
    differs = {"model", "prompts", "shown"}  # what was known by then depends on timing
    return {i: {k: v for k, v in idea.items() if k not in differs} for i, idea in found.items()}


def tokens(paths: RunPaths) -> dict[str, tuple[int, int]]:
    """By idea and call, what was spent on it."""
    found = {}
    for chat in (paths.root / "ideas").glob("*/chat.jsonl"):
        for line in chat.read_text().splitlines():
            call = json.loads(line)
            spent = call["prompt_tokens"], call["completion_tokens"]
            found[f"{chat.parent.name} {call['key']}"] = spent
    return found


def test_a_run_directory_replays_its_campaign(tmp_path: Path) -> None:
    first = TinyCampaign.prepare(tmp_path)
    done = hpcsci(*first.launch_arguments(ideas=3), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "tiny" / "playbook.jsonl").unlink()
    options = ["--allow-unsandboxed", "--ideas", "3", "--run-dir", "again"]
    done = hpcsci("launch", "--recipe", "./tiny", "--model", "playbook:run", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = RunPaths(tmp_path / "again")
    assert rows(tmp_path, "again") == rows(tmp_path, "run")
    assert ideas(again) == ideas(first.paths)
    assert tokens(again) == tokens(first.paths)
    # It stands by itself: its replies were copied.
    assert (again.root / "playbook.jsonl").is_file()
