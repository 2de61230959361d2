"""Denoising diffusion of points in the plane: one small network a shape, as in the published setup.

    experiment.py --data DIR --out DIR --seed N --budget pilot|full --split validation|test

Reads DIR/train/points.npy (shapes, n, 2) and DIR/SPLIT/wanted.json. Writes samples.npy (shapes,
samples, 2) float32 and progress.jsonl to the --out folder. Needs PyTorch and NumPy; uses a GPU
where there is one.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

STEPS = 250  # of training, a shape
HIDDEN_SIZE = 128
HIDDEN_LAYERS = 3
EMBEDDING_SIZE = 64
INPUT_SCALE = 25.0
LEARNING_RATE = 0.001
BATCH_SIZE = 256
TIMESTEPS = 100
BETA_END = 0.02
BETA_SCHEDULE = "linear"  # "linear" or "quadratic"
EMA_DECAY = 0.99
CLIP_NORM = 0.5

PILOT_SHARE = 0.2  # of the steps
BETA_START = 0.0001
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class SinusoidalEmbedding(nn.Module):
    """Sines and cosines of a number at many wavelengths."""

    def __init__(self, size, scale=1.0):
        super().__init__()
        half = size // 2
        rates = torch.exp(-np.log(10_000.0) / (half - 1) * torch.arange(half))
        self.register_buffer("rates", scale * rates)

    def forward(self, x):
        angles = x.unsqueeze(-1) * self.rates
        return torch.cat([angles.sin(), angles.cos()], dim=-1)


class ResidualBlock(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, x):
        return x + self.linear(functional.relu(x))


class Denoiser(nn.Module):
    """Predicts the noise in a point from the noisy point and its timestep."""

    def __init__(self):
        super().__init__()
        self.time = SinusoidalEmbedding(EMBEDDING_SIZE)
        self.place = SinusoidalEmbedding(EMBEDDING_SIZE, INPUT_SCALE)
        self.network = nn.Sequential(
            nn.Linear(3 * EMBEDDING_SIZE, HIDDEN_SIZE),
            *(ResidualBlock(HIDDEN_SIZE) for _ in range(HIDDEN_LAYERS)),
            nn.ReLU(),
            nn.Linear(HIDDEN_SIZE, 2),
        )

    def forward(self, x, t):
        parts = [self.place(x[:, 0]), self.place(x[:, 1]), self.time(t)]
        return self.network(torch.cat(parts, dim=-1))


def noise_schedule():
    """Return beta and the product of all alphas so far, for each timestep."""
    if BETA_SCHEDULE == "quadratic":
        betas = torch.linspace(BETA_START**0.5, BETA_END**0.5, TIMESTEPS) ** 2
    else:
        betas = torch.linspace(BETA_START, BETA_END, TIMESTEPS)
    return betas.to(DEVICE), torch.cumprod(1 - betas, dim=0).to(DEVICE)


def train(points, steps, progress):
    """Return the denoiser's exponential moving average after `steps` steps."""
    model, average = Denoiser().to(DEVICE), Denoiser().to(DEVICE)
    average.load_state_dict(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    _, kept = noise_schedule()
    for step in range(1, steps + 1):
        clean = points[torch.randint(len(points), (BATCH_SIZE,), device=DEVICE)]
        t = torch.randint(TIMESTEPS, (BATCH_SIZE,), device=DEVICE)
        noise = torch.randn_like(clean)
        share = kept[t].unsqueeze(1)
        loss = functional.mse_loss(
            model(share.sqrt() * clean + (1 - share).sqrt() * noise, t), noise
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        schedule.step()
        decay = min(EMA_DECAY, step / (step + 10))  # follows the first steps closely
        with torch.no_grad():
            for mean, value in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(value, 1 - decay)
        if step % max(1, steps // 20) == 0:
            progress.append({"step": step, "train_loss": round(loss.item(), 5)})
    return average


@torch.no_grad()
def sample(model, count):
    """Return points that the model makes of pure noise, by ancestral sampling."""
    betas, kept = noise_schedule()
    before = torch.cat([torch.ones(1, device=DEVICE), kept[:-1]])
    x = torch.randn(count, 2, device=DEVICE)
    for t in reversed(range(TIMESTEPS)):
        noise = model(x, torch.full((count,), t, device=DEVICE))
        clean = (x - (1 - kept[t]).sqrt() * noise) / kept[t].sqrt()
        mean = (
            betas[t] * before[t].sqrt() * clean + (1 - before[t]) * (1 - betas[t]).sqrt() * x
        ) / (1 - kept[t])
        spread = (betas[t] * (1 - before[t]) / (1 - kept[t])).sqrt()
        x = mean + spread * torch.randn_like(x)
    return x.cpu().numpy()


def write_outputs(out, samples, progress):
    """Write files by temporary name and rename, so that no half-written file is scored."""
    with (out / "samples.tmp").open("wb") as file:
        np.save(file, samples.astype(np.float32))
    (out / "samples.tmp").replace(out / "samples.npy")
    (out / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in progress))


def parse_arguments():
    parser = argparse.ArgumentParser(description="Diffusion of points in the plane.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--budget", choices=["pilot", "full"], required=True)
    parser.add_argument("--split", choices=["validation", "test"], required=True)
    return parser.parse_args()


def main():
    args = parse_arguments()
    steps = STEPS if args.budget == "full" else max(1, round(PILOT_SHARE * STEPS))
    torch.manual_seed(args.seed)
    points = torch.from_numpy(np.load(args.data / "train" / "points.npy", allow_pickle=False))
    wanted = json.loads((args.data / args.split / "wanted.json").read_text())
    progress, samples = [], []
    for shape, own in enumerate(points.to(DEVICE)):
        curve = []
        samples.append(sample(train(own, steps, curve), wanted["samples"]))
        progress += [{"shape": shape, **line} for line in curve]
    write_outputs(args.out, np.stack(samples), progress)


if __name__ == "__main__":
    main()
