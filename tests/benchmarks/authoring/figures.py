"""The table and the figures of a bench of authoring: shares with intervals, rounds, tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.authoring.conduct import RECORDED
from benchmarks.authoring.outcomes import MODES, Measured, Mode
from benchmarks.authoring.paired import Paired, compare
from hpcscientist.bench.figure import Figure
from hpcscientist.feedback.statistics import wilson

BESIDE: Mode = "none"
_STEPS = (1, 3)  # rounds after which shares are shown, beside none and all
_MEANS = ("rounds", "prompt tokens", "completion tokens")


def figures(measured: Measured) -> list[Figure]:
    """Return the figures: the share that ran at first, and what each mode made of the rest.

    Where nothing failed at first there is nothing to compare modes by, so there is but one; where
    there is no idea at all, none. `spread` is the width of the 95% interval of a share or a
    difference, and of a mean the largest minus the smallest; `runs` counts ideas.
    """
    if not measured.ideas:
        return []
    found = [_share(measured, BESIDE, 0, "ran at first")]
    if not measured.failed:
        return found
    for mode in MODES:
        for rounds in _rounds(measured):
            found.append(_share(measured, mode, rounds, f"ran {_after(rounds)}, {mode}"))
        found += _means(measured, mode)
        if mode != BESIDE:
            found.append(_difference(measured, mode))
    return found


def table(measured: Measured) -> str:
    """Return the table for people, one column a mode, and what must be known to read it."""
    lines = [] if not measured.failed else _aligned(list(_rows(measured)))
    return "\n".join([*lines, *_remarks(measured)])


def _rounds(measured: Measured) -> tuple[int, ...]:
    """The numbers of rounds after which shares are shown."""
    return tuple(dict.fromkeys(min(step, measured.rounds) for step in (*_STEPS, measured.rounds)))


def _after(rounds: int) -> str:
    return f"after at most {rounds} round{'s' * (rounds != 1)}"


def _share(measured: Measured, mode: Mode, rounds: int, name: str) -> Figure:
    count = len(measured.ideas)
    ran, low, high = _interval(measured, mode, rounds)
    value, beside = ran / count, measured.ran(BESIDE, rounds) / count
    compared = rounds > 0 and mode != BESIDE
    return Figure(
        name=name,
        value=value,
        unit=f"of {count} ideas (95%: {low:.3f} to {high:.3f})",
        compared_with=f"{BESIDE} {beside:.3f}" if compared else None,
        ratio=value / beside if compared and beside else None,
        target=None,
        spread=high - low,
        runs=count,
    )


def _interval(measured: Measured, mode: Mode, rounds: int) -> tuple[int, float, float]:
    ran = measured.ran(mode, rounds)
    return ran, *wilson(ran, len(measured.ideas))


def _means(measured: Measured, mode: Mode) -> Iterator[Figure]:
    means, spreads = measured.means(mode), measured.spreads(mode)
    for name, value, beside, spread in zip(
        _MEANS, means, measured.means(BESIDE), spreads, strict=True
    ):
        compared = mode != BESIDE
        yield Figure(
            name=f"{name} of debugging, {mode}",
            value=value,
            unit=f"{name.split()[-1]} an idea that failed at first",
            compared_with=f"{BESIDE} {beside:.1f}" if compared else None,
            ratio=value / beside if compared and beside else None,
            target=None,
            spread=spread,
            runs=measured.failed,
        )


def _difference(measured: Measured, mode: Mode) -> Figure:
    found = _compared(measured, mode)
    return Figure(
        name=f"ran in the end, {mode} minus {BESIDE}",
        value=found.difference,
        unit=f"of {len(measured.ideas)} ideas (95%: {found.low:.3f} to {found.high:.3f}; "
        f"exact McNemar p {found.p_value:.3g})",
        compared_with=f"{BESIDE}: {found.gained} ideas gained, {found.lost} lost",
        ratio=None,
        target=None,
        spread=found.high - found.low,
        runs=len(measured.ideas),
    )


def _compared(measured: Measured, mode: Mode) -> Paired:
    return compare(measured.pairs(mode, BESIDE))


def _rows(measured: Measured) -> Iterator[tuple[str, ...]]:
    yield ("debugging", *MODES)
    for rounds in (0, *_rounds(measured)):
        name = f"ran {_after(rounds)}" if rounds else "ran at first"
        yield (name, *(_shown(measured, mode, rounds) for mode in MODES))
    means = [measured.means(mode) for mode in MODES]
    for name, row in zip(_MEANS, zip(*means, strict=True), strict=True):
        digits = 2 if name == "rounds" else 0
        yield (f"{name}, mean", *(f"{value:,.{digits}f}" for value in row))
    yield ("runs as the reference does", *(str(measured.unchanged(mode)) for mode in MODES))
    differences = [_compared(measured, mode) for mode in MODES]
    yield (
        f"ran in the end, minus {BESIDE}",
        *("" if mode == BESIDE else _signed(d) for mode, d in zip(MODES, differences, strict=True)),
    )
    yield (
        "  ideas gained, lost; McNemar p",
        *(
            "" if mode == BESIDE else f"{d.gained}, {d.lost}; {d.p_value:.2g}"
            for mode, d in zip(MODES, differences, strict=True)
        ),
    )


def _shown(measured: Measured, mode: Mode, rounds: int) -> str:
    ran, low, high = _interval(measured, mode, rounds)
    return f"{ran / len(measured.ideas):.2f} ({low:.2f} to {high:.2f})"


def _signed(found: Paired) -> str:
    return f"{found.difference:+.2f} ({found.low:+.2f} to {found.high:+.2f})"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _remarks(measured: Measured) -> Iterator[str]:
    count = len(measured.ideas)
    if not count:
        yield "No idea could be written, so nothing was measured."
        return
    fewer = f" ({measured.wanted} were asked for)" if count < measured.wanted else ""
    at_first = measured.ran(BESIDE, 0)
    without = count - at_first - measured.failed
    yield (
        f"{count} ideas{fewer}: {at_first} ran at first, {measured.failed} failed and were debugged"
        f" in each mode, {without} came to no code. Shares are of all of them, with 95% intervals."
    )
    if not measured.failed:
        yield "NOTHING FAILED AT FIRST, so modes of debugging cannot be compared."
        return
    if measured.estimated:
        yield "Tokens were counted by characters: not every reply came with its own counts."
    if measured.recorded:
        yield f"{RECORDED}."
