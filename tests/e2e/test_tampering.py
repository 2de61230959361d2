"""Whatever candidates without a sandbox change of the run directory, findings are what they are.

A campaign of a good idea, of one that attacks, and of another good one is held against the same
campaign whose second idea does nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from campaigns import PLAIN, TinyCampaign, hpcsci
from cheats import adding, code
from tampering import ATTACKS, GENEROUS, RUN, WORSE
from tiny_recipe import RATE, propose

from hpcscientist.files.hashing import hash_tree
from hpcscientist.history import frozen, journal
from hpcscientist.history.status import read_state
from hpcscientist.records.events import TamperingFound

pytestmark = pytest.mark.e2e

SEEDS = 3
EVIL = "idea-0002"
# Alone, for what else is changed would hide it. The others are tried together in the gate.
IN_GATE = ("a result that nobody measured",)


def ran(folder: Path, *attacks: str, slots: int = 1) -> TinyCampaign:
    """Run a campaign whose second idea does this, once a trial, before it predicts."""
    campaign = TinyCampaign.prepare(folder, SEEDS)
    marker = 'open(COUNT_FILE + ".attacked", "a").close()\n'
    playbook = [
        propose(1, "Fewer slips", "Lower the share of wrong answers to almost nothing at all."),
        code(1, RATE, "ERROR_RATE = 0.05"),
        propose(2, "Evil", "Reach beyond what one was given."),
        adding(2, "\n".join([RUN, *attacks, marker])),
        propose(3, "Sorted", "Read inputs in ascending order before deciding about parity."),
        code(3, RATE, "ERROR_RATE = 0.12"),
    ]
    lines = "".join(json.dumps(entry) + "\n" for entry in playbook)
    (folder / "tiny" / "playbook.jsonl").write_text(lines)
    told = PLAIN.replace("[authoring]\n", "[authoring]\nhopeless = 0.0\n")
    # All are there before anything is attacked; what comes first is confirmed at the end.
    loop = f'error_control = "batch"\nideas_in_flight = {slots}\n'
    (folder / "hpcsci.toml").write_text(f"{told}[local]\nslots = {slots}\n[loop]\n{loop}")
    done = hpcsci(*campaign.launch_arguments(3), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert Path(f"{campaign.count_file}.attacked").exists()
    return campaign


def others(campaign: TinyCampaign) -> list[dict[str, Any]]:
    return [row for row in campaign.findings() if row["idea_id"] != EVIL]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    rows = others(ran(tmp_path_factory.mktemp("undisturbed")))
    assert [row["finding"] for row in rows] == [None, "improvement", "improvement"]
    assert [row["confirmed"] for row in rows] == [None, True, True]
    return rows


def check(campaign: TinyCampaign, undisturbed: list[dict[str, Any]]) -> None:
    """What is shown is true, and what lies there is what was recorded."""
    paths = campaign.paths
    assert others(campaign) == undisturbed
    state, config = read_state(paths), frozen.read(paths)
    assert journal.read(paths.journal)[-1].type == "campaign_ended"
    assert hash_tree(paths.recipe) == config.recipe_hash
    for idea in state.ideas.values():
        for number, known in idea.code_hashes.items():
            assert hash_tree(paths.idea(idea.idea_id).code(number)) == known
    assert {suspect for event in state.tampering for suspect in event.suspects} <= {EVIL}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in IN_GATE else [pytest.mark.full]) for name in ATTACKS],
)
def test_an_attack_changes_no_finding(
    name: str, undisturbed: list[dict[str, Any]], tmp_path: Path
) -> None:
    check(ran(tmp_path, ATTACKS[name]), undisturbed)


def test_who_attacks_everything_at_once_is_suspected_and_the_others_are_as_they_were(
    undisturbed: list[dict[str, Any]], tmp_path: Path
) -> None:
    kinds = ["links for other ideas' code", "other ideas' code", "other ideas' records"]
    kinds += ["ideas to come", "campaign.toml", "the journal's values", "specs of other trials"]
    kinds += ["results of other trials", "modules beside the scorer"]
    campaign = ran(tmp_path, WORSE, GENEROUS, *(ATTACKS[kind] for kind in kinds))
    check(campaign, undisturbed)
    found = [e for e in journal.read(campaign.paths.journal) if isinstance(e, TamperingFound)]
    changed = {name for event in found for name in event.changed}
    assert {event.suspects for event in found} == {(EVIL,)}
    assert {
        "recipe/reference/experiment.py",
        "recipe/score.py",
        "campaign.toml",
        "journal.jsonl",
        "ideas/idea-0001/attempts/1/code",
    } <= changed
    for command in ("status", "results"):
        told = hpcsci(command, "run", cwd=tmp_path)
        assert EVIL in told.stdout + told.stderr
    again = hpcsci("reproduce", "run", "--idea", "idea-0001", cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr


def test_side_by_side_nobody_fails_for_another(
    undisturbed: list[dict[str, Any]], tmp_path: Path
) -> None:
    campaign = ran(tmp_path, WORSE, GENEROUS, ATTACKS["other ideas' code"], slots=2)
    assert others(campaign) == undisturbed
    suspects = {s for event in read_state(campaign.paths).tampering for s in event.suspects}
    assert EVIL in suspects
    assert "baseline" not in suspects
