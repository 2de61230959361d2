"""What a build reads, keeps, replaces and refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from library_kit import (
    article,
    build_process,
    papers,
    symbols,
    title,
    titles,
    tree,
    write_abstracts,
    write_bib,
    write_code,
)

from hpcscientist.errors import DiskFull, LibraryError
from hpcscientist.files.lock import Lock
from hpcscientist.literature.library.build import BuildOptions, build
from hpcscientist.literature.library.indexing import BuildStep, Progress
from hpcscientist.literature.library.store import open_store

PRUNE = BuildOptions(prune=True)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "library"


def test_papers_and_symbols_come_back_as_they_were_read(tmp_path: Path, out: Path) -> None:
    bib = write_bib(
        tmp_path / "refs.bib", {"one": article("A title of an article", 1999, doi="10.1000/One")}
    )
    report = build([bib, write_code(tmp_path / "repo")], out)
    assert (report.papers, report.symbols, report.read, report.documents) == (1, 3, 2, 4)
    store = open_store(out)
    (paper,) = papers(out).values()
    assert (paper.paper_id, paper.year, paper.authors) == (
        "doi:10.1000/one",
        1999,
        ("Ada Lovelace",),
    )
    assert store.find("doi:10.1000/ONE") == paper
    assert store.find("doi:10.1000/two") is None
    assert [s.name for s in symbols(out)] == ["forward", "Net", "Net.step"]
    assert [store.symbol_at(int(p)).name for p in store.symbol_positions] == [
        s.name for s in symbols(out)
    ]
    with pytest.raises(LookupError):
        store.paper_at(7)


def test_number_of_processes_changes_no_byte(tmp_path: Path, out: Path) -> None:
    sources = [
        write_abstracts(tmp_path / "a.jsonl", 700),
        write_bib(tmp_path / "b.bib", {f"k{n}": article(title(n), 2017) for n in range(50)}),
    ]
    for name, jobs in (("here", None), ("one", 1), ("two", 2)):
        build(sources, out / name, jobs=jobs)
    assert tree(out / "one") == tree(out / "here")
    assert tree(out / "two") == tree(out / "here")
    assert len(titles(out / "one")) == 700


def test_only_what_is_new_or_changed_is_read(tmp_path: Path, out: Path) -> None:
    first = write_bib(tmp_path / "a.bib", {"a": article("The first of all articles")})
    other = write_bib(tmp_path / "b.bib", {"b": article("The second of all articles")})
    build([first], out)
    store = open_store(out)
    report = build([first, other], out)
    assert (report.read, report.unchanged, report.papers) == (1, 1, 2)
    write_bib(first, {"a": article("The first of all articles, revised")})
    report = build([first, other], out)
    assert (report.read, report.unchanged, report.papers) == (1, 1, 2)
    assert sorted(titles(out)) == [
        "The first of all articles, revised",
        "The second of all articles",
    ]
    # Who opened an earlier edition goes on reading it.
    assert [p.title for _, p in store.papers()] == ["The first of all articles"]


def test_what_was_only_touched_or_copied_is_not_read_again(tmp_path: Path, out: Path) -> None:
    bib = write_bib(tmp_path / "a.bib", {"a": article("The first of all articles")})
    repository = write_code(tmp_path / "repo")
    before = build([bib, repository], out)
    for path in (bib, repository / "net.py"):
        os.utime(path, ns=(1, 1))
    report = build([bib, repository], out)
    assert (report.read, report.unchanged) == (0, 2)
    assert report.fingerprint == before.fingerprint
    (repository / "net.py").write_text("def other():\n    pass\n")
    assert build([bib, repository], out).read == 1
    assert [s.name for s in symbols(out)] == ["other"]


def test_what_is_not_named_stays_unless_pruned(tmp_path: Path, out: Path) -> None:
    first = write_bib(tmp_path / "a.bib", {"a": article("The first of all articles")})
    other = write_bib(tmp_path / "b.bib", {"b": article("The second of all articles")})
    build([first], out)
    first.unlink()
    assert build([other], out).papers == 2
    report = build([other], out, options=PRUNE)
    assert (report.gone, report.papers) == (1, 1)
    assert titles(out) == ["The second of all articles"]


def test_nothing_new_changes_no_file(tmp_path: Path, out: Path) -> None:
    bib = write_bib(tmp_path / "a.bib", {"a": article("The first of all articles")})
    build([bib], out)
    before = tree(out)
    report = build([bib], out)
    assert (report.read, report.unchanged, report.useless) == (0, 1, False)
    assert tree(out) == before


def test_space_of_what_was_replaced_is_given_back(tmp_path: Path, out: Path) -> None:
    source = tmp_path / "a.jsonl"
    for round_ in range(4):
        build([write_abstracts(source, 200, start=200 * round_)], out)
    assert len(titles(out)) == 200
    # Editions before may still be open somewhere: their parts stay for a time.
    assert len(list((out / "papers").glob("part-*.arrow"))) == 4
    assert len(list((out / "sources").iterdir())) <= 3
    for record in (out / "superseded").iterdir():
        os.utime(record, (0, 0))
    build([write_abstracts(source, 200, start=900)], out)
    assert len(list((out / "papers").glob("part-*.arrow"))) == 2
    assert len(list((out / "superseded").iterdir())) == 1


def test_library_inside_its_own_input_is_left_out(tmp_path: Path) -> None:
    write_bib(tmp_path / "a.bib", {"a": article("The first of all articles")})
    out = tmp_path / "library"
    build([tmp_path], out)
    report = build([tmp_path], out)
    assert (report.papers, report.read, report.unchanged) == (1, 0, 1)


def test_what_is_skipped_is_listed_and_counted(tmp_path: Path, out: Path) -> None:
    good = write_bib(tmp_path / "a.bib", {"a": article("The first of all articles")})
    image = tmp_path / "image.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n")
    bad = tmp_path / "bad.jsonl"
    write_abstracts(bad, 2)
    with bad.open("a") as file:
        file.write("{half a line\n")
    report = build([good, image, bad], out)
    listed = [json.loads(line) for line in (out / "skipped.jsonl").read_text().splitlines()]
    assert len(listed) == sum(report.skipped.values()) == 2
    assert {Path(entry["origin"].partition(":")[0]).name for entry in listed} == {
        "image.png",
        "bad.jsonl",
    }
    assert report.papers == 3
    # Known troubles stay listed while their source is unchanged; it is read again on demand.
    again = build([good, bad], out)
    assert (again.read, sum(again.skipped.values())) == (0, 1)
    assert build([good, bad], out, options=BuildOptions(again=True)).read == 1


def test_library_of_nothing_is_empty_and_said_to_be(tmp_path: Path, out: Path) -> None:
    image = tmp_path / "image.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n")
    report = build([image], out)
    assert report.useless
    assert len(open_store(out)) == 0
    assert open_store(out).find("doi:10.1000/1") is None
    with pytest.raises(LibraryError, match="name files"):
        build([], out)


def test_path_that_is_not_there_makes_no_folder(tmp_path: Path, out: Path) -> None:
    with pytest.raises(LibraryError, match=r"missing\.bib"):
        build([tmp_path / "missing.bib"], out)
    assert not out.exists()


def test_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    bib = write_bib(tmp_path / "a.bib", {"a": article("The first of all articles")})
    with pytest.raises(LibraryError, match="no library"):
        build([bib], tmp_path)
    with pytest.raises(LibraryError, match=rf"^{bib}: .*\bfile: --out"):
        build([bib], bib)
    with pytest.raises(LibraryError, match=rf"^{bib}/below\b.*written: .*--out"):
        build([bib], bib / "below")
    assert [p.name for p in tmp_path.iterdir()] == ["a.bib"]


def test_second_build_of_the_same_library_is_refused(tmp_path: Path, out: Path) -> None:
    bib = write_bib(tmp_path / "a.bib", {"a": article("The first of all articles")})
    build([bib], out)
    lock = Lock(out / ".builder")
    with pytest.raises(LibraryError, match=f"process {os.getpid()}"):
        build([bib], out)
    lock.release()
    build([bib], out)


def test_library_of_a_newer_version_is_refused(tmp_path: Path, out: Path) -> None:
    bib = write_bib(tmp_path / "a.bib", {"a": article("The first of all articles")})
    build([bib], out)
    contents = json.loads((out / "library.json").read_text())
    (out / "library.json").write_text(json.dumps({**contents, "schema_version": 99, "new": 1}))
    for use in (lambda: open_store(out), lambda: build([bib], out)):
        with pytest.raises(LibraryError, match="upgrade hpcscientist"):
            use()


def test_damaged_parts_are_refused_and_fixed(tmp_path: Path, out: Path) -> None:
    sources = [write_abstracts(tmp_path / "a.jsonl", 300), write_code(tmp_path / "repo")]
    build(sources, out)
    expected = papers(out)
    for kind in ("part", "shown"):
        contents = open_store(out).contents
        name = contents.paper_parts[0].part.file if kind == "part" else contents.shown_papers.file
        (out / name).write_bytes((out / name).read_bytes()[:-100])
        with pytest.raises(LibraryError, match="damaged"):
            open_store(out)
        build(sources, out)
        assert papers(out) == expected
    shutil.rmtree(out / "symbols")
    build(sources, out)
    assert len(symbols(out)) == 3


def test_a_changed_bit_of_a_list_is_told_and_fixed(tmp_path: Path, out: Path) -> None:
    sources = [write_abstracts(tmp_path / "a.jsonl", 30), write_code(tmp_path / "repo")]
    build(sources, out)
    expected = papers(out), symbols(out)
    for number in range(3):
        part = open_store(out).contents.lists[number]  # what fixes them gives them other names
        content = bytearray((out / part.file).read_bytes())
        content[len(content) * (number + 1) // 5] ^= 0x10
        (out / part.file).write_bytes(content)
        with pytest.raises(LibraryError, match="library build"):
            open_store(out)
        build(sources, out)
        assert (papers(out), symbols(out)) == expected


def test_changed_bits_of_a_part_are_never_read_past_its_end(tmp_path: Path, out: Path) -> None:
    build([write_abstracts(tmp_path / "a.jsonl", 30)], out)
    file = out / open_store(out).contents.paper_parts[0].part.file
    content = file.read_bytes()
    told = 0
    for place in range(0, len(content), len(content) // 50):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0x80]) + content[place + 1 :])
        try:
            assert len(papers(out)) == 30  # a letter has changed, or nothing that counts
        except LibraryError as error:
            assert str(out) in str(error)
            told += 1
    assert 0 < told < 50


@pytest.mark.parametrize("line", [0, 1, 2])
def test_a_changed_bit_of_what_was_read_is_one_clear_error(
    tmp_path: Path, out: Path, line: int
) -> None:
    sources = [write_abstracts(tmp_path / "a.jsonl", 3)]
    build(sources, out)
    (manifest,) = (out / "sources").glob("manifest-*")
    lines = manifest.read_text().splitlines()
    for name in ("last_commit", "number", "stamp"):
        lines[line] = lines[line].replace(name, name[:-1] + "~", 1)
    manifest.write_text("\n".join(lines) + "\n")
    with pytest.raises(LibraryError, match="damaged"):
        build(sources, out)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"format": "something"}'])
def test_garbage_for_contents_is_one_clear_error(tmp_path: Path, out: Path, content: bytes) -> None:
    build([write_bib(tmp_path / "a.bib", {"a": article("The first of all articles")})], out)
    (out / "library.json").write_bytes(content)
    with pytest.raises(LibraryError, match=r"library\.json") as caught:
        open_store(out)
    assert "\n" not in str(caught.value)


def test_what_is_no_library_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="no library"):
        open_store(tmp_path)
    with pytest.raises(LibraryError, match=r"/missing: .*`hpcsci library build`"):
        open_store(tmp_path / "missing")


def test_progress_comes_to_its_end(tmp_path: Path, out: Path) -> None:
    steps: list[BuildStep] = []
    build([write_abstracts(tmp_path / "a.jsonl", 600)], out, progress=steps.append)
    assert (steps[0].name, steps[0].done) == ("reading", 0)
    assert steps[-1].done == steps[-1].total == (tmp_path / "a.jsonl").stat().st_size
    assert steps[-1].documents == 600


def test_index_is_told_when_the_store_can_be_read(tmp_path: Path, out: Path) -> None:
    seen: list[list[str]] = []

    class Recorder:
        modules = ()

        def update(self, library: Path, progress: Progress, pool: object = None) -> None:
            seen.append(titles(library))

    bib = write_bib(tmp_path / "a.bib", {"a": article("The first of all articles")})
    build([bib], out, index=Recorder())
    build([bib], out, index=Recorder())  # it may have been killed the last time
    assert seen == [["The first of all articles"]] * 2


def test_text_that_is_no_unicode_is_kept_as_far_as_it_goes(tmp_path: Path, out: Path) -> None:
    source = write_abstracts(tmp_path / "a.jsonl", 1)
    source.write_text(source.read_text().replace("On the", "On\\ud83d the"))
    build([source], out)
    assert titles(out)[0].endswith("the convergence of method number 0 under constraints")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a tmpfs of 3 MiB: the full disk was NOT tested")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs ({mounted.stderr.strip()}): NOT tested")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.root
def test_full_disk_is_one_clear_error_and_the_build_goes_on(
    tmp_path: Path, small_disk: Path
) -> None:
    source = write_abstracts(tmp_path / "a.jsonl", 1000, words=10)
    out, filler = small_disk / "library", small_disk / "filler"
    with filler.open("wb") as file:
        file.write(bytes(3_000_000))
    with pytest.raises(DiskFull, match="same command"):
        build([source], out)
    filler.unlink()
    assert build([source], out).papers == 1000


@pytest.mark.full
def test_peak_of_memory_does_not_grow_with_the_library(tmp_path: Path) -> None:
    def peak_kb(count: int) -> int:
        source = write_abstracts(tmp_path / f"{count}.jsonl", count, words=100)
        process = build_process([source], tmp_path / f"out{count}", part_rows=1000, jobs=1)
        out, error = process.communicate()
        assert process.returncode == 0, error
        assert int(out.split()[0]) == count
        return int(out.split()[3])

    # The process that writes holds a part (1000 abstracts are 1 MB) and 100 bytes a paper.
    assert peak_kb(9_000) < peak_kb(3_000) + 6_000
