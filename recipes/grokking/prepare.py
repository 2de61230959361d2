"""Tables of binary operations under private labels: some cells to train on, others withheld.

    prepare.py --out DIR

Runs once on the host, needs NumPy, and is deterministic. The operation is x + y modulo
a prime; a setup may have x - y, x / y and the composition of permutations, too.
Left operands, right operands and results of each are relabelled by three private permutations:
without that, answers could be computed from the operands, and nothing would have to be learned.
Writes, for each operation,

    DIR/public/train/            cells.csv: operation,left,right,result
    DIR/public/validation|test/  cells.csv: id,operation,left,right
    DIR/private/validation|test/ labels.csv: id,operation,result

Half of all cells are for training, a quarter each for validation and test.
"""

import argparse
from itertools import permutations
from pathlib import Path

import numpy as np

OPERATIONS = "sum"  # also: difference, quotient, composition
PRIME = 29
LETTERS = 4  # of the permutations
TRAIN_SHARE = 0.5  # of the cells; the rest is for validation and test, in equal parts

SEED = [0x41D0B6F3, 0xC97E2A15, 0x68F3D90C, 0x1B5A74E2]  # 128 bits: nobody tries them all


def tables():
    """Return each operation's table of results, by row and column of its operands."""
    numbers = np.arange(PRIME)
    x, y = np.meshgrid(numbers, numbers, indexing="ij")
    inverse = np.array([pow(int(n), PRIME - 2, PRIME) for n in numbers])
    orders = list(permutations(range(LETTERS)))
    place = {order: number for number, order in enumerate(orders)}
    composed = [[place[tuple(a[i] for i in b)] for b in orders] for a in orders]
    return {
        "sum": (x + y) % PRIME,
        "difference": (x - y) % PRIME,
        "quotient": (x * inverse[y] % PRIME)[:, 1:],
        "composition": np.array(composed),
    }


def relabelled(table, rng):
    """Return the table with the labels of both operands and of results permuted."""
    rows, columns = table.shape
    results = rng.permutation(table.max() + 1)
    return results[table[rng.permutation(rows)][:, rng.permutation(columns)]]


def split(table, rng):
    """Return the cells (left, right, result) of each split, in random order."""
    left, right = np.indices(table.shape).reshape(2, -1)
    cells = np.stack([left, right, table.ravel()], axis=1)[rng.permutation(table.size)]
    train = round(TRAIN_SHARE * table.size)
    parts = np.split(cells, [train, (train + table.size) // 2])
    return dict(zip(("train", "validation", "test"), parts, strict=True))


def write(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(header + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    rng = np.random.RandomState(SEED)  # its stream is frozen across NumPy versions
    rows = {"train": [], "validation": [], "test": []}
    for name in OPERATIONS.split(","):
        table = tables()[name]
        for part, cells in split(relabelled(table, rng), rng).items():
            rows[part] += [(name, *cell) for cell in cells]
    write(out / "public" / "train" / "cells.csv", "operation,left,right,result", rows["train"])
    for part in ("validation", "test"):
        shown = [(i, *row[:3]) for i, row in enumerate(rows[part])]
        hidden = [(i, row[0], row[3]) for i, row in enumerate(rows[part])]
        write(out / "public" / part / "cells.csv", "id,operation,left,right", shown)
        write(out / "private" / part / "labels.csv", "id,operation,result", hidden)


if __name__ == "__main__":
    main()
