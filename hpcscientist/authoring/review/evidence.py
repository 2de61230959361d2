"""Evidence: the lines that a reviewer names for a claim are looked at, not believed.

A reviewer reads code by strangers, and may be mistaken or talked into something. So a claim that
a concept is carried out counts only if the lines that it names are there, hold code that runs,
and are not the reference's own. What they mean, only the reviewer can say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from hpcscientist.authoring.review.source import code_lines, difference, shown_lines
from hpcscientist.models.prompting.citing import found_ids
from hpcscientist.models.prompting.quoting import line
from hpcscientist.records.experiment import ConceptCheck

MOST = 150  # lines; more of them show nothing in particular
_REMARK = 500  # characters
_NAME = 200


class Evidence:
    """The code of an attempt beside the reference's; `idle` are lines that never run, by file."""

    def __init__(
        self,
        files: Mapping[str, str],
        reference: Mapping[str, str],
        idle: Mapping[str, frozenset[int]],
    ) -> None:
        self._length = {name: len(shown_lines(text)) for name, text in files.items()}
        self._code = {name: code_lines(name, text) for name, text in files.items()}
        self._idle = idle
        before = {name: code_lines(name, text) for name, text in reference.items()}
        self._difference = {
            name: difference(name, code, before) for name, code in self._code.items()
        }

    def new(self, name: str) -> frozenset[int]:
        """Return the numbers of the lines of code of a file that the reference lacks."""
        return self._difference[name].new

    def verify(self, check: ConceptCheck, own: bool = False) -> ConceptCheck:
        """Return a claim as far as its evidence holds.

        What is said to be missing is missing. Lines that all stand unchanged in the reference
        make it missing, too, unless the concept is the reference's `own`; lines that cannot be
        found, hold no code or never run make it partial at best. The remark says why. The place
        stays where the file has it, so that whoever reads it can look there.
        """
        place = self._place(check)
        update: dict[str, object] = {"remark": line(check.remark, _REMARK) or "nothing was said"}
        file, first, last = place if not isinstance(place, str) else (None, None, None)
        update |= {"file": file, "first": first, "last": last}
        if check.state != "missing":
            state, fault = self._state(check, place, own)
            update["state"] = state
            if fault:
                update["remark"] = f"not shown, for {fault}; said of it: {update['remark']}"
        return check.model_copy(update=update)

    def _state(
        self, check: ConceptCheck, place: tuple[str, int, int] | str, own: bool
    ) -> tuple[str, str]:
        """Return the state that a claim comes to, and what is wrong with its evidence, or ""."""
        if isinstance(place, str):
            return "partial", place
        file, first, last = place
        span = frozenset(range(first, last + 1))
        code = span & self._code[file].keys()
        differs = self._difference[file]
        if last - first >= MOST:
            return "partial", f"more than {MOST} lines of {file} are named"
        if not code:
            return "partial", f"{_place(place)} hold no code"
        if not own and not span & (differs.new | differs.cut):
            return "missing", f"{_place(place)} are the reference's, unchanged"
        if code <= self._idle.get(file, frozenset()):
            return "partial", f"{_place(place)} never run"
        return check.state, ""

    def _place(self, check: ConceptCheck) -> tuple[str, int, int] | str:
        """Return file, first and last line as they are named, or what is wrong with them."""
        if check.file is None or check.first is None:
            return "no lines are named"
        file = self._file(check.file)
        if file is None:
            return f"there is no file {line(check.file, _NAME)!r}"
        last = check.first if check.last is None else check.last
        if last < check.first:
            return f"the lines {check.first} to {last} run backwards"
        if last > self._length[file]:
            return f"{file} ends at line {self._length[file]}, and line {last} is named"
        return file, check.first, last

    def _file(self, named: str) -> str | None:
        """Return the file that is meant: models add `./`, a folder above, or quotation marks."""
        found = found_ids((named, named.strip(" `'\"").removeprefix("./")), self._code)
        if found:
            return found[0]
        tail = PurePosixPath(named.strip(" `'\"")).parts
        ends = [n for n in self._code if PurePosixPath(n).parts == tail[-len(n.split("/")) :]]
        return ends[0] if len(ends) == 1 else None


def _place(place: tuple[str, int, int]) -> str:
    file, first, last = place
    return f"lines {first} to {last} of {file}"
