"""Answers wrongly for a share of the inputs, drawn from the seed and the knob."""

import random
import sys
from pathlib import Path

SALT = 0.5
ERROR_RATE = 0.3

args = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
draw = random.Random(f"{args['--seed']}/{SALT}")
rows = ["id,label"]
for line in Path(args["--data"], args["--split"], "inputs.txt").read_text().split():
    wrong = draw.random() < ERROR_RATE
    rows.append(f"{line},{(int(line) + wrong) % 2}")
Path(args["--out"], "predictions.csv").write_text("\n".join(rows) + "\n")
