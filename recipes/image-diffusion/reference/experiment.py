"""Denoising diffusion of small images with a convolutional network of several scales.

    experiment.py --data DIR --out DIR --seed N --budget pilot|full --split validation|test

Reads DIR/train/images.npy (n, height, width, channels) uint8 and DIR/SPLIT/wanted.json. Writes
images.npy (wanted, height, width, channels) uint8 and progress.jsonl to the --out folder. Needs
PyTorch and NumPy; on a GPU it trains in bfloat16.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

STEPS = 600  # of training
BATCH_SIZE = 64
PATCH = 2  # pixels a side that the network reads and writes as one
CHANNELS = 24  # of the finest scale; each coarser one has twice as many
SCALES = 2
LEARNING_RATE = 0.002
TIMESTEPS = 200
SCHEDULE = "cosine"  # "cosine" or "linear"
SAMPLING_STEPS = 20
NOISE_SHARE = 0.3  # of the noise that sampling adds: 0 is deterministic, 1 ancestral sampling
EMA_DECAY = 0.99
FLIP = True  # training images are mirrored at random

PILOT_SHARE = 0.2  # of the steps
EMBEDDING = 32
CLIP_NORM = 1.0
AT_ONCE = 250  # images that are drawn together
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Block(nn.Module):
    """Two 3x3 convolutions with norms, shifted by the time's embedding, added to the input."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, inputs), nn.GroupNorm(4, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(EMBEDDING, outputs)
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, time):
        inner = self.conv1(functional.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.shortcut(x) + self.conv2(functional.silu(self.norm2(inner)))


class Denoiser(nn.Module):
    """Predicts the noise in an image from the noisy image and its timestep."""

    def __init__(self, channels):
        super().__init__()
        sizes = [CHANNELS * 2**scale for scale in range(SCALES)]
        self.time = nn.Sequential(
            nn.Linear(EMBEDDING, EMBEDDING), nn.SiLU(), nn.Linear(EMBEDDING, EMBEDDING)
        )
        self.first = nn.Conv2d(channels * PATCH**2, sizes[0], 3, padding=1)
        self.down = nn.ModuleList(
            Block(a, b) for a, b in zip([sizes[0], *sizes], sizes, strict=False)
        )
        self.middle = Block(sizes[-1], sizes[-1])
        self.up = nn.ModuleList(
            Block(2 * a, b) for a, b in zip(sizes[::-1], [*sizes[-2::-1], sizes[0]], strict=True)
        )
        self.norm = nn.GroupNorm(4, sizes[0])
        self.last = nn.Conv2d(sizes[0], channels * PATCH**2, 3, padding=1)
        nn.init.zeros_(self.last.weight)

    def forward(self, x, t):
        rates = torch.exp(-torch.arange(EMBEDDING // 2, device=x.device) * (8.0 / (EMBEDDING // 2)))
        angles = t[:, None].float() * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        x, kept = self.first(functional.pixel_unshuffle(x, PATCH)), []
        for scale, block in enumerate(self.down):
            x = block(functional.avg_pool2d(x, 2) if scale else x, time)
            kept.append(x)
        x = self.middle(x, time)
        for scale, block in enumerate(self.up):
            x = functional.interpolate(x, scale_factor=2) if scale else x
            x = block(torch.cat([x, kept.pop()], dim=1), time)
        return functional.pixel_shuffle(self.last(functional.silu(self.norm(x))), PATCH)


def kept_signal():
    """Return the share of an image's variance that is left at each timestep."""
    if SCHEDULE == "linear":
        betas = torch.linspace(0.1 / TIMESTEPS, 20 / TIMESTEPS, TIMESTEPS).clamp(max=0.999)
        return torch.cumprod(1 - betas, dim=0).to(DEVICE)
    places = torch.arange(TIMESTEPS + 1) / TIMESTEPS
    shares = torch.cos((places + 0.008) / 1.008 * torch.pi / 2) ** 2
    return (shares[1:] / shares[0]).clamp(min=1e-4).to(DEVICE)


def mixed_precision():
    return torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=DEVICE == "cuda")


def train(images, steps, progress):
    """Return the denoiser's exponential moving average after `steps` steps."""
    channels = images.shape[1]
    model, average = Denoiser(channels).to(DEVICE), Denoiser(channels).to(DEVICE)
    average.load_state_dict(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    kept = kept_signal()
    for step in range(1, steps + 1):
        clean = images[torch.randint(len(images), (BATCH_SIZE,), device=DEVICE)]
        if FLIP and torch.rand(()) < 0.5:
            clean = clean.flip(3)
        t = torch.randint(TIMESTEPS, (BATCH_SIZE,), device=DEVICE)
        noise, share = torch.randn_like(clean), kept[t][:, None, None, None]
        with mixed_precision():
            found = model(share.sqrt() * clean + (1 - share).sqrt() * noise, t)
        loss = functional.mse_loss(found.float(), noise)
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
def draw(model, count, shape):
    """Return images that the model makes of pure noise (Song et al. 2021, DDIM)."""
    kept = kept_signal()
    x = torch.randn(count, *shape, device=DEVICE)
    places = torch.linspace(TIMESTEPS - 1, 0, min(SAMPLING_STEPS, TIMESTEPS)).round().long()
    for place, t in enumerate(places.tolist()):
        share = kept[t]
        before = kept[places[place + 1]] if place + 1 < len(places) else kept.new_tensor(1.0)
        with mixed_precision():
            noise = model(x, torch.full((count,), t, device=DEVICE)).float()
        clean = ((x - (1 - share).sqrt() * noise) / share.sqrt()).clamp(-1, 1)
        noise = (x - share.sqrt() * clean) / (1 - share).sqrt()
        spread = NOISE_SHARE * ((1 - before) / (1 - share) * (1 - share / before)).sqrt()
        x = before.sqrt() * clean + (1 - before - spread**2).clamp(min=0).sqrt() * noise
        x = x + spread * torch.randn_like(x)
    return x


def write_outputs(out, images, progress):
    """Write files by temporary name and rename, so that no half-written file is scored."""
    (out / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in progress))
    with (out / "images.tmp").open("wb") as file:
        np.save(file, images)
    (out / "images.tmp").replace(out / "images.npy")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Draw small images by diffusion.")
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
    wanted = json.loads((args.data / args.split / "wanted.json").read_text())["images"]
    pixels = torch.from_numpy(known.astype(np.float32) / 127.5 - 1).permute(0, 3, 1, 2)
    steps = STEPS if args.budget == "full" else max(1, round(PILOT_SHARE * STEPS))
    progress = []
    model = train(pixels.contiguous().to(DEVICE), steps, progress)
    parts = [
        draw(model, min(AT_ONCE, wanted - done), pixels.shape[1:])
        for done in range(0, wanted, AT_ONCE)
    ]
    drawn = ((torch.cat(parts).permute(0, 2, 3, 1) + 1) * 127.5).round().clamp(0, 255)
    write_outputs(args.out, drawn.to(torch.uint8).cpu().numpy(), progress)


if __name__ == "__main__":
    main()
