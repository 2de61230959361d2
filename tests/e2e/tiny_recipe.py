"""A recipe whose trials last milliseconds, so that whole campaigns can be run many times.

The task: is the number odd? The reference answers rightly but for a share ERROR_RATE of the
inputs, drawn from the seed. Each run of a trial leaves a line in a file outside the run
directory, so that a test can count how often a trial was really executed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECIPE = """\
name = "tiny"
seeds = 2
[topic]
title = "Odd numbers"
description = "Say which numbers are odd."
inputs = "whole numbers"
outputs = "0 or 1"
[[metrics]]
name = "accuracy"
direction = "maximize"
minimum_effect = 0.01
[budgets.pilot]
seconds = 120.0
[budgets.full]
seconds = 120.0
[resources]
memory_mb = 512
output_mb = 8
[[knobs]]
name = "ERROR_RATE"
type = "float"
low = 0.0
high = 0.5
"""

EXPERIMENT = """\
import argparse
import os
import random
from pathlib import Path

ERROR_RATE = 0.3

parser = argparse.ArgumentParser()
for name in ("data", "out", "seed", "budget", "split"):
    parser.add_argument(f"--{name}")
args = parser.parse_args()
draw = random.Random(int(args.seed))
rows = ["id,label"]
for line in (Path(args.data) / args.split / "inputs.txt").read_text().split():
    wrong = draw.random() < ERROR_RATE
    rows.append(f"{line},{(int(line) + wrong) % 2}")
Path(args.out, "predictions.csv").write_text("\\n".join(rows) + "\\n")
with open(COUNT_FILE, "a") as file:
    file.write(os.environ["HPCSCI_TRIAL"] + "\\n")
"""

PREPARE = """\
import argparse
import random
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--out")
out = Path(parser.parse_args().out)
for split, numbers in (("validation", range(100, 300)), ("test", range(300, 500))):
    for kind in ("public", "private"):
        (out / kind / split).mkdir(parents=True)
    # Those of the test come in no order; those of the validation tell their labels by theirs.
    shown = random.Random(1).sample(numbers, len(numbers)) if split == "test" else numbers
    (out / "public" / split / "inputs.txt").write_text(" ".join(map(str, shown)))
    labels = "".join(f"{n},{n % 2}\\n" for n in numbers)
    (out / "private" / split / "labels.csv").write_text(labels)
(out / "public" / "train").mkdir()
(out / "public" / "train" / "pairs.csv").write_text("".join(f"{n},{n % 2}\\n" for n in range(100)))
"""

SCORE = """\
import argparse
import json
import sys
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--predictions")
parser.add_argument("--labels")
args = parser.parse_args()
labels = dict(row.split(",") for row in (Path(args.labels) / "labels.csv").read_text().split())
given = dict(row.split(",") for row in Path(args.predictions).read_text().split()[1:])
if given.keys() != labels.keys():
    print("not every id is predicted", file=sys.stderr)
    sys.exit(3)
print(json.dumps({"accuracy": sum(given[i] == labels[i] for i in labels) / len(labels)}))
"""


def idea(number: int, stage: str, reply: dict[str, Any], ordinal: int = 1) -> dict[str, Any]:
    return {"idea": number, "stage": stage, "ordinal": ordinal, "reply": reply}


def propose(number: int, title: str, summary: str, *parents: str) -> dict[str, Any]:
    reply = {
        "parent_ids": parents,
        "title": title,
        "hypothesis": f"{title} helps.",
        "method": title,
        "experiment_plan": "Run it.",
        "summary": summary,
    }
    return idea(number, "propose", reply)


def edit(search: str, replace: str) -> list[dict[str, str]]:
    return [{"file": "experiment.py", "search": search, "replace": replace}]


RATE = "ERROR_RATE = 0.3"

# Every kind of journal event occurs: an improvement, a look-alike, one fixed from its
# traceback, one given up, and the exhausted playbook when a fifth idea is asked for.
PLAYBOOK = [
    propose(1, "Fewer slips", "Lower the share of wrong answers to almost nothing at all."),
    idea(1, "code", {"note": "lower rate", "edits": edit(RATE, "ERROR_RATE = 0.01")}),
    propose(2, "Fewer slips again", "Lower the share of wrong answers to almost nothing at all!"),
    propose(
        3,
        "Sorted reading",
        "Read inputs in ascending order before deciding about parity.",
        "idea-0001",
    ),
    idea(3, "code", {"note": "sort", "edits": edit(RATE, "ERROR_RATE = random.sort_of(0.3)")}),
    idea(
        3,
        "debug",
        {"diagnosis": "no such name", "edits": edit("random.sort_of(0.3)", "min(0.3, 0.25)")},
    ),
    propose(4, "A hopeless case", "Import some library which nobody has ever installed anywhere."),
    idea(
        4,
        "code",
        {"note": "import", "edits": edit("import random", "import random.rondom as random")},
    ),
    idea(4, "debug", {"diagnosis": "the library is missing", "give_up": True}),
]


def write_recipe(folder: Path, count_file: Path, seeds: int = 2) -> Path:
    """Write the recipe below `folder` and return its path."""
    recipe = folder / "tiny"
    (recipe / "reference").mkdir(parents=True)
    experiment = f"COUNT_FILE = {str(count_file)!r}\n{EXPERIMENT}"
    (recipe / "recipe.toml").write_text(RECIPE.replace("seeds = 2", f"seeds = {seeds}"))
    (recipe / "reference" / "experiment.py").write_text(experiment)
    (recipe / "prepare.py").write_text(PREPARE)
    (recipe / "score.py").write_text(SCORE)
    (recipe / "plot.py").write_text('"""No figures."""\n')
    (recipe / "seed_ideas.json").write_text("[]\n")
    lines = "".join(json.dumps(entry) + "\n" for entry in PLAYBOOK)
    (recipe / "playbook.jsonl").write_text(lines)
    return recipe
