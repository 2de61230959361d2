"""Small images of several classes: some labelled to train on, others withheld.

    prepare.py --out DIR [--data FOLDER]

Runs once on the host, needs NumPy, and is deterministic. Without a folder the images are generated:
ten kinds of figures in any place, size, turn and colour, on a noisy background. A folder holds
CIFAR-100 (cifar-100-python/train, .../test) or Fashion-MNIST (train-images-idx3-ubyte.gz, ...).
Writes

    DIR/public/train/            images.npy (n, height, width, channels) uint8, labels.npy (n,)
    DIR/public/validation|test/  images.npy
    DIR/private/validation|test/ labels.csv: id,label; an id is the image's row

Of data with a test of their own that test is taken, and validation is cut from their training data.
"""

import argparse
import gzip
import pickle
from pathlib import Path

import numpy as np

SIZE, TRAIN, HELD_OUT = 16, 2500, 1000
CLASSES = 10
NOISE = 25  # standard deviation, of 255

SEED = [0x26C4F90B, 0xB18D53E7, 0x7EA90C64, 0x03F5D182]  # 128 bits: nobody tries them all


def figure(kind, x, y):
    """Return where a figure of unit size is, of the coordinates x and y."""
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    return {
        0: radius < 0.8,
        1: (radius < 0.9) & (radius > 0.5),
        2: np.maximum(abs(x), abs(y)) < 0.7,
        3: (np.maximum(abs(x), abs(y)) < 0.8) & (np.maximum(abs(x), abs(y)) > 0.45),
        4: (y > -0.6) & (y < 0.9 - 1.8 * abs(x)),
        5: (np.minimum(abs(x), abs(y)) < 0.22) & (np.maximum(abs(x), abs(y)) < 0.95),
        6: abs(x) < 0.25,
        7: (abs(x) < 0.2) | (abs(x - 0.75) < 0.2),
        8: radius < 0.55 + 0.4 * np.cos(5 * angle),
        9: (radius < 0.9) & (x > 0.1 * np.sign(y)),
    }[kind]


def generated(rng):
    """Return images and labels."""
    count = TRAIN + 2 * HELD_OUT
    labels = rng.permutation(np.arange(count) % CLASSES)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    images = np.empty((count, SIZE, SIZE, 3), dtype=np.uint8)
    for i, label in enumerate(labels):
        middle, size = rng.uniform(0.4, 0.6, 2) * SIZE, rng.uniform(5, 7.5)
        turn = rng.uniform(-0.5, 0.5)
        dx, dy = (columns - middle[0]) / size, (rows - middle[1]) / size
        x, y = dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn)
        paper = rng.uniform(0, 255, 3)
        ink = (paper + rng.uniform(80, 175, 3)) % 256
        shown = np.where(figure(label, x, y)[..., None], ink, paper)
        images[i] = np.clip(np.rint(shown + rng.normal(0, NOISE, shown.shape)), 0, 255)
    return images, labels


def cifar100(folder):
    """Return the images and labels of both its files. They are pickles, of known checksums."""
    parts = []
    for name in ("train", "test"):
        with (folder / "cifar-100-python" / name).open("rb") as file:
            found = pickle.load(file, encoding="latin1")
        images = np.asarray(found["data"]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        parts.append((images, np.array(found["fine_labels"])))
    return parts


def fashion_mnist(folder):
    parts = []
    for name in ("train", "t10k"):
        with gzip.open(folder / f"{name}-images-idx3-ubyte.gz") as file:
            images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28, 1)
        with gzip.open(folder / f"{name}-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(), np.uint8, offset=8)
        parts.append((images, labels))
    return parts


def given(folder, rng):
    """Return train, validation and test of a user's folder."""
    read = cifar100 if (folder / "cifar-100-python").is_dir() else fashion_mnist
    (images, labels), test = read(folder)
    order = rng.permutation(len(images))
    held = len(test[0]) // 2
    cut = [(images[rows], labels[rows]) for rows in (order[held:], order[:held])]
    shuffled = rng.permutation(len(test[0]))
    return [*cut, (test[0][shuffled], test[1][shuffled])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    args = parser.parse_args()
    rng = np.random.RandomState(SEED)  # its stream is frozen across NumPy versions
    if args.data:
        parts = given(args.data, rng)
    else:
        images, labels = generated(rng)
        ends = [TRAIN, TRAIN + HELD_OUT]
        parts = list(zip(np.split(images, ends), np.split(labels, ends), strict=True))
    for part, (images, labels) in zip(("train", "validation", "test"), parts, strict=True):
        folder = args.out / "public" / part
        folder.mkdir(parents=True)
        np.save(folder / "images.npy", np.ascontiguousarray(images))
        if part == "train":
            np.save(folder / "labels.npy", labels.astype(np.int64))
        else:
            (args.out / "private" / part).mkdir(parents=True)
            rows = "".join(f"{i},{label}\n" for i, label in enumerate(labels))
            (args.out / "private" / part / "labels.csv").write_text("id,label\n" + rows)


if __name__ == "__main__":
    main()
