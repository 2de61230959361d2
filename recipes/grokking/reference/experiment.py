"""Learn binary operations from half of their tables with a small transformer for each.

    experiment.py --data DIR --out DIR --seed N --budget pilot|full --split validation|test

Reads DIR/train/cells.csv (operation,left,right,result) and DIR/SPLIT/cells.csv (id,operation,
left,right). Writes predictions.csv (id,result) and progress.jsonl to the --out folder. Needs
PyTorch; uses a GPU where there is one.
"""

import argparse
import csv
import json
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

UPDATES = 450  # of each operation's model
LAYERS = 1
MODEL_SIZE = 128
HEADS = 4
LEARNING_RATE = 0.008
WARMUP = 20
WEIGHT_DECAY = 2.0
BETA2 = 0.98
BATCH_SIZE = 64
DROPOUT = 0.0
LABEL_SMOOTHING = 0.0

PILOT_SHARE = 0.1  # of the updates
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def read_cells(path):
    """Return the rows of a file by operation, each a dictionary of numbers."""
    found = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            name = row.pop("operation")
            found.setdefault(name, []).append({key: int(value) for key, value in row.items()})
    return found


def column(rows, name):
    return torch.tensor([row[name] for row in rows], device=DEVICE)


class Block(nn.Module):
    """Attention and a feed-forward layer, each followed by a norm."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(MODEL_SIZE, HEADS, DROPOUT, batch_first=True)
        self.forward_layers = nn.Sequential(
            nn.Linear(MODEL_SIZE, 4 * MODEL_SIZE),
            nn.GELU(),
            nn.Linear(4 * MODEL_SIZE, MODEL_SIZE),
        )
        self.norm1, self.norm2 = nn.LayerNorm(MODEL_SIZE), nn.LayerNorm(MODEL_SIZE)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        attended, _ = self.attention(x, x, x, attn_mask=mask, need_weights=False)
        x = self.norm1(x + attended)
        return self.norm2(x + self.forward_layers(x))


class Model(nn.Module):
    """Reads `left o right =` and predicts the result at the last position."""

    def __init__(self, lefts, rights, results):
        super().__init__()
        self.left = nn.Embedding(lefts, MODEL_SIZE)
        self.right = nn.Embedding(rights, MODEL_SIZE)
        self.signs = nn.Parameter(torch.randn(2, MODEL_SIZE))
        self.places = nn.Embedding(4, MODEL_SIZE)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Sequential(nn.LayerNorm(MODEL_SIZE), nn.Linear(MODEL_SIZE, results))

    def forward(self, left, right):
        operator, equals = self.signs.expand(len(left), 2, MODEL_SIZE).unbind(dim=1)
        words = torch.stack([self.left(left), operator, self.right(right), equals], dim=1)
        return self.head(self.blocks(words + self.places.weight)[:, -1])


def train(left, right, result, sizes, updates):
    """Return a model trained on cells, and its learning curve."""
    model = Model(*sizes).to(DEVICE)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, BETA2), weight_decay=WEIGHT_DECAY
    )
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / WARMUP))
    curve = []
    for step in range(1, updates + 1):
        rows = torch.randint(len(left), (BATCH_SIZE,), device=DEVICE)
        scores = model(left[rows], right[rows])
        loss = functional.cross_entropy(scores, result[rows], label_smoothing=LABEL_SMOOTHING)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warmup.step()
        if step % max(1, updates // 20) == 0:
            right_now = (scores.argmax(dim=1) == result[rows]).float().mean().item()
            curve.append({"step": step, "train_loss": loss.item(), "train_accuracy": right_now})
    return model.eval(), curve


def write_outputs(out, predictions, progress):
    """Write files by temporary name and rename, so that no half-written file is scored."""
    (out / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in progress))
    rows = "".join(f"{key},{result}\n" for key, result in predictions)
    (out / "predictions.tmp").write_text("id,result\n" + rows)
    (out / "predictions.tmp").replace(out / "predictions.csv")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Learn binary operations.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--budget", choices=["pilot", "full"], required=True)
    parser.add_argument("--split", choices=["validation", "test"], required=True)
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.manual_seed(args.seed)
    updates = UPDATES if args.budget == "full" else max(1, round(PILOT_SHARE * UPDATES))
    known, asked = (read_cells(args.data / part / "cells.csv") for part in ("train", args.split))
    predictions, progress = [], []
    for name, rows in known.items():
        given = [column(rows, key) for key in ("left", "right", "result")]
        wanted = [column(asked[name], key) for key in ("left", "right")]
        sizes = [
            1 + max(int(part.max()) for part in parts)
            for parts in ((given[0], wanted[0]), (given[1], wanted[1]), (given[2],))
        ]
        model, curve = train(*given, sizes, updates)
        with torch.no_grad():
            results = model(*wanted).argmax(dim=1).tolist()
        predictions += zip((row["id"] for row in asked[name]), results, strict=True)
        progress += [{"operation": name, **line} for line in curve]
    write_outputs(args.out, predictions, progress)


if __name__ == "__main__":
    main()
