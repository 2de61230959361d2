"""Changes of a sound recipe: each says in a line what is odd, so that a case can be told."""

from __future__ import annotations

import functools
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st
from odd_parts import Part, parts, rewritten
from odd_values import BYTES, JSON_VALUES, ODD_FILES, ODD_NAMES, REWRITTEN, TOML_VALUES
from try_out import ground

from hpcscientist.recipe.create import create

NAME = "moons"
FILES = (
    *("recipe.toml", "recipe.toml", "playbook.jsonl", "seed_ideas.json"),
    *("score.py", "prepare.py", "reference/experiment.py"),
)
_SCALAR = re.compile(r"^(\w+) = (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Odd:
    """Another kind of file lies there."""

    file: str
    kind: str

    def make(self, recipe: Path) -> None:
        path = recipe / self.file
        if not path.parent.is_dir():
            return
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        ODD_FILES[self.kind](path)


@dataclass(frozen=True)
class Saved:
    """The whole file was saved by another program."""

    file: str
    how: str

    def make(self, recipe: Path) -> None:
        content = _content(recipe / self.file)
        if content is not None:
            (recipe / self.file).write_bytes(REWRITTEN[self.how](content))


@dataclass(frozen=True)
class Instead:
    """A text, the first of its kind in the file, is another."""

    file: str
    old: str
    new: str

    def make(self, recipe: Path) -> None:
        content = _content(recipe / self.file)
        if content is not None:
            new = content.replace(self.old.encode(), self.new.encode(), 1)
            (recipe / self.file).write_bytes(new)


@dataclass(frozen=True)
class Bytes:
    """Bytes from `start` up to `end` (None: all that follow) are others."""

    file: str
    start: int
    end: int | None
    put: bytes

    def make(self, recipe: Path) -> None:
        content = _content(recipe / self.file)
        if content is not None:
            rest = b"" if self.end is None else content[self.end :]
            (recipe / self.file).write_bytes(content[: self.start] + self.put + rest)


@dataclass(frozen=True)
class Line:
    """Parts of the JSON in one line of a file are others; `line` None: of the whole file."""

    file: str
    line: int | None
    parts: tuple[Part, ...]

    def make(self, recipe: Path) -> None:
        content = _content(recipe / self.file)
        if content is None:
            return
        lines = content.decode("utf-8", "replace").split("\n")
        whole = ["\n".join(lines)] if self.line is None else lines
        at = (self.line or 0) % len(whole)
        whole[at] = rewritten(whole[at], self.parts)
        (recipe / self.file).write_text("\n".join(whole), "utf-8", "surrogatepass")


Change = Odd | Saved | Instead | Bytes | Line


def _content(path: Path) -> bytes | None:
    """What is in a file that was not changed into another kind."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > 10**7:
        return None
    return path.read_bytes()


@functools.cache
def sound() -> dict[str, str]:
    """The files of a sound recipe."""
    with ground() as folder:
        made = create(NAME, folder)
        return {name: (made / name).read_text() for name in sorted(set(FILES))}


@st.composite
def changes(draw: st.DrawFn) -> Change:
    """One change of a sound recipe."""
    file = draw(st.sampled_from(FILES))
    how = draw(st.sampled_from(("value",) * 6 + ("odd", "odd", "saved", "bytes", "bytes", "more")))
    if how == "odd":
        other = st.sampled_from((*FILES, "plot.py", "library", "reference", "README.md"))
        return Odd(draw(other), draw(st.sampled_from(sorted(ODD_FILES))))
    if how == "more":
        folder = draw(st.sampled_from(("", "reference/", "library/")))
        kind = draw(st.sampled_from(("empty", "empty", *sorted(ODD_FILES))))
        return Odd(folder + draw(st.sampled_from(ODD_NAMES)), kind)
    if how == "saved":
        return Saved(file, draw(st.sampled_from(sorted(REWRITTEN))))
    text = sound()[file]
    if how == "value" and file == "recipe.toml":
        return draw(_values(text))
    if how == "value" and not file.endswith(".py"):
        by_line = file.endswith(".jsonl")
        number = draw(st.integers(0, text.count("\n") - 1)) if by_line else None
        line = text if number is None else text.split("\n")[number]
        return Line(file, number, draw(parts(line, JSON_VALUES)))
    start = draw(st.integers(0, len(text)))
    end = draw(st.one_of(st.none(), st.integers(start, min(len(text), start + 200))))
    return Bytes(file, start, end, draw(BYTES))


@st.composite
def _values(draw: st.DrawFn, text: str) -> Instead:
    """A key's value in TOML is another, gone, or given twice."""
    place = draw(st.sampled_from(list(_SCALAR.finditer(text))))
    how = draw(st.sampled_from(("other",) * 4 + ("gone", "twice", "beside")))
    other = f"{place[1]} = {draw(TOML_VALUES)}"
    dotted = "a" + ".a" * 3_000
    beside = draw(st.sampled_from((dotted, "more", '""', "a.b.c", '"\\u202e"')))
    new = {
        "other": other,
        "gone": "",
        "twice": f"{place[0]}\n{place[0]}",
        "beside": f"{place[0]}\n{beside} = 1",
    }[how]
    # The line before it tells it from others of the same words.
    before = text.rfind("\n", 0, max(0, place.start() - 1)) + 1
    return Instead("recipe.toml", text[before : place.end()], text[before : place.start()] + new)
