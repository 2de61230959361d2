"""Every row of a real campaign says from which recipe, data, code, image and package it is."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from campaigns import PLAIN, TinyCampaign, hpcsci
from tiny_recipe import RATE, edit, idea, propose, write_recipe

from hpcscientist import __version__
from hpcscientist.files.hashing import hash_image, hash_tree, package_hash
from hpcscientist.history import frozen
from hpcscientist.results import scan, store

pytestmark = [pytest.mark.e2e, pytest.mark.full]

# What the scorer chokes on is the machine's failure: nobody learns from it about the idea.
CHOKING = 'rows.append("choke,1")\n'
END = 'Path(args.out, "predictions.csv").write_text'
PLAYBOOK = [
    propose(1, "Fewer slips", "Lower the share of wrong answers to almost nothing at all."),
    idea(1, "code", {"note": "rate", "edits": edit(RATE, "ERROR_RATE = 0.02")}),
    propose(2, "Nothing there", "Import some library which nobody has ever installed anywhere."),
    idea(2, "code", {"note": "i", "edits": edit("import random", "import rondom as random")}),
    idea(2, "debug", {"diagnosis": "the library is missing", "give_up": True}),
    propose(3, "Chokes", "Append one more row that the scorer cannot make sense of."),
    idea(3, "code", {"note": "row", "edits": edit(END, CHOKING + END)}),
]


def rows_of(campaign: TinyCampaign) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = scan.scan(campaign.paths, store.SCHEMA.names).table.to_pylist()
    return rows


def check(campaign: TinyCampaign, image_hash: str | None) -> list[dict[str, Any]]:
    """Check every row's hashes against the run directory, and return the rows."""
    config, rows = frozen.read(campaign.paths), rows_of(campaign)
    for row in rows:
        code = campaign.paths.recipe / "reference"
        if row["idea"] != "baseline":
            code = campaign.paths.idea(row["idea"]).code(row["attempt"])
        assert row["code_hash"] == hash_tree(code)
        assert row["recipe_hash"] == config.recipe_hash == hash_tree(campaign.paths.recipe)
        assert row["data_hash"] == config.data_hash
        assert row["image_hash"] == config.image_hash == image_hash
        assert row["package_version"] == config.package_version == __version__
        assert row["package_hash"] == config.package_hash == package_hash()
        assert (row["predictions_hash"] is not None) is (row["status"] == "scored")
        if row["predictions_hash"] is not None:
            assert re.fullmatch("[0-9a-f]{64}", row["predictions_hash"])
    return rows


def test_rows_of_every_kind_of_trial_have_all_hashes(tmp_path: Path) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    lines = "".join(json.dumps(entry) + "\n" for entry in PLAYBOOK)
    (tmp_path / "tiny" / "playbook.jsonl").write_text(lines)
    score = tmp_path / "tiny" / "score.py"
    score.write_text(score.read_text().replace("if given", 'assert "choke" not in given\nif given'))
    (tmp_path / "hpcsci.toml").write_text(f"{PLAIN}[loop]\nmachine_retries = 0\n")
    launched = hpcsci(*campaign.launch_arguments(3), cwd=tmp_path)
    assert launched.returncode == 1, "the machine is to be fixed"
    hpcsci("resume", "run", cwd=tmp_path)
    rows = check(campaign, None)
    kinds = {(row["stage"], row["status"]) for row in rows}
    assert kinds >= {
        ("baseline", "scored"),
        ("pilot", "scored"),
        ("seeds", "scored"),
        ("pilot", "idea_failed"),
        ("pilot", "machine_failed"),
    }


@pytest.mark.apptainer
@pytest.mark.skipif(
    shutil.which("apptainer") is None or "HPCSCI_TEST_IMAGE" not in os.environ,
    reason="NOT TESTED: needs Apptainer, and HPCSCI_TEST_IMAGE with a container image",
)
def test_rows_of_contained_trials_have_the_image_s_hash(tmp_path: Path) -> None:
    image = Path(os.environ["HPCSCI_TEST_IMAGE"]).absolute()
    campaign = TinyCampaign(tmp_path)
    write_recipe(tmp_path, Path(os.devnull))
    (tmp_path / "hpcsci.toml").write_text(PLAIN)
    done = hpcsci(*campaign.launch_arguments(1), "--image", image, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = check(campaign, hash_image(image))
    assert {row["isolation"] for row in rows} == {"apptainer"}
    again = ("reproduce", "run", "--idea", "idea-0001")
    held = hpcsci(*again, cwd=tmp_path)
    assert held.returncode == 0, held.stdout + held.stderr
    moved = tmp_path / "moved.sif"
    moved.write_bytes(b"another image")
    other = hpcsci(*again, "--image", moved, cwd=tmp_path)
    assert other.returncode == 1
    assert re.search(rf"^{moved} .*\bhash\b", other.stdout, re.M)
