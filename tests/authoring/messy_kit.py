"""Reads the corpus of messy edits: `messy/*.txt`, with the sources `messy/*.py.txt`.

A case begins with `@@ case KIND SOURCE`. Its parts follow: `@@ search` (or `@@ whole` for a
whole file), `@@ replace`, and what is right: `@@ refused`, or pairs of `@@ old` and `@@ new`, each
of which replaces the only occurrence of whole lines in the source. An arrow stands for a tab,
an open box for a space at the end of a line, the sign CR for a carriage return; `@@@` begins a line
of a diff.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "messy"
PARTS = ("search", "whole", "replace", "old", "new", "refused")
_SIGNS = {"→": "\t", "␣": " ", "␍": "\r"}


@dataclass
class Case:
    """An edit as a model wrote it. `right` is the file afterwards; None: must be refused."""

    name: str
    kind: str
    source: str
    parts: list[tuple[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return (FOLDER / f"{self.source}.txt").read_text(encoding="utf-8")

    @property
    def search(self) -> str | None:
        return next((part for kind, part in self.parts if kind == "search"), None)

    @property
    def replace(self) -> str:
        return next(part for kind, part in self.parts if kind in ("replace", "whole"))

    @property
    def right(self) -> str | None:
        kinds = [kind for kind, _ in self.parts]
        if "refused" in kinds:
            return None
        text = "\n" + self.text
        told = [part for kind, part in self.parts if kind in ("old", "new")]
        assert told and len(told) % 2 == 0, self.name
        for old, new in zip(told[::2], told[1::2], strict=True):
            assert text.count(f"\n{old}\n") == 1, f"{self.name}: {old!r} must stand once"
            text = text.replace(f"\n{old}\n", f"\n{new}\n" if new else "\n")
        assert text[1:] != self.text, self.name
        return text[1:]


def cases() -> list[Case]:
    """Return all cases, in order."""
    found: list[Case] = []
    for path in sorted(FOLDER.glob("*.txt")):
        if not path.name.endswith(".py.txt"):
            found += _read(path)
    return found


def _read(path: Path) -> list[Case]:
    found: list[Case] = []
    lines: list[str] = []
    text = path.read_text(encoding="utf-8").rstrip("\n")
    for number, raw in enumerate(text.split("\n"), 1):
        if raw.startswith("@@ case "):
            _, _, kind, source = raw.split()
            found.append(Case(f"{path.name}:{number} {kind}", kind, source))
        elif raw.startswith("@@ ") and raw[3:].strip() in PARTS:
            lines = []
            found[-1].parts.append((raw[3:].strip(), ""))
        elif found and found[-1].parts:
            line = raw.removeprefix("@") if raw.startswith("@@@") else raw
            for sign, character in _SIGNS.items():
                line = line.replace(sign, character)
            lines.append(line)
            found[-1].parts[-1] = (found[-1].parts[-1][0], "\n".join(lines))
    return found
