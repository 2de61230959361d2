"""What came of a run: the table, the verdict, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .records import GOOD, NOT_RUN, PASSED, Result

_HEAD = ("suite", "case", "first try", "second try", "seconds", "log")


@dataclass
class Report:
    """All results so far. `problems`: what went wrong outside any case, a line each."""

    folder: Path
    commit: str
    results: list[Result] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def red(self) -> bool:
        """Whether a case failed twice or could not run, or something else went wrong."""
        return bool(self.problems) or not all(result.good for result in self.results)

    def save(self) -> None:
        """Write results.json, whole or not at all."""
        told = {
            "commit": self.commit,
            "red": self.red,
            "problems": self.problems,
            "notes": self.notes,
            "cases": [asdict(result) for result in self.results],
        }
        new = self.folder / "results.json.new"
        new.write_text(json.dumps(told, indent=1) + "\n")
        new.rename(self.folder / "results.json")

    def table(self, whole: bool) -> str:
        """Return the table; passed cases are folded to a line a suite unless it shall be whole."""
        listed = [each for each in self.results if whole or not (_plain(each) or _not_run(each))]
        lines = _aligned([_HEAD, *(self._row(result) for result in listed)]) if listed else []
        for suite in dict.fromkeys(result.suite for result in self.results):
            of_suite = [result for result in self.results if result.suite == suite]
            lines.append(_summary(suite, of_suite))
        lines += [f"note: {text}" for text in self.notes]
        lines += [f"PROBLEM: {text}" for text in self.problems]
        lines.append(
            f"{'RED' if self.red else 'green'}: commit {self.commit}, all is in {self.folder}"
        )
        return "\n".join(lines)

    def _row(self, result: Result) -> tuple[str, ...]:
        words = [f"{each.outcome}" for each in result.tries] + ["-", "-"]
        logs = [each.log for each in result.tries if each.log]
        log = logs[-1] if logs else "-"
        if log.startswith(str(self.folder)):
            log = str(Path(log).relative_to(self.folder))
        row = (result.suite, result.case, words[0], words[1], f"{result.seconds:.1f}", log)
        why = [each.reason for each in result.tries if each.outcome != PASSED and each.reason]
        return (*row, *(f"    {reason}" for reason in dict.fromkeys(why)))


def _plain(result: Result) -> bool:
    return len(result.tries) == 1 and result.tries[0].outcome == PASSED


def _not_run(result: Result) -> bool:
    return result.tries[-1].outcome == NOT_RUN


def _summary(suite: str, results: Sequence[Result]) -> str:
    at_once = sum(_plain(result) for result in results)
    again = sum(len(result.tries) > 1 and result.good for result in results)
    gpu = sum(result.good and result.tries[-1].outcome != PASSED for result in results)
    left = sum(map(_not_run, results))
    red = sum(not result.good for result in results) - left
    seconds = sum(result.seconds for result in results)
    parts = [f"{at_once} passed at the first try"]
    parts += [f"{again} at the second"] if again else []
    parts += [f"{gpu} lack a GPU"] if gpu else []
    parts += [f"{red} RED"] if red else []
    parts += [f"{left} NOT RUN"] if left else []
    return f"{suite}: {len(results)} cases, {', '.join(parts)}, {seconds:.0f} s"


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns as wide as they need; what stands beyond the head's columns has lines of its own."""
    kept = list(rows)
    count = len(_HEAD)
    widths = [max(len(row[i]) for row in kept) for i in range(count)]
    lines = []
    for row in kept:
        cells = (cell.ljust(width) for cell, width in zip(row[:count], widths, strict=True))
        lines += ["  ".join(cells).rstrip(), *row[count:]]
    return lines


def progress(count: int, of: int, minutes: int, result: Result) -> str:
    """Return the line that is shown as a case ends."""
    words = ", then ".join(each.outcome for each in result.tries)
    if not result.good or len(result.tries) > 1:
        words = words.upper()
    why = next((each.reason for each in result.tries if each.outcome not in GOOD), "")
    head = f"[{minutes:3d} min] {result.suite} {count}/{of}"
    tail = f": {why}" if why else ""
    return f"{head}  {words}  {result.seconds:.1f} s  {result.case}{tail}"
