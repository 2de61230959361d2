"""PDFs as journals set them, and PDFs as disks and publishers leave them, through the reader."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pymupdf
import pytest
from benchmarks.library.paper import write_paper
from benchmarks.library.pdfs import write_pdf, write_pdfs
from benchmarks.library.wording import Displayed, Wording, word_paper
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.errors import LibraryError
from hpcscientist.literature.sources import pdf
from hpcscientist.literature.sources.base import Item, PaperSource, Trouble, read
from hpcscientist.literature.sources.pdf import document
from hpcscientist.records.literature import Paper


def items(path: Path) -> list[Item]:
    return list(read(PaperSource(path, "pdf", path.name)))


def paper(path: Path) -> Paper:
    found = items(path)
    assert len(found) == 1, found
    assert isinstance(found[0], Paper)
    return found[0]


def reason(path: Path) -> str:
    found = items(path)
    assert len(found) == 1, found
    assert isinstance(found[0], Trouble)
    assert found[0].origin == path.name
    return found[0].reason


def words(text: str) -> str:
    return " ".join(text.split())


def formulas(wording: Wording) -> list[tuple[str, str]]:
    return [
        (x.text, part.heading)
        for part in wording.parts
        for x in part.flow
        if isinstance(x, Displayed)
    ]


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("seed", range(8))
def test_a_paper_comes_back_as_it_was_set(tmp_path: Path, seed: int, columns: int) -> None:
    made = write_pdf(tmp_path / "made.pdf", "paper", seed, columns).wording
    assert made is not None

    found = paper(tmp_path / "made.pdf")

    assert found.title == made.title
    assert found.authors == made.authors
    assert (found.year, found.doi) == (made.year, made.doi)
    assert found.paper_id == f"doi:{made.doi}"
    assert found.abstract == made.abstract
    assert [s.heading for s in found.sections] == [part.heading for part in made.parts]
    for section, part in zip(found.sections, made.parts, strict=True):
        assert words(section.text) == words(part.text)
    assert [(f.text, f.section) for f in found.formulas] == formulas(made)
    assert found.references == made.references


def test_a_formula_comes_with_the_sentences_around_it(tmp_path: Path) -> None:
    made = word_paper(3)
    write_paper(tmp_path / "made.pdf", made)
    displayed = [x for part in made.parts for x in part.flow if isinstance(x, Displayed)]

    found = paper(tmp_path / "made.pdf").formulas

    assert len(found) == len(displayed) > 0
    for formula, meant in zip(found, displayed, strict=True):
        assert formula.context == f"{meant.before.rsplit('. ', 1)[1]} {meant.after}"


@pytest.mark.parametrize("seed", [6, 13, 20, 27, 34])
def test_titles_of_other_languages(tmp_path: Path, seed: int) -> None:
    made = write_pdf(tmp_path / "made.pdf", "paper", seed).wording
    assert made is not None
    assert not made.title.isascii()

    assert paper(tmp_path / "made.pdf").title == made.title


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("scanned", r"no text .*no title; .*\bocrmypdf FILE OUT\b"),
        ("encrypted", "encrypted: .*password"),
        ("empty", ".*file .*empty"),
        ("other", "not .*PDF"),
        ("truncated", "damaged: "),
    ],
)
def test_what_is_no_readable_paper_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, told: str
) -> None:
    write_pdf(tmp_path / "made.pdf", kind, 1)  # type: ignore[arg-type]
    capfd.readouterr()

    assert re.match(told, reason(tmp_path / "made.pdf"))
    assert capfd.readouterr() == ("", "")


def test_a_scanned_paper_is_kept_by_the_title_of_its_metadata(tmp_path: Path) -> None:
    write_pdf(tmp_path / "made.pdf", "scanned", 1)
    with pymupdf.open(tmp_path / "made.pdf") as whole:
        whole.set_metadata({"title": "On the Electrodynamics of Moving Bodies"})
        whole.save(tmp_path / "named.pdf")

    kept, told = items(tmp_path / "named.pdf")

    assert isinstance(kept, Paper)
    assert kept.title == "On the Electrodynamics of Moving Bodies"
    assert isinstance(told, Trouble)
    assert re.match("no text .*: known .*title only", told.reason)


def test_a_paper_that_only_its_owner_locked_is_read(tmp_path: Path) -> None:
    made = word_paper(4)
    write_paper(tmp_path / "made.pdf", made)
    with pymupdf.open(tmp_path / "made.pdf") as whole:
        whole.save(tmp_path / "locked.pdf", encryption=5, owner_pw="owner", user_pw="")

    assert paper(tmp_path / "locked.pdf").title == made.title


def test_pages_beyond_the_bound_are_left_out_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_paper(tmp_path / "made.pdf", word_paper(4))
    monkeypatch.setattr(pdf, "PAGES", 2)

    found, told = items(tmp_path / "made.pdf")

    assert isinstance(found, Paper)
    assert found.sections[-1].heading != "Conclusion"
    assert isinstance(told, Trouble)
    assert " first 2 of " in told.reason


def test_a_file_without_pages_or_whose_pages_are_broken(tmp_path: Path) -> None:
    write_paper(tmp_path / "made.pdf", word_paper(4))
    data = (tmp_path / "made.pdf").read_bytes()
    path = tmp_path / "broken.pdf"
    for name in (b"/Contents", b"/Pages", b"/Type/Page"):
        path.write_bytes(data.replace(name, b"/" + b"X" * (len(name) - 1)))
        assert all(isinstance(item, Paper | Trouble) for item in items(path))


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, 10**6), noise=st.binary(max_size=64))
def test_a_damaged_file_is_read_or_told_but_never_raises(
    small: bytes, tmp_path_factory: pytest.TempPathFactory, cut: int, noise: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.pdf"
    at = cut % len(small)
    path.write_bytes(small[:at] + noise + small[at + len(noise) :])

    found = items(path)

    assert found
    assert all(isinstance(item, Paper | Trouble) for item in found)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("small") / "made.pdf"
    write_paper(path, word_paper(5, parts=2), 1)
    return path.read_bytes()


def test_without_pymupdf_the_fix_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made.pdf").write_bytes(b"%PDF-1.7\n")
    monkeypatch.setitem(sys.modules, "pymupdf", None)
    monkeypatch.setattr(document, "pymupdf", document.pymupdf.__wrapped__)

    with pytest.raises(LibraryError, match=r"pip install 'hpcscientist\[pdf\]'"):
        items(tmp_path / "made.pdf")


def test_the_same_seed_makes_the_same_files(tmp_path: Path) -> None:
    one = write_pdfs(tmp_path / "one", 6, seed=3, broken_every=2)
    two = write_pdfs(tmp_path / "two", 6, seed=3, broken_every=2)

    assert [m.kind for m in one] == ["paper", "scanned", "paper", "encrypted", "paper", "truncated"]
    for a, b in zip(one, two, strict=True):
        assert (a.kind, a.wording) == (b.kind, b.wording)
        if a.kind == "paper":
            assert a.path.read_bytes() == b.path.read_bytes()
