"""The figure of `benchmarks power`: claimed improvements and their exaggeration by true effect."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.decisions.judging import RULES
from benchmarks.decisions.power import Measured, Tally
from hpcscientist.errors import UsageError

FORMATS: Final = (".png", ".svg")
_STAGES: Final = (("found", "-"), ("confirmed", "--"))
_COLOURS: Final = dict(zip(RULES, ("tab:blue", "tab:green", "tab:red"), strict=True))


def check(path: Path) -> None:
    """Raise UsageError where the figure could not be written; nothing is measured before."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--figure {path}: the name must end in {' or '.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--figure {path}: its folder does not exist; make it first")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--figure needs matplotlib; install hpcscientist[plots], or leave it out")


def draw(measured: Measured, path: Path) -> None:
    """Draw a column a number of seeds: above what is claimed, below how much is exaggerated.

    The same figures give the same file. Raises OSError where it cannot be written.
    """
    import matplotlib  # noqa: PLC0415  (an extra; slow to import)
    from matplotlib.figure import Figure  # noqa: PLC0415

    seeds = sorted({n for _, n in measured})
    figure = Figure(figsize=(1 + 3.5 * len(seeds), 6.5), layout="constrained")
    axes = figure.subplots(2, len(seeds), sharex="row", sharey="row", squeeze=False)
    for column, n in enumerate(seeds):
        above, below = axes[0][column], axes[1][column]
        for rule in RULES:
            for stage, (when, style) in enumerate(_STAGES):
                look = {"color": _COLOURS[rule], "linestyle": style, "marker": "."}
                by_size = measured[rule, n]
                above.plot(*_claimed(by_size, stage), label=f"{rule}, {when}", **look)
                below.plot(*_exaggerated(by_size, stage), **look)
        above.set(title=f"{n} seeds", xlabel="true effect (SD)", ylim=(-0.03, 1.03))
        below.set(xlabel="size of the true effect (SD)")
        below.axhline(1.0, color="black", linewidth=0.5)
    axes[0][0].set_ylabel("share claimed as improvement")
    axes[1][0].set_ylabel("claimed gain / true size")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    svg = path.suffix.lower() == ".svg"
    with matplotlib.rc_context({"svg.hashsalt": "hpcsci"}):
        figure.savefig(path, metadata={"Date": None} if svg else None)


def _claimed(by_size: Mapping[float, Tally], stage: int) -> tuple[list[float], list[float]]:
    shares = {size: tally.power(stage).value for size, tally in by_size.items()}
    shares |= {-size: tally.mistaken(stage).value for size, tally in by_size.items() if size}
    known = sorted((effect, share) for effect, share in shares.items() if share is not None)
    return [effect for effect, _ in known], [share for _, share in known]


def _exaggerated(by_size: Mapping[float, Tally], stage: int) -> tuple[list[float], list[float]]:
    said = {size: tally.exaggeration(stage, size) for size, tally in by_size.items()}
    known = [(size, times) for size, times in said.items() if times is not None]
    return [size for size, _ in known], [times for _, times in known]
