"""What `hpcsci bench serving` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpcscientist.config.settings import Settings
from hpcscientist.records.site import Site

IN_FLIGHT = (1, 8, 64)
PARTS = ("throughput", "start", "replicas")


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure where.

    `model`: a folder of weights, None for random ones made on the spot. A prompt has `characters`,
    a reply `tokens`; `in_flight` lists how many requests there are at once.
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
