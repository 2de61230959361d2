"""A library that is built again and again, while another process has it open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from index_kit import CODE, made, write_sources, write_works

from hpcscientist.errors import LibraryError
from hpcscientist.literature.index.search import open_library
from hpcscientist.literature.index.update import LibraryIndex
from hpcscientist.literature.library import parts
from hpcscientist.literature.library.build import BuildOptions, build
from hpcscientist.literature.library.paths import LibraryPaths

# Opens a library, waits until it is told to, and only then looks for the first time.
READER = """
import sys
from pathlib import Path
from hpcscientist.errors import LibraryError
from hpcscientist.literature.index.search import open_library
import json

library = open_library(Path(sys.argv[1]))
print("open", flush=True)
looks = {
    "keyword": lambda: [h.title for h in library.search("networks of roots", 9, "keyword")],
    "embedding": lambda: [h.title for h in library.search("networks of roots", 9, "embedding")],
    "paper": lambda: library.paper("openalex:W1003").abstract,
    "formulas": lambda: [h.formula.text for h in library.formulas("cross entropy")],
    "symbols": lambda: [h.symbol.code for h in library.symbols("attention")],
    "suggest": lambda: list(library.suggest("netwroks")),
}
for line in sys.stdin:
    found = {}
    for name, look in looks.items():
        try:
            found[name] = look()
        except LibraryError as error:
            found[name] = f"LibraryError: {error}"
    print(json.dumps(found), flush=True)
"""


class Reader:
    """A process that has a library open."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def look(self) -> dict[str, Any]:
        """Have it look for everything, and return what it finds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("look\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


@contextmanager
def reader(library: Path) -> Iterator[Reader]:
    process = subprocess.Popen(
        [sys.executable, "-c", READER, str(library)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield Reader(process)
        assert process.stdin is not None
        process.stdin.close()


def write_all(folder: Path, edition: int) -> list[Path]:
    """Write papers, an article and a repository, all other ones than in any edition before."""
    subjects = ("roots", "leaves", "rivers", "stones")
    texts = [
        (f"Networks of {subjects[n % 4]} number {n}", f"We study {subjects[n % 4]} {n} {edition}.")
        for n in range(40)
    ]
    works = write_works(folder / "works.jsonl", texts)
    article, repository = folder / "article", folder / "repo"
    if not article.exists():
        write_sources(folder)
    with (article / "main.tex").open("a") as file:
        file.write(f"% edition {edition}\n")
    (repository / "layers.py").write_text(f"{CODE}\n# edition {edition}\nEDITION = {edition}\n")
    return [works, article, repository]


def age(library: Path, days: float) -> None:
    """Let what was replaced be replaced for some days."""
    for record in (library / "superseded").iterdir():
        then = record.stat().st_mtime - days * 86_400
        os.utime(record, (then, then))


@pytest.mark.full
def test_who_has_a_library_open_goes_on_however_often_it_is_built(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made(write_all(tmp_path, 0), out)
    with reader(out) as fresh:
        expected = fresh.look()
    assert all(expected.values()), expected
    with reader(out) as opened:
        before = {path.name for path in (out / "papers").iterdir()}
        for edition in (1, 2, 3):
            made(write_all(tmp_path, edition), out)
        assert before < {path.name for path in (out / "papers").iterdir()}
        assert opened.look() == expected
    with reader(out) as fresh:
        assert fresh.look()["paper"] == "We study stones 3 3."


@pytest.mark.full
def test_what_was_replaced_is_given_back_after_a_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made(write_all(tmp_path, 0), out)
    with reader(out) as opened:
        first = files(out)
        made(write_all(tmp_path, 1), out)
        assert first < files(out)
        age(out, parts.DAYS + 1)
        made(write_all(tmp_path, 2), out)
        assert not list((out / "papers").glob("part-000001.arrow"))
        # What is open is told in one line that it was replaced, and what to do.
        found = opened.look()
        told = {name: str(text) for name, text in found.items() if name in ("paper", "embedding")}
        for text in told.values():
            assert f"{out}: was built" in text, found
            assert "`hpcsci resume`" in text
    assert open_library(out).paper("openalex:W1003")


@pytest.mark.full
def test_space_is_given_back_at_once_where_that_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for edition in range(3):
        made(write_all(tmp_path, edition), out)
    current = open_library(out)
    sources = write_all(tmp_path, 3)
    build(sources, out, jobs=1, options=BuildOptions(sweep=True), index=LibraryIndex())
    # Of two editions alone: the one of now, and the one of when this build began.
    assert len(list((out / "papers").glob("shown-*.arrow"))) == 2
    assert len(list((out / "index").glob("keyword-*"))) == 2
    assert len(list((out / "index").glob("latent-*"))) == 2
    assert current.search("networks of roots", 3)
    build(sources, out, jobs=1, options=BuildOptions(sweep=True), index=LibraryIndex())
    assert len(list((out / "papers").glob("shown-*.arrow"))) == 1
    assert len(list((out / "index").glob("keyword-*"))) == 1
    assert not list((out / "superseded").iterdir())
    assert open_library(out).search("networks of roots", 3)


def test_content_that_comes_back_is_not_learnt_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    one = write_works(tmp_path / "a", [(f"On trees number {n}", "Leaves.") for n in range(9)])
    other = write_works(tmp_path / "b", [("On rivers", "Water.")], start=50)
    made([one], out)
    opened = open_library(out)
    card = next((out / "index").glob("latent-*")) / "latent.json"
    inode = card.stat().st_ino
    made([one, other], out)
    made([one], out, prune=True)
    assert card.stat().st_ino == inode
    assert opened.search("trees", 3, "embedding") == open_library(out).search(
        "trees", 3, "embedding"
    )


def test_damage_to_the_current_edition_is_still_damage(tmp_path: Path) -> None:
    out = tmp_path / "out"
    library = made(write_all(tmp_path, 0), out)
    for part in (out / "papers").glob("part-*.arrow"):
        part.unlink()
    with pytest.raises(LibraryError, match="damaged"):
        library.paper("openalex:W1003")


def test_a_damaged_record_keeps_nothing_and_stops_nothing(tmp_path: Path) -> None:
    paths = LibraryPaths(tmp_path)
    parts.retire(paths, ["papers/a", "papers/b"])
    parts.retire(paths, ["papers/b", "papers/a"])
    (record,) = paths.superseded.iterdir()
    assert parts.kept(paths) == {"papers/a", "papers/b"}
    (paths.superseded / "x.json").write_text("{")
    (paths.superseded / "y.json").write_text("5")
    assert parts.kept(paths) == {"papers/a", "papers/b"}
    os.utime(record, (0, 0))
    assert parts.kept(paths) == set()
    assert not record.exists()


def files(library: Path) -> set[str]:
    return {
        path.relative_to(library).as_posix()
        for folder in ("papers", "symbols", "index")
        for path in (library / folder).rglob("*")
        if path.is_file() and path.name != "index.json"
    }
