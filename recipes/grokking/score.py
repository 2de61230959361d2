"""Score predicted results of four operations. Trusted: runs apart from the candidate.

    score.py --predictions FILE --labels DIR

Prints one JSON object of metrics and exits 0. Exit code 3 with one line on stderr: the
predictions are bad (the candidate's fault). The predictions are untrusted bytes: a plain file
of at most MAX_BYTES.

accuracy         mean over the four operations of the share of cells predicted right
worst_operation  the accuracy of the operation that has the lowest
"""

import argparse
import csv
import json
import os
import re
import stat
import sys
from pathlib import Path

MAX_BYTES = 1 << 20
BAD_PREDICTIONS = 3
ROW = re.compile(r"([0-9]{1,6}),([0-9]{1,4})")


class BadPredictions(Exception):
    """The candidate's predictions cannot be scored."""


def read_untrusted(path):
    """Return the text of a plain file, read without following links or waiting on a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise BadPredictions(f"cannot be opened: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadPredictions("not a plain file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise BadPredictions(f"larger than {MAX_BYTES} bytes")
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise BadPredictions("not ASCII text") from None


def parse_predictions(text, ids):
    """Return {id: result}; every id exactly once."""
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if lines[0] != "id,result":
        raise BadPredictions("line 1: the header must be 'id,result'")
    predicted = {}
    for number, line in enumerate(lines[1:], start=2):
        match = ROW.fullmatch(line)
        if match is None:
            raise BadPredictions(f"line {number}: expected 'id,result', found {line[:40]!r}")
        key = int(match[1])
        if key in predicted or key not in ids:
            raise BadPredictions(f"line {number}: id {key} is twice there, or not in this split")
        predicted[key] = int(match[2])
    if len(predicted) < len(ids):
        raise BadPredictions(f"{len(ids) - len(predicted)} ids are missing")
    return predicted


def score(predicted, labels):
    """Return the metrics of complete predictions."""
    right = {}
    for key, (operation, result) in labels.items():
        right.setdefault(operation, []).append(predicted[key] == result)
    shares = [sum(own) / len(own) for own in right.values()]
    return {"accuracy": sum(shares) / len(shares), "worst_operation": min(shares)}


def main():
    parser = argparse.ArgumentParser(description="Score predicted results of operations.")
    parser.add_argument("--predictions", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    args = parser.parse_args()
    with (args.labels / "labels.csv").open(newline="") as file:
        rows = csv.DictReader(file)
        labels = {int(row["id"]): (row["operation"], int(row["result"])) for row in rows}
    try:
        predicted = parse_predictions(read_untrusted(args.predictions), labels)
    except BadPredictions as error:
        print(error, file=sys.stderr)
        return BAD_PREDICTIONS
    print(json.dumps(score(predicted, labels)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
