"""A graph whose nodes belong to classes: a few labels to train on, the others withheld.

    prepare.py --out DIR [--data FOLDER]

Runs once on the host, needs NumPy (and SciPy with a folder), and is deterministic. Without a folder
the graph is generated: a block model of 7 classes with sparse binary features, of about Cora's
size and homophily. A folder holds Cora in the files of the Planetoid split. Writes

    DIR/public/train/            edges.npy (m, 2) and features.npy (f, 2) int32, pairs of node and
                                 neighbour and of node and feature; size.json; labels.csv id,label
    DIR/public/validation|test/  nodes.csv: the ids of the nodes to label
    DIR/private/validation|test/ labels.csv: id,label

The whole graph is public, as always in transductive learning; labels of held-out nodes are not.
Nodes are numbered at random, so that a number says nothing of a class.
"""

import argparse
import json
import pickle
from pathlib import Path

import numpy as np

NODES, CLASSES, FEATURES = 2000, 7, 500
DEGREE = 4.0  # mean number of neighbours
HOMOPHILY = 0.7  # share of a node's neighbours that are of its class
WORDS = 12  # features that a node has on average
TOPICAL = 0.25  # share of them from its class's own part
LABELS_A_CLASS, VALIDATION, TEST = 20, 500, 1000

SEED = [0x7B12D8E4, 0xAF3069C1, 0x15E7C42B, 0xD86A9F03]  # 128 bits: nobody tries them all


def generated(rng):
    """Return edges, pairs of node and feature, and labels."""
    labels = rng.permutation(np.arange(NODES) % CLASSES)
    members = [np.flatnonzero(labels == c) for c in range(CLASSES)]
    edges = set()
    while len(edges) < NODES * DEGREE / 2:
        node = rng.randint(NODES)
        own = rng.rand() < HOMOPHILY
        c = labels[node] if own else (labels[node] + rng.randint(1, CLASSES)) % CLASSES
        other = rng.choice(members[c])
        if node != other:
            edges.add((min(node, other), max(node, other)))
    part = FEATURES // CLASSES
    words = set()
    for node in range(NODES):
        for _ in range(rng.poisson(WORDS)):
            topical = rng.rand() < TOPICAL
            words.add(
                (
                    node,
                    labels[node] * part + rng.randint(part) if topical else rng.randint(FEATURES),
                )
            )
    return np.array(sorted(edges)), np.array(sorted(words)), labels


def cora(folder):
    """Return the same of Cora. Its files are pickles: their checksums were compared before."""
    import scipy.sparse

    def read(name):
        with (folder / f"ind.cora.{name}").open("rb") as file:
            return pickle.load(file, encoding="latin1")

    order = np.array((folder / "ind.cora.test.index").read_text().split(), dtype=int)
    features = scipy.sparse.vstack([read("allx"), read("tx")]).tolil()
    labels = np.vstack([read("ally"), read("ty")])
    features[order], labels[order] = features[np.sort(order)], labels[np.sort(order)]
    pairs = {(min(a, b), max(a, b)) for a, near in read("graph").items() for b in near if a != b}
    return np.array(sorted(pairs)), np.argwhere(features.toarray() > 0), labels.argmax(axis=1)


def split(labels, rng):
    """Return the nodes of each split: as many labels a class to train on, the rest at random.

    The Planetoid split of Cora is drawn anew, for it is known which of its nodes are which.
    """
    order = rng.permutation(len(labels))
    chosen = [order[labels[order] == c][:LABELS_A_CLASS] for c in range(labels.max() + 1)]
    train = np.concatenate(chosen)
    rest = order[~np.isin(order, train)]
    return {
        "train": train,
        "validation": rest[:VALIDATION],
        "test": rest[VALIDATION : VALIDATION + TEST],
    }


def write_labels(path, nodes, labels):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{node},{labels[node]}\n" for node in np.sort(nodes))
    path.write_text("id,label\n" + rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    args = parser.parse_args()
    rng = np.random.RandomState(SEED)  # its stream is frozen across NumPy versions
    edges, words, labels = cora(args.data) if args.data else generated(rng)
    number = rng.permutation(len(labels))  # the new number of each node
    labels = labels[np.argsort(number)]
    edges = np.sort(number[edges], axis=1)
    words[:, 0] = number[words[:, 0]]
    for part, nodes in split(labels, rng).items():
        folder = args.out / "public" / part
        folder.mkdir(parents=True)
        if part == "train":
            np.save(folder / "edges.npy", edges[np.lexsort(edges.T[::-1])].astype(np.int32))
            np.save(folder / "features.npy", words[np.lexsort(words.T[::-1])].astype(np.int32))
            size = {"nodes": len(labels), "features": int(words[:, 1].max()) + 1}
            (folder / "size.json").write_text(json.dumps(size | {"classes": int(labels.max()) + 1}))
            write_labels(folder / "labels.csv", nodes, labels)
        else:
            (folder / "nodes.csv").write_text("id\n" + "".join(f"{n}\n" for n in np.sort(nodes)))
            write_labels(args.out / "private" / part / "labels.csv", nodes, labels)


if __name__ == "__main__":
    main()
