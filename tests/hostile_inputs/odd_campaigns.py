"""Whole campaigns in this process, whose trials alone are scripted, and all that reads them."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench_campaign import ScriptedTrials, scored
from try_out import tried

from hpcscientist.launching import wiring
from hpcscientist.recipe.create import create
from hpcscientist.recipe.load import shipped_folder
from hpcscientist.records.trial import Outcome, TrialSpec

HERE = ("--allow-unsandboxed", "--backend", "local")
# Ideas are proposed and written, and nothing in between.
PLAIN = """\
[proposing]
batch = 1
reflections = 0
feasibility = false
[literature]
concepts = 0
[authoring]
plan = false
analysis = false
advice_rounds = 0
further_runs = 0
[loop]
ideas_in_flight = 1
confirm = false
debug_rounds = 1
"""
WHOLE = "[loop]\nideas_in_flight = 1\n"
HASTY = "[client]\nretries = 1\nbackoff_s = 0.0\nbackoff_max_s = 0.0\ntimeout_s = 30.0\n"


def _value(spec: TrialSpec) -> Outcome:
    return scored(0.5 + 0.01 * (spec.seed % 7) + 0.1 * (spec.idea_id != "baseline"))


@contextlib.contextmanager
def scripted() -> Iterator[None]:
    """Trials end at once: what they do is of no interest here, and hundreds would take hours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            wiring, "_backend", lambda config, recipe, s, plane: ScriptedTrials(s.paths, _value)
        )
        patch.setenv("SSL_CERT_FILE", os.devnull)  # to read a system's takes a tenth of a second
        yield


def make_recipe(folder: Path, *, whole: bool) -> Path:
    """A recipe whose recorded ideas go through every step (`whole`), or a small one."""
    if not whole:
        made = create("topic", folder)
        text = (made / "recipe.toml").read_text()
        (made / "recipe.toml").write_text(text.replace("seeds = 5\n", "seeds = 2\n"))
        return made
    without = shutil.ignore_patterns("library", "__pycache__")  # to index it takes seconds
    return Path(shutil.copytree(shipped_folder() / "digits", folder / "topic", ignore=without))


@functools.cache
def recorded(whole: bool) -> dict[str, dict[str, Any]]:
    """The recorded replies of its first ideas, by what they answer, as in `1/code/1`."""
    if whole:
        text = (shipped_folder() / "digits" / "playbook.jsonl").read_text()
    else:
        from odd_changes import sound  # noqa: PLC0415 (which needs this module's neighbours)

        text = sound()["playbook.jsonl"]
    entries = [json.loads(line) for line in text.splitlines()]
    return {
        f"{entry['idea']}/{entry['stage']}/{entry.get('ordinal', 1)}": entry
        for entry in entries
        if entry["idea"] in (1, 2)
    }


def campaign(folder: Path, model: str, *, whole: bool, recipe: str = "") -> None:
    """Launch a campaign of two ideas, resume it where it failed, and look at what it left."""
    (folder / "hpcsci.toml").write_text(HASTY + (WHOLE if whole else PLAIN))
    if not recipe:
        make_recipe(folder, whole=whole)
    given = ("--recipe", recipe or "./topic", "--model", model, "--ideas", "2", *HERE)
    look_at(folder, tried(["launch", *given, "--run-dir", "run"]))


def look_at(folder: Path, code: int) -> None:
    """Everything that reads a campaign, after a launch that ended with `code`."""
    if not (folder / "run" / "journal.jsonl").exists():
        assert code in (1, 2)
        return
    if code == 1:
        tried(["resume", "run"])
    for look in (["status"], ["status", "--json"], ["results"]):
        assert tried([look[0], "run", *look[1:]]) == 0
    for form in ("json", "csv"):
        assert tried(["results", "run", "--format", form]) == 0
    assert tried(["cancel", "run"]) == 0
