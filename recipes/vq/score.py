"""Score decoded images. Trusted: runs apart from the candidate.

    score.py --predictions FILE --labels DIR

Prints one JSON object of metrics and exits 0. Exit code 3 with one line on stderr: the images
are bad (the candidate's fault). They are untrusted bytes: a plain file of at most MAX_BYTES,
never unpickled.

rmse          root of the mean squared difference of all pixels, of 255
worst_tenth   the same of the tenth of the images that are decoded worst

How long the code is that they were decoded from is no matter of this script: the trial bounds it.
"""

import argparse
import io
import json
import os
import stat
import sys
from pathlib import Path

import numpy as np

MAX_BYTES = 64 << 20
BAD_PREDICTIONS = 3


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
    if not isinstance(images, np.ndarray) or images.shape != shape or images.dtype != np.uint8:
        raise BadPredictions(f"the array must be of type uint8 and of the shape {shape}")
    return images


def score(decoded, images):
    """Return the metrics of complete reconstructions."""
    errors = ((decoded.astype(float) - images.astype(float)) ** 2).mean(axis=(1, 2, 3))
    worst = np.sort(errors)[-max(1, len(errors) // 10) :]
    return {"rmse": float(np.sqrt(errors.mean())), "worst_tenth": float(np.sqrt(worst.mean()))}


def main():
    parser = argparse.ArgumentParser(description="Score decoded images.")
    parser.add_argument("--predictions", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    args = parser.parse_args()
    with np.load(args.labels / "images.npz", allow_pickle=False) as private:
        images = private["images"]
    try:
        decoded = parse_images(read_untrusted(args.predictions), images.shape)
    except BadPredictions as error:
        print(error, file=sys.stderr)
        return BAD_PREDICTIONS
    print(json.dumps(score(decoded, images)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
