"""Tasks in the formats of other tools, written for these tests, and what is made of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hpcscientist.config.settings import Settings
from hpcscientist.importers import registry
from hpcscientist.importers.draft import Fate, RecipeDraft
from hpcscientist.importers.request import ImportRequest
from hpcscientist.importers.source import open_source
from hpcscientist.launching.rehearsal import rehearse
from hpcscientist.recipe.load import load
from hpcscientist.records.trial import Scored

RIDGE = '''"""Ridge regression on made data."""
import argparse
import random

LAMBDA = 1.0
STEPS = 120
SEED = 7
TEST_SIZE = 60

parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, default=0.03)
parser.add_argument("--verbose", action="store_true")
args = parser.parse_args()


def main():
    draw = random.Random(SEED)
    rows = [(x, 3 * x + draw.gauss(0, 0.3)) for x in (draw.random() for _ in range(2 * TEST_SIZE))]
    slope = 0.0
    for _ in range(STEPS):
        pull = sum((slope * x - y) * x for x, y in rows[TEST_SIZE:]) / TEST_SIZE
        slope -= args.learning_rate * (pull + LAMBDA * slope / TEST_SIZE)
    loss = sum((slope * x - y) ** 2 for x, y in rows[:TEST_SIZE]) / TEST_SIZE
    print(f"{STEPS} steps done")
    print(f"validation loss: {loss:.6f}")


if __name__ == "__main__":
    main()
'''


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def draft_of(
    kind: str, source: Path, folder: Path = Path("/made/task"), **asked: Any
) -> RecipeDraft:
    request = ImportRequest(open_source(source), **asked)
    return registry.draft_of(registry.format_of(kind), request, folder)


def told(draft: RecipeDraft, fate: Fate) -> list[str]:
    """Return what a draft says of one fate, without the reasons."""
    return [line.what for line in draft.lines if line.fate is fate]


def rehearsed(recipe: Path, room: Path, data: Path | None = None) -> list[dict[str, float]]:
    """Run a recipe's reference as `recipe check --run` does; return its metrics by budget."""
    paths = {"data": str(room / "prepared"), "private": str(room / "private")}
    settings = Settings.model_validate({"data": str(data or ""), "paths": paths})
    found = []
    for each in rehearse(load(recipe), settings, full=True):
        assert isinstance(each.report.outcome, Scored), each.log
        found.append(each.report.outcome.metrics)
    return found


def hpcsci(room: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(room),
        "XDG_CACHE_HOME": str(room / "cache"),
    }
    command = [sys.executable, "-m", "hpcscientist.cli.main", *map(str, words)]
    return subprocess.run(
        command, env=environment, cwd=room, capture_output=True, text=True, check=False
    )
