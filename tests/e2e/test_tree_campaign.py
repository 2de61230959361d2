"""A campaign whose idea grows a tree of attempts, from recorded replies, as a user runs it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from campaigns import TinyCampaign
from tiny_recipe import RATE, edit, idea, propose

from hpcscientist.history import journal
from hpcscientist.records.events import AttemptWritten

pytestmark = [pytest.mark.e2e, pytest.mark.full]

SETTINGS = """\
[authoring]
search = "tree"
drafts = 2
nodes = 5
workers = 2
debug_share = 1.0
analysis = false
[loop]
confirm = false
drift_every = 0
"""
PLAN = {
    "data": "The given numbers.",
    "model": "The reference's rule, with fewer slips.",
    "training": "There is nothing to be trained; the rule is fixed.",
    "testing": "Parity of each number.",
    "comparison": "Accuracy against the reference.",
    "parts": ["a lower share of slips", "the parity rule"],
    "ablations": ["a lower share of slips"],
    "files": ["experiment.py"],
    "packages": [],
    "seconds": 1.0,
    "memory_mb": 50.0,
}


def change(note: str, rate: str, before: str = RATE) -> dict[str, Any]:
    return {"note": note, "edits": edit(before, f"ERROR_RATE = {rate}")}


BROKEN = "random.sort_of(0.3)"
REPLIES = [
    propose(1, "Fewer slips", "Lower the share of wrong answers, in one way or another."),
    idea(1, "plan", PLAN),
    idea(1, "code", change("a sorted rate", BROKEN)),
    idea(1, "code", change("a lower rate", "0.2"), 1001),
    idea(1, "debug", {"diagnosis": "no such name", "edits": edit(BROKEN, "0.25")}, 2_000_003),
    idea(1, "improve", change("much lower", "0.05", "ERROR_RATE = 0.2"), 4),
    idea(1, "improve", change("not as low", "0.1", "ERROR_RATE = 0.05"), 5),
    idea(1, "extend", change("slips as before", "0.3 * 1.0", "ERROR_RATE = 0.05")),
]
GROWN = [
    (1, 0, "draft"),
    (2, 0, "draft"),
    (3, 1, "debug"),
    (4, 2, "improve"),
    (5, 4, "improve"),
    (6, 4, "ablation"),
]


def prepared(folder: Path) -> TinyCampaign:
    campaign = TinyCampaign.prepare(folder)
    lines = "".join(json.dumps(reply) + "\n" for reply in REPLIES)
    (folder / "tiny" / "playbook.jsonl").write_text(lines)
    (folder / "hpcsci.toml").write_text(SETTINGS)
    return campaign


def lineage(campaign: TinyCampaign) -> list[tuple[int, int, str]]:
    events = journal.read(campaign.paths.journal)
    return sorted((e.attempt, e.parent, e.kind) for e in events if isinstance(e, AttemptWritten))


def measured(campaign: TinyCampaign) -> dict[str, set[str]]:
    """Kinds of trials by attempt."""
    found: dict[str, set[str]] = {}
    for name in campaign.executions():
        if name.startswith("idea-"):
            _, _, attempt, stage, _ = name.split("-")
            found.setdefault(attempt, set()).add(stage)
    return found


def check(campaign: TinyCampaign) -> None:
    assert lineage(campaign) == GROWN
    # Those that ran to their end: the first one does not.
    pilots = {f"a{number}": {"pilot"} for number in range(2, 7)}
    both = {"pilot", "search"}
    assert measured(campaign) == pilots | {"a4": both, "a6": both}
    assert set(campaign.executions().values()) == {1}
    _, row = campaign.findings()
    assert (row["status"], row["attempts"], row["n"]) == ("scored", 6, 2)
    assert row["mean"] > 0.9
    notes = (campaign.paths.idea("idea-0001").root / "notes.md").read_text()
    assert "## Tree" in notes
    drawn = notes.split("```text\n")[1].split("\n```")[0].splitlines()
    assert [line.split(":")[0] for line in drawn] == [
        "reference",
        "├─ 1 first version",
        "│  └─ 3 repair",
        "└─ 2 first version",
        "   └─ 4 improvement",
        "      └─ 5 improvement",
    ]
    assert drawn[1].endswith("failed")
    assert drawn[4].endswith("the best")
    assert "## Attempt 6: ablation, further run 1" in notes


def test_the_best_of_a_tree_is_measured_and_taken_apart(tmp_path: Path) -> None:
    campaign = prepared(tmp_path)
    done = campaign.drive("never", *campaign.launch_arguments(1))
    assert done.returncode == 0, done.stderr
    check(campaign)
    assert campaign.asked() == {
        f"idea-0001 {key}": 1
        for key in (
            "propose/1", "plan/1", "code/1", "code/1001", "debug/2000003", "improve/4",
            "improve/5", "extend/1",
        )
    }  # fmt: skip


@pytest.mark.parametrize(
    "moment",
    [
        "attempt_written:2:before",
        pytest.param("reply_recorded:5:torn", marks=pytest.mark.full),
        "trial_started:6:after",
        pytest.param("trial_ended:7:before", marks=pytest.mark.full),
        "attempt_written:5:after",
    ],
)
def test_killed_it_grows_the_same(moment: str, tmp_path: Path) -> None:
    campaign = prepared(tmp_path)
    died = campaign.drive(moment, *campaign.launch_arguments(1))
    assert died.returncode == -signal.SIGKILL, died.stderr
    done = campaign.drive("never", "resume", "run")
    assert done.returncode == 0, done.stderr
    assert lineage(campaign) == GROWN
    events = journal.read(campaign.paths.journal)
    assert len({event.key for event in events}) == len(events)
