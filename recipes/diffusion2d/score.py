"""Score samples of four shapes in the plane. Trusted: runs apart from the candidate.

    score.py --predictions FILE --labels DIR

Prints one JSON object of metrics and exits 0. Exit code 3 with one line on stderr: the
samples are bad (the candidate's fault). The samples are untrusted bytes: a plain file of at
most MAX_BYTES, never unpickled.

energy_distance      of samples and private points, mean over the shapes; 0 for the same law
sliced_wasserstein   mean Wasserstein-1 distance of their projections on 64 directions

Samples that copy the training points would come close to private points without any model, so
those with more near-copies than private points themselves have are refused.
"""

import argparse
import io
import json
import os
import stat
import sys
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

SAMPLES, DIRECTIONS = 2_000, 64
MAX_BYTES = 1 << 20
BAD_PREDICTIONS = 3
NEAR, MOST_NEAR = 0.01, 0.05  # quantile of private points' distances; share of samples below it


class BadPredictions(Exception):
    """The candidate's samples cannot be scored."""


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


def parse_samples(data, shapes):
    try:
        samples = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise BadPredictions(f"not an array that numpy.save wrote: {error}") from None
    wanted = (shapes, SAMPLES, 2)
    if not isinstance(samples, np.ndarray) or samples.shape != wanted:
        raise BadPredictions(f"the array must have the shape {wanted}")
    if samples.dtype not in (np.float32, np.float64) or not np.isfinite(samples).all():
        raise BadPredictions("the array must hold finite floats of 32 or 64 bits")
    return samples.astype(np.float64)


def refuse_copies(samples, points, train):
    """Raise BadPredictions where samples lie closer to training points than chance has them."""
    tree = cKDTree(train)
    near = np.quantile(tree.query(points)[0], NEAR)
    share = np.mean(tree.query(samples)[0] < near)
    if share > MOST_NEAR or len(np.unique(samples, axis=0)) < 0.99 * len(samples):
        raise BadPredictions(f"{share:.0%} of a shape's samples copy training points or each other")


def energy_distance(samples, points):
    """Return 2 E|X-Y| - E|X-X'| - E|Y-Y'|, without bias from the number of samples."""
    n, m = len(samples), len(points)
    within = cdist(samples, samples).sum() / (n * (n - 1)) + cdist(points, points).sum() / (
        m * (m - 1)
    )
    return 2 * cdist(samples, points).mean() - within


def sliced_wasserstein(samples, points):
    angles = np.pi * (np.arange(DIRECTIONS) + 0.5) / DIRECTIONS
    directions = np.stack([np.cos(angles), np.sin(angles)])
    levels = (np.arange(SAMPLES) + 0.5) / SAMPLES
    mine, theirs = (np.quantile(x @ directions, levels, axis=0) for x in (samples, points))
    return np.abs(mine - theirs).mean()


def score(samples, points, train):
    """Return the metrics of complete samples. Raises BadPredictions for copies."""
    for of_shape in zip(samples, points, train, strict=True):
        refuse_copies(*of_shape)
    pairs = list(zip(samples, points, strict=True))
    return {
        "energy_distance": float(np.mean([energy_distance(*pair) for pair in pairs])),
        "sliced_wasserstein": float(np.mean([sliced_wasserstein(*pair) for pair in pairs])),
    }


def main():
    parser = argparse.ArgumentParser(description="Score samples of shapes in the plane.")
    parser.add_argument("--predictions", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    args = parser.parse_args()
    with np.load(args.labels / "points.npz", allow_pickle=False) as private:
        points, train = (private[name].astype(np.float64) for name in ("points", "train"))
    try:
        samples = parse_samples(read_untrusted(args.predictions), len(points))
        found = score(samples, points, train)
    except BadPredictions as error:
        print(error, file=sys.stderr)
        return BAD_PREDICTIONS
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
