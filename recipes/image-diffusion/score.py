"""Score drawn images. Trusted: runs apart from the candidate.

    score.py --predictions FILE --labels DIR

Prints one JSON object of metrics and exits 0. Exit code 3 with one line on stderr: the images
are bad (the candidate's fault). They are untrusted bytes: a plain file of at most MAX_BYTES,
never unpickled.

feature_distance   energy distance of drawn and private images, by features of theirs; 0 for the
                   same law
pixel_distance     the same by their pixels

A feature is what one of FILTERS random 5x5 filters finds, rectified, at most and on average in each
ninth of an image. A normal law with the pixels' own means and covariances is far off in these
features, though no mean and no variance of a pixel tells it from the images.

Images that copy training images would come close without any model. So drawn ones are refused if
more of them nearly copy a training image than private ones do, also where copies are mirrored,
turned by quarters, moved by a pixel, or of another contrast.
"""

import argparse
import io
import json
import os
import stat
import sys
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist

WANTED, FILTERS, WIDTH, GRID = 500, 48, 5, 3
MAX_BYTES = 16 << 20
BAD_PREDICTIONS = 3
NEAR, MOST_NEAR = 0.01, 0.05  # quantile of private images' distances; share of drawn ones below it
COARSE = 8  # pixels a side in the search for copies
ROWS = 250  # images at once


class BadPredictions(Exception):
    """The candidate's images cannot be scored."""


def read_untrusted(path):
    """Return the bytes of a plain file, read without following links or waiting on a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise BadPredictions(f"cannot be opened: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadPredictions("not a plain file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise BadPredictions(f"larger than {MAX_BYTES} bytes")
    return data


def parse_images(data, shape):
    try:
        images = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise BadPredictions(f"not an array that numpy.save wrote: {error}") from None
    wanted = (WANTED, *shape)
    if not isinstance(images, np.ndarray) or images.shape != wanted or images.dtype != np.uint8:
        raise BadPredictions(f"the array must be of type uint8 and of the shape {wanted}")
    return images


def flat(images):
    return images.reshape(len(images), -1).astype(np.float32) / 255


def turned(image_rows):
    """Yield images as they are, mirrored and turned, each also moved by a pixel either way."""
    for mirrored in (image_rows, image_rows[:, :, ::-1]):
        for quarter in range(4):
            whole = np.rot90(mirrored, quarter, axes=(1, 2))
            for rows in (-1, 0, 1):
                for columns in (-1, 0, 1):
                    yield np.roll(whole, (rows, columns), axis=(1, 2))


def outlines(images):
    """Return images of COARSE pixels a side, without their brightness and contrast."""
    rows, columns = (
        np.array_split(np.arange(size), min(COARSE, size)) for size in images.shape[1:3]
    )
    means = [images[:, r[0] : r[-1] + 1, c[0] : c[-1] + 1] for r in rows for c in columns]
    found = np.stack([part.mean(axis=(1, 2), dtype=np.float32) for part in means], axis=1)
    found = found.reshape(len(images), -1)
    found = found - found.mean(axis=1, keepdims=True)
    return found / (np.linalg.norm(found, axis=1, keepdims=True) + 1e-6)


def refuse_copies(images, private, train):
    """Raise BadPredictions where images lie closer to training images than chance has them."""
    known = outlines(train).T

    def nearest(some):
        return 1 - np.max([(outlines(each) @ known).max(axis=1) for each in turned(some)], axis=0)

    near = np.quantile(nearest(private[: len(images)]), NEAR)
    share = np.mean(nearest(images) < near)
    if share > MOST_NEAR or len(np.unique(flat(images), axis=0)) < 0.99 * len(images):
        raise BadPredictions(f"{share:.0%} of the images copy training images or each other")


def features(images):
    """Return what random filters find in each ninth of each image, a row an image."""
    _, height, width, channels = images.shape
    rng = np.random.RandomState([0x1F83D9AB, 0x5BE0CD19])
    filters = rng.normal(0, 1, (WIDTH * WIDTH * channels, FILTERS))
    filters -= filters.mean(axis=0)  # a plain ground has no features
    filters = (filters / np.linalg.norm(filters, axis=0)).astype(np.float32)
    found = []
    for part in np.array_split(images.astype(np.float32) / 255, max(1, len(images) // ROWS)):
        windows = np.lib.stride_tricks.sliding_window_view(part, (WIDTH, WIDTH), axis=(1, 2))
        flat_windows = windows.transpose(0, 1, 2, 4, 5, 3).reshape(*windows.shape[:3], -1)
        seen = np.maximum(flat_windows @ filters, 0)
        rows = np.array_split(np.arange(height - WIDTH + 1), GRID)
        columns = np.array_split(np.arange(width - WIDTH + 1), GRID)
        cells = [seen[:, r[0] : r[-1] + 1, c[0] : c[-1] + 1] for r in rows for c in columns]
        found.append(np.concatenate([f(cell) for cell in cells for f in (_most, _mean)], axis=1))
    return np.concatenate(found)


def _most(cell):
    return cell.max(axis=(1, 2))


def _mean(cell):
    return cell.mean(axis=(1, 2))


def energy_distance(drawn, private):
    """Return 2 E|X-Y| - E|X-X'| - E|Y-Y'|, without bias from their number, of E|Y-Y'|."""
    n, m = len(drawn), len(private)
    theirs = cdist(private, private).sum() / (m * (m - 1))
    mine = cdist(drawn, drawn).sum() / (n * (n - 1))
    return float((2 * cdist(drawn, private).mean() - mine - theirs) / theirs)


def score(images, private, train):
    """Return the metrics of complete images. Raises BadPredictions for copies."""
    refuse_copies(images, private, train)
    seen, known = features(images), features(private)
    scale = known.std(axis=0) + 1e-6
    return {
        "feature_distance": energy_distance(seen / scale, known / scale),
        "pixel_distance": energy_distance(flat(images), flat(private)),
    }


def main():
    parser = argparse.ArgumentParser(description="Score drawn images.")
    parser.add_argument("--predictions", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    args = parser.parse_args()
    with np.load(args.labels / "images.npz", allow_pickle=False) as file:
        private, train = file["images"], file["train"]
    try:
        images = parse_images(read_untrusted(args.predictions), private.shape[1:])
        found = score(images, private, train)
    except BadPredictions as error:
        print(error, file=sys.stderr)
        return BAD_PREDICTIONS
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
