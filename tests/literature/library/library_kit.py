"""Sources for libraries, and what is in a library's folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpcscientist.literature.library.store import open_store
from hpcscientist.records.literature import Paper, Symbol

CHILD = Path(__file__).with_name("library_build_child.py")
CODE = '''
def forward(x):
    """Return twice x."""
    return 2 * x


class Net:
    def step(self, x):
        return forward(x)
'''


def write_abstracts(path: Path, count: int, start: int = 0, words: int = 30) -> Path:
    """Write arXiv metadata of papers `start` and following."""
    with path.open("w") as file:
        for number in range(start, start + count):
            record = {
                "id": arxiv_id(number),
                "title": title(number),
                "abstract": " ".join(f"word{number * k % 997}" for k in range(words)),
                "authors": "Ada Lovelace",
                "authors_parsed": [["Lovelace", "Ada", ""]],
                "categories": "cs.LG",
                "versions": [{"version": "v1", "created": "Mon, 2 Jan 2017 00:00:00 GMT"}],
            }
            file.write(json.dumps(record) + "\n")
    return path


def arxiv_id(number: int) -> str:
    return f"17{1 + number // 100_000:02d}.{number % 100_000:05d}"


def title(number: int) -> str:
    return f"On the convergence of method number {number} under constraints"


def write_bib(path: Path, entries: Mapping[str, Mapping[str, str]]) -> Path:
    """Write a BibTeX file of articles: key to fields."""
    texts = []
    for key, fields in entries.items():
        lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
        texts.append(f"@article{{{key},\n{lines}}}\n")
    path.write_text("\n".join(texts))
    return path


def article(name: str, year: int = 2019, **more: str) -> dict[str, str]:
    return {"title": name, "author": "Lovelace, Ada", "year": str(year), **more}


def write_code(folder: Path) -> Path:
    """Write a small repository of three symbols."""
    folder.mkdir(parents=True)
    (folder / "setup.py").write_text("")
    (folder / "net.py").write_text(CODE)
    return folder


def papers(library: Path) -> dict[str, Paper]:
    return {paper.paper_id: paper for _, paper in open_store(library).papers()}


def titles(library: Path) -> list[str]:
    return [paper.title for _, paper in open_store(library).papers()]


def symbols(library: Path) -> list[Symbol]:
    return [symbol for _, symbol in open_store(library).symbols()]


def tree(library: Path) -> dict[str, bytes]:
    """Return every file of a library but those of its lock."""
    return {
        file.relative_to(library).as_posix(): file.read_bytes()
        for file in sorted(library.rglob("*"))
        if file.is_file() and ".builder" not in file.parts
    }


def build_process(
    inputs: Sequence[Path],
    out: Path,
    *,
    kill_at: int = 0,
    part_rows: int = 8192,
    jobs: int = 0,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Start a build in a process that kills itself before its `kill_at`th file counts.

    `jobs` 0: it reads by itself.
    """
    return subprocess.Popen(
        [sys.executable, str(CHILD), str(kill_at), str(part_rows), str(jobs), str(out)]
        + [str(path) for path in inputs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
