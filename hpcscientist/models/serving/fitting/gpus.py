"""GPU memory, from the driver's report or from the names that sites give GPUs in Slurm."""

from __future__ import annotations

import re
from dataclasses import dataclass

# What `nvidia-smi` shows for each kind, rounded down, in MiB. For a kind with several sizes this
# is the smallest. The first match counts, so longer names precede shorter ones.
_TABLE = {
    "b300": 275_000,
    "b200": 180_000,
    "gh200": 95_000,
    "h200": 143_000,
    "h100": 81_000,
    "h800": 81_000,
    "h20": 96_000,
    "a100": 40_000,
    "a800": 40_000,
    "a6000": 48_500,
    "a5000": 24_000,
    "a4000": 16_000,
    "a40": 45_500,
    "a30": 24_000,
    "a16": 15_000,
    "a10": 22_500,
    "l40": 45_500,
    "l4": 22_500,
    "6000_ada": 48_500,
    "rtx6000": 24_000,
    "rtx8000": 48_500,
    "5090": 32_000,
    "4090": 24_000,
    "3090": 24_000,
    "2080ti": 11_000,
    "v100": 16_000,
    "p100": 16_000,
    "t4": 15_000,
}
_SEVERAL = {"b300", "gh200", "h20", "h100", "h800", "a100", "a800", "rtx6000", "v100", "p100"}
_SIZES = {10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 95, 96, 128, 141, 144, 180, 192, 256, 288}
_SHOWN = 0.95  # of the size in a name: error correction and the driver take the rest


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """A GPU's memory in MiB; `is_sure` is false if it is only the smallest of its kind."""

    mb: int
    is_sure: bool


def memory_by_name(name: str) -> GpuMemory | None:
    """Return a GPU's memory from a name like `a100` or `nvidia_a100-sxm4-80gb`; None: unknown."""
    low = re.sub(r"[\s-]+", "_", name.lower())
    sized = re.findall(r"(?<!\d)(\d{1,3})_?gi?b", low) or [
        number for number in re.findall(r"_(\d{2,3})g?(?![a-z\d])", low) if int(number) in _SIZES
    ]
    if sized:
        return GpuMemory(int(int(sized[-1]) * 1024 * _SHOWN), is_sure=True)
    joined = low.replace("_", "")
    for kind, mb in _TABLE.items():
        if re.search(rf"(?<![a-z\d]){kind}(?!\d)", low) or kind.replace("_", "") in _words(joined):
            return GpuMemory(mb, is_sure=kind not in _SEVERAL)
    return None


def _words(joined: str) -> set[str]:
    """Return a name and the name without its maker, as sites write it: rtxa6000, teslav100."""
    return {joined, re.sub(r"^(nvidia|geforce|tesla|quadro|gpu)*(rtx|gtx)?", "", joined)}


def parse_memory(smi: str) -> tuple[int, ...]:
    """Return MiB from `nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits`."""
    lines = (line.strip() for line in smi.splitlines())
    return tuple(int(line) for line in lines if line.isascii() and line.isdigit())


def parse_gres(gres: str) -> tuple[tuple[str, int], ...]:
    """Return kinds and counts from Slurm's description of a node: `gpu:a100:4(S:0-1)`, `gpu:2`."""
    found = re.findall(r"(?:^|,)gpu(?::([^:,()]*[^:,()\d][^:,()]*))?(?::(\d+))?(?![^,(])", gres)
    return tuple((kind, int(count or 1)) for kind, count in found)
