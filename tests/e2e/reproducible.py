"""A small campaign with a confirmed idea, one of chance, and one that changes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from benchmarks.campaigns.tampering import copy_campaign
from campaigns import PLAIN, TinyCampaign, hpcsci
from tiny_recipe import RATE, RECIPE, edit, idea, propose

CERTAIN, CHANCE, UNCHANGED, BROKEN = (f"idea-000{number}" for number in (1, 2, 3, 4))

# Waits as long as a file is there that a test makes.
WAIT = """import os, time
while os.path.exists(COUNT_FILE + ".wait"):
    time.sleep(0.05)
"""
DRAW = "draw = random.Random(int(args.seed))"
PLAYBOOK = [
    propose(1, "Fewer slips", "Lower the share of wrong answers to almost nothing at all."),
    idea(1, "code", {"note": "rate", "edits": edit(RATE, f"ERROR_RATE = 0.02\n{WAIT}")}),
    propose(2, "Thrown dice", "Draw from the system's entropy instead of any seed given."),
    idea(
        2,
        "code",
        {
            "note": "dice",
            "edits": [
                *edit(RATE, "ERROR_RATE = 0.05"),
                *edit(DRAW, "draw = random.SystemRandom()"),
            ],
        },
    ),
    propose(3, "Warm boots", "Shift slightly how often an error occurs, hoping for gains."),
    idea(3, "code", {"note": "boots", "edits": edit(DRAW, DRAW.replace("seed)", "seed) + 1"))}),
    propose(4, "Nothing there", "Import some library which nobody has ever installed anywhere."),
    idea(4, "code", {"note": "i", "edits": edit("import random", "import rondom as random")}),
    idea(4, "debug", {"diagnosis": "the library is missing", "give_up": True}),
]


def launch(folder: Path) -> TinyCampaign:
    """Run it to its end in an empty folder, with data of its own."""
    campaign = prepare(folder, PLAYBOOK)
    done = hpcsci(*campaign.launch_arguments(4), cwd=folder)
    assert done.returncode == 0, done.stderr
    return campaign


def prepare(folder: Path, playbook: list[dict[str, Any]]) -> TinyCampaign:
    """Write a recipe of five seeds with these replies, and a configuration."""
    campaign = TinyCampaign.prepare(folder)
    recipe = RECIPE.replace("seeds = 2", "seeds = 5")
    (folder / "tiny" / "recipe.toml").write_text(recipe)
    lines = "".join(json.dumps(entry) + "\n" for entry in playbook)
    (folder / "tiny" / "playbook.jsonl").write_text(lines)
    configure(folder)
    return campaign


def configure(folder: Path) -> None:
    roots = f"[paths]\ndata = {json.dumps(str(folder / 'data'))}\n"
    roots += f"private = {json.dumps(str(folder / 'sealed'))}\n"
    (folder / "hpcsci.toml").write_text(PLAIN + roots)


def copy(campaign: TinyCampaign, folder: Path) -> TinyCampaign:
    """Return a copy that a test may spoil; the data are the same."""
    copy_campaign(campaign.paths, folder / "run")
    shutil.copy(campaign.folder / "hpcsci.toml", folder)
    return TinyCampaign(folder)


def row_of(campaign: TinyCampaign, idea_id: str) -> dict[str, Any]:
    return next(row for row in campaign.findings() if row["idea_id"] == idea_id)
