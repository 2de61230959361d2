"""Classify small images with a wide residual network.

    experiment.py --data DIR --out DIR --seed N --budget pilot|full --split validation|test

Reads DIR/train (images.npy, labels.npy) and DIR/SPLIT/images.npy. Writes predictions.csv (id,label)
and progress.jsonl to the --out folder. Needs PyTorch and NumPy; on a GPU it trains in bfloat16.
"""

import argparse
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

EPOCHS = 6
DEPTH = 10  # 6 n + 4, as the published network counts its layers
WIDTH = 1
FIRST_CHANNELS = 8
BATCH_SIZE = 64
LEARNING_RATE = 0.1
MOMENTUM = 0.9
WEIGHT_DECAY = 0.0005
DROPOUT = 0.0
SHIFT = 2  # pixels by which training images are moved at random
FLIP = True  # training images are mirrored at random
LABEL_SMOOTHING = 0.0

PILOT_SHARE = 0.2  # of the training images, once
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Block(nn.Module):
    """Two 3x3 convolutions, each after a norm and a rectifier, added to the input."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        same = inputs == outputs and stride == 1
        self.shortcut = None if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        first = functional.relu(self.norm1(x))
        kept = x if self.shortcut is None else self.shortcut(first)
        second = functional.relu(self.norm2(self.conv1(first)))
        return kept + self.conv2(functional.dropout(second, DROPOUT, self.training))


def network(channels, classes):
    """Return a wide residual network of three groups of blocks."""
    sizes = [FIRST_CHANNELS, *(FIRST_CHANNELS * WIDTH * factor for factor in (1, 2, 4))]
    layers = [nn.Conv2d(channels, sizes[0], 3, padding=1, bias=False)]
    for group, (inputs, outputs) in enumerate(pairwise(sizes)):
        for block in range((DEPTH - 4) // 6):
            stride = 2 if group and not block else 1
            layers.append(Block(outputs if block else inputs, outputs, stride))
    layers += [nn.BatchNorm2d(sizes[-1]), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(sizes[-1], classes))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
    return model.to(DEVICE, memory_format=torch.channels_last)


def augment(images):
    """Return a batch of images, each moved and perhaps mirrored at random."""
    count, _, height, width = images.shape
    if FLIP:
        mirrored = torch.rand(count, 1, 1, 1, device=images.device) < 0.5
        images = torch.where(mirrored, images.flip(3), images)
    padded = functional.pad(images, (SHIFT,) * 4, mode="reflect")
    rows, columns = torch.randint(2 * SHIFT + 1, (2, count, 1), device=images.device)
    rows = rows + torch.arange(height, device=images.device)
    columns = columns + torch.arange(width, device=images.device)
    each = torch.arange(count, device=images.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[each, rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2)


def mixed_precision():
    return torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=DEVICE == "cuda")


def train(images, labels, epochs, progress):
    """Return a network trained by stochastic gradient descent, its rate along half a cosine."""
    model = network(images.shape[1], int(labels.max()) + 1)
    optimizer = torch.optim.SGD(
        model.parameters(),
        LEARNING_RATE,
        MOMENTUM,
        weight_decay=WEIGHT_DECAY,
        nesterov=MOMENTUM > 0,
    )
    batches = -(-len(images) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * batches)
    for epoch in range(epochs):
        losses = []
        for rows in torch.randperm(len(images), device=DEVICE).tensor_split(batches):
            with mixed_precision():
                logits = model(augment(images[rows]))
                loss = functional.cross_entropy(
                    logits, labels[rows], label_smoothing=LABEL_SMOOTHING
                )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        progress.append({"epoch": epoch + 1, "train_loss": round(float(np.mean(losses)), 5)})
    return model.eval()


@torch.no_grad()
def predict(model, images):
    """Return the most probable class of each image."""
    with mixed_precision():
        return torch.cat([model(part).argmax(dim=1) for part in images.split(500)]).tolist()


def write_outputs(out, labels, progress):
    """Write files by temporary name and rename, so that no half-written file is scored."""
    (out / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in progress))
    rows = "".join(f"{i},{label}\n" for i, label in enumerate(labels))
    (out / "predictions.tmp").write_text("id,label\n" + rows)
    (out / "predictions.tmp").replace(out / "predictions.csv")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Classify small images.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--budget", choices=["pilot", "full"], required=True)
    parser.add_argument("--split", choices=["validation", "test"], required=True)
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.manual_seed(args.seed)
    known = np.load(args.data / "train" / "images.npy", allow_pickle=False)
    asked = np.load(args.data / args.split / "images.npy", allow_pickle=False)
    labels = np.load(args.data / "train" / "labels.npy", allow_pickle=False)
    if args.budget == "pilot":
        count = round(PILOT_SHARE * len(known))
        known, labels = known[:count], labels[:count]
    mean, scale = known.mean(axis=(0, 1, 2)), known.std(axis=(0, 1, 2))
    x, wanted = (
        torch.from_numpy(((part - mean) / scale).astype(np.float32)).permute(0, 3, 1, 2).to(DEVICE)
        for part in (known, asked)
    )
    progress = []
    epochs = 1 if args.budget == "pilot" else EPOCHS
    model = train(x, torch.from_numpy(labels).to(DEVICE), epochs, progress)
    write_outputs(args.out, predict(model, wanted), progress)


if __name__ == "__main__":
    main()
