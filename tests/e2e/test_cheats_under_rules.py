"""Under whichever rule a campaign decides, no cheat is found an improvement that it is not.

A campaign runs by the rule that asks for least, and whatever is better there is taken to the test
split; its rows are then judged by the other rules. Once without a container, and once with the
hostile candidates of the cluster in it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from campaigns import PLAIN, TinyCampaign, hpcsci
from cheats import FOLLOW, FORGE, adding, unsound
from container_kit import needs_container
from hostile_candidates import HOSTILE
from hostile_disk import DISK
from hostile_kit import DEADLINE_S, MEMORY_MB, Hostile, Surroundings, known
from hostile_listener import listening, own_addresses
from hostile_processes import MEMORY
from hostile_recipe import BETTER, labels_of, write_playbook, write_recipe
from rules import RULES, judged_by
from tiny_recipe import propose

from hpcscientist.files.hashing import hash_tree
from hpcscientist.files.vault import ROOT_VARIABLE
from hpcscientist.history import frozen, journal
from hpcscientist.records.events import AttemptWritten, SeedsDecided, SplitSpent
from hpcscientist.results.store import unsealed
from hpcscientist.system import processes

pytestmark = [pytest.mark.e2e, pytest.mark.full]

SEEDS = 5


def by_title(campaign: TinyCampaign) -> dict[str, dict[str, Any]]:
    return {row["title"]: row for row in campaign.findings()}


# The rule that asks for least; online, the default, is what test_confirmed and test_hostile try.
@pytest.fixture(
    scope="module",
    params=[
        "point",
        *(pytest.param(rule, marks=pytest.mark.full) for rule in ("batch", "online")),
    ],
)
def cheated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> TinyCampaign:
    """A campaign without a sandbox, of a true improvement and cheats one after the other."""
    folder = tmp_path_factory.mktemp(request.param)
    campaign = TinyCampaign.prepare(folder, SEEDS)
    playbook = [
        *unsound(),
        propose(5, "Forged", "Write results for all other seeds before anybody measures them."),
        adding(5, FORGE),
        propose(6, "Followed", "Chase every path mentioned anywhere until labels turn up."),
        adding(6, FOLLOW),
    ]
    run(campaign, playbook, RULES[request.param])
    return campaign


def run(campaign: TinyCampaign, playbook: list[dict[str, Any]], loop: str) -> None:
    """Run the ideas of a playbook one after the other, to the end."""
    lines = "".join(json.dumps(entry) + "\n" for entry in playbook)
    (campaign.folder / "tiny" / "playbook.jsonl").write_text(lines)
    one_by_one = "[local]\nslots = 1\n[loop]\nideas_in_flight = 1\n"
    settings = PLAIN.replace("[authoring]\n", "[authoring]\nhopeless = 0.0\n")
    (campaign.folder / "hpcsci.toml").write_text(f"{settings}{one_by_one}{loop}\n")
    ideas = max(entry["idea"] for entry in playbook)
    done = hpcsci(*campaign.launch_arguments(ideas), cwd=campaign.folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("rule", list(RULES))
def test_only_the_true_improvement_is_confirmed(
    cheated: TinyCampaign, rule: str, tmp_path: Path
) -> None:
    rows = by_title(judged_by(rule, cheated, tmp_path))
    assert [title for title, row in rows.items() if row["confirmed"]] == ["Fewer slips"]
    assert rows["Fewer slips"]["finding"] == "improvement"
    for title in ("File order", "Tuned"):  # on the validation split they are what they seem
        row = rows[title]
        assert (row["finding"], row["confirmed"]) == ("improvement", False)
        assert row["reason"].startswith("not confirmed: ")
    for title in ("Borrowed", "Forged", "Followed"):
        assert (rows[title]["finding"], rows[title]["confirmed"]) == (None, None)


def test_what_was_copied_forged_or_looked_for_is_no_finding(cheated: TinyCampaign) -> None:
    rows = by_title(cheated)
    for trace in ("copied", "forged"):
        assert Path(f"{cheated.count_file}.{trace}").exists(), f"nothing was even {trace}"
    assert rows["Borrowed"]["reason"] == "its predictions are those of idea-0001"
    for title in ("Forged", "Followed"):
        assert rows[title]["delta"] == 0
        assert rows[title]["reason"] == "its predictions are those of the unchanged reference"
    assert cheated.executions()["idea-0005-a1-search-1"] == 1


def test_nor_where_seeds_come_in_stages(tmp_path: Path) -> None:
    campaign = TinyCampaign.prepare(tmp_path, seeds=3)
    loop = f'{RULES["point"]}\nallocation = "halving"\nhalving = 1.5\ndrift_every = 0'
    run(campaign, unsound()[:6], loop)
    rows = by_title(campaign)
    decided = [e for e in journal.read(campaign.paths.journal) if isinstance(e, SeedsDecided)]
    assert {event.idea_id for event in decided} == {f"idea-000{n}" for n in range(1, 4)}
    assert [title for title, row in rows.items() if row["confirmed"]] == ["Fewer slips"]
    for title in ("File order", "Tuned"):
        row = rows[title]
        told = "not confirmed: " in (row["reason"] or "")
        assert told or row["finding"] != "improvement", (title, row["reason"])


# Whoever fills memory, disk or the table of processes reaches for no score; tried if all is.
_FILLING = {hostile.name for hostile in (*MEMORY, *DISK)}
CHEATS = [h for h in HOSTILE if h.name not in _FILLING and "processes" not in h.limits]
# What a recipe gives is the same for all of its ideas.
GIVEN = {
    "256 processes": "1024 processes",
    "256 MiB": f"{MEMORY_MB} MiB",
    "of 5 s": f"of {DEADLINE_S} s",
}
# On a slow machine some are ended before they have done all that they would do; were it more, it
# would be the machine that is tried and not they.
ENDED_EARLY = 2


@dataclass(frozen=True)
class Attacked:
    """A campaign in the container whose ideas are the hostile candidates."""

    tiny: TinyCampaign
    candidates: list[Hostile]
    calls: list[object]


@pytest.fixture(scope="module")
def attacked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Attacked]:
    candidates = list(HOSTILE) if request.config.getoption("--full") else CHEATS
    folder = tmp_path_factory.mktemp("attacked")
    tiny = TinyCampaign(folder)
    recipe = write_recipe(folder)
    roots = f'[paths]\ndata = "{folder / "data"}"\nprivate = "{folder / "sealed"}"\n'
    settings = PLAIN.replace("[authoring]\n", "[authoring]\nhopeless = 0.0\n")
    loop = f"[loop]\nindependence = false\ndebug_rounds = 0\n{RULES['point']}\n"
    (folder / "hpcsci.toml").write_text(f"{settings}{roots}{loop}")
    with listening() as (port, calls), pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "secret")
        around = Surroundings(
            other_trial=str(tiny.paths.trial("baseline-a1-baseline-0").root),
            loopback=("127.0.0.1", port),
            node=(own_addresses()[0], port),
            controller=(own_addresses()[-1], port),
        )
        labels = labels_of(recipe, folder / "sealed")
        told = known(labels, tiny.paths.recipe / "score.py", around)
        write_playbook(recipe, told, candidates)
        done = hpcsci(
            *("launch", "--recipe", "./attacked", "--run-dir", "run", "--model", "playbook"),
            *("--backend", "local", "--image", os.environ["HPCSCI_TEST_IMAGE"]),
            *("--ideas", str(len(candidates) + 1)),
            cwd=folder,
        )
        assert done.returncode == 0, done.stderr
        assert labels.exists(), "where they were told to look"
        yield Attacked(tiny, candidates, calls)


class TestInTheContainer:
    pytestmark = needs_container

    @pytest.mark.parametrize("rule", list(RULES))
    def test_no_cheat_of_the_cluster_is_an_improvement(
        self, attacked: Attacked, rule: str, tmp_path: Path
    ) -> None:
        rows = by_title(judged_by(rule, attacked.tiny, tmp_path))
        better = rows.pop(BETTER)
        assert better["finding"] == "improvement", "else this rule finds nothing at all"
        assert better["confirmed"] is True
        gained = {
            title: row["finding"] or row["confirmed"]
            for title, row in rows.items()
            if row["finding"] in ("improvement", "decline") or row["confirmed"] is not None
        }
        assert gained == {}
        wrong = {h.name: says(h, rows[h.name]) for h in attacked.candidates}
        early = [h.name for h in attacked.candidates if is_early(h, wrong[h.name])]
        assert {name: said for name, said in wrong.items() if said and name not in early} == {}
        assert len(early) <= ENDED_EARLY, early

    def test_the_test_split_was_spent_for_none_of_them(self, attacked: Attacked) -> None:
        events = journal.read(attacked.tiny.paths.journal)
        spent = {event.idea_id for event in events if isinstance(event, SplitSpent)}
        assert spent == {"baseline", "idea-0001"}

    def test_nothing_outside_was_changed_or_called(
        self, attacked: Attacked, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        paths = attacked.tiny.paths
        config = frozen.read(paths)
        monkeypatch.setenv(ROOT_VARIABLE, str(attacked.tiny.folder / "sealed"))
        assert config.has_intact_data()
        assert hash_tree(paths.recipe) == config.recipe_hash
        for event in journal.read(paths.journal):
            if isinstance(event, AttemptWritten):
                code = paths.idea(event.idea_id).code(event.attempt)
                assert hash_tree(code) == event.code_hash
        trials = [trial.name for trial in paths.trials.iterdir()]
        assert list(unsealed(paths, config.campaign_id, trials)) == []
        assert attacked.calls == []
        assert processes.marked(config.campaign_id) == []


def says(hostile: Hostile, row: dict[str, Any]) -> str | None:
    """Return what is wrong with how a candidate ended; None if nothing is."""
    if hostile.outcome == "scored":
        honest = (row["status"], row["finding"], row["delta"]) == ("scored", "maintenance", 0)
        return None if honest else f"{row['status']}, {row['delta']}: {row['reason']}"
    expected = hostile.said
    for theirs, ours in GIVEN.items():
        expected = expected.replace(theirs, ours)
    caught = re.search(expected, row["reason"] or "")
    return None if row["status"] == "failed" and caught else f"{row['status']}: {row['reason']}"


def is_early(hostile: Hostile, wrong: str | None) -> bool:
    """Whether a candidate that should fail was ended by its deadline before it did."""
    return hostile.outcome != "scored" and "past its deadline" in (wrong or "")
