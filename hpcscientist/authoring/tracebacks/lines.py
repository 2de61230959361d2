"""A log's lines as one program would have printed them: no colours, launchers' labels removed.

Launchers write a label before each line: `0: ` (srun), `[1,0]<stderr>:` (mpirun), `[rank0]: `
(torchrun), `(pid=12) ` (Ray), a time. There are more of them than a list could hold, so a label is
whatever stands before a traceback's frame and before other lines, too; digits in it may differ.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from hpcscientist.authoring.tracebacks.layouts import BOX_TOP, in_python_layout

MAX_LINE = 4000  # characters; a candidate may print what takes long to match
_MAX_LABEL = 120
_MAX_LABELS = 20  # kinds of labels in one log

_NEWLINE = re.compile(r"\r\n|\r|\n")
# Colours and moves of the cursor; links.
_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_QUOTED = re.compile(r"Traceback \(most recent call last\):\\n")  # printed by repr or as JSON
_QUOTE = re.compile(r"\(most recent call (?:last|first)\)")
_RAY_REPEATED = re.compile(r" \[repeated [0-9]+x across cluster\].*$")

# What a frame looks like after a label: Python's, loguru's, IPython's, and others'.
_FRAME = re.compile(
    r'(?:  |> )File "[^"\n]+", line [0-9]+|(?:  )?File [^\s":]+:[0-9]+(?:,? in |$)'
    r'|File "[^"\n]+", line [0-9]+, in \S+$|\S+\.py [0-9]+ <module>$'
)
_MARGIN = re.compile(r"(?:  )+\| $")  # of an exception group; part of the traceback
_CLOCK = (
    r"(?:(?:\d{4}[-/]\d\d[-/]\d\d[T _])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: \d{4})?"
    r"|(?<![\d.])\d+\.\d{3,}(?![\d.])|(?<!\d)1\d{9}(?:\d{3})?(?!\d))"
)
_VARIES = re.compile(rf"({_CLOCK})|\d+")
_TIMES = re.compile(_CLOCK)
_FAILS = re.compile(r"\(most recent call |: in user code:$")


def cleaned(log: str) -> list[str]:
    """Return the lines of a log in the layout of Python's own tracebacks.

    The lines of each rank stand together, those of the rank that failed first after the other
    ranks': most others only report that it was gone. Lines without a rank's label come first,
    or last if they report a later failure.
    """
    lines = list(_short(log))
    label = _label(lines)
    return in_python_layout(_by_rank(lines, label) if label else lines)


def split(text: str) -> list[str]:
    """Return the lines of a text, whichever way they end."""
    return _NEWLINE.split(text)


def _short(log: str) -> Iterator[str]:
    """Return the lines without what steers a terminal, the longest of them cut."""
    for raw in _NEWLINE.split(log):
        for line in _unquoted(raw):
            yield _RAY_REPEATED.sub("", _TERMINAL.sub("", line[:MAX_LINE])).rstrip()


def _unquoted(line: str) -> list[str]:
    """Return a line as it was before a traceback in it was quoted."""
    if line.startswith("{") and (texts := _in_json(line)):
        return texts
    if not _QUOTED.search(line):
        return [line]
    return line.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'").split("\n")


def _in_json(line: str) -> list[str]:
    """Return the lines of a traceback in a logger's record, or of Docker's log."""
    try:
        record = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        return []
    texts = [text for text in record.values() if isinstance(text, str) and _QUOTE.search(text)]
    if not texts and isinstance(record.get("log"), str):
        texts = [record["log"].removesuffix("\n")]
    return [part for text in texts for part in text.split("\n")]


def _label(lines: Sequence[str]) -> re.Pattern[str] | None:
    """Return a pattern of the labels that a launcher or a logger wrote before lines."""
    kinds: dict[str, int] = {}  # with the fewest blanks that follow one: frames may be indented
    for line in lines:
        if not any(mark in line for mark in ("File ", "Traceback", "<module>")):  # most lines
            continue
        found = _FRAME.search(line, 0, _MAX_LABEL + 400) or BOX_TOP.search(line)
        label = _MARGIN.sub("", line[: found.start()]) if found else ""
        if label.strip() and len(label) <= _MAX_LABEL and len(kinds) < _MAX_LABELS:
            bare = label.rstrip()
            kind = _pattern(bare)
            kinds[kind] = min(len(label) - len(bare), kinds.get(kind, _MAX_LABEL))
    # Editors and loggers drop the blanks where nothing follows.
    known = [
        kind + (rf"(?:[ \t]{{{blanks}}}|\s*$)" if blanks else "") for kind, blanks in kinds.items()
    ]
    real = [kind for kind in known if sum(1 for line in lines if re.match(kind, line)) > 1]
    return re.compile("|".join(sorted(real, key=len, reverse=True))) if real else None


def _pattern(label: str) -> str:
    """Return a pattern for labels that differ from this one in digits, of a rank or a time."""
    parts, done = [], 0
    for found in _VARIES.finditer(label):
        parts += [re.escape(label[done : found.start()]), _CLOCK if found[1] else r"\d+"]
        done = found.end()
    return "".join([*parts, re.escape(label[done:])])


def _by_rank(lines: Sequence[str], label: re.Pattern[str]) -> list[str]:
    marks = [label.match(line) for line in lines]
    ranks = [_TIMES.sub("", mark.group()).rstrip() if mark else "" for mark in marks]
    seen = Counter(ranks)  # a number that no two lines share is a line's, not a rank's
    common: list[str] = []
    apart: dict[str, list[str]] = {}
    first_failure: dict[str, int] = {}
    last_common = -1
    for at, (line, mark, rank) in enumerate(zip(lines, marks, ranks, strict=True)):
        text = line[mark.end() :] if mark else line
        failed = _FAILS.search(text) is not None
        if seen[rank] > 1 and any(map(str.isdigit, rank)):
            apart.setdefault(rank, []).append(text)
            if failed:
                first_failure.setdefault(rank, at)
        else:
            common.append(text)
            last_common = at if failed else last_common
    order = [rank for rank in apart if rank not in first_failure]
    order += sorted(first_failure, key=lambda rank: -first_failure[rank])
    of_ranks = [line for rank in order for line in apart[rank]]
    later = first_failure and last_common > min(first_failure.values())
    return of_ranks + common if later else common + of_ranks
