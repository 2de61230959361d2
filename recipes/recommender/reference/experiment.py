"""Predict ratings by biases and matrix factorisation, trained by stochastic gradient descent.

    experiment.py --data DIR --out DIR --seed N --budget pilot|full --split validation|test

Reads DIR/train/ratings.csv (user,item,rating) and DIR/SPLIT/pairs.csv (id,user,item). Writes
predictions.csv (id,rating) and progress.jsonl to the --out folder. Needs NumPy only.
"""

import argparse
import json
from pathlib import Path

import numpy as np

EPOCHS = 20
FACTORS = 20
LEARNING_RATE = 0.005
REGULARIZATION = 0.02  # of factors
BIAS_REGULARIZATION = 0.02
BATCH_SIZE = 32
INIT_SCALE = 0.1

PILOT_SHARE = 0.1  # of the epochs


def read_rows(path):
    return np.loadtxt(path, delimiter=",", skiprows=1, dtype=int)


def init_parameters(users, items, mean, rng):
    """Return the biases and factors of all users and items."""
    return {
        "mean": mean,
        "user_bias": np.zeros(users),
        "item_bias": np.zeros(items),
        "user": rng.normal(0, INIT_SCALE, (users, FACTORS)),
        "item": rng.normal(0, INIT_SCALE, (items, FACTORS)),
    }


def predict(p, users, items):
    """Return the ratings that the model expects, within the scale."""
    liking = (p["user"][users] * p["item"][items]).sum(axis=1)
    rating = p["mean"] + p["user_bias"][users] + p["item_bias"][items] + liking
    return np.clip(rating, 1.0, 5.0)


def step(p, users, items, ratings):
    """Take one step of gradient descent on a batch, in place; return the squared errors."""
    u, i = p["user"][users], p["item"][items]
    bias_u, bias_i = p["user_bias"][users], p["item_bias"][items]
    error = ratings - (p["mean"] + bias_u + bias_i + (u * i).sum(axis=1))
    # A user may occur more than once in a batch: all of its gradients are added up.
    np.add.at(p["user_bias"], users, LEARNING_RATE * (error - BIAS_REGULARIZATION * bias_u))
    np.add.at(p["item_bias"], items, LEARNING_RATE * (error - BIAS_REGULARIZATION * bias_i))
    np.add.at(p["user"], users, LEARNING_RATE * (error[:, None] * i - REGULARIZATION * u))
    np.add.at(p["item"], items, LEARNING_RATE * (error[:, None] * u - REGULARIZATION * i))
    return error**2


def train(rows, users, items, epochs, rng, progress):
    """Return the parameters after `epochs` passes over the ratings."""
    p = init_parameters(users, items, rows[:, 2].mean(), rng)
    for epoch in range(epochs):
        order = rng.permutation(len(rows))
        errors = [
            step(p, *rows[batch].T) for batch in np.array_split(order, -(-len(rows) // BATCH_SIZE))
        ]
        rmse = float(np.sqrt(np.concatenate(errors).mean()))
        progress.append({"epoch": epoch + 1, "train_rmse": round(rmse, 5)})
    return p


def write_outputs(out, ids, ratings, progress):
    """Write files by temporary name and rename, so that no half-written file is scored."""
    (out / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in progress))
    rows = "".join(f"{i},{rating:.5f}\n" for i, rating in zip(ids, ratings, strict=True))
    (out / "predictions.tmp").write_text("id,rating\n" + rows)
    (out / "predictions.tmp").replace(out / "predictions.csv")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Predict ratings.")
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
    rows = read_rows(args.data / "train" / "ratings.csv")
    ids, users, items = read_rows(args.data / args.split / "pairs.csv").T
    count = [1 + max(a.max(), b.max()) for a, b in ((rows[:, 0], users), (rows[:, 1], items))]
    progress = []
    p = train(rows, *count, epochs, rng, progress)
    write_outputs(args.out, ids, predict(p, users, items), progress)


if __name__ == "__main__":
    main()
