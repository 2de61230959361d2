"""Lay out the bundled handwritten digits: inputs below public/, withheld labels below private/.

    prepare.py --out DIR

Runs once on the host, needs scikit-learn, and is deterministic. Writes

    DIR/public/train/        images.npy (n, 8, 8) float32 from 0 to 16, labels.npy (n,) int64
    DIR/public/validation/   images.npy, ids.npy (n,) int64
    DIR/public/test/         images.npy, ids.npy
    DIR/private/validation/  labels.csv with the columns id,label
    DIR/private/test/        labels.csv

An id is the image's row in its split. It says nothing about where the image came from.
"""

import argparse
from pathlib import Path

import numpy as np

SPLIT_SEED = 20240
HELD_OUT = 400  # images in each of validation and test


def stratified(labels, size, rng):
    """Return `size` row numbers, each class in proportion to its share, in random order."""
    classes, counts = np.unique(labels, return_counts=True)
    exact = counts * size / counts.sum()
    take = np.floor(exact).astype(int)
    for k in np.argsort(exact - take)[::-1][: size - take.sum()]:
        take[k] += 1
    rows = [
        rng.permutation(np.flatnonzero(labels == c))[:n] for c, n in zip(classes, take, strict=True)
    ]
    return rng.permutation(np.concatenate(rows))


def split(labels):
    """Return the row numbers of train, validation and test; the same on every machine."""
    rng = np.random.RandomState(SPLIT_SEED)  # its stream is frozen across numpy versions
    rest = np.arange(len(labels))
    chosen = {}
    for name in ("test", "validation"):
        picked = rest[stratified(labels[rest], HELD_OUT, rng)]
        rest = np.setdiff1d(rest, picked)
        chosen[name] = picked
    return {"train": rng.permutation(rest), **chosen}


def write_labels(folder, labels):
    folder.mkdir(parents=True)
    rows = "".join(f"{i},{label}\n" for i, label in enumerate(labels))
    (folder / "labels.csv").write_text("id,label\n" + rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out

    from sklearn.datasets import load_digits

    digits = load_digits()
    images, labels = digits.images.astype(np.float32), digits.target.astype(np.int64)
    for name, rows in split(labels).items():
        folder = out / "public" / name
        folder.mkdir(parents=True)
        np.save(folder / "images.npy", images[rows])
        if name == "train":
            np.save(folder / "labels.npy", labels[rows])
        else:
            np.save(folder / "ids.npy", np.arange(len(rows)))
            write_labels(out / "private" / name, labels[rows])


if __name__ == "__main__":
    main()
