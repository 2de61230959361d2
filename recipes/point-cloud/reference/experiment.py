"""Classify point clouds with PointNet.

    experiment.py --data DIR --out DIR --seed N --budget pilot|full --split validation|test

Reads DIR/train (clouds.npy, labels.npy) and DIR/SPLIT/clouds.npy. Writes predictions.csv (id,label)
and progress.jsonl to the --out folder. Needs PyTorch and NumPy; uses a GPU where there is one.
"""

import argparse
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

EPOCHS = 12
WIDTH = 8  # channels of the first layer; the last before the maximum has 16 times as many
BATCH_SIZE = 32
LEARNING_RATE = 0.003
WEIGHT_DECAY = 0.0001
STEP_EPOCHS = 3  # epochs after which the learning rate is multiplied by STEP_FACTOR
STEP_FACTOR = 0.5
DROPOUT = 0.3
INPUT_TRANSFORM = True  # a small network turns each cloud
FEATURE_TRANSFORM = True  # and another one its features
ORTHOGONALITY = 0.001  # weight of the second one's distance to a rotation in the loss
LABEL_SMOOTHING = 0.0
TURN = True  # training clouds are turned about the vertical axis at random
SCALE = 1.25  # training clouds are scaled by a factor from 1 / SCALE to SCALE at random
SHIFT = 0.1  # and moved by as much along each axis
FEWER = 0.5  # and lose a share of their points up to this one, each time another

PILOT_SHARE = 0.2  # of the training clouds, once
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def layers(*sizes):
    """Return linear layers, a norm and a rectifier after each; a row is a point, or a cloud."""
    found = []
    for inputs, outputs in pairwise(sizes):
        found += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*found)


def each_point(network, clouds):
    """Return what a network makes of each point, alike for all: (clouds, points, channels)."""
    return network(clouds.flatten(0, 1)).view(*clouds.shape[:2], -1)


class Transform(nn.Module):
    """A matrix for each cloud, computed from all its points; at first the identity."""

    def __init__(self, size):
        super().__init__()
        self.size = size
        self.points = layers(size, WIDTH, 2 * WIDTH, 16 * WIDTH)
        self.cloud = layers(16 * WIDTH, 8 * WIDTH, 4 * WIDTH)
        self.matrix = nn.Linear(4 * WIDTH, size * size)
        nn.init.zeros_(self.matrix.weight)
        nn.init.zeros_(self.matrix.bias)

    def forward(self, x):
        change = self.matrix(self.cloud(each_point(self.points, x).amax(dim=1)))
        return change.view(-1, self.size, self.size) + torch.eye(self.size, device=x.device)


class PointNet(nn.Module):
    """Layers that treat each point alike, the maximum over the points, and a classifier."""

    def __init__(self, classes):
        super().__init__()
        self.turn = Transform(3) if INPUT_TRANSFORM else None
        self.first = layers(3, WIDTH, WIDTH)
        self.mix = Transform(WIDTH) if FEATURE_TRANSFORM else None
        self.points = layers(WIDTH, WIDTH, 2 * WIDTH, 16 * WIDTH)
        self.cloud = layers(16 * WIDTH, 8 * WIDTH, 4 * WIDTH)
        self.last = nn.Linear(4 * WIDTH, classes)

    def forward(self, clouds):
        """Return logits, and how far the second transform is from a rotation."""
        x = clouds if self.turn is None else clouds @ self.turn(clouds)
        x = each_point(self.first, x)
        bent = x.new_zeros(())
        if self.mix is not None:
            matrix = self.mix(x)
            x = x @ matrix
            excess = matrix @ matrix.transpose(1, 2) - torch.eye(WIDTH, device=x.device)
            bent = excess.square().sum(dim=(1, 2)).mean()
        features = self.cloud(each_point(self.points, x).amax(dim=1))
        return self.last(functional.dropout(features, DROPOUT, self.training)), bent


def augment(clouds):
    """Return a batch of clouds, each turned, scaled, moved and thinned out at random."""
    count, points, _ = clouds.shape
    kept = torch.randperm(points, device=DEVICE)
    clouds = clouds[:, kept[: max(1, round(points * (1 - FEWER * float(torch.rand(())))))]]
    if TURN:
        angle = 2 * torch.pi * torch.rand(count, 1, device=DEVICE)
        x, y, z = clouds.unbind(dim=2)
        along, across = angle.cos(), angle.sin()
        clouds = torch.stack([x * along - y * across, x * across + y * along, z], dim=2)
    factor = SCALE ** (2 * torch.rand(count, 1, 1, device=DEVICE) - 1)
    return clouds * factor + SHIFT * (2 * torch.rand(count, 1, 3, device=DEVICE) - 1)


def train(clouds, labels, epochs, progress):
    """Return a network trained by Adam, its rate lowered in steps."""
    model = PointNet(int(labels.max()) + 1).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, STEP_EPOCHS, STEP_FACTOR)
    batches = -(-len(clouds) // BATCH_SIZE)
    for epoch in range(epochs):
        losses = []
        for rows in torch.randperm(len(clouds), device=DEVICE).tensor_split(batches):
            logits, bent = model(augment(clouds[rows]))
            loss = functional.cross_entropy(logits, labels[rows], label_smoothing=LABEL_SMOOTHING)
            optimizer.zero_grad()
            (loss + ORTHOGONALITY * bent).backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
        progress.append({"epoch": epoch + 1, "train_loss": round(float(np.mean(losses)), 5)})
    return model.eval()


@torch.no_grad()
def predict(model, clouds):
    """Return the most probable class of each cloud."""
    return torch.cat([model(part)[0].argmax(dim=1) for part in clouds.split(100)]).tolist()


def write_outputs(out, labels, progress):
    """Write files by temporary name and rename, so that no half-written file is scored."""
    (out / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in progress))
    rows = "".join(f"{i},{label}\n" for i, label in enumerate(labels))
    (out / "predictions.tmp").write_text("id,label\n" + rows)
    (out / "predictions.tmp").replace(out / "predictions.csv")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Classify point clouds.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--budget", choices=["pilot", "full"], required=True)
    parser.add_argument("--split", choices=["validation", "test"], required=True)
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.manual_seed(args.seed)
    known = np.load(args.data / "train" / "clouds.npy", allow_pickle=False)
    asked = np.load(args.data / args.split / "clouds.npy", allow_pickle=False)
    labels = np.load(args.data / "train" / "labels.npy", allow_pickle=False)
    if args.budget == "pilot":
        count = round(PILOT_SHARE * len(known))
        known, labels = known[:count], labels[:count]
    x, wanted, y = (torch.from_numpy(part).to(DEVICE) for part in (known, asked, labels))
    progress = []
    model = train(x, y, 1 if args.budget == "pilot" else EPOCHS, progress)
    write_outputs(args.out, predict(model, wanted), progress)


if __name__ == "__main__":
    main()
