"""Predict the next character with a small decoder-only transformer (a GPT).

    experiment.py --data DIR --out DIR --seed N --budget pilot|full --split validation|test

Reads DIR/train (text.npy, alphabet.json) and DIR/SPLIT/contexts.npy. Writes log_probabilities.npy
(contexts, characters) float32 and progress.jsonl to the --out folder. Needs PyTorch and NumPy; on
a GPU it trains in bfloat16.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

ITERATIONS = 160
BATCH_SIZE = 32
LAYERS = 2
HEADS = 2
MODEL_SIZE = 64
DROPOUT = 0.0
LEARNING_RATE = 0.003
MINIMUM_RATE = 0.1  # of the learning rate, at the end
WARMUP = 20
WEIGHT_DECAY = 0.1
BETA2 = 0.99
CLIP_NORM = 1.0

PILOT_SHARE = 0.15  # of the iterations
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each after a norm and added to its input."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(MODEL_SIZE, bias=False)
        self.attend = nn.Linear(MODEL_SIZE, 3 * MODEL_SIZE, bias=False)
        self.project = nn.Linear(MODEL_SIZE, MODEL_SIZE, bias=False)
        self.norm2 = nn.LayerNorm(MODEL_SIZE, bias=False)
        self.layers = nn.Sequential(
            nn.Linear(MODEL_SIZE, 4 * MODEL_SIZE, bias=False),
            nn.GELU(),
            nn.Linear(4 * MODEL_SIZE, MODEL_SIZE, bias=False),
            nn.Dropout(DROPOUT),
        )

    def forward(self, x):
        batch, length, size = x.shape
        parts = self.attend(self.norm1(x)).view(batch, length, 3, HEADS, size // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        dropout = DROPOUT if self.training else 0.0
        seen = functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, length, size))
        return x + self.layers(self.norm2(x))


class Model(nn.Module):
    """Logits of the next character at each position; input and output share their embedding."""

    def __init__(self, characters, context):
        super().__init__()
        self.characters = nn.Embedding(characters, MODEL_SIZE)
        self.places = nn.Embedding(context, MODEL_SIZE)
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(MODEL_SIZE, bias=False)
        for name, weights in self.named_parameters():
            if weights.dim() > 1:
                last = name.endswith(("project.weight", "layers.2.weight"))
                nn.init.normal_(weights, std=0.02 / math.sqrt(2 * LAYERS) if last else 0.02)

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)
        x = self.dropout(self.characters(x) + self.places(places))
        return self.norm(self.blocks(x)) @ self.characters.weight.T


def rate_at(step, iterations):
    """Return the learning rate: linear warm-up, then half a cosine."""
    if step < WARMUP:
        return LEARNING_RATE * (step + 1) / WARMUP
    done = (step - WARMUP) / max(1, iterations - WARMUP)
    return LEARNING_RATE * (MINIMUM_RATE + (1 - MINIMUM_RATE) * (1 + math.cos(math.pi * done)) / 2)


def mixed_precision():
    return torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=DEVICE == "cuda")


def train(text, characters, context, iterations, progress):
    """Return a model trained on random windows of the text."""
    model = Model(characters, context).to(DEVICE)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, BETA2), weight_decay=WEIGHT_DECAY)
    window = torch.arange(context + 1, device=DEVICE)
    for step in range(iterations):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, iterations)
        starts = torch.randint(len(text) - context, (BATCH_SIZE, 1), device=DEVICE)
        batch = text[starts + window].long()
        with mixed_precision():
            logits = model(batch[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        if (step + 1) % max(1, iterations // 20) == 0:
            progress.append({"step": step + 1, "train_loss": round(loss.item(), 5)})
    return model.eval()


@torch.no_grad()
def predict(model, contexts):
    """Return the logarithms of the next character's probabilities."""
    rows = [
        functional.log_softmax(model(part)[:, -1].float(), dim=1) for part in contexts.split(256)
    ]
    return torch.cat(rows).cpu().numpy()


def write_outputs(out, logarithms, progress):
    """Write files by temporary name and rename, so that no half-written file is scored."""
    (out / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in progress))
    with (out / "log_probabilities.tmp").open("wb") as file:
        np.save(file, logarithms.astype(np.float32))
    (out / "log_probabilities.tmp").replace(out / "log_probabilities.npy")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Predict the next character.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--budget", choices=["pilot", "full"], required=True)
    parser.add_argument("--split", choices=["validation", "test"], required=True)
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.manual_seed(args.seed)
    iterations = ITERATIONS if args.budget == "full" else max(1, round(PILOT_SHARE * ITERATIONS))
    text = torch.from_numpy(np.load(args.data / "train" / "text.npy", allow_pickle=False))
    characters = len(json.loads((args.data / "train" / "alphabet.json").read_text()))
    contexts = np.load(args.data / args.split / "contexts.npy", allow_pickle=False)
    progress = []
    model = train(text.to(DEVICE), characters, contexts.shape[1], iterations, progress)
    asked = torch.from_numpy(contexts.astype(np.int64)).to(DEVICE)
    write_outputs(args.out, predict(model, asked), progress)


if __name__ == "__main__":
    main()
