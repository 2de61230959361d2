"""A vector-quantised autoencoder of image patches, in plain NumPy, in three processes.

    experiment.py --data DIR --out DIR --seed N --budget pilot|full --split validation|test
                  --process fit|encode|decode

`fit` reads DIR/train/images.npy and writes model.npz. `encode` reads DIR/fit/model.npz and
DIR/SPLIT/images.npy, and writes code.bin, whose size is bounded. `decode` reads DIR/fit/model.npz
and DIR/encode/code.bin, and writes reconstructions.npy (images, height, width, 3) uint8. Needs
NumPy only.
"""

import argparse
import json
from pathlib import Path

import numpy as np

STEPS = 600
BATCH_SIZE = 512  # patches
PATCH = 4  # pixels a side
CODES = 64  # as many as the bound allows: each costs log2(CODES) bits a patch
CODE_SIZE = 8
HIDDEN_UNITS = 64
LEARNING_RATE = 0.003
COMMITMENT = 0.25  # of the encoder to the codes that it chose
DECAY = 0.97  # of the running means that codes are moved to
REVIVE_EVERY = 50  # steps after which codes that nobody chose are put elsewhere

PILOT_SHARE = 0.1  # of the steps
ENCODER = ("e1", "a1", "e2", "a2")
DECODER = ("d1", "b1", "d2", "b2")


def patches(images):
    """Return the patches of images, a row each, as numbers around 0."""
    count, height, width, channels = images.shape
    grid = images.reshape(count, height // PATCH, PATCH, width // PATCH, PATCH, channels)
    rows = grid.transpose(0, 1, 3, 2, 4, 5).reshape(-1, PATCH * PATCH * channels)
    return rows.astype(np.float32) / 127.5 - 1.0


def images_of(rows, height, width):
    """Return the images that patches make up, the inverse of `patches`."""
    grid = rows.reshape(-1, height // PATCH, width // PATCH, PATCH, PATCH, 3)
    pixels = (grid.transpose(0, 1, 3, 2, 4, 5).reshape(-1, height, width, 3) + 1.0) * 127.5
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def layer(rng, inputs, outputs):
    return rng.normal(0, np.sqrt(2 / inputs), (inputs, outputs)).astype(np.float32)


def two_layers(x, p, names):
    """Return the output of two layers with a rectifier in between, and what is in between."""
    hidden = np.maximum(x @ p[names[0]] + p[names[1]], 0)
    return hidden @ p[names[2]] + p[names[3]], hidden


def backward(x, hidden, d_out, p, names):
    """Return the gradients of two layers' parameters, and of their input."""
    d_hidden = (d_out @ p[names[2]].T) * (hidden > 0)
    parts = (x.T @ d_hidden, d_hidden.sum(0), hidden.T @ d_out, d_out.sum(0))
    return dict(zip(names, parts, strict=True)), d_hidden @ p[names[0]].T


def nearest(z, codebook):
    """Return the number of the code that is nearest to each row."""
    return (np.square(codebook).sum(1) - 2 * z @ codebook.T).argmin(axis=1)


class Adam:
    """Adam (Kingma & Ba 2015) for a dictionary of arrays."""

    def __init__(self):
        self.mean, self.square, self.step = {}, {}, 0

    def update(self, p, gradients):
        self.step += 1
        for name, gradient in gradients.items():
            self.mean[name] = 0.9 * self.mean.get(name, 0) + 0.1 * gradient
            self.square[name] = 0.999 * self.square.get(name, 0) + 0.001 * gradient**2
            mean = self.mean[name] / (1 - 0.9**self.step)
            square = self.square[name] / (1 - 0.999**self.step)
            p[name] -= LEARNING_RATE * mean / (np.sqrt(square) + 1e-8)


def fit(rows, steps, rng, progress):
    """Return encoder, decoder and codes. Gradients pass the choice of a code straight through."""
    size = rows.shape[1]
    p = {
        "e1": layer(rng, size, HIDDEN_UNITS),
        "a1": np.zeros(HIDDEN_UNITS, np.float32),
        "e2": layer(rng, HIDDEN_UNITS, CODE_SIZE),
        "a2": np.zeros(CODE_SIZE, np.float32),
        "d1": layer(rng, CODE_SIZE, HIDDEN_UNITS),
        "b1": np.zeros(HIDDEN_UNITS, np.float32),
        "d2": layer(rng, HIDDEN_UNITS, size),
        "b2": np.zeros(size, np.float32),
    }
    optimizer = Adam()
    sums = two_layers(rows[rng.choice(len(rows), CODES)], p, ENCODER)[0]
    counts, codebook = np.ones(CODES, np.float32), sums.copy()
    for step in range(1, steps + 1):
        x = rows[rng.integers(len(rows), size=BATCH_SIZE)]
        z, inner = two_layers(x, p, ENCODER)
        chosen = nearest(z, codebook)
        q = codebook[chosen]
        decoded, hidden = two_layers(q, p, DECODER)
        d_out = 2 * (decoded - x) / len(x)
        gradients, d_code = backward(q, hidden, d_out, p, DECODER)
        d_z = d_code + COMMITMENT * 2 * (z - q) / len(x)
        gradients |= backward(x, inner, d_z, p, ENCODER)[0]
        optimizer.update(p, gradients)
        hits = np.zeros((len(x), CODES), np.float32)
        hits[np.arange(len(x)), chosen] = 1
        counts = DECAY * counts + (1 - DECAY) * hits.sum(0)
        sums = DECAY * sums + (1 - DECAY) * hits.T @ z
        if step % REVIVE_EVERY == 0:
            idle = counts < 0.1
            counts[idle], sums[idle] = 1.0, z[rng.choice(len(z), int(idle.sum()))]
        codebook = sums / counts[:, None]
        if step % max(1, steps // 20) == 0:
            loss = float(np.sqrt(np.mean((decoded - x) ** 2)) * 127.5)
            progress.append({"step": step, "train_rmse": round(loss, 4)})
    return p | {"codebook": codebook}


def bits_of(codes):
    """Return code numbers as packed bits, each as wide as CODES needs."""
    width = (CODES - 1).bit_length()
    places = np.arange(width)[::-1]
    return np.packbits((codes[:, None] >> places) & 1).tobytes()


def codes_of(packed, count):
    """Return `count` code numbers, the inverse of `bits_of`."""
    width = (CODES - 1).bit_length()
    bits = np.unpackbits(np.frombuffer(packed, np.uint8))[: count * width]
    return bits.reshape(count, width) @ (1 << np.arange(width)[::-1])


def write(path, content):
    """Write a file by temporary name and rename, so that no half-written file is handed on."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        content(file)
    temporary.replace(path)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Code images by vectors of a codebook.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--budget", choices=["pilot", "full"], required=True)
    parser.add_argument("--split", choices=["validation", "test"], required=True)
    parser.add_argument("--process", choices=["fit", "encode", "decode"], required=True)
    return parser.parse_args()


def main():
    args = parse_arguments()
    if args.process == "fit":
        images = np.load(args.data / "train" / "images.npy", allow_pickle=False)
        steps = STEPS if args.budget == "full" else max(1, round(PILOT_SHARE * STEPS))
        progress = []
        model = fit(patches(images), steps, np.random.default_rng(args.seed), progress)
        model["size"] = np.array(images.shape[1:3])
        lines = "".join(json.dumps(line) + "\n" for line in progress)
        (args.out / "progress.jsonl").write_text(lines)
        write(args.out / "model.npz", lambda file: np.savez(file, **model))
        return
    with np.load(args.data / "fit" / "model.npz", allow_pickle=False) as file:
        model = dict(file)
    if args.process == "encode":
        images = np.load(args.data / args.split / "images.npy", allow_pickle=False)
        z, _ = two_layers(patches(images), model, ENCODER)
        packed = bits_of(nearest(z, model["codebook"]))
        write(args.out / "code.bin", lambda file: file.write(packed))
        return
    packed = (args.data / "encode" / "code.bin").read_bytes()
    height, width = model["size"]
    each = (height // PATCH) * (width // PATCH)
    whole = len(packed) * 8 // (CODES - 1).bit_length() // each * each
    rows, _ = two_layers(model["codebook"][codes_of(packed, whole)], model, DECODER)
    decoded = images_of(rows, height, width)
    write(args.out / "reconstructions.npy", lambda file: np.save(file, decoded))


if __name__ == "__main__":
    main()
