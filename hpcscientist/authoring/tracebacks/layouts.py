"""Tracebacks that other programs print, rewritten in Python's own layout.

The programs are rich, IPython, loguru, stackprinter, pretty_errors, pytest and TensorFlow's
AutoGraph.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

_HEADER = "Traceback (most recent call last):"
# Output without a newline may precede it. TorchScript and data loaders write their own headers
# ("Traceback of TorchScript, …"); sacred writes "most recent calls WITHOUT Sacred internals".
HEADER = re.compile(r"Traceback(?: [\w, ]{1,80})? \(most recent calls? [\w ]{1,60}\):\s*$")
_TITLE = r"Traceback \([\w ()]*"  # cut off if a box is narrow
BOX_TOP = re.compile(rf"[╭┌+][─-]+ {_TITLE}[─-]+[╮┐+]\s*$")

_BOX = re.compile(rf"^( *)[╭┌+][─-]+(?: ({_TITLE}|Sub-exception #\d+ )[─-]+)?[╮┐+]\s*$")
_BOX_SIDE = re.compile(r"^ *[│|](.*)[│|]\s*$")
_BOX_END = re.compile(r"^ *[╰└+][─-]+[╯┘+]\s*$")
_BOX_CODE = re.compile(r"^(?:❱|\\u2771) *[0-9]+ ")
_BOX_LOCALS = re.compile(r" {2,}[╭│╰]")  # drawn beside the code
_BOX_FRAME = re.compile(r"^(\S[^:]*):([0-9]{1,9})(?:\s*in\s+(\S+))?$")

_DEEPEST = 20  # boxes in boxes

_FRAME = re.compile(r'^( *)(?:  |> )File "')
_USER_CODE = re.compile(r"^\s*(?:([\w.]+): )?in user code:\s*$")  # AutoGraph's
_FRAMES = (
    # loguru marks the frame that catches
    re.compile(r'^> File "(?P<path>[^"]+)", line (?P<line>[0-9]+), in (?P<function>\S+)$'),
    # AutoGraph marks the functions that it converted; before TensorFlow 2.7 it wrote no `File`.
    re.compile(
        r'^ *File "(?P<path>[^"]+)", line (?P<line>[0-9]+), in (?P<function>\S+) {2}\*{1,2}$'
    ),
    re.compile(r"^ *(?P<path>\S+\.py):(?P<line>[0-9]+) (?P<function>\S+) {2}\*{1,2}$"),
    # IPython's
    re.compile(
        r'^ {0,2}File (?P<path>\S[^":]*):(?P<line>[0-9]{1,9})(?:,? in (?P<function>[^(]+).*)?$'
    ),
)
_IPYTHON_TOP = re.compile(r"^\S.*Traceback \(most recent call last\)\s*$")
_IPYTHON_7_FRAME = re.compile(r"^(?P<path>[~/]\S+|\S+\.py) in (?P<function>[^(\s]+)(?:\(.*)?$")
_ARROW = re.compile(r"^-{1,5}> *([0-9]{1,9}) (.*)$")
_FLUSH_FRAME = re.compile(r'^File "[^"\n]+", line [0-9]+, in \S+$')  # stackprinter's
_NUMBERED = re.compile(r"^(?: +|-+> *)[0-9]+(?: |$)")
_PRETTY_RULE = re.compile(r"^-{40,}$")
_PRETTY_FRAME = re.compile(r"^(?P<path>\S+\.pyx?) (?P<line>[0-9]{1,9})(?: (?P<function>\S+))?$")


# pytest's. In its long form the place follows the code, in the short form it comes before, with the
# function; both may stand in one report.
_PYTEST_TOP = re.compile(r"^={10,} (?:FAILURES|ERRORS) ={10,}$")  # as wide as the terminal
_PYTEST_END = re.compile(r"^=+ .* =+$")
_PYTEST_TITLE = re.compile(r"^_{3,} \S.* _{3,}$")
_PYTEST_OTHER = re.compile(r"^-+ Captured .* -+$")
_PYTEST_PLACE = re.compile(
    r"^(?P<path>\S+\.pyx?):(?P<line>[0-9]{1,9}):"
    r"(?: (?:in (?P<function>\S+)|(?P<error>[\w.]+)(?P<said>: .*)?))?$"
)
_PYTEST_RAISED = re.compile(r"^E {3,}(?P<said>[^\s^].*)$")
_PYTEST_LINE = re.compile(r"^> {2,}(?P<code>\S.*)$")


def in_python_layout(lines: Sequence[str]) -> list[str]:
    """Return the lines of a log with all tracebacks in Python's own layout."""
    return list(_rewritten(_of_pytest(_dedented(list(_unboxed(lines))))))


def _unboxed(lines: Sequence[str], depth: int = 0) -> Iterator[str]:
    """Yield the lines, with rich's boxes rewritten as Python would have printed them."""
    at = 0
    while at < len(lines):
        top = _BOX.match(lines[at])
        if top is None:
            yield lines[at]
            at += 1
            continue
        indent, title = top.group(1), top.group(2) or ""
        width = len(lines[at].strip())
        begin = at = at + 1
        while at < len(lines) and _BOX_SIDE.match(lines[at]):
            at += 1
        inside = [_BOX_SIDE.sub(r"\1", line).rstrip().removeprefix(" ") for line in lines[begin:at]]
        at += at < len(lines) and _BOX_END.match(lines[at]) is not None
        if title.startswith("Sub") and depth < _DEEPEST:
            yield from (indent + line for line in _unboxed(inside, depth + 1))
            continue
        if title:
            yield indent + _HEADER
        yield from (indent + line for line in _frames_of_box(inside, width - 4))
        message, at = _wrapped(lines, at, width)
        yield from [indent + message] if message else []


def _wrapped(lines: Sequence[str], at: int, width: int) -> tuple[str, int]:
    """Return the message below a box in one line, and the number of the line after it."""
    words = lines[at].split() if at < len(lines) and not _BOX.match(lines[at]) else []
    length = len(" ".join(words))
    at += bool(words)
    while words and at < len(lines) and (more := lines[at].split()):
        if not length <= width < length + 1 + len(more[0]):
            break
        words += more
        length = len(" ".join(more))
        at += 1
    return " ".join(words), at


def _frames_of_box(lines: Sequence[str], width: int) -> Iterator[str]:
    """Yield frames and their source lines; a text too long for a line continues in the next."""
    place, full = "", False
    for line in lines:
        if mark := _BOX_CODE.match(line):
            code = line[mark.end() :].lstrip("│ ")
            yield f"    {_BOX_LOCALS.split(code, maxsplit=1)[0]}"
        if not line or line.startswith(("  ", "│", "|", "❱", "╭", "╰", "\\u2771")):
            place = ""
            continue
        text = line.strip()
        cut = full and not text.startswith("in ") and not place.endswith(" in")  # within a word
        place = f"{place}{'' if cut or not place else ' '}{text}"
        full = len(line) >= width - 1
        frame = _BOX_FRAME.match(place)
        if frame and frame.group(3):
            yield f'  File "{frame.group(1)}", line {frame.group(2)}, in {frame.group(3)}'
        elif frame and line.startswith(" ") and not full:  # a syntax error has a box of its own
            yield f'  File "{frame.group(1)}", line {frame.group(2)}'


def _dedented(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines, with tracebacks that were indented as a whole moved back."""
    base = 0
    opened = False  # a traceback's exception is still to come
    for at, line in enumerate(lines):
        if user := _USER_CODE.match(line):
            base = _indent(_next_text(lines, at))
            if not (opened and user.group(1)):
                yield _HEADER
            opened = True
            continue
        if HEADER.search(line):
            frame = _FRAME.match(_next_text(lines, at))
            alone = line.lstrip().startswith("Traceback")
            base = len(frame.group(1)) if frame else _indent(line) if alone else 0
            opened = True
        elif line.strip() and not line.startswith(" " * base):
            base = 0
        bare = line[base:].rstrip() if base and line.startswith(" " * base) else line
        opened = opened and (not bare or bare[0].isspace() or bool(HEADER.search(bare)))
        yield bare


def _next_text(lines: Sequence[str], at: int) -> str:
    return next((line for line in lines[at + 1 : at + 4] if line.strip()), "")


def _of_pytest(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines, with the failures that pytest reports as Python would have printed them."""
    inside = other = headed = False  # in a report; in what a test printed; below a header
    said = code = ""  # what was raised, and the line of code, where they precede their place
    for line in lines:
        if _PYTEST_TOP.match(line) or (inside and _PYTEST_TITLE.match(line)):
            inside, other, headed, said, code = True, False, False, "", ""
        elif not inside:
            yield line
        elif (place := _PYTEST_PLACE.match(line)) and (place["said"] or not other):
            said = place["said"] or (said if code else "")
            yield from [] if headed else [_HEADER]
            yield _frame(place["path"], place["line"], place["function"])
            yield from [f"    {code}"] if code else []
            yield from [_raised(said, place["error"])] if place["error"] else []
            headed, code = not place["error"], ""
        elif other:
            inside = not _PYTEST_END.match(line)
            yield line
        elif raised := _PYTEST_RAISED.match(line):
            said = said or raised["said"]
            if headed and not code:
                yield _raised(said, "AssertionError" if said.startswith("assert ") else "")
                headed = False
        elif marked := _PYTEST_LINE.match(line):
            said, code = "", marked["code"]
        else:
            inside = not _PYTEST_END.match(line)
            other = bool(HEADER.search(line) or _PYTEST_OTHER.match(line))
            yield line


def _raised(said: str, name: str) -> str:
    """Return an exception's line from its text and the last part of its name, "" if unknown."""
    said = said.removeprefix(": ")
    known = not name or re.match(rf"(?:[\w.]+\.)?{re.escape(name)}(?:: |:?$)", said)
    return said if known else f"{name}: {said}" if said else name


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _rewritten(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines, with frames of IPython, loguru and others rewritten as Python's."""
    before = ""  # the last line that is not blank
    pending: re.Match[str] | None = None  # a frame whose line number follows
    pretty = False
    for line, following in _with_next(lines):
        pretty = pretty or bool(_PRETTY_RULE.match(line) and _PRETTY_FRAME.match(following))
        if _IPYTHON_TOP.match(line) or (pretty and _PRETTY_RULE.match(line)):
            yield _HEADER
        elif (frame := _IPYTHON_7_FRAME.match(line)) and _NUMBERED.match(following):
            pending = frame
        elif arrow := _ARROW.match(line):
            if pending:
                yield _frame(pending["path"], arrow[1], pending["function"])
            pending = None
            yield f"    {arrow[2]}"
        elif _FLUSH_FRAME.match(line) and _NUMBERED.match(following):
            yield from [] if before[:1].isspace() else [_HEADER]
            yield f"  {line}"
        elif frame := next((found for one in _FRAMES if (found := one.match(line))), None):
            yield _frame(frame["path"], frame["line"], frame["function"] or "<module>")
        elif pretty and (frame := _PRETTY_FRAME.match(line)):
            yield _frame(frame["path"], frame["line"], frame["function"])
        elif pretty and _PRETTY_FRAME.match(before):
            yield f"    {line}"
        else:
            pretty = pretty and not line.strip()
            yield line
        before = line if line.strip() else before


def _frame(path: str, line: str, function: str | None) -> str:
    name = (function or "").strip().rpartition(".")[2]
    return f'  File "{path}", line {line}' + (f", in {name}" if name else "")


def _with_next(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    held: str | None = None
    for line in lines:
        if held is not None:
            yield held, line
        held = line
    if held is not None:
        yield held, ""


# A log's lines as one program would have printed them: colours and launchers' labels removed.
#
# Launchers write a label before each line: `0: ` (srun), `[1,0]<stderr>:` (mpirun), `[rank0]: `
# (torchrun), `(pid=12) ` (Ray), a time. There are too many to list, so a label is any text that
# precedes a traceback's frame and other lines, too; digits in it may differ.

MAX_LINE = 4000  # characters; candidate code may print lines that take long to match
_MAX_LABEL = 120
_MAX_LABELS = 20  # kinds of labels in one log

_NEWLINE = re.compile(r"\r\n|\r|\n")
# Colours, cursor moves and links.
_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_QUOTED = re.compile(r"Traceback \(most recent call last\):\\n")  # printed by repr or as JSON
_QUOTE = re.compile(r"\(most recent call (?:last|first)\)")
_RAY_REPEATED = re.compile(r" \[repeated [0-9]+x across cluster\].*$")

# What a frame looks like after a label: Python's, loguru's, IPython's, and others'.
_FRAME_LINE = re.compile(
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

    Lines are grouped by rank. The rank that failed first comes after all others, because most
    others only report that it was gone. Lines without a rank's label come first, or last if they
    report a later failure.
    """
    lines = list(_short(log))
    label = _label(lines)
    return in_python_layout(_by_rank(lines, label) if label else lines)


def split(text: str) -> list[str]:
    """Return the lines of a text, whatever its line endings."""
    return _NEWLINE.split(text)


def _short(log: str) -> Iterator[str]:
    """Yield the lines without terminal control sequences, cut to MAX_LINE characters."""
    for raw in _NEWLINE.split(log):
        for line in _unquoted(raw):
            yield _RAY_REPEATED.sub("", _TERMINAL.sub("", line[:MAX_LINE])).rstrip()


def _unquoted(line: str) -> list[str]:
    """Return the lines of a traceback that was quoted in one line, or else the line itself."""
    if line.startswith("{") and (texts := _in_json(line)):
        return texts
    if not _QUOTED.search(line):
        return [line]
    return line.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'").split("\n")


def _in_json(line: str) -> list[str]:
    """Return the lines of a traceback in a logger's JSON record or in Docker's log."""
    try:
        record = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        return []
    texts = [text for text in record.values() if isinstance(text, str) and _QUOTE.search(text)]
    if not texts and isinstance(record.get("log"), str):
        texts = [record["log"].removesuffix("\n")]
    return [part for text in texts for part in text.split("\n")]


def _label(lines: Sequence[str]) -> re.Pattern[str] | None:
    """Return a pattern for the labels that a launcher or a logger wrote before lines."""
    kinds: dict[str, int] = {}  # with the fewest blanks that follow each: frames may be indented
    for line in lines:
        if not any(mark in line for mark in ("File ", "Traceback", "<module>")):  # most lines
            continue
        found = _FRAME_LINE.search(line, 0, _MAX_LABEL + 400) or BOX_TOP.search(line)
        label = _MARGIN.sub("", line[: found.start()]) if found else ""
        if label.strip() and len(label) <= _MAX_LABEL and len(kinds) < _MAX_LABELS:
            bare = label.rstrip()
            kind = _pattern(bare)
            kinds[kind] = min(len(label) - len(bare), kinds.get(kind, _MAX_LABEL))
    # Editors and loggers drop the blanks if nothing follows them.
    known = [
        kind + (rf"(?:[ \t]{{{blanks}}}|\s*$)" if blanks else "") for kind, blanks in kinds.items()
    ]
    real = [kind for kind in known if sum(1 for line in lines if re.match(kind, line)) > 1]
    return re.compile("|".join(sorted(real, key=len, reverse=True))) if real else None


def _pattern(label: str) -> str:
    """Return a pattern for labels that differ from this one only in a rank's or time's digits."""
    parts, done = [], 0
    for found in _VARIES.finditer(label):
        parts += [re.escape(label[done : found.start()]), _CLOCK if found[1] else r"\d+"]
        done = found.end()
    return "".join([*parts, re.escape(label[done:])])


def _by_rank(lines: Sequence[str], label: re.Pattern[str]) -> list[str]:
    marks = [label.match(line) for line in lines]
    ranks = [_TIMES.sub("", mark.group()).rstrip() if mark else "" for mark in marks]
    seen = Counter(ranks)  # a label that no two lines share numbers a line, not a rank
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
