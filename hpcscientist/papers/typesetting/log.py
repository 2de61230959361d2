"""What the engine complains of, as defects of the paragraphs that it complains about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcscientist.files.text import one_line, printable
from hpcscientist.papers.typesetting.engine import Typeset
from hpcscientist.papers.typesetting.latex import place_of
from hpcscientist.records.manuscript import Defect, DefectCode, Place

LAYOUT: Final = "layout"  # the place of what no paragraph is to blame for
# Pattern, what it is, what to write instead; the first that fits a line counts.
_COMPLAINTS: Final = tuple(
    (re.compile(pattern), code, fix)
    for pattern, code, fix in (
        (
            r"File [`'](?P<what>[^']*figures/[^']*)' not found",
            DefectCode.MISSING_FIGURE,
            "remove the figure, or name one that is drawn",
        ),
        (
            r"^(?:! |(?:\./)?[\w.-]+:\d+: )(?P<what>.*)",
            DefectCode.BUILD_FAILED,
            "write plainer words there, without unusual characters",
        ),
        (
            r"Warning: (?:Reference|Citation) [`'](?P<what>[^']+)' .*undefined",
            DefectCode.UNDEFINED_REFERENCE,
            "refer to a figure of the paper, or cite a paper of the library",
        ),
        (
            r"name\{(?P<what>[^}]*)\} has been referenced but does not exist",
            DefectCode.UNDEFINED_REFERENCE,
            "refer to a figure of the paper, or cite a paper of the library",
        ),
        (
            r"^Overfull \\(?P<box>[hv])box \((?P<by>[\d.]+)pt too",
            DefectCode.OVERFULL_BOX,
            "use shorter words there, or put them in another order",
        ),
        (
            r"^Missing character: There is no (?P<what>.*) in font",
            DefectCode.BUILD_FAILED,
            "write it with letters that the fonts have",
        ),
        (
            r"^(?:LaTeX|Package \S+|pdfTeX)(?: \w+)? [Ww]arning:? (?P<what>.*)",
            DefectCode.BUILD_FAILED,
            "write plainer words there",
        ),
    )
)
# Said of every document whose references were not known before; another pass follows.
_PASSING = re.compile(
    r"Rerun|has changed|Label\(s\) may have changed|There were undefined references"
)
_BOUNDS: Final = {
    "deadline": "it took too long",
    "memory": "it needed too much memory",
    "output": "it wrote too much",
    "processes": "it started too many processes",
    "stopped": "it was stopped",
}


def defects_of(made: Typeset) -> list[Defect]:
    """Return what is wrong with a document, in the order of the log; [] for a clean one."""
    found = list(dict.fromkeys(_of_log(made.log)))
    if made.pdf is None:  # of a pass that was broken off every reference is undefined
        found = [defect for defect in found if defect.code in _FATAL]
    if made.stopped:
        why = _BOUNDS.get(made.stopped, made.stopped)
        found.append(_failed(f"the engine: {why}", "shorten the text"))
    elif made.pdf is None and not any(d.code in _FATAL for d in found):
        said = made.log.strip().rpartition("\n")[2] or "no log"
        found.append(_failed(said, "see paper.log"))
    return found


_FATAL: Final = (DefectCode.BUILD_FAILED, DefectCode.MISSING_FIGURE)


def _of_log(log: str) -> Iterator[Defect]:
    place = Place(section=LAYOUT)
    for line in log.splitlines():
        place = place_of(line) or place
        if (found := _read(line, place)) is not None:
            yield found


def _read(line: str, place: Place) -> Defect | None:
    for pattern, code, fix in _COMPLAINTS:
        if (found := pattern.search(line)) and not _PASSING.search(line):
            told = found.groupdict()
            if code is DefectCode.OVERFULL_BOX:
                what = f"{told['by']} pt too {'wide' if told['box'] == 'h' else 'high'}"
            else:
                what = told["what"]
            return _defect(code, place, what, fix)
    return None


def _failed(what: str, fix: str) -> Defect:
    return _defect(DefectCode.BUILD_FAILED, Place(section=LAYOUT), what, fix)


def _defect(code: DefectCode, place: Place, found: str, fix: str) -> Defect:
    return Defect(code=code, place=place, found=one_line(printable(found), 200), fix=fix)
