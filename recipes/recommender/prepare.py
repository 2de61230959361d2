"""Ratings of items by users: some to train on, others withheld.

    prepare.py --out DIR [--data FOLDER]

Runs once on the host, needs NumPy, and is deterministic. Without a folder the ratings are
generated: users and items with biases and hidden tastes, and users rate what they like. A folder
holds `u.data` of MovieLens 100K. Writes

    DIR/public/train/            ratings.csv: user,item,rating
    DIR/public/validation|test/  pairs.csv: id,user,item
    DIR/private/validation|test/ ratings.csv: id,rating

Users and items are renumbered, pairs are in random order, and times are left out: a rating's
place or time says nothing of it. A tenth of the ratings each is for validation and test.
"""

import argparse
from pathlib import Path

import numpy as np

USERS, ITEMS, RATINGS, TASTES = 500, 800, 25_000, 6
HELD_OUT = 0.1

SEED = [0xC5A1379E, 0x2F84D60B, 0x8B63E1F7, 0x609D52AC]  # 128 bits: nobody tries them all


def generated(rng):
    """Return users, items and ratings from 1 to 5, one row each; no pair twice."""
    taste = rng.normal(0, 1, (USERS, TASTES))
    kind = rng.normal(0, 1, (ITEMS, TASTES)) * rng.gamma(2, 0.5, (ITEMS, 1))
    liking = 0.25 * taste @ kind.T + rng.normal(0, 0.4, (USERS, 1)) + rng.normal(0, 0.5, ITEMS)
    noisy = 3.5 + liking + rng.normal(0, 0.8, liking.shape)
    popular = 1.0 / (10 + rng.permutation(ITEMS))
    active = rng.gamma(1.0, 1.0, (USERS, 1)) + 0.1
    chance = active * popular * np.exp(0.5 * liking)  # people rate rather what they like
    picked = rng.choice(liking.size, RATINGS, replace=False, p=(chance / chance.sum()).ravel())
    users, items = np.divmod(picked, ITEMS)
    return np.stack(
        [users, items, np.clip(np.rint(noisy.ravel()[picked]), 1, 5).astype(int)], axis=1
    )


def movielens(folder):
    return np.loadtxt(folder / "u.data", dtype=int)[:, :3]


def renumbered(column, rng):
    """Return numbers from 0 in place of any names, given at random."""
    names, places = np.unique(column, return_inverse=True)
    return rng.permutation(len(names))[places]


def write(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(header + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    args = parser.parse_args()
    rng = np.random.RandomState(SEED)  # its stream is frozen across NumPy versions
    found = movielens(args.data) if args.data else generated(rng)
    rows = np.stack(
        [renumbered(found[:, 0], rng), renumbered(found[:, 1], rng), found[:, 2]], axis=1
    )
    rows = rows[rng.permutation(len(rows))].tolist()
    held = round(HELD_OUT * len(rows))
    parts = {"validation": rows[:held], "test": rows[held : 2 * held]}
    write(args.out / "public" / "train" / "ratings.csv", "user,item,rating", rows[2 * held :])
    for part, own in parts.items():
        pairs = [(i, *row[:2]) for i, row in enumerate(own)]
        write(args.out / "public" / part / "pairs.csv", "id,user,item", pairs)
        ratings = [(i, row[2]) for i, row in enumerate(own)]
        write(args.out / "private" / part / "ratings.csv", "id,rating", ratings)


if __name__ == "__main__":
    main()
