"""Small colour images: some to learn a code from, others to be coded and decoded.

    prepare.py --out DIR [--data FOLDER]

Runs once on the host, needs NumPy, and is deterministic. Without a folder the images are generated:
soft coloured blobs over a gradient, with an edge. A folder holds CIFAR-10 for Python. Writes

    DIR/public/train/            images.npy (n, height, width, 3) uint8
    DIR/public/validation|test/  images.npy (HELD_OUT, height, width, 3)
    DIR/private/validation|test/ images.npz: the same images, which reconstructions are held against
"""

import argparse
import pickle
from pathlib import Path

import numpy as np

SIZE, TRAIN, BLOBS = 16, 2000, 4
HELD_OUT = 500  # images of validation and of test; recipe.toml bounds the code of so many

SEED = [0xF0617AD9, 0x48B2CE35, 0x9D13F68A, 0xA75C0E24]  # 128 bits: nobody tries them all
BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5")


def generated(rng, count):
    """Return images of blobs of any colour, over a gradient that an edge cuts."""
    y, x = (np.mgrid[:SIZE, :SIZE] + 0.5) / SIZE
    images = np.empty((count, SIZE, SIZE, 3))
    for number in range(count):
        slope, colours = rng.normal(0, 60, (2, 3)), rng.uniform(40, 215, (2, 3))
        angle, offset = rng.uniform(0, 2 * np.pi), rng.uniform(-0.3, 0.3)
        side = (x - 0.5) * np.cos(angle) + (y - 0.5) * np.sin(angle) > offset
        image = colours[side.astype(int)] + np.stack([x - 0.5, y - 0.5], axis=-1) @ slope
        for _ in range(BLOBS):
            place, width = rng.uniform(0, 1, 2), rng.uniform(0.06, 0.2)
            soft = np.exp(-((x - place[0]) ** 2 + (y - place[1]) ** 2) / (2 * width**2))
            image = image + soft[..., None] * rng.uniform(-150, 150, 3)
        images[number] = image
    return np.clip(np.rint(images), 0, 255).astype(np.uint8)


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
        parts = [known[HELD_OUT:], known[:HELD_OUT], test[:HELD_OUT]]
    else:
        parts = np.split(generated(rng, TRAIN + 2 * HELD_OUT), [TRAIN, TRAIN + HELD_OUT])
    for part, images in zip(("train", "validation", "test"), parts, strict=True):
        folder = args.out / "public" / part
        folder.mkdir(parents=True)
        np.save(folder / "images.npy", np.ascontiguousarray(images))
        if part != "train":
            (args.out / "private" / part).mkdir(parents=True)
            np.savez(args.out / "private" / part / "images.npz", images=images)


if __name__ == "__main__":
    main()
