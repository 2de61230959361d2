"""The shipped recipes beside `digits`: their data, and their scorers as trials call them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcscientist.recipe import data, load
from hpcscientist.records.trial import Split

BAD_PREDICTIONS = 3
NAMES = sorted(load.SHIPPED)
PLAIN = ("digits", "graph", "recommender", "text-classification", "vq")  # need NumPy alone
TORCH = tuple(name for name in NAMES if name not in PLAIN)


def folder_of(name: str) -> Path:
    return load.shipped_folder() / name


@dataclass(frozen=True)
class Topic:
    """A recipe with its data; what is asked for is of the validation split."""

    recipe: load.Recipe
    prepared: data.PreparedData
    room: Path

    @classmethod
    def of(cls, name: str, room: Path) -> Topic:
        recipe = load.load(folder_of(name))
        return cls(recipe, data.prepare(recipe, room / "data", room / "labels"), room)

    @property
    def train(self) -> Path:
        return self.prepared.views[Split.VALIDATION] / "train"

    @property
    def asked(self) -> Path:
        return self.prepared.views[Split.VALIDATION] / "validation"

    @property
    def labels(self) -> Path:
        return self.prepared.labels[Split.VALIDATION]

    def score(self, predictions: bytes | str) -> dict[str, Any] | int:
        """Return the metrics, or the exit status of a scorer that gave none."""
        path = self.room / "predictions"
        path.write_bytes(predictions.encode() if isinstance(predictions, str) else predictions)
        command = [sys.executable, "-P", str(self.recipe.scorer), "--predictions", str(path)]
        done = subprocess.run(
            [*command, "--labels", str(self.labels)], capture_output=True, text=True, check=False
        )
        return json.loads(done.stdout) if done.returncode == 0 else done.returncode
