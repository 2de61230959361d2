"""Classify the nodes of a graph with a graph convolutional network, in plain NumPy.

    experiment.py --data DIR --out DIR --seed N --budget pilot|full --split validation|test

Reads DIR/train (edges.npy, features.npy, size.json, labels.csv) and DIR/SPLIT/nodes.csv. Writes
predictions.csv (id,label) and progress.jsonl to the --out folder. Needs NumPy only.
"""

import argparse
import json
from pathlib import Path

import numpy as np

EPOCHS = 100
HIDDEN_UNITS = 16
LEARNING_RATE = 0.01
WEIGHT_DECAY = 0.0005  # of the first layer's weights
DROPOUT = 0.5
HOPS = 1  # how often each layer averages over neighbours
SELF_WEIGHT = 1.0  # of a node itself in that average
NORMALIZE_FEATURES = True

PILOT_SHARE = 0.1  # of the epochs


class Graph:
    """The graph with each edge in both directions, and each node its own neighbour."""

    def __init__(self, edges, nodes):
        loops = np.arange(nodes)
        self.source = np.concatenate([edges[:, 0], edges[:, 1], loops])
        self.target = np.concatenate([edges[:, 1], edges[:, 0], loops])
        weights = np.concatenate([np.ones(2 * len(edges)), np.full(nodes, SELF_WEIGHT)])
        degree = np.bincount(self.target, weights, nodes)
        self.weights = weights / np.sqrt(degree[self.source] * degree[self.target])
        self.order = np.argsort(self.target, kind="stable")
        self.starts = np.searchsorted(self.target[self.order], loops)

    def average(self, x):
        """Return each node's mean over its neighbours, normalised by the degrees of both."""
        for _ in range(HOPS):
            picked = x[self.source[self.order]] * self.weights[self.order, None]
            x = np.add.reduceat(picked, self.starts)
        return x


def read_features(folder, size):
    """Return the nodes' features, a row of zeros and ones each."""
    pairs = np.load(folder / "features.npy", allow_pickle=False)
    features = np.zeros((size["nodes"], size["features"]), dtype=np.float32)
    features[pairs[:, 0], pairs[:, 1]] = 1.0
    if NORMALIZE_FEATURES:
        features /= np.maximum(features.sum(axis=1, keepdims=True), 1.0)
    return features


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def glorot(rng, inputs, outputs):
    limit = np.sqrt(6.0 / (inputs + outputs))
    return rng.uniform(-limit, limit, (inputs, outputs)).astype(np.float32)


def dropped(rng, x):
    """Return x with a share of its entries at zero, and the mask that did it."""
    mask = (rng.random(x.shape, dtype=np.float32) >= DROPOUT) / np.float32(1.0 - DROPOUT)
    return x * mask, mask


class Adam:
    """Adam (Kingma & Ba 2015) for a dictionary of arrays."""

    def __init__(self, parameters):
        self.mean = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.square = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.step = 0

    def update(self, parameters, gradients):
        self.step += 1
        for name, gradient in gradients.items():
            self.mean[name] = 0.9 * self.mean[name] + 0.1 * gradient
            self.square[name] = 0.999 * self.square[name] + 0.001 * gradient**2
            mean = self.mean[name] / (1 - 0.9**self.step)
            square = self.square[name] / (1 - 0.999**self.step)
            parameters[name] -= LEARNING_RATE * mean / (np.sqrt(square) + 1e-8)


def forward(graph, features, p):
    """Return the logits of all nodes, without dropout."""
    hidden = np.maximum(graph.average(features @ p["w1"]) + p["b1"], 0.0)
    return graph.average(hidden @ p["w2"]) + p["b2"]


def train(graph, features, known, classes, epochs, rng, progress):
    """Return the parameters of a network of two layers, trained on nodes with known labels."""
    nodes, labels = known.T
    p = {
        "w1": glorot(rng, features.shape[1], HIDDEN_UNITS),
        "b1": np.zeros(HIDDEN_UNITS, dtype=np.float32),
        "w2": glorot(rng, HIDDEN_UNITS, classes),
        "b2": np.zeros(classes, dtype=np.float32),
    }
    optimizer, targets = Adam(p), np.eye(classes, dtype=np.float32)[labels]
    for epoch in range(epochs):
        x, _ = dropped(rng, features)
        z = graph.average(x @ p["w1"]) + p["b1"]
        hidden, mask = dropped(rng, np.maximum(z, 0.0))
        probabilities = softmax((graph.average(hidden @ p["w2"]) + p["b2"])[nodes])
        d_out = np.zeros((len(features), classes), dtype=np.float32)
        d_out[nodes] = (probabilities - targets) / len(nodes)
        d_near = graph.average(d_out)  # the average is its own transpose
        d_hidden = graph.average((d_near @ p["w2"].T) * mask * (z > 0))
        gradients = {
            "w1": x.T @ d_hidden + WEIGHT_DECAY * p["w1"],
            "b1": ((d_near @ p["w2"].T) * mask * (z > 0)).sum(axis=0),
            "w2": hidden.T @ d_near,
            "b2": d_out.sum(axis=0),
        }
        optimizer.update(p, gradients)
        loss = -np.log(probabilities[np.arange(len(nodes)), labels] + 1e-12).mean()
        if (epoch + 1) % max(1, epochs // 20) == 0:
            progress.append({"epoch": epoch + 1, "train_loss": round(float(loss), 5)})
    return p


def write_outputs(out, ids, labels, progress):
    """Write files by temporary name and rename, so that no half-written file is scored."""
    (out / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in progress))
    rows = "".join(f"{i},{label}\n" for i, label in zip(ids, labels, strict=True))
    (out / "predictions.tmp").write_text("id,label\n" + rows)
    (out / "predictions.tmp").replace(out / "predictions.csv")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Classify the nodes of a graph.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--budget", choices=["pilot", "full"], required=True)
    parser.add_argument("--split", choices=["validation", "test"], required=True)
    return parser.parse_args()


def main():
    args = parse_arguments()
    rng = np.random.default_rng(args.seed)
    epochs = EPOCHS if args.budget == "full" else max(1, round(PILOT_SHARE * EPOCHS))
    folder = args.data / "train"
    size = json.loads((folder / "size.json").read_text())
    graph = Graph(np.load(folder / "edges.npy", allow_pickle=False), size["nodes"])
    features = read_features(folder, size)
    known = np.loadtxt(folder / "labels.csv", delimiter=",", skiprows=1, dtype=int)
    asked = np.loadtxt(args.data / args.split / "nodes.csv", skiprows=1, dtype=int)
    progress = []
    p = train(graph, features, known, size["classes"], epochs, rng, progress)
    labels = forward(graph, features, p).argmax(axis=1)
    write_outputs(args.out, asked, labels[asked], progress)


if __name__ == "__main__":
    main()
