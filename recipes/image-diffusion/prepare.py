"""Small images to learn to draw, and others that drawn ones are held against.

    prepare.py --out DIR [--data FOLDER]

Runs once on the host, needs NumPy, and is deterministic. Without a folder the images are generated:
two figures of eight kinds on a dark ground, white before grey, anywhere, of any size and turn. A
folder holds CIFAR-10 for Python. Writes

    DIR/public/train/            images.npy (n, height, width, channels) uint8
    DIR/public/validation|test/  wanted.json: how many images are asked for
    DIR/private/validation|test/ images.npz: images (HELD_OUT, height, width, channels), and train
"""

import argparse
import json
import pickle
from pathlib import Path

import numpy as np

SIZE, TRAIN = 16, 4000
HELD_OUT, WANTED = 1000, 500
KINDS, GROUND, INKS = 8, 30.0, (140.0, 245.0)
FINE = 4  # points a side of a pixel that are averaged

SEED = [0x5C0E93D7, 0xB7146A2F, 0x28FD05C1, 0xE3A97B48]  # 128 bits: nobody tries them all
BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5")


def figure(kind, x, y):
    """Return where a figure of unit size is, of the coordinates x and y."""
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    square, cross = np.maximum(abs(x), abs(y)), np.minimum(abs(x), abs(y))
    return (
        radius < 0.8,
        (radius < 0.9) & (radius > 0.5),
        square < 0.7,
        (square < 0.8) & (square > 0.45),
        (y > -0.6) & (y < 0.9 - 1.8 * abs(x)),
        (cross < 0.25) & (square < 0.95),
        (abs(x) < 0.3) & (abs(y) < 0.95),
        radius < 0.55 + 0.4 * np.cos(5 * angle),
    )[kind]


def generated(rng, count):
    """Return images of FIGURES figures, the later ones before the earlier, with soft edges."""
    rows, columns = (np.mgrid[: SIZE * FINE, : SIZE * FINE] + 0.5) / FINE
    images = np.empty((count, SIZE, SIZE, 1), dtype=np.uint8)
    for i in range(count):
        image = np.full((SIZE, SIZE), GROUND)
        for ink, kind in zip(INKS, rng.randint(KINDS, size=len(INKS)), strict=True):
            middle, size, turn = rng.uniform(3, SIZE - 3, 2), rng.uniform(3, 5), rng.uniform(-1, 1)
            dx, dy = (columns - middle[0]) / size, (rows - middle[1]) / size
            x, y = dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn)
            inside = figure(kind, x, y).reshape(SIZE, FINE, SIZE, FINE).mean(axis=(1, 3))
            image += (ink - image) * inside
        images[i, :, :, 0] = np.rint(image)
    return images


def cifar10(folder):
    """Return the images for training and of the test. Its files are pickles, of known checksums."""

    def read(name):
        with (folder / "cifar-10-batches-py" / name).open("rb") as file:
            found = pickle.load(file, encoding="latin1")
        return np.asarray(found["data"]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)

    return np.concatenate([read(name) for name in BATCHES]), read("test_batch")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    args = parser.parse_args()
    rng = np.random.RandomState(SEED)  # its stream is frozen across NumPy versions
    if args.data:
        known, test = (images[rng.permutation(len(images))] for images in cifar10(args.data))
        train, parts = known[HELD_OUT:], {"validation": known[:HELD_OUT], "test": test[:HELD_OUT]}
    else:
        images = generated(rng, TRAIN + 2 * HELD_OUT)
        train, *held = np.split(images, [TRAIN, TRAIN + HELD_OUT])
        parts = dict(zip(("validation", "test"), held, strict=True))
    for part in ("train", *parts):
        (args.out / "public" / part).mkdir(parents=True)
    np.save(args.out / "public" / "train" / "images.npy", np.ascontiguousarray(train))
    for part, images in parts.items():
        (args.out / "private" / part).mkdir(parents=True)
        wanted = {"images": WANTED, "shape": images.shape[1:]}
        (args.out / "public" / part / "wanted.json").write_text(json.dumps(wanted) + "\n")
        np.savez(args.out / "private" / part / "images.npz", images=images, train=train)


if __name__ == "__main__":
    main()
