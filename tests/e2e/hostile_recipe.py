"""The hostile candidates as ideas of a campaign: a recipe to attack, and a playbook of them all.

Whoever predicts honestly misses as many digits as the reference with the same seed, but others:
nobody gains anything by chance, and no two have the same predictions.
"""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostile_kit import DEADLINE_S, MEMORY_MB, OUTPUT_MB, Hostile
from tiny_recipe import edit, idea, propose
from trialkit import PRELUDE

from hpcscientist.files.hashing import hash_file
from hpcscientist.recipe import load

RECIPE = f"""\
name = "attacked"
seeds = 3
[topic]
title = "Digits"
description = "Say which digit belongs to a number."
inputs = "whole numbers"
outputs = "a digit"
[[metrics]]
name = "accuracy"
direction = "maximize"
minimum_effect = 0.01
[budgets.pilot]
seconds = {DEADLINE_S}
[budgets.full]
seconds = {DEADLINE_S}
[resources]
memory_mb = {MEMORY_MB}
output_mb = {OUTPUT_MB}
"""

PREPARE = """\
import argparse
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--out")
out = Path(parser.parse_args().out)
for split in ("validation", "test"):
    for kind in ("public", "private"):
        (out / kind / split).mkdir(parents=True)
    (out / "public" / split / "inputs.txt").write_text(" ".join(map(str, range(10))))
    labels = "".join(f"{n},{(7 * n + 3) % 10}\\n" for n in range(10))
    (out / "private" / split / "labels.csv").write_text("id,label\\n" + labels)
(out / "public" / "train").mkdir()
(out / "public" / "train" / "images.csv").write_text("id,pixels\\n")
"""

# `WHO` keeps apart what ideas predict. Of ten digits seven or eight are missed, so that three seeds
# are enough to find whoever comes to know them all.
_HONEST = """
import random

def honest():
    rows = ["id,label"]
    draw = random.Random(f"{WHO} {ARGS.seed} {ARGS.split}")
    missed = draw.sample(range(10), 7 + int(ARGS.seed) // 10 % 2)
    for number in map(int, (DATA / ARGS.split / "inputs.txt").read_text().split()):
        off = draw.randint(1, 9) if number in missed else 0
        rows.append(f"{number},{(7 * number + 3 + off) % 10}")
    predict("\\n".join(rows) + "\\n")
"""
_WHO, _METHOD = 'WHO = "the reference"', "honest()  # the method"
BETTER = "Look twice"


def write_recipe(folder: Path) -> Path:
    """Write it below `folder`, with an empty playbook, and return its path."""
    recipe = folder / "attacked"
    (recipe / "reference").mkdir(parents=True)
    experiment = f"{PRELUDE}\n{_WHO}\n{_HONEST}\n{_METHOD}\n"
    (recipe / "reference" / "experiment.py").write_text(experiment)
    (recipe / "recipe.toml").write_text(RECIPE)
    (recipe / "prepare.py").write_text(PREPARE)
    shutil.copyfile(load.shipped_folder() / "digits" / "score.py", recipe / "score.py")
    (recipe / "plot.py").write_text('"""No figures."""\n')
    (recipe / "seed_ideas.json").write_text("[]\n")
    (recipe / "playbook.jsonl").write_text("")
    return recipe


def labels_of(recipe: Path, private: Path) -> Path:
    """Where the labels of the validation split will lie."""
    key = f"attacked-{hash_file(recipe / 'prepare.py')[:16]}"
    return private / key / "validation" / "labels.csv"


def write_playbook(recipe: Path, known: str, candidates: Sequence[Hostile]) -> None:
    """One idea that is better by honest means, and then each candidate; titles are their names."""
    entries = _idea(1, BETTER, "honest()", "missed = []")
    for number, hostile in enumerate(candidates, start=2):
        entries += _idea(number, hostile.name, known + textwrap.dedent(hostile.body))
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    (recipe / "playbook.jsonl").write_text(lines)


def _idea(number: int, title: str, method: str, honest: str = "") -> list[dict[str, Any]]:
    edits = [*edit(_WHO, f"WHO = {title!r}"), *edit(_METHOD, method)]
    if honest:
        drawn = "    missed = draw.sample(range(10), 7 + int(ARGS.seed) // 10 % 2)\n"
        edits += edit(drawn, f"{drawn}    {honest}\n")
    words = " ".join(f"{title}{n}" for n in "abcdefgh")  # unlike any other idea's
    return [
        propose(number, title, words),
        idea(number, "code", {"note": "x", "edits": edits}),
    ]
