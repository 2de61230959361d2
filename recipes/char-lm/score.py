"""Score predicted next characters. Trusted: runs apart from the candidate.

    score.py --predictions FILE --labels DIR

Prints one JSON object of metrics and exits 0. Exit code 3 with one line on stderr: the
predictions are bad (the candidate's fault). They are untrusted bytes: a plain file of at most
MAX_BYTES, never unpickled.

nats_per_character  mean negative logarithm of the probability of the character that came next
accuracy            share of contexts whose most probable character came next

Each row must be a distribution: probabilities that sum to more than 1 are refused.
"""

import argparse
import io
import json
import os
import stat
import sys
from pathlib import Path

import numpy as np

MAX_BYTES = 64 << 20
BAD_PREDICTIONS = 3
SLACK = 1e-3  # of a sum of probabilities, for floats of 32 bits
LEAST = -100.0  # of a logarithm: a character that is never expected


class BadPredictions(Exception):
    """The candidate's predictions cannot be scored."""


def read_untrusted(path):
    """Return the bytes of a plain file, read without following links or waiting on a pipe."""
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
    return data


def parse_logarithms(data, shape):
    try:
        logs = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise BadPredictions(f"not an array that numpy.save wrote: {error}") from None
    if not isinstance(logs, np.ndarray) or logs.shape != shape:
        raise BadPredictions(f"the array must have the shape {shape}")
    if logs.dtype not in (np.float32, np.float64) or np.isnan(logs).any():
        raise BadPredictions("the array must hold floats of 32 or 64 bits, and no NaN")
    logs = logs.astype(np.float64)
    sums = np.exp(np.minimum(logs, 1.0)).sum(axis=1)
    if sums.max() > 1 + SLACK:
        raise BadPredictions(f"the probabilities of a row sum to {sums.max():.4g}, more than 1")
    return np.maximum(logs, LEAST)


def score(logs, following):
    """Return the metrics of complete predictions."""
    own = logs[np.arange(len(following)), following]
    return {
        "nats_per_character": float(-own.mean()),
        "accuracy": float(np.mean(logs.argmax(axis=1) == following)),
    }


def main():
    parser = argparse.ArgumentParser(description="Score predicted next characters.")
    parser.add_argument("--predictions", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    args = parser.parse_args()
    following = np.load(args.labels / "next.npy", allow_pickle=False)
    size = json.loads((args.labels / "size.json").read_text())["characters"]
    try:
        logs = parse_logarithms(read_untrusted(args.predictions), (len(following), size))
    except BadPredictions as error:
        print(error, file=sys.stderr)
        return BAD_PREDICTIONS
    print(json.dumps(score(logs, following)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
