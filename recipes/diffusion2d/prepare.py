"""Draw points of four shapes in the plane: some to train on, others that samples are held against.

    prepare.py --out DIR

Runs once on the host, needs NumPy, and is deterministic. Writes

    DIR/public/train/            points.npy (shapes, n, 2) float32
    DIR/public/validation|test/  wanted.json: {"shapes": 4, "samples": 2000}
    DIR/private/validation|test/ points.npz: `points` (shapes, m, 2) of the same shapes, `train`

`train` is for the scorer, which refuses samples that copy what was trained on.
"""

import argparse
import json
from pathlib import Path

import numpy as np

SEED = [0x9A4F21C7, 0x03D6B85E, 0xE1720F9B, 0x5C88A3D4]  # 128 bits: nobody tries them all
TRAIN, HELD_OUT, SAMPLES = 10_000, 4_000, 2_000
NOISE = 0.04


def circle(rng, n):
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def line(rng, n):
    along = rng.uniform(-1, 1, n)
    return np.stack([along, 0.6 * along], axis=1)


def moons(rng, n):
    angle = rng.uniform(0, np.pi, n)
    lower = rng.rand(n) < 0.5
    x = np.where(lower, 1 - np.cos(angle), np.cos(angle)) - 0.5
    y = np.where(lower, 0.5 - np.sin(angle), np.sin(angle)) - 0.25
    return np.stack([x, y], axis=1)


def spiral(rng, n):
    turn = np.sqrt(rng.uniform(0.02, 1, n)) * 3 * np.pi  # as many points an arc length
    return np.stack([turn * np.cos(turn), turn * np.sin(turn)], axis=1) / (3 * np.pi)


SHAPES = (circle, line, moons, spiral)


def draw(rng, n):
    """Return `n` points of each shape, of about unit size, with some noise."""
    drawn = [shape(rng, n) + NOISE * rng.normal(size=(n, 2)) for shape in SHAPES]
    return np.stack(drawn).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    rng = np.random.RandomState(SEED)  # its stream is frozen across NumPy versions
    train = draw(rng, TRAIN)
    (out / "public" / "train").mkdir(parents=True)
    np.save(out / "public" / "train" / "points.npy", train)
    for split in ("validation", "test"):
        for side in ("public", "private"):
            (out / side / split).mkdir(parents=True)
        wanted = json.dumps({"shapes": len(SHAPES), "samples": SAMPLES})
        (out / "public" / split / "wanted.json").write_text(wanted)
        np.savez(out / "private" / split / "points.npz", points=draw(rng, HELD_OUT), train=train)


if __name__ == "__main__":
    main()
