"""Options of `hpcsci bench serving`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcscientist.bench.serving.model import HIDDEN, LAYERS
from hpcscientist.config.settings import Settings
from hpcscientist.records.site import Site

IN_FLIGHT = (1, 8, 64)
PARTS = ("throughput", "start", "replicas")
# The options for a GPU: about three minutes, with a billion weights.
ON_GPU: dict[str, Any] = {
    "parts": PARTS[:1],
    "in_flight": (*IN_FLIGHT, 256),
    "tokens": 128,
    "hidden": 2048,
    "layers": 20,
    "gpu": True,
}


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure, and where.

    `model` is a folder of weights, or None for random weights with `hidden` numbers in each of
    `layers`. A prompt has `characters`, a reply `tokens`; `in_flight` lists the numbers of
    simultaneous requests. `gpu`: the machine must have a GPU.
    """

    folder: Path
    site: Site
    settings: Settings
    model: Path | None = None
    parts: tuple[str, ...] = PARTS
    in_flight: tuple[int, ...] = IN_FLIGHT
    characters: int = 128
    tokens: int = 64
    runs: int = 3
    hidden: int = HIDDEN
    layers: int = LAYERS
    gpu: bool = False
