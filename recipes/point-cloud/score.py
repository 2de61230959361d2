"""Score predicted classes of clouds. Trusted: runs apart from the candidate.

    score.py --predictions FILE --labels DIR

Prints one JSON object of metrics and exits 0. Exit code 3 with one line on stderr: the
predictions are bad (the candidate's fault). Anything else is a fault of this scorer. The
predictions are untrusted bytes: a plain file of at most MAX_BYTES, never unpickled.

accuracy        share of clouds classified correctly
balanced_error  mean over the classes of the share of clouds misclassified
"""

import argparse
import json
import os
import re
import stat
import sys
from pathlib import Path

MAX_BYTES = 1 << 20
BAD_PREDICTIONS = 3
ROW = re.compile(r"([0-9]{1,6}),([0-9]{1,3})")


class BadPredictions(Exception):
    """The candidate's predictions cannot be scored."""


def read_untrusted(path):
    """Return the text of a plain file, read without following links or waiting on a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise BadPredictions(f"cannot be opened: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadPredictions("not a plain file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise BadPredictions(f"larger than {MAX_BYTES} bytes")
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise BadPredictions("not ASCII text") from None


def parse_predictions(text, ids):
    """Return {id: label}; every id exactly once, every label a whole number."""
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if lines[0] != "id,label":
        raise BadPredictions("line 1: the header must be 'id,label'")
    predicted = {}
    for number, line in enumerate(lines[1:], start=2):
        match = ROW.fullmatch(line)
        if match is None:
            raise BadPredictions(f"line {number}: expected 'id,label', found {line[:40]!r}")
        key, label = int(match[1]), int(match[2])
        if key in predicted:
            raise BadPredictions(f"line {number}: id {key} appears twice")
        if key not in ids:
            raise BadPredictions(f"line {number}: id {key} is not in this split")
        predicted[key] = label
    if len(predicted) < len(ids):
        missing = min(set(ids) - set(predicted))
        raise BadPredictions(f"{len(ids) - len(predicted)} ids are missing, the first is {missing}")
    return predicted


def read_labels(folder):
    lines = (folder / "labels.csv").read_text().split()[1:]
    return dict(tuple(map(int, line.split(","))) for line in lines)


def score(predicted, labels):
    """Return the metrics of complete predictions."""
    right = {}
    for key, label in labels.items():
        right.setdefault(label, []).append(predicted[key] == label)
    hits = sum(map(sum, right.values()))
    errors = [1 - sum(own) / len(own) for own in right.values()]
    return {"accuracy": hits / len(labels), "balanced_error": sum(errors) / len(errors)}


def main():
    parser = argparse.ArgumentParser(description="Score predicted classes of clouds.")
    parser.add_argument("--predictions", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    args = parser.parse_args()
    labels = read_labels(args.labels)
    try:
        predicted = parse_predictions(read_untrusted(args.predictions), labels)
    except BadPredictions as error:
        print(error, file=sys.stderr)
        return BAD_PREDICTIONS
    print(json.dumps(score(predicted, labels)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
