"""An index is brought up to date: as from scratch, after any interruption, after damage."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.retrieval.files import write_openalex
from benchmarks.retrieval.labelled import labelled
from index_kit import ids, made, paper_id, quiet, write_sources, write_works

from hpcscientist.config.settings import EmbeddingSettings
from hpcscientist.errors import DiskFull, HpcsciError, LibraryError
from hpcscientist.literature.index import documents, engine, meaning
from hpcscientist.literature.index.search import SearchableLibrary, open_library
from hpcscientist.literature.index.update import LibraryIndex
from hpcscientist.literature.library.build import build
from hpcscientist.literature.library.indexing import BuildStep

PAPERS = labelled(0, 150).papers
QUERIES = ("image classification", "robust networks that translate sentences")
NOBODY = 65534


def write(folder: Path, numbers: Sequence[int], name: str = "works.jsonl") -> Path:
    write_openalex([PAPERS[number] for number in numbers], folder / name)
    return folder / name


def everything(library: SearchableLibrary) -> list[Any]:
    """What searches find, with scores, weights and ranks."""
    return [
        [(hit.paper_id, hit.why.terms, hit.why.keyword_score) for hit in library.search(q, 20, by)]
        for q in QUERIES
        for by in ("keyword", "embedding", "both")
    ]


def cosines(library: SearchableLibrary) -> list[float]:
    return [hit.why.cosine or 0 for q in QUERIES for hit in library.search(q, 20, "embedding")]


def files(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): path.stat().st_ino
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_bit_by_bit_is_as_from_scratch(tmp_path: Path) -> None:
    parts = [write(tmp_path, range(n, n + 50), f"{n}.jsonl") for n in (0, 50, 100)]
    for end in (1, 2, 3):
        grown = made(parts[:end], tmp_path / "grown")
    scratch = made(parts, tmp_path / "scratch")
    assert everything(grown) == everything(scratch)
    assert cosines(grown) == pytest.approx(cosines(scratch), abs=1e-5)


def test_what_leaves_and_what_changes(tmp_path: Path) -> None:
    first, second = write(tmp_path, range(80), "a"), write(tmp_path, range(80, 150), "b")
    made([first, second], tmp_path / "out")
    write(tmp_path, range(40, 80), "a")
    changed = made([first, second], tmp_path / "out", prune=True)
    scratch = made([first, second], tmp_path / "scratch")
    assert len(changed) == 110
    assert everything(changed) == everything(scratch)
    assert cosines(changed) == pytest.approx(cosines(scratch), abs=1e-5)


def test_a_large_index_forgets_papers_without_being_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_SMALL", 0)
    monkeypatch.setattr(meaning, "SMALL", 0)
    monkeypatch.setattr(meaning, "ROWS", 64)
    first, second = write(tmp_path, range(140), "a"), write(tmp_path, range(140, 150), "b")
    before = made([first, second], tmp_path / "out")
    everything_before = everything(before)
    kept = files(tmp_path / "out" / "index")
    (tmp_path / "b").unlink()
    after = made([first], tmp_path / "out", prune=True)
    gone = {PAPERS[n].paper_id for n in range(140, 150)}
    for query in QUERIES:
        for by in ("keyword", "embedding", "both"):
            found = ids(after, query, 150, by)
            assert not gone & set(found)
            assert found[:5] == [i for i in ids(before, query, 150, by) if i not in gone][:5]
    same = {name for name in files(tmp_path / "out" / "index") if name in kept}
    assert any(name.startswith("vectors-") for name in same)
    assert any(name.startswith("latent-") for name in same)
    assert everything(before) == everything_before, "who opened it before still reads it"


def test_unchanged_nothing_is_written(tmp_path: Path) -> None:
    works = write(tmp_path, range(60))
    made([works], tmp_path / "out")
    before = files(tmp_path / "out" / "index")
    made([works], tmp_path / "out")
    assert files(tmp_path / "out" / "index") == before


class Stop(Exception):
    """Stands for a kill."""


def stopped_at(number: int) -> Callable[[BuildStep], None]:
    count = iter(range(number))

    def progress(step: BuildStep) -> None:
        if next(count, None) is None:
            raise Stop

    return progress


STOPS = (0, 3, 4, 8, 99)  # calls of the progress before the kill; one behind the end


@pytest.mark.full
def test_stopped_anywhere_the_old_index_serves_and_the_next_update_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meaning, "ROWS", 32)
    out = tmp_path / "out"
    first = write(tmp_path, range(60), "a")
    made([first], out)
    build([first, write(tmp_path, range(60, 150), "b")], out, jobs=1)  # the store alone
    expected = everything(made([tmp_path / "a", tmp_path / "b"], tmp_path / "whole"))
    stops = 0
    for number in STOPS:
        copy = tmp_path / f"copy{number}"
        shutil.copytree(out, copy)
        try:
            LibraryIndex().update(copy, stopped_at(number))
        except Stop:
            stops += 1
            between = open_library(copy)
            assert ids(between, "image classification", 5)
            assert between.unindexed in (0, 90)
            LibraryIndex().update(copy, quiet)
        assert everything(open_library(copy)) == expected
        left = {path.name.partition("-")[0] for path in (copy / "index").iterdir()}
        assert left == {"index.json", "keyword", "latent", "vectors"}
        shutil.rmtree(copy)
    assert stops == 4


class Counting:
    """Counts the texts that are embedded."""

    texts = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counting = Counting()
    embed = meaning.LatentEmbedder.embed

    def count(self: meaning.LatentEmbedder, texts: Sequence[str]) -> Any:
        counting.texts += len(texts)
        return embed(self, texts)

    monkeypatch.setattr(meaning.LatentEmbedder, "embed", count)
    return counting


def test_vectors_that_were_written_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: Counting
) -> None:
    monkeypatch.setattr(meaning, "ROWS", 32)
    monkeypatch.setattr(meaning, "_AT_ONCE", 16)
    works, out = write(tmp_path, range(150)), tmp_path / "out"
    build([works], out, jobs=1)

    def stop_late(step: BuildStep) -> None:
        if step.name == "vectors" and step.done >= 100:
            raise Stop

    with pytest.raises(Stop):
        LibraryIndex().update(out, stop_late)
    assert counted.texts == 112
    LibraryIndex().update(out, quiet)
    assert counted.texts == 112 + 54  # three blocks of 32 were there


@pytest.mark.full
def test_vectors_of_a_large_library_are_kept_until_it_has_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: Counting
) -> None:
    monkeypatch.setattr(meaning, "SMALL", 0)
    parts = [write(tmp_path, range(60), "a"), write(tmp_path, range(60, 90), "b")]
    made(parts[:1], tmp_path / "out")
    counted.texts = 0
    made(parts, tmp_path / "out")
    assert counted.texts == 30
    parts.append(write(tmp_path, range(90, 150), "c"))
    made(parts, tmp_path / "out")
    assert counted.texts == 30 + 150


def damaged(folder: Path) -> Iterator[Path]:
    """One file of each kind: tantivy's by their endings, the others by their names."""
    seen = set()
    for path in sorted((folder / "index").rglob("*")):
        kind = path.suffix if len(path.stem) == 32 else path.name.rpartition("-")[2]
        kind = path.suffixes[0] if path.name.startswith("block-") else kind
        if path.is_file() and kind not in {*seen, ".pos", ".store", ".fast"}:
            seen.add(kind)
            yield path


DAMAGES: tuple[bytes | None, ...] = (b"", b"{}", b"\x93NUMPY\x01\x00" + b"x" * 200, None)


def test_damage_is_told_with_its_fix_and_fixed(tmp_path: Path) -> None:
    works = [write(tmp_path, range(40)), *write_sources(tmp_path)]
    expected = everything(made(works, tmp_path / "out"))
    names = [p.relative_to(tmp_path / "out") for p in damaged(tmp_path / "out")]
    assert 10 < len(names) < 16, names
    for name, content in zip(names, cycle(DAMAGES), strict=False):
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "out", copy)
        if content is None:
            (copy / name).unlink()
        else:
            (copy / name).write_bytes(content)
        try:
            found = everything(open_library(copy))
        except HpcsciError as error:
            assert isinstance(error, LibraryError), name
            assert "\n" not in str(error)
            assert "build" in str(error), name
        else:
            assert found == expected, name
        LibraryIndex().update(copy, quiet)
        assert everything(open_library(copy)) == expected, name
        shutil.rmtree(copy)


def flip(file: Path, at: float) -> None:
    """Change one bit of a file, as a disk or a copy may."""
    content = bytearray(file.read_bytes())
    content[int(at * len(content))] ^= 0x10
    file.write_bytes(content)


@pytest.mark.parametrize("at", [0.3, 0.6])
def test_a_changed_bit_is_told_and_fixed(tmp_path: Path, at: float) -> None:
    """Else other papers are found, or tantivy panics: with a hundred lines, and no Exception."""
    works = [write(tmp_path, range(40)), *write_sources(tmp_path)]
    expected = everything(made(works, tmp_path / "out"))
    parts = [p for p in (tmp_path / "out" / "index").rglob("*") if p.stat().st_size and p.is_file()]
    files = [p for p in parts if p.name != "index.json" and "latent-" not in str(p)]
    assert len({p.suffix for p in files}) == 8  # two are named .json, and .npy those of vectors too
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "out", copy)
    for file in files:
        flip(copy / file.relative_to(tmp_path / "out"), at)
        with pytest.raises(LibraryError, match="library build") as caught:
            open_library(copy)
        assert str(copy) in str(caught.value)
        flip(copy / file.relative_to(tmp_path / "out"), at)
    assert everything(open_library(copy)) == expected
    for file in files:
        flip(copy / file.relative_to(tmp_path / "out"), at)
    LibraryIndex().update(copy, quiet)
    assert everything(open_library(copy)) == expected


class PanicException(BaseException):
    """As what tantivy's bindings raise for a panic: no Exception, and known by its name alone."""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PanicException("at 7"), LibraryError),
        (ValueError("a footer is missing"), LibraryError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (FileNotFoundError(), FileNotFoundError),
    ],
)
def test_what_the_index_library_makes_of_damage_is_told_as_damage(
    error: BaseException, told: type[BaseException], tmp_path: Path
) -> None:
    with pytest.raises(told) as caught, engine.reading(tmp_path / "out"):
        raise error
    if told is LibraryError:
        assert str(tmp_path / "out") in str(caught.value)


def test_an_index_of_a_newer_version_is_not_read(tmp_path: Path) -> None:
    made([write(tmp_path, range(5))], tmp_path / "out")
    file = tmp_path / "out" / "index" / "index.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 99}))
    with pytest.raises(LibraryError, match="upgrade hpcscientist"):
        open_library(tmp_path / "out")


def test_a_library_without_an_index_names_what_makes_one(tmp_path: Path) -> None:
    build([write(tmp_path, range(5))], tmp_path / "out", jobs=1)
    with pytest.raises(LibraryError, match=r"/out: .*no index.*`hpcsci library build "):
        open_library(tmp_path / "out")
    with pytest.raises(LibraryError, match=r"/nowhere: .*`hpcsci library build`"):
        open_library(tmp_path / "nowhere")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_tiny_libraries(tmp_path: Path, count: int) -> None:
    library = made([write(tmp_path, range(count))], tmp_path / "out")
    for number in range(count):
        for by in ("keyword", "embedding", "both"):
            assert ids(library, PAPERS[number].title, 1, by) == [PAPERS[number].paper_id]


def test_papers_with_nothing_to_say(tmp_path: Path) -> None:
    library = made([write_works(tmp_path / "w", [("???", ""), ("— · —", "…")])], tmp_path / "out")
    assert library.search("anything") == ()
    assert library.search("???") == ()


def test_a_library_of_code_alone(tmp_path: Path) -> None:
    library = made(write_sources(tmp_path)[1:], tmp_path / "out")
    assert len(library) == 0
    assert library.search("attention") == ()
    assert library.symbols("attention")[0].symbol.name == "MultiHeadAttention"


def test_a_folder_that_is_no_model_is_refused_before_anything_is_read() -> None:
    with pytest.raises(LibraryError, match=r"^/nowhere/at/all: .*--embedding-model"):
        LibraryIndex(EmbeddingSettings(model="/nowhere/at/all"))


def without_flock(file: object, operation: int) -> None:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


@pytest.mark.full
def test_a_file_system_without_flock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "tmp"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    monkeypatch.setattr(fcntl, "flock", without_flock)
    library = made([write(tmp_path, range(60))], tmp_path / "out")
    assert everything(library) == everything(made([tmp_path / "works.jsonl"], tmp_path / "two"))
    assert list(elsewhere.iterdir()) == []


def in_a_child(act: Callable[[], None]) -> int:
    """Run something in a process of its own; return its exit code."""
    child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 (told by the exit code)
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.root
def test_another_user_searches_what_he_cannot_write(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user: a library of others was NOT searched")
    with_mask = os.umask(0o022)
    try:
        own = made([write(tmp_path, range(60)), *write_sources(tmp_path)], tmp_path / "out")
    finally:
        os.umask(with_mask)
    for parent in [tmp_path, *tmp_path.parents][:-2]:
        parent.chmod(parent.stat().st_mode | 0o055)
    expected = everything(own)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    os.chown(temporary, NOBODY, NOBODY)

    def search() -> None:
        tempfile.tempdir = str(temporary)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        library = open_library(tmp_path / "out")
        assert everything(library) == expected
        assert library.symbols("attention")
        assert library.formulas("entropy")

    before = files(tmp_path / "out")
    assert in_a_child(search) == 0
    assert files(tmp_path / "out") == before


@pytest.mark.root
def test_a_read_only_file_system(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs ({mounted.stderr.strip()}): read-only was NOT tested")
    try:
        expected = everything(made([write(tmp_path, range(60))], disk / "out"))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(OSError, match="Read-only"):
            (disk / "file").touch()
        assert everything(open_library(disk / "out")) == expected
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.root
def test_a_disk_that_is_full_for_the_words_is_told_as_such(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs ({mounted.stderr.strip()}): a full disk was NOT tested")
    try:
        build([write(tmp_path, range(60))], disk / "out")
        free = os.statvfs(disk)
        (disk / "filler").write_bytes(bytes((free.f_bavail - 3) * free.f_frsize))
        with pytest.raises(DiskFull, match="make room"):
            LibraryIndex().update(disk / "out", quiet)
        (disk / "filler").unlink()
        LibraryIndex().update(disk / "out", quiet)
        assert len(open_library(disk / "out").search("networks")) == 10
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.root
@pytest.mark.parametrize("free_kb", [10, 50, 150])
def test_a_full_disk_is_told_and_room_made_it_goes_on(tmp_path: Path, free_kb: int) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    build([write(tmp_path, range(150))], tmp_path / "out", jobs=1)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs ({mounted.stderr.strip()}): a full disk was NOT tested")
    try:
        shutil.copytree(tmp_path / "out", disk / "out")
        free = shutil.disk_usage(disk).free
        (disk / "full").write_bytes(b"x" * (free - free_kb * 1024))
        with pytest.raises(DiskFull, match="make room"):
            LibraryIndex().update(disk / "out", quiet)
        (disk / "full").unlink()
        LibraryIndex().update(disk / "out", quiet)
        assert ids(open_library(disk / "out"), "image classification")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_blocks_hold_exactly_the_wanted_positions(tmp_path: Path) -> None:
    library = made([write(tmp_path, range(70))], tmp_path / "out")
    found = {hit.paper_id for hit in library.search("networks", 70, "embedding")}
    assert found <= {paper.paper_id for paper in PAPERS[:70]}
    assert np.all(np.diff(library._vectors.positions) > 0)  # type: ignore[union-attr]
    assert paper_id(0) not in found
