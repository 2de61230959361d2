"""Classify 8x8 handwritten digits with one hidden layer, trained by stochastic gradient descent.

    experiment.py --data DIR --out DIR --seed N --budget pilot|full --split validation|test

Reads DIR/train (images.npy, labels.npy) and DIR/SPLIT (images.npy, ids.npy). Writes
predictions.csv (columns id,label) and progress.jsonl to the --out folder. Needs numpy only.
"""

import argparse
import json
from pathlib import Path

import numpy as np

HIDDEN_UNITS = 32
ACTIVATION = "tanh"  # "tanh" or "relu"
LEARNING_RATE = 0.02
MOMENTUM = 0.0
WEIGHT_DECAY = 0.0001
BATCH_SIZE = 32
EPOCHS = 24
STANDARDIZE = False
INIT_SCALE = 1.0

CLASSES = 10
PILOT_SHARE = 0.25  # of the epochs


def load_images(folder):
    """Return the images of a split as rows of 64 numbers from 0 to 1."""
    images = np.load(folder / "images.npy", allow_pickle=False)
    return images.reshape(len(images), -1) / 16.0


def standardize(train, other):
    """Return both with each pixel at mean 0 and deviation 1, as measured on the training set."""
    mean, std = train.mean(axis=0), train.std(axis=0)
    scale = np.where(std > 0, std, 1.0)
    return (train - mean) / scale, (other - mean) / scale


def augment(images, rng):
    """Return a changed copy of a batch of training images; the reference changes nothing."""
    return images


def one_hot(labels):
    return np.eye(CLASSES)[labels]


def init_parameters(inputs, rng):
    """Return the weights and biases of both layers."""
    return {
        "w1": rng.normal(0.0, INIT_SCALE / np.sqrt(inputs), (inputs, HIDDEN_UNITS)),
        "b1": np.zeros(HIDDEN_UNITS),
        "w2": rng.normal(0.0, INIT_SCALE / np.sqrt(HIDDEN_UNITS), (HIDDEN_UNITS, CLASSES)),
        "b2": np.zeros(CLASSES),
    }


def activate(z):
    """Return the hidden layer's activation and its derivative."""
    if ACTIVATION == "relu":
        return np.maximum(z, 0.0), (z > 0).astype(z.dtype)
    h = np.tanh(z)
    return h, 1.0 - h * h


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def forward(p, x):
    """Return class probabilities, the hidden activation and its derivative."""
    h, slope = activate(x @ p["w1"] + p["b1"])
    return softmax(h @ p["w2"] + p["b2"]), h, slope


def loss_and_gradients(p, x, targets):
    """Return the mean cross-entropy and its gradients, weight decay included."""
    probabilities, h, slope = forward(p, x)
    loss = -np.mean(np.sum(targets * np.log(probabilities + 1e-12), axis=1))
    d_out = (probabilities - targets) / len(x)
    d_hidden = (d_out @ p["w2"].T) * slope
    gradients = {
        "w1": x.T @ d_hidden + WEIGHT_DECAY * p["w1"],
        "b1": d_hidden.sum(axis=0),
        "w2": h.T @ d_out + WEIGHT_DECAY * p["w2"],
        "b2": d_out.sum(axis=0),
    }
    return loss, gradients


def learning_rate(step, steps):
    """Return the learning rate of a step; the reference keeps it constant."""
    return LEARNING_RATE


def update(p, velocity, gradients, rate):
    """Take one step of gradient descent with momentum, in place."""
    for name, gradient in gradients.items():
        velocity[name] = MOMENTUM * velocity[name] - rate * gradient
        p[name] += velocity[name]


def train(x, labels, epochs, rng, progress):
    """Return the parameters trained on `x` for `epochs` passes over the data."""
    p = init_parameters(x.shape[1], rng)
    velocity = {name: np.zeros_like(value) for name, value in p.items()}
    targets = one_hot(labels)
    batches = -(-len(x) // BATCH_SIZE)
    steps = epochs * batches
    step = 0
    for epoch in range(epochs):
        order = rng.permutation(len(x))
        losses = []
        for rows in np.array_split(order, batches):
            batch = augment(x[rows], rng)
            loss, gradients = loss_and_gradients(p, batch, targets[rows])
            update(p, velocity, gradients, learning_rate(step, steps))
            losses.append(loss)
            step += 1
        progress.append({"epoch": epoch + 1, "train_loss": round(float(np.mean(losses)), 5)})
    return p


def predict(p, x):
    """Return the most probable class of each image."""
    probabilities, _, _ = forward(p, x)
    return probabilities.argmax(axis=1)


def write_text(path, text):
    """Write a file by temporary name and rename, so that no half-written file is scored."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    temporary.replace(path)


def write_outputs(out, ids, labels, progress):
    rows = [f"{int(i)},{int(label)}\n" for i, label in zip(ids, labels, strict=True)]
    write_text(out / "progress.jsonl", "".join(json.dumps(line) + "\n" for line in progress))
    write_text(out / "predictions.csv", "id,label\n" + "".join(rows))


def parse_arguments():
    parser = argparse.ArgumentParser(description="Classify handwritten digits.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--budget", choices=["pilot", "full"], required=True)
    parser.add_argument("--split", choices=["validation", "test"], required=True)
    return parser.parse_args()


def main():
    args = parse_arguments()
    rng = np.random.default_rng(args.seed)
    x_train = load_images(args.data / "train")
    y_train = np.load(args.data / "train" / "labels.npy", allow_pickle=False)
    x_eval = load_images(args.data / args.split)
    ids = np.load(args.data / args.split / "ids.npy", allow_pickle=False)
    if STANDARDIZE:
        x_train, x_eval = standardize(x_train, x_eval)
    epochs = EPOCHS if args.budget == "full" else max(1, round(PILOT_SHARE * EPOCHS))
    progress = []
    p = train(x_train, y_train, epochs, rng, progress)
    write_outputs(args.out, ids, predict(p, x_eval), progress)


if __name__ == "__main__":
    main()
