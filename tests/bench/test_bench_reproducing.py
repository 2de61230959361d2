"""Confirmed claims run again, and tampered ones: what is counted, and that it is really done."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
from benchmarks.campaigns import reproducing, spoiling
from benchmarks.campaigns.reproducing import Verdicts
from benchmarks.campaigns.tampering import KINDS, change_journal, copy_campaign
from benchmarks.campaigns.verdicts import Tampered, kept
from campaigns import TinyCampaign, benchmark, hpcsci
from reproducible import prepare
from tiny_recipe import RATE, edit, idea, propose

from hpcscientist.config.settings import Settings, SlurmOverrides
from hpcscientist.errors import UsageError
from hpcscientist.files.hashing import hash_tree
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.vault import ROOT_VARIABLE
from hpcscientist.records.findings import Claim, Holding, Reproduction
from hpcscientist.reproduction.environment import RerunOptions
from hpcscientist.results.compact import compact

FIRST, SECOND = "idea-0001", "idea-0002"
PLAYBOOK = [
    propose(1, "Fewer slips", "Lower the share of wrong answers to almost nothing at all."),
    idea(1, "code", {"note": "rate", "edits": edit(RATE, "ERROR_RATE = 0.02")}),
    propose(2, "Warm boots", "Shift slightly how often an error occurs, hoping for gains."),
    idea(2, "code", {"note": "boots", "edits": edit(RATE, "ERROR_RATE = 0.05")}),
]
# What is said of a tampered claim; but for the last nothing is run.
SAID = {
    "code": "/code .*measured",
    "value in the journal": r"confirm-\d: accuracy is .* by the journal",
    "predictions hash": r"confirm-\d: predictions_hash is",
    "result file": r"confirm-\d: accuracy is .* by the journal",
    "data hash": "data_hash is",
    "all alike": r"predictions score \d.* \d",
}


def outcome(holding: Holding, *reasons: str, notes: tuple[str, ...] = ()) -> Reproduction:
    return Reproduction(
        campaign_id="c",
        idea_id=FIRST,
        attempt=1,
        metric="accuracy",
        outcome=holding,
        reasons=reasons,
        notes=notes,
    )


def spoilt(kind: str, caught: bool) -> Tampered:
    return Tampered(campaign_id="c", idea_id=FIRST, kind=kind, caught=caught, reasons=())


class TestCounting:
    def test_claims_that_hold_and_tampered_ones_that_are_caught(self) -> None:
        again = (
            ("seed-0", outcome(Holding.BITS, notes=("another package",))),
            ("seed-1", outcome(Holding.FIGURES, notes=("another package",))),
            ("seed-2", outcome(Holding.OPEN, "too few seeds")),
            ("seed-3", outcome(Holding.NOT, "gone", "changed")),
        )
        tampered = tuple(
            (f"seed-{number}", spoilt(kind, caught=number != 1))
            for number, kind in enumerate(["code", "data hash", "code"])
        )
        found = Verdicts(again, tampered)
        figures = {figure.name: figure for figure in reproducing.figures(found)}
        hold = figures["confirmed claims that hold again"]
        assert (hold.value, hold.runs, hold.is_met) == (0.5, 4, False)
        assert hold.unit == "(2 of 4, 95%: 0.150 to 0.850)"
        assert figures["confirmed claims that hold again, bit by bit"].value == 0.25
        caught = figures["tampered claims that are caught"]
        assert (caught.value, caught.is_met) == (pytest.approx(2 / 3), False)
        assert figures["tampered claims that are caught, code"].is_met
        assert figures["tampered claims that are caught, data hash"].value == 0
        assert list(reproducing.failures(found)) == [
            f"seed-2/{FIRST}: {Holding.OPEN.value}: too few seeds",
            f"seed-3/{FIRST}: does not hold: gone; changed",
            f"seed-1/{FIRST}: tampered with (data hash) and not caught: it holds",
        ]
        assert list(reproducing.notes(found)) == ["note: another package (2 of 4 claims)"]

    def test_claims_that_share_a_baseline_are_said_to_and_what_took_anothers_turn(self) -> None:
        again = (("seed-0", outcome(Holding.BITS)), ("seed-0", outcome(Holding.BITS)))
        passed = spoilt("code", caught=True).model_copy(update={"passed_over": ("all alike: x",)})
        shared, turn = reproducing.notes(Verdicts(again, (("seed-0", passed),)))
        assert "baseline" in shared
        assert turn == f"note: seed-0/{FIRST}: code took the turn of all alike: x"

    def test_nothing_is_said_where_nothing_was_confirmed(self) -> None:
        assert reproducing.figures(Verdicts((), ())) == []


def bench(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["claims", "--recipe", "./tiny", "--campaigns", "1", "--ideas", "2"]
    done = benchmark(*command, "--allow-unsandboxed", "--json", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done


def executed(campaign: TinyCampaign) -> Counter[str]:
    """How often a trial of the baseline and of the ideas was really run."""
    lines = campaign.count_file.read_text().split()
    return Counter("baseline" if line.startswith("baseline") else "idea" for line in lines)


def measured(run: Path) -> list[str]:
    """What was measured in a campaign; each command leaves a trace in its lock."""
    return [hash_tree(run / name) for name in ("ideas", "recipe", "trials")]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> TinyCampaign:
    """A campaign with two ideas, both better beyond doubt."""
    campaign = prepare(tmp_path_factory.mktemp("claims"), PLAYBOOK)
    bench(campaign.folder)
    return campaign


@pytest.mark.e2e
@pytest.mark.full
class TestReal:
    def test_every_claim_holds_again_and_tampered_ones_do_not(self, finished: TinyCampaign) -> None:
        folder, kind = finished.folder, next(iter(KINDS))
        before, known = executed(finished), measured(folder / "seed-0")
        done = bench(folder, "--reproduce")
        rows: dict[str, dict[str, Any]] = {row["name"]: row for row in json.loads(done.stdout)}
        hold = rows["confirmed claims that hold again, bit by bit"]
        assert (hold["value"], hold["runs"]) == (1, 2)
        caught = rows[f"tampered claims that are caught, {kind}"]
        assert (caught["value"], caught["runs"]) == (1, 1)
        assert f"seed-0/{SECOND}: reproducing it, 2 of 2 claims" in done.stderr
        assert measured(folder / "seed-0") == known, "the campaign is left alone"
        # Ten trials of each idea, and ten of the baseline for both.
        assert executed(finished) - before == Counter(idea=20, baseline=10)
        place = folder / "again" / "seed-0"
        left = {entry.name for entry in place.iterdir()}
        assert left == {FIRST, f"{FIRST}.json", SECOND, f"{SECOND}.json", "tampered.json"}
        # The same command again runs nothing and says the same.
        (place / f"{FIRST}.json").unlink()  # as if it was stopped there
        again = bench(folder, "--reproduce")
        assert again.stdout == done.stdout
        assert executed(finished) - before == Counter(idea=20, baseline=10)

    def test_verdicts_of_another_campaign_are_refused(
        self, finished: TinyCampaign, tmp_path: Path
    ) -> None:
        copied = copy_campaign(RunPaths(finished.folder / "seed-0"), tmp_path / "run")
        file = tmp_path / f"{FIRST}.json"
        file.write_text(outcome(Holding.BITS).model_dump_json())
        with pytest.raises(UsageError, match=f"{file}: .* {copied.root}; .* {tmp_path}$"):
            kept(file, Reproduction, copied)

    def test_of_compacted_results_the_next_kind_is_tampered_with(
        self, finished: TinyCampaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(ROOT_VARIABLE, str(finished.folder / "sealed"))
        monkeypatch.chdir(finished.folder)
        compacted = copy_campaign(RunPaths(finished.folder / "seed-0"), tmp_path / "seed-0")
        compact(compacted)
        place, said = tmp_path / "again", list[str]()
        # What a command that was stopped has left: half of a copy, one of another kind, and one
        # from before their names told.
        for left in (f"tampered-{FIRST}-data-hash/partial", "tampered-x-code/run", "tampered"):
            (place / left).mkdir(parents=True)
        wanted = RerunOptions("", "", SlurmOverrides(), "", tmp_path, Settings())

        def tampered(*kinds: str) -> Tampered:
            return spoiling.tampered(compacted, FIRST, kinds, place, wanted, said.append)

        told = tampered("all alike", "result file", "data hash", "code")
        assert (told.kind, told.caught) == ("data hash", True), told
        assert [text.split(": ")[0] for text in told.passed_over] == ["all alike", "result file"]
        assert all("set loop.compact_after higher" in text for text in told.passed_over)
        assert {entry.name for entry in place.iterdir()} == {"tampered.json"}
        # Another time it is told by its own kind, and what was left behind is removed.
        said.clear()
        (place / "tampered-x-code" / "run").mkdir(parents=True)
        assert tampered("code") == told
        assert said == [f"seed-0/{FIRST}: caught: data hash"]
        assert {entry.name for entry in place.iterdir()} == {"tampered.json"}

    def test_what_no_kind_can_be_applied_to_is_not_caught(
        self, finished: TinyCampaign, tmp_path: Path
    ) -> None:
        compacted = copy_campaign(RunPaths(finished.folder / "seed-0"), tmp_path / "seed-0")
        compact(compacted)
        wanted = RerunOptions("", "", SlurmOverrides(), "", tmp_path, Settings())
        (tmp_path / "again").mkdir()
        told = spoiling.tampered(
            compacted, FIRST, ["result file"], tmp_path / "again", wanted, lambda text: None
        )
        assert (told.kind, told.caught) == ("result file", False)
        assert told.reasons == ("no kind of tampering could be applied",)

    @pytest.mark.parametrize("kind", list(SAID))
    def test_each_kind_of_tampering_is_caught_by_what_it_changed(
        self, finished: TinyCampaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        assert list(SAID) == list(KINDS)
        monkeypatch.setenv(ROOT_VARIABLE, str(finished.folder / "sealed"))
        original = RunPaths(finished.folder / "seed-0")
        before = hash_tree(original.root)
        copied = copy_campaign(original, tmp_path / "run")
        claim = Claim.model_validate_json(copied.idea(FIRST).claim.read_bytes())
        KINDS[kind](copied, claim)
        done = hpcsci("reproduce", "run", "--idea", FIRST, "--out", "out", cwd=tmp_path)
        assert done.returncode == 1, done.stdout + done.stderr
        told = f"{SAID[kind]}.*: {Holding.NOT.value}$"
        assert re.search(told, done.stdout, re.MULTILINE), done.stdout
        assert (tmp_path / "out").exists() == (kind == "all alike")
        assert hash_tree(original.root) == before


def test_a_journal_is_changed_though_a_model_wrote_odd_line_ends(tmp_path: Path) -> None:
    """Characters that Python takes for the end of a line, and JSON does not."""
    paths = RunPaths(tmp_path)
    report = {"trial_id": "t", "outcome": {"kind": "scored", "value": 1.0}}
    before = [
        {"event": {"kind": "proposed", "title": "a\u2028b\x85c\x1cd"}},
        {"event": {"report": report}},
    ]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in before)
    paths.journal.write_text(text, encoding="utf-8")
    change_journal(paths, "t", lambda given: given["outcome"].update(value=2.0))
    lines = paths.journal.read_bytes().splitlines()
    assert json.loads(lines[0])["event"] == before[0]["event"]
    assert json.loads(lines[1])["event"]["report"]["outcome"]["value"] == 2.0
    assert len(lines) == 2
