"""What the real Slurm answered in a case, as plain text: one file a case below recorded/.

    # Slurm 22.05.8
    == NAME                  a section: what was so from one look at the queue to the next
    $ COMMAND LINE
    < a line of sbatch's script that begins with #SBATCH
    > a line of standard output
    ! a line of standard error
    exit STATUS              where it is not 0

Numbers, names and times that differ from one recording to the next are replaced: JOB1 is the first
array that was submitted, BATCH1 its batch, OTHER1 somebody else's job, TIME seconds since the
epoch. In the tables of squeue and sacct a bar stands for the separator.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from command_server import Answer

FOLDER = Path(__file__).with_name("recorded")
SEPARATOR, BAR = "\x1f", "|"
SLURM_VERSION = "Slurm "

# Whichever of these a waiting array task shows depends on the moment.
_ANY_WAIT = re.compile(r"\|(None|Priority|Resources|BeginTime|Cleaning|JobArrayTaskLimit)\|")
# What each cluster has of its own, and no recording is about.
_OWN = re.compile(
    r"(TotalNodes|TotalCPUs|MaxTime|MaxJobCount)( *= ?)\S+|(?<=\|)n\d+(?=\|)|host:\S+|port \d+"
    r"|by (UID|\d+)"
)
# What accounting tells of a task: number, state, exit status, node; its job's name and comment come
# later than the rest, and of an array whose end it heard of before its start it has but one row.
_TOLD = re.compile(r"^(JOB\d+|OTHER\d+)[^|]*\|([A-Z_]+)[^|]*\|([^|]*)\|([^|]*)\|.*")
_NOT_ENDED = ("PENDING", "RUNNING", "REQUEUED", "SUSPENDED")
# How an array may be seen before the look that shows it.
_BEGINS = ("PENDING", "CONFIGURING", "RUNNING")


_NOTHING = Answer()


@dataclass(frozen=True, slots=True)
class Said:
    """A command line, the script's options where there are some, and its answer: all normalised."""

    command: str
    options: tuple[str, ...] = ()
    answer: Answer = _NOTHING

    @property
    def program(self) -> str:
        """The first word."""
        return self.command.partition(" ")[0]

    def text(self) -> str:
        """As it is written."""
        lines = [f"$ {self.command}"]
        lines += [f"< {one}" for one in self.options]
        lines += [f"> {one}".rstrip() for one in self.answer.out.splitlines()]
        lines += [f"! {one}".rstrip() for one in self.answer.err.splitlines()]
        return "\n".join([*lines, *([f"exit {self.answer.code}"] if self.answer.code else [])])


@dataclass(slots=True)
class Section:
    """What was so from one look to the next."""

    name: str
    said: list[Said] = field(default_factory=list)

    def of(self, program: str) -> list[Said]:
        """What one command answered."""
        return [one for one in self.said if one.program == program]


@dataclass(slots=True)
class Recording:
    """A case's answers. `notes`: the head of the file, without its #."""

    notes: list[str] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    @property
    def by_hand(self) -> bool:
        """Whether no real Slurm answered so: written from its documentation."""
        return any(note.startswith("By hand") for note in self.notes)

    def text(self) -> str:
        """As it is written."""
        parts = ["\n".join(f"# {note}" for note in self.notes)]
        for section in self.sections:
            parts += [f"\n== {section.name}", *(one.text() for one in section.said)]
        return "\n".join(parts) + "\n"


def path_of(case: str) -> Path:
    """Where a case's recording lies."""
    return FOLDER / f"{case}.txt"


def read(case: str) -> Recording:
    """Return a case's recording."""
    found = Recording()
    said: list[str] = []

    def end() -> None:
        if said:
            found.sections[-1].said.append(_said(said))
            said.clear()

    for line in path_of(case).read_text().splitlines():
        if line.startswith("# "):
            found.notes.append(line[2:])
        elif line.startswith("== "):
            end()
            found.sections.append(Section(line[3:]))
        elif line.startswith("$ "):
            end()
            said.append(line)
        elif line:
            said.append(line)
    end()
    return found


def _said(lines: list[str]) -> Said:
    def marked(mark: str) -> list[str]:
        return [one[2:] for one in lines[1:] if one[:1] == mark]

    def text(mark: str) -> str:
        return "".join(f"{one}\n" for one in marked(mark))

    codes = [int(one.split()[1]) for one in lines if one.startswith("exit ")]
    return Said(
        lines[0][2:], tuple(marked("<")), Answer(codes[0] if codes else 0, text(">"), text("!"))
    )


class Names:
    """What stands for the numbers and names of one run of a case, both ways."""

    def __init__(self, fixed: Mapping[str, str]) -> None:
        self._symbols = dict(fixed)
        self._unknown = 900000

    def add(self, kind: str, value: str) -> str:
        """Give a value the next symbol of its kind."""
        if value not in self._symbols:
            count = sum(symbol.rstrip("0123456789") == kind for symbol in self._symbols.values())
            self._symbols[value] = f"{kind}{count + 1}"
        return self._symbols[value]

    def value(self, symbol: str) -> str | None:
        """What a symbol stands for."""
        return next((value for value, one in self._symbols.items() if one == symbol), None)

    def known(self, value: str) -> bool:
        """Whether a symbol stands for it."""
        return value in self._symbols

    def hide(self, text: str) -> str:
        """Return a text with symbols instead."""
        for value in sorted(self._symbols, key=len, reverse=True):
            if value:
                text = re.sub(
                    rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])",
                    self._symbols[value].replace("\\", "\\\\"),
                    text,
                )
        return re.sub(r"\b1[6-9]\d{8}\b", "TIME", text).replace(SEPARATOR, BAR)

    def show(self, text: str) -> str:
        """Return a text with what the symbols stand for."""
        for value, symbol in sorted(self._symbols.items(), key=lambda one: -len(one[1])):
            text = re.sub(rf"(?<![A-Z]){symbol}(?![A-Z0-9])", value.replace("\\", "\\\\"), text)
        text = re.sub(r"\bTIME\b", "1700000000", text)
        while "ELEMENT" in text:
            self._unknown += 1
            text = text.replace("ELEMENT", str(self._unknown), 1)
        return text


def difference(recorded: Recording, seen: Recording) -> str | None:
    """Say where a recording is no longer true; None if it is."""
    old, new = ([section.name for section in one.sections] for one in (recorded, seen))
    if old != new:
        return f"the looks are {new}, and were {old}"
    for k, now in enumerate(seen.sections):
        later = {row for one in recorded.sections[k:] for row in _rows(one.of("squeue"))}
        said = _queue_differs(recorded.sections[k].of("squeue"), now.of("squeue"), later)
        said = said or _accounts_differ(recorded, now)
        if said:
            return f"at {now.name!r} {said}"
    others = [
        [one for section in each.sections for one in section.said if one.program not in _TABLES]
        for each in (recorded, seen)
    ]
    return _differ(_distinct(others[0]), _distinct(others[1]))


_TABLES = ("squeue", "sacct")


def _queue_differs(before: list[Said], now: list[Said], later: set[str]) -> str | None:
    """Compare what squeue said: a row of `later` may be there already.

    So may an array of `later` that this look did not show yet: in which state is luck.
    """
    old = _rows(before)
    early = _rows(now) - old
    coming = {_job(row) for row in later} - {_job(row) for row in old}
    if all(row in later or (_job(row) in coming and _state(row) in _BEGINS) for row in early):
        now = [_without(one, early) for one in now]
    return _differ(before, now)


def _job(row: str) -> str:
    return row.partition(BAR)[0]


def _state(row: str) -> str:
    return [*row.split(BAR), "", ""][2]


def _accounts_differ(recorded: Recording, now: Section) -> str | None:
    """Compare what sacct said: it lags, so when a row is there is luck, but not which ones are."""
    said = [one for section in recorded.sections for one in section.of("sacct")]
    known = {row for one in said for row in _told(one)}
    for one in now.of("sacct"):
        for row in _told(one):
            if row not in known:
                return f"sacct tells {row!r}, where were recorded {sorted(known)}"
        if one.answer.code not in {each.answer.code for each in said}:
            return f"sacct ends {one.answer.code}: {one.answer.err.strip()}"
    return None


def _told(said: Said) -> list[str]:
    """What accounting tells of tasks that have ended."""
    rows = [_TOLD.fullmatch(_OWN.sub("_", row)) for row in said.answer.out.splitlines()]
    return ["|".join(row.groups()) for row in rows if row is not None and row[2] not in _NOT_ENDED]


def _rows(said: Iterable[Said]) -> set[str]:
    return {_row(row) for one in said for row in one.answer.out.splitlines()}


def _row(text: str) -> str:
    return _OWN.sub("_", _ANY_WAIT.sub("|-|", text))


def _without(said: Said, rows: set[str]) -> Said:
    kept = "".join(f"{row}\n" for row in said.answer.out.splitlines() if _row(row) not in rows)
    return replace(said, answer=Answer(said.answer.code, kept, said.answer.err))


def _distinct(said: Iterable[Said]) -> list[Said]:
    """Each answer once: how often one asks depends on the moment."""
    return sorted({_comparable(one): one for one in said}.values(), key=lambda one: one.text())


def _differ(before: list[Said], now: list[Said]) -> str | None:
    old, new = ([_comparable(one) for one in each] for each in (before, now))
    for text in new:
        if text not in old:
            program = text.split()[1]
            was = next((one for one in old if one.split()[1] == program), "nothing")
            return f"{program} answers\n{text}\nwhere was recorded\n{was}"
    gone = [text for text in old if text not in new]
    return f"{gone[0].split()[1]} no longer answers\n{gone[0]}" if gone else None


def _comparable(said: Said) -> str:
    lines = sorted(map(_row, said.answer.out.splitlines()))
    errors = "\n".join(_OWN.sub("_", one) for one in said.answer.err.splitlines())
    out = "".join(f"{one}\n" for one in lines)
    return replace(said, answer=Answer(said.answer.code, out, errors)).text()


def words(command: str) -> list[str]:
    """Return the words of a command line."""
    return shlex.split(command)
