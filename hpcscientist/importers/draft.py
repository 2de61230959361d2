"""A recipe under construction: its files, and a report of which parts of the task are used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import tomli_w

from hpcscientist.errors import RecipeError
from hpcscientist.files.handed import parse as parse_toml
from hpcscientist.files.hashing import hash_bytes, hash_named
from hpcscientist.files.text import one_line, parts_of, printable
from hpcscientist.importers.program import Program
from hpcscientist.importers.source import open_source
from hpcscientist.recipe.checks.check import check
from hpcscientist.recipe.checks.files import RECIPE_FILE
from hpcscientist.recipe.create import new_folder

_UNSLUGGED = re.compile(r"[^a-z0-9]+")
_SLOT = re.compile(r"@([A-Z_]+)@")


class Fate(StrEnum):
    """What an import does with a part of a task."""

    MAPS = "maps"  # used as it is
    ADAPTED = "adapted"  # used in another form
    LOST = "lost"  # left out
    WARNING = "warning"  # used, but read this before you trust its numbers
    REFUSED = "refused"  # prevents a recipe


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One line of `--check`: a part of the task, what the import does with it, and why."""

    fate: Fate
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.fate:8} " + printable(one_line(f"{self.what}: {self.why}", None))


@dataclass
class RecipeDraft:
    """A recipe that an importer fills in: `document` becomes recipe.toml, `files` the rest, by
    name.
    """

    folder: Path  # where the recipe will be; its name is the recipe's name
    document: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    lines: list[CheckLine] = field(default_factory=list)
    runs_source: bool = False  # prepare.py runs the task's own code
    withholds: bool = True  # some labels are hidden from candidates
    commands: list[str] = field(default_factory=list)  # commands to run next; they contain {recipe}

    def maps(self, what: str, why: str) -> None:
        """Report a part that is used as it is."""
        self.lines.append(CheckLine(Fate.MAPS, what, why))

    def adapted(self, what: str, why: str) -> None:
        """Report a part that is used in another form."""
        self.lines.append(CheckLine(Fate.ADAPTED, what, why))

    def lost(self, what: str, why: str) -> None:
        """Report a part that is left out."""
        self.lines.append(CheckLine(Fate.LOST, what, why))

    def warn(self, what: str, why: str) -> None:
        """Report what users must know before they trust this recipe's numbers."""
        self.lines.append(CheckLine(Fate.WARNING, what, why))

    def refuse(self, what: str, why: str) -> None:
        """Report why there can be no recipe; more may follow, so that all are reported at once."""
        self.lines.append(CheckLine(Fate.REFUSED, what, why))

    @property
    def refusals(self) -> list[CheckLine]:
        """The lines that prevent a recipe."""
        return [line for line in self.lines if line.fate is Fate.REFUSED]

    def put(self, name: str, content: str | bytes) -> None:
        """Add a file of the recipe."""
        self.files[name] = content.encode() if isinstance(content, str) else content

    def fill(self, name: str, template: str, /, **slots: object) -> None:
        """Add a file made from one of our templates; `slots` are written as Python literals or
        `Code`.
        """
        text = template_text(template)
        self.put(name, _SLOT.sub(lambda slot: _literal(slots[slot[1].lower()]), text))

    def require(self) -> None:
        """Raise RecipeError with the first refusal, if there is one."""
        if refused := self.refusals:
            more = f" (and {len(refused) - 1} more; see --check)" if len(refused) > 1 else ""
            raise RecipeError(f"{refused[0].what}: {refused[0].why}{more}")

    def text(self) -> str:
        """Return recipe.toml."""
        head = (
            "# Written by `hpcsci recipe import`; every field is described in recipes/README.md.\n"
        )
        return head + tomli_w.dumps(
            {"name": self.folder.name, **self.document}, multiline_strings=True
        )

    def write(self, target: Path | None = None) -> None:
        """Write the recipe to a new folder (None: its own), if it passes `hpcsci recipe check`.

        Raises RecipeError, and then leaves no files behind.
        """
        self.require()
        target = target or self.folder
        with new_folder(target) as staging:
            self._write(staging)
            for problem in check(staging):
                place = Path(problem.file).relative_to(staging)
                raise RecipeError(f"{target}: no recipe comes of it: {place}: {problem.message}")

    def _write(self, folder: Path) -> None:
        for name, content in {RECIPE_FILE: self.text().encode(), **self.files}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def hash_of(self, *folders: str) -> str:
        """Return a hash of the files below these folders of the recipe."""
        return hash_named(
            {
                name: hash_bytes(content)
                for name, content in self.files.items()
                if name.partition("/")[0] in folders
            }
        )


class Code(str):
    """A slot value that is inserted as lines of Python."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_TEMPLATES = Path(__file__).parent / "templates"


def template_text(name: str) -> str:
    """Return a script for recipes, or a part of one: a file, or a part of the file `short`."""
    short = parts_of((_TEMPLATES / "short.py.tmpl").read_text("utf-8"))
    return short.get(name) or (_TEMPLATES / f"{name}.py.tmpl").read_text("utf-8")


def slug(text: str) -> str:
    """Return a valid recipe name made from any text."""
    plain = _UNSLUGGED.sub("-", text.lower()).strip("-")
    plain = plain if plain[:1].isalpha() else f"task-{plain}".strip("-")
    return plain[:64].strip("-")


def _literal(value: object) -> str:
    """Return a Python literal; a mapping takes one line per item."""
    if isinstance(value, Mapping) and value:
        rows = "".join(f"    {key!r}: {item!r},\n" for key, item in value.items())
        return f"{{\n{rows}}}"
    return repr(value)


# Bases a recipe on an existing one: its reference, data and scorer.


def base_on(draft: RecipeDraft, recipe: Path) -> None:
    """Copy everything of a recipe except its name. Raises RecipeError."""
    given = open_source(recipe)
    for name in given.sizes:
        if name != RECIPE_FILE:
            draft.put(name, given.data(name))
    draft.document |= parse_toml(given.text(RECIPE_FILE))
    del draft.document["name"]
    draft.withholds = False  # the base recipe's author has searched for label leaks


# Embeds a task's own modules in a script of a recipe, so that the script is a single file.


def with_modules(modules: Mapping[str, str]) -> Code:
    """Return lines of Python that make the modules importable by their names."""
    rows = "".join(f"    {name!r}: {_lines(text)},\n" for name, text in modules.items())
    body = f"{{\n{rows}}}" if rows else "{}"
    return Code(template_text("foreign_modules").replace("@MODULES@", body).rstrip())


def imported_names(program: Program) -> Iterable[tuple[int, str, str]]:
    """Yield the line, module and name of each import; the name is "" for `import module`.

    A module in the program's own package begins with a dot.
    """
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, "." * node.level + (node.module or ""), alias.name


def _lines(text: str) -> str:
    """Return a readable string literal of a text, with one line per line."""
    parts = "".join(f"        {line!r}\n" for line in text.splitlines(keepends=True))
    return f"(\n{parts}    )" if parts else "''"
