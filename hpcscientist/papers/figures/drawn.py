"""Draws a paper's figures into its folder, by our own code and by the recipe's plot.py."""

from __future__ import annotations

import io
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from hpcscientist.execution.bounds.supervise import BoundedLog, Bounds, Reason, RunPlace, supervise
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.hashing import hash_bytes
from hpcscientist.papers.figures import draw
from hpcscientist.papers.figures.data import FigureData, tables
from hpcscientist.papers.typesetting.document import Drawn
from hpcscientist.papers.typesetting.engine import environment
from hpcscientist.ports import Tell
from hpcscientist.results import export

RECIPES: Final = "recipe-"  # prefix of the ids of a recipe's own figures
_KINDS: Final = ("pdf", "svg", "png")
_PLOT_S, _PLOT_MB, _PLOT_FILES = 120.0, 2048, 16
_CACHE = ".cache"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")

# Of each figure: the caption, in restricted text, and the alternative text.
CAPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "effects": (
        "Difference of each scored idea to the baseline on the validation split, with its "
        "interval. The shaded band is below the minimum effect of the recipe.",
        "A forest plot with a line for each scored idea, the largest difference at the top.",
    ),
    "search-confirmed": (
        "Differences to the baseline in the search, on the validation split, against those with "
        "fresh seeds on the test split. On the diagonal nothing shrank; in the shaded band "
        "measurements of the same code differ by chance.",
        "A scatter plot of differences on the validation split and on the test split.",
    ),
    "learning-curves": (
        "What trials wrote while they ran: thin lines are seeds, thick lines their means. The code "
        "under test wrote it; no result rests on it.",
        "Line plots over the entries that trials wrote, in a colour for each idea.",
    ),
    "ablations": (
        "Further runs beside the idea that they were derived from, as difference to the baseline "
        "on the validation split, with intervals.",
        "A forest plot with a line for each further run.",
    ),
    "attempts": (
        "The versions of code that were written, each to the right of what it was made from.",
        "A tree for each idea, from the reference to its last version.",
    ),
}
_OWN: Final = "A figure by the recipe, from the table of results."


def draw_all(
    campaign: FigureData,
    ideas: Sequence[str],
    folder: Path,
    width_in: float,
    plot: Path | None,
    tell: Tell,
) -> dict[str, Drawn]:
    """Draw the figures that have data into a folder; return them by id, each with its data.

    `plot` is a recipe's plot.py. Without matplotlib, only the data are written. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Drawn] = {}
    for table in tables(campaign, ideas):
        data = table.as_csv().encode()
        write_atomic(folder / f"{table.id}.csv", data, durable=False)
        files: dict[str, Path] = {}
        if draw.is_possible():
            for kind, content in draw.draw(table, width_in).items():
                files[kind] = folder / f"{table.id}.{kind}"
                write_atomic(files[kind], content, durable=False)
        found[table.id] = Drawn(
            table.id, table.title, folder / f"{table.id}.csv", hash_bytes(data), **files
        )
    if plot is not None and draw.is_possible():
        found |= {drawn.id: drawn for drawn in _recipes_own(campaign, folder, plot, tell)}
    return found


def captions(drawn: Drawn) -> tuple[str, str]:
    """Return a figure's default caption and its alternative text."""
    return CAPTIONS.get(drawn.id, (_OWN, _OWN))


def _recipes_own(campaign: FigureData, folder: Path, plot: Path, tell: Tell) -> Iterator[Drawn]:
    """Run a recipe's plot.py and yield the figures that it drew."""
    target = io.StringIO()
    export.json(campaign.rows, target)
    data = target.getvalue().encode()
    results = folder / f"{RECIPES}results.json"
    write_atomic(results, data, durable=False)
    with tempfile.TemporaryDirectory(prefix="hpcsci-plot-") as place:
        out = Path(place)
        draw.copy_font_list(out / _CACHE)
        # The plot.py of an older recipe has no --format and draws pixels only.
        vectors = all(_plot(plot, results, out, ("--format", kind)) for kind in ("pdf", "svg"))
        if not vectors and not _plot(plot, results, out, ()):
            tell(f"{plot.name} of the recipe drew no figures: it failed; run it by hand to see why")
            return
        names = sorted({path.stem for path in out.iterdir() if _NAME.fullmatch(path.stem)})
        for name in names[:_PLOT_FILES]:
            files = {}
            for kind in _KINDS:
                if _is_figure(drawn := out / f"{name}.{kind}"):
                    files[kind] = folder / f"{RECIPES}{name}.{kind}"
                    write_atomic(files[kind], drawn.read_bytes(), durable=False)
            if "pdf" in files or "png" in files:
                title = f"{name.replace('_', ' ').replace('-', ' ')}, drawn by the recipe's plot.py"
                yield Drawn(f"{RECIPES}{name}", title, results, hash_bytes(data), **files)


def _is_figure(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size > 0


def _plot(plot: Path, results: Path, out: Path, more: Sequence[str]) -> bool:
    """Run plot.py within bounds; return whether it succeeded."""
    command = [sys.executable, str(plot), "--results", str(results), "--out", str(out), *more]
    bounds = Bounds(
        deadline_s=_PLOT_S, memory_mb=_PLOT_MB, output_mb=64, watched=(out,), apart=True
    )
    surroundings = environment(out, 0) | {"MPLBACKEND": "agg", "MPLCONFIGDIR": str(out / _CACHE)}
    place = RunPlace(out, surroundings)
    ended = supervise(command, place, bounds, threading.Event(), BoundedLog(io.BytesIO()))
    return ended.reason is Reason.EXITED and ended.exit_code == 0
