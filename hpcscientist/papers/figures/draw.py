"""Draws the figures with matplotlib, as vectors that are legible in print and to the colour-blind.

The same data give the same bytes. Each colour comes with a marker or a line style, so colour never
carries a meaning alone.
"""

from __future__ import annotations

import importlib.util
import io
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hpcscientist.errors import UsageError
from hpcscientist.files.text import one_line, printable
from hpcscientist.papers.figures.data import FigureTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INSTALL: Final = "pip install 'hpcscientist[papers]'"

# Okabe and Ito's palette: eight colours that people with each kind of colour blindness tell apart.
_BLACK, _ORANGE, _SKY, _GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
_BLUE, _VERMILION, _PURPLE, _GREY = "#0072B2", "#D55E00", "#CC79A7", "#707070"
_OUTCOMES: Final = {  # colour, marker, filled
    "confirmed": (_GREEN, "D", True),
    "improvement": (_BLUE, "o", True),
    "maintenance": (_GREY, "o", False),
    "decline": (_VERMILION, "s", False),
    "undecided": (_GREY, "x", True),
}
_ENDS: Final = {
    "scored": (_GREEN, "o", True),
    "piloted": (_SKY, "o", False),
    "failed": (_VERMILION, "X", True),
    "not run": (_GREY, "s", False),
}
_KINDS: Final = {
    "main": (_BLUE, "o", True),
    "ablation": (_VERMILION, "s", False),
    "sensitivity": (_PURPLE, "^", False),
    "follow-up": (_ORANGE, "D", False),
}
_LINES: Final = (
    (_BLACK, "--"),
    (_BLUE, "-"),
    (_VERMILION, "-."),
    (_GREEN, "-"),
    (_PURPLE, ":"),
    (_ORANGE, "--"),
)
_STYLE: Any = {  # keys that matplotlib types as literals
    "font.size": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "lines.linewidth": 1.1,
    "lines.markersize": 4.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,  # letters stay letters, so the text of a figure can be read and searched
    "svg.fonttype": "none",
    "svg.hashsalt": "hpcscientist",
    "text.parse_math": False,  # "$" in an idea's title is no formula
    "axes.unicode_minus": True,
}
_ROW, _MARGIN, _TALLEST = 0.19, 0.75, 8.0  # inches
_TITLE: Final = 34  # characters


def is_possible() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def copy_font_list(folder: Path) -> None:
    """Copy this user's list of fonts into another cache of matplotlib, which takes seconds to make
    it. Raises OSError.
    """
    import matplotlib  # noqa: PLC0415 (an extra, and slow)

    folder.mkdir()
    for known in Path(matplotlib.get_cachedir()).glob("fontlist-*.json"):
        shutil.copyfile(known, folder / known.name)


def draw(table: FigureTable, width_in: float) -> dict[str, bytes]:
    """Return the figure of a table, by kind of file: "pdf" and "svg".

    Raises UsageError if matplotlib is not installed.
    """
    make = _MAKERS[table.id]
    with _style():
        figure = make(table, width_in)
        found = {}
        for kind in ("pdf", "svg"):
            target = io.BytesIO()
            dates = {"CreationDate": None} if kind == "pdf" else {"Date": None}
            figure.savefig(target, format=kind, metadata=dates)
            found[kind] = target.getvalue()
    return found


@contextmanager
def _style() -> Iterator[None]:
    try:
        import matplotlib  # noqa: PLC0415 (an extra, and slow)
    except ImportError as error:
        raise UsageError(f"figures need matplotlib: {INSTALL}") from error
    defaults: Any = {
        k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith("backend")
    }
    with matplotlib.rc_context():
        # Start from the defaults, so that no matplotlibrc changes a paper.
        matplotlib.rcParams.update(defaults)
        matplotlib.rcParams.update(_STYLE)
        yield


def _figure(width_in: float, height_in: float) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    return Figure(figsize=(width_in, min(height_in, _TALLEST)), layout="constrained")


def _effects(table: FigureTable, width_in: float) -> Figure:
    """Draw a forest plot: one line for each idea, the largest effect first."""
    rows = sorted(table.dicts(), key=lambda row: -_float(row["delta"]))
    figure = _figure(width_in, _MARGIN + _ROW * len(rows))
    axes = figure.subplots()
    least = _float(table.notes["minimum_effect"])
    if least:
        axes.axvspan(
            -least, least, color=_GREY, alpha=0.18, linewidth=0, label="below minimum effect"
        )
    axes.axvline(0.0, color=_BLACK, linewidth=0.7)
    for y, row in enumerate(rows):
        _interval(axes, row, y, _OUTCOMES[str(row["outcome"])])
    labels = [_label(row["idea"], row["title"]) for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if row["in_paper"] else "normal")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(
        f"difference in {_plain(table.notes['metric'])} to the baseline ({table.notes['split']})"
    )
    _legend(axes, _OUTCOMES, [row["outcome"] for row in rows])
    return figure


def _ablations(table: FigureTable, width_in: float) -> Figure:
    rows = table.dicts()
    figure = _figure(width_in, _MARGIN + _ROW * len(rows))
    axes = figure.subplots()
    axes.axvline(0.0, color=_BLACK, linewidth=0.7)
    for y, row in enumerate(rows):
        _interval(axes, row, y, _KINDS[str(row["kind"])])
    labels = [
        _label(row["idea"], "") if row["kind"] == "main" else _plain(row["title"]) for row in rows
    ]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(
        f"difference in {_plain(table.notes['metric'])} to the baseline ({table.notes['split']})"
    )
    _legend(axes, _KINDS, [row["kind"] for row in rows])
    return figure


def _confirmed(table: FigureTable, width_in: float) -> Figure:
    """Draw each idea's effect in the search against that on the test split, about the diagonal."""
    rows = table.dicts()
    size = min(width_in * 0.62, 3.6)
    figure = _figure(size + 1.6, size)
    axes = figure.subplots()
    ends = [_float(row[name]) for row in rows for name in _ENDS_OF if row[name] is not None]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    room = 0.08 * (high - low) or 1.0
    low, high = low - room, high + room
    band = _float(table.notes["noise_band"])
    if band:
        axes.fill_between(
            [low, high], [low - band, high - band], [low + band, high + band],
            color=_GREY, alpha=0.18, linewidth=0, label="noise band",
        )  # fmt: skip
    axes.plot([low, high], [low, high], color=_GREY, linewidth=0.8, label="no shrinkage")
    axes.axhline(0.0, color=_BLACK, linewidth=0.6)
    for row in rows:
        colour, marker, filled = _OUTCOMES[str(row["outcome"])]
        x, y = _float(row["delta"]), _float(row["test_delta"])
        _span(axes, (row["ci_low"], row["ci_high"]), (y, y), colour)
        _span(axes, (x, x), (row["test_ci_low"], row["test_ci_high"]), colour)
        axes.plot([x], [y], marker, color=colour, markerfacecolor=colour if filled else "white")
    _annotate(axes, rows, high - low)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")
    axes.set_xlabel(f"difference in {_plain(table.notes['metric'])} in the search")
    axes.set_ylabel("difference on the test split")
    _legend(axes, _OUTCOMES, [row["outcome"] for row in rows])
    return figure


_ENDS_OF: Final = ("delta", "ci_low", "ci_high", "test_delta", "test_ci_low", "test_ci_high")


def _annotate(axes: Any, rows: Sequence[Mapping[str, Any]], span: float) -> None:
    """Label each point to its right, moved up where labels would overlap."""
    taken: list[float] = []
    for row in sorted(rows, key=lambda row: _float(row["test_delta"])):
        x, y = _float(row["delta"]), _float(row["test_delta"])
        height = max(
            [y, *(other + 0.055 * span for other in taken if abs(other - y) < 0.055 * span)]
        )
        taken.append(height)
        axes.annotate(
            str(row["idea"]).removeprefix("idea-"),
            (x, y),
            (x + 0.025 * span, height + 0.02 * span),
            fontsize=7,
            bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.4},
        )


def _curves(table: FigureTable, width_in: float) -> Figure:
    """Draw one panel for each series; thin lines are seeds, the thick line is their mean."""
    rows = table.dicts()
    names = list(dict.fromkeys(str(row["series"]) for row in rows))
    figure = _figure(width_in, 2.1)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    ideas = list(dict.fromkeys(str(row["idea"]) for row in rows))[: len(_LINES)]
    for axes, name in zip(panels, names, strict=True):
        for idea, (colour, style) in zip(ideas, _LINES, strict=False):
            seeds: dict[Any, list[tuple[int, float]]] = {}
            for row in rows:
                if (row["series"], row["idea"]) == (name, idea):
                    seeds.setdefault(row["seed"], []).append(
                        (int(_float(row["step"])), _float(row["value"]))
                    )
            for points in seeds.values():
                axes.plot(*zip(*points, strict=True), color=colour, linewidth=0.4, alpha=0.45)
            axes.plot(
                *_mean_curve(list(seeds.values())), style, color=colour, linewidth=1.4, label=idea
            )
        axes.set_xlabel("entry of progress.jsonl")
        axes.set_ylabel(_plain(name))
    panels[-1].legend(frameon=False)
    return figure


def _mean_curve(seeds: Sequence[Sequence[tuple[int, float]]]) -> tuple[list[int], list[float]]:
    """Return the mean over seeds at the steps that every seed has."""
    known = [dict(points) for points in seeds]
    steps = sorted(set.intersection(*map(set, known))) if known else []
    return steps, [sum(seed[step] for seed in known) / len(known) for step in steps]


def _attempts(table: FigureTable, width_in: float) -> Figure:
    """Draw one tree for each idea, from left to right: each attempt to the right of its parent."""
    rows = table.dicts()
    places, height = _layout(rows)
    figure = _figure(width_in, _MARGIN + 0.2 * height)
    axes = figure.subplots()
    for row in rows:
        idea, number, parent = (
            str(row["idea"]),
            int(_float(row["attempt"])),
            int(_float(row["parent"])),
        )
        x, y = places[idea, number]
        from_x, from_y = places.get((idea, parent), (0, y))
        axes.plot([from_x, from_x, x], [from_y, y, y], color=_GREY, linewidth=0.7, zorder=1)
        colour, marker, filled = _ENDS[str(row["outcome"])]
        axes.plot(
            [x], [y], marker, color=colour, markerfacecolor=colour if filled else "white", zorder=2
        )
        final = ", final" if row["final"] else ""
        axes.annotate(
            f"{row['kind']}{final}", (x, y), (4, 2.5), textcoords="offset points", fontsize=6.5
        )
    firsts = {
        str(row["idea"]): places[str(row["idea"]), int(_float(row["attempt"]))][1]
        for row in reversed(rows)
    }
    axes.set_yticks(list(firsts.values()), list(firsts))
    axes.set_ylim(height - 0.3, -0.7)
    depth = max(x for x, _ in places.values())
    axes.set_xlim(-0.1, depth + 0.9)
    axes.set_xticks([])
    axes.spines[["bottom", "left"]].set_visible(False)
    axes.tick_params(left=False)
    axes.set_xlabel("from the reference, one step for each change")
    _legend(axes, _ENDS, [row["outcome"] for row in rows])
    return figure


def _layout(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[dict[tuple[str, int], tuple[int, float]], int]:
    """Return (depth, line) of each attempt, by idea and number, and the number of lines."""
    children: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        children.setdefault((str(row["idea"]), int(_float(row["parent"]))), []).append(
            int(_float(row["attempt"]))
        )
    places: dict[tuple[str, int], tuple[int, float]] = {}
    line = 0
    for idea in dict.fromkeys(str(row["idea"]) for row in rows):
        numbers = {int(_float(row["attempt"])) for row in rows if row["idea"] == idea}
        roots = [
            n
            for (i, parent), own in children.items()
            if i == idea and parent not in numbers
            for n in own
        ]
        stack = [(number, 1) for number in reversed(roots)]
        while stack:  # the first child is on its parent's line, the others are below
            number, depth = stack.pop()
            places[idea, number] = (depth, line)
            below = [n for n in children.get((idea, number), ()) if (idea, n) not in places]
            stack += [(n, depth + 1) for n in reversed(below)]
            line += 0 if below else 1
    return places, max(line, 1)


def _interval(axes: Any, row: Mapping[str, Any], y: float, look: tuple[str, str, bool]) -> None:
    colour, marker, filled = look
    _span(axes, (row["ci_low"], row["ci_high"]), (y, y), colour)
    face = colour if filled else "white"
    axes.plot([row["delta"]], [y], marker, color=colour, markerfacecolor=face)


def _span(axes: Any, xs: tuple[Any, Any], ys: tuple[Any, Any], colour: str) -> None:
    if None not in (*xs, *ys):
        axes.plot(xs, ys, color=colour, linewidth=0.9)


def _legend(axes: Any, looks: Mapping[str, tuple[str, str, bool]], there: Sequence[Any]) -> None:
    """Draw the legend of the markers in use, outside of the axes."""
    for name, (colour, marker, filled) in looks.items():
        if name in there:
            face = colour if filled else "white"
            axes.plot([], [], marker, color=colour, markerfacecolor=face, label=name)
    axes.figure.legend(loc="outside upper right", ncols=4, frameon=False, handletextpad=0.3)


def _label(idea: Any, title: Any) -> str:
    return f"{_plain(title)}  {idea}" if title else str(idea)


def _plain(text: Any) -> str:
    """Return a shortened text in which "?" replaces letters that the font may lack."""
    short = one_line(printable(str(text)), _TITLE)
    return "".join(c if ord(c) < 0x250 or c == "…" else "?" for c in short)


def _float(value: Any) -> float:
    return math.nan if value is None else float(value)


_MAKERS: Final[Mapping[str, Callable[[FigureTable, float], Figure]]] = {
    "effects": _effects,
    "search-confirmed": _confirmed,
    "learning-curves": _curves,
    "ablations": _ablations,
    "attempts": _attempts,
}
