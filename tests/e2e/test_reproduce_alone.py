"""`hpcsci reproduce FOLDER` of an idea's folder whose campaign is gone, data and all."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from campaigns import hpcsci
from forging import change
from reproducible import CERTAIN, PLAYBOOK, configure, prepare

from hpcscientist.campaign.claims import encode
from hpcscientist.feedback.statistics import compare
from hpcscientist.files.hashing import hash_tree
from hpcscientist.files.rundir import IdeaPaths
from hpcscientist.records.findings import Claim, Holding
from hpcscientist.records.trial import Split

pytestmark = [pytest.mark.e2e, pytest.mark.full]

HELD = f"{CERTAIN}: holds (checked from its own folder alone; the notes list what that leaves out)"


@pytest.fixture(scope="module")
def handed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is left of a campaign with a confirmed idea: that idea's folder."""
    campaign = prepare(tmp_path_factory.mktemp("campaign"), PLAYBOOK[:2])
    done = hpcsci(*campaign.launch_arguments(1), cwd=campaign.folder)
    assert done.returncode == 0, done.stderr
    idea = campaign.paths.idea(CERTAIN)
    before = {path: path.read_bytes() for path in (idea.recipe, idea.claim)}
    for path in before:
        path.unlink()
    lines = campaign.paths.journal.read_text().splitlines(keepends=True)
    kept = [line for line in lines if '"type":"campaign_ended"' not in line]
    assert len(kept) == len(lines) - 1
    campaign.paths.journal.write_text("".join(kept))
    done = hpcsci("resume", "run", cwd=campaign.folder)
    assert done.returncode == 0, done.stderr
    assert {path: path.read_bytes() for path in before} == before, "as after a kill"
    copied = tmp_path_factory.mktemp("kept") / "by-another-name"
    shutil.copytree(idea.root, copied)
    for child in campaign.folder.iterdir():  # its candidates count their runs in a file there
        shutil.rmtree(child) if child.is_dir() else child.unlink()
    return copied


@pytest.fixture
def folder(handed: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil, in a folder with a configuration of its own."""
    configure(tmp_path)
    return Path(shutil.copytree(handed, tmp_path / "claimed"))


def again(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = ("reproduce", folder.name, "--allow-unsandboxed", "--backend", "local", *options)
    return hpcsci(*command, cwd=folder.parent)


def test_it_holds_bit_by_bit_on_both_splits_with_data_prepared_anew(folder: Path) -> None:
    before = hash_tree(folder)
    assert not (folder.parent / "data").exists()
    done = again(folder, "--out", "elsewhere")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == HELD
    assert any(re.match(r"note: .*\bno journal\b.*\bclaim\.json\b", line) for line in lines)
    assert re.search(r"\bprepare\.py .*\bscore\.py .*'tiny'", done.stderr)
    found = json.loads((folder.parent / "elsewhere" / "reproduction.json").read_text())
    assert found["alone"] is True
    assert len(found["rows"]) == 20
    assert {(r["split"], r["of"]) for r in found["rows"]} == {
        (split, of) for split in ("validation", "test") for of in ("baseline", "idea")
    }
    assert all(r["same_bits"] and r["recorded"] == r["again"] for r in found["rows"])
    claim = json.loads(IdeaPaths(folder).claim.read_text())
    for spec in (folder.parent / "elsewhere").glob("trials/*/spec.json"):
        ran = json.loads(spec.read_text())
        assert ran["limits"] == claim["limits"]
        assert ran["provenance"]["data_hash"] == claim["data_hash"]
        assert Path(ran["sources"]["scorer"]).is_relative_to(folder.parent / "elsewhere")
    assert hash_tree(folder) == before, "what was handed on is not touched"


def test_who_forges_the_claim_alike_is_found_by_running_it(folder: Path) -> None:
    """Every value of the idea is a little better, and the comparison follows from that."""
    path = IdeaPaths(folder).claim
    claim = Claim.model_validate_json(path.read_bytes())
    known = claim.evidence[Split.VALIDATION]
    better = tuple(
        trial.model_copy(update={"metrics": {"accuracy": trial.metrics["accuracy"] + 0.01}})
        for trial in known.idea
    )
    sides = (known.baseline, better)
    told = compare(*({t.seed: t.metrics["accuracy"] for t in side} for side in sides))
    forged = known.model_copy(update={"idea": better, "comparison": told})
    path.write_bytes(encode(claim.model_copy(update={"evidence": {Split.VALIDATION: forged}})))
    done = again(folder, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1, done.stdout + done.stderr
    assert found["outcome"] == "does not hold"
    assert any("predictions score 0." in reason for reason in found["reasons"]), found
    assert Path(found["folder"]).is_relative_to(folder / "reproductions"), "it was run"


def code(folder: Path) -> None:
    change(folder / "attempts" / "1" / "code" / "experiment.py", "0.02", "0.01")


def archive(folder: Path) -> None:
    path = IdeaPaths(folder).recipe
    path.write_bytes(path.read_bytes().replace(b"/ len(labels)", b"/ len(given )"))


def claim(folder: Path) -> None:
    change(IdeaPaths(folder).claim, '"delta": 0.', '"delta": 1.')


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (code, r"/attempts/1/code .*\bhash\b"),
        (archive, r"recipe\.tar .* recipe/score\.py .*\bSHA256SUMS\b"),
        (claim, r"claim\.json: .*\bcomparison\b"),
    ],
)
def test_what_was_tampered_with_does_not_hold_and_nothing_is_run(
    folder: Path, spoil: Callable[[Path], None], told: str
) -> None:
    spoil(folder)
    done = again(folder)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(re.search(f"{told}.*: {Holding.NOT}$", line) for line in lines), lines
    assert lines[-1] == f"{CERTAIN}: does not hold: 1 reasons, nothing was run"
    assert not (folder / "reproductions").exists()
    assert not (folder.parent / "data").exists()


def test_what_is_missing_or_wrongly_asked_for_says_the_fix(folder: Path) -> None:
    def refused(*arguments: str) -> str:
        done = hpcsci("reproduce", *arguments, cwd=folder.parent)
        assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
        assert len(done.stderr.splitlines()) == 1
        return done.stderr

    assert "--allow-unsandboxed" in refused("claimed")
    configuration = folder.parent / "hpcsci.toml"
    configuration.write_text(f"allow_unsandboxed = true\n{configuration.read_text()}")
    assert re.search("--allow-unsandboxed .*command line", refused("claimed"))
    told = refused("claimed", "--idea", "idea-0002")
    assert re.search("--idea idea-0002: .* idea-0001; .*--idea", told)
    IdeaPaths(folder).recipe.unlink()
    assert re.search(r"recipe\.tar: .*\bmissing\b.*--recipe", refused("claimed"))
    assert "--recipe" in refused("claimed", "--recipe", "digits")
    IdeaPaths(folder).claim.unlink()
    assert re.search(r"\bno claim\.json\b.*--idea ID", refused("claimed"))
