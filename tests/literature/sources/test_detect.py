"""What is found in files and folders: by content, in order, each source once."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import re
import tarfile
from pathlib import Path

import pytest

from hpcscientist.errors import LibraryError
from hpcscientist.literature.sources import detect
from hpcscientist.literature.sources.base import FileKind, PaperSource, Trouble, read
from hpcscientist.records.literature import Paper

ARXIV = {"id": "0704.0001", "title": "T", "abstract": "A", "categories": "cs.LG", "authors": "B"}
OPENALEX = {"id": "https://openalex.org/W1", "title": "T", "abstract_inverted_index": {"a": [0]}}
S2 = {"corpusid": 1, "title": "T", "externalids": {}}
GRAPH = {"paperId": "ab", "title": "T", "externalIds": {"DOI": "10.1000/x"}}
ATOM = '<?xml version="1.0"?>\n<feed xmlns="http://www.w3.org/2005/Atom"></feed>'
MAIN = "% comment\n\\documentclass{article}\n\\title{T}\n\\begin{document}x\\end{document}\n"
BIB = "% a comment\n@article{a, title={T}}\n"


def _tar(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _found(*paths: Path) -> tuple[list[tuple[str, str]], list[Trouble]]:
    items = list(detect.inputs(paths))
    sources = [(s.path.name, s.kind) for s in items if isinstance(s, PaperSource)]
    return sources, [t for t in items if isinstance(t, Trouble)]


CONTENTS: list[tuple[bytes, FileKind]] = [
    (b"%PDF-1.7\n...", "pdf"),
    (b"junk from a mail\n%PDF-1.4", "pdf"),
    (BIB.encode(), "bibtex"),
    (BIB.encode("utf-16"), "bibtex"),
    (json.dumps(ARXIV).encode(), "arxiv"),
    (b"\xef\xbb\xbf" + json.dumps(ARXIV).encode(), "arxiv"),
    (ATOM.encode(), "arxiv"),
    (json.dumps(OPENALEX).encode(), "openalex"),
    (json.dumps({"meta": {}, "results": [OPENALEX]}, indent=1).encode(), "openalex"),
    (json.dumps(OPENALEX | {"title": "x" * 100_000}).encode(), "openalex"),
    (json.dumps(S2).encode(), "semantic_scholar"),
    (json.dumps({"corpusid": 5, "abstract": "x"}).encode(), "semantic_scholar"),
    (json.dumps([GRAPH]).encode(), "semantic_scholar"),
    (json.dumps({"data": [{"citedPaper": GRAPH}]}).encode(), "semantic_scholar"),
    (MAIN.encode(), "latex"),
    (_tar({"a.tex": MAIN}), "latex"),
]


@pytest.mark.parametrize(("content", "kind"), CONTENTS)
@pytest.mark.parametrize("name", ["noname", "wrong.xyz"])
def test_content_tells_and_not_the_name(
    tmp_path: Path, content: bytes, kind: FileKind, name: str
) -> None:
    plain, packed = tmp_path / name, tmp_path / f"{name}.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    assert _found(plain) == ([(name, kind)], [])
    if kind != "pdf":
        assert _found(packed) == ([(f"{name}.gz", kind)], [])


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty file"),
        (b"PK\x03\x04...", "zip archive; unpack"),
        (b"\x89PNG...", "PNG"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"<?xml version='1.0'?><x/>", "XML"),
        (b'{"name": "x"}', "JSON of"),
        (b"Dear diary", "no known"),
        (b"\x7fELF\0\1\2\3" * 50, "binary"),
        (b"\x1f\x8b\x08\0broken", "its beginning"),
        (gzip.compress(b"%PDF-1.4", mtime=0), "unpack it"),
    ],
)
def test_a_wrong_file_is_told_with_what_would_do(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    sources, troubles = _found(path)
    assert sources == []
    assert word in troubles[0].reason
    assert "accepted are PDF, BibTeX" in troubles[0].reason


def test_an_input_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"/nothing: .*; name "):
        detect.inputs([tmp_path / "nothing"])
    with pytest.raises(LibraryError):
        detect.inputs([Path("a\0b")])


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_mixed_folder_is_walked_in_order(tmp_path: Path) -> None:
    _write(
        tmp_path,
        {
            "z.bib": BIB,
            "a.jsonl": json.dumps(ARXIV),
            "notes.md": "# See @article{a, title={T}} and \\documentclass{x}",
            ".hidden.bib": BIB,
            ".cache/x.bib": BIB,
            "__pycache__/x.bib": BIB,
            "sub/b.json": json.dumps(OPENALEX),
            "paper/main.tex": MAIN,
            "paper/refs.bib": BIB,
            "paper/style.sty": "\\newcommand{\\x}{y}",
            "paper/parts/one.tex": "\\section{One}",
            "net/.git/config": "",
            "net/net.py": "def f(): pass",
            "net/tests/data.bib": BIB,
        },
    )
    sources, troubles = _found(tmp_path)
    assert sources == [
        ("a.jsonl", "arxiv"), ("z.bib", "bibtex"), ("net", "code"), ("main.tex", "latex"),
        ("refs.bib", "bibtex"), ("b.json", "openalex"),
    ]  # fmt: skip
    (trouble,) = troubles
    assert re.match(r"2 .* \(1 \.md, 1 \.sty\);", trouble.reason)
    assert _found(tmp_path)[0] == sources


def test_figures_of_a_document_are_no_papers(tmp_path: Path) -> None:
    text = MAIN.replace("x\\end", r"\input{parts/one}\end")
    _write(
        tmp_path,
        {
            "p/main.tex": text,
            "p/parts/one.tex": r"\includegraphics[width=3cm]{fig/loss.v2} \includegraphics{b.pdf}",
            "p/fig/loss.v2.pdf": "%PDF-1.4",
            "p/b.pdf": "%PDF-1.4",
            "p/related.pdf": "%PDF-1.4",
            "b.pdf": "%PDF-1.4",
        },
    )
    sources, troubles = _found(tmp_path)
    assert sources == [("b.pdf", "pdf"), ("main.tex", "latex"), ("related.pdf", "pdf")]
    assert re.match(r"2 .* \(2 figures\);", troubles[0].reason)


def test_links_in_a_circle_and_special_files(tmp_path: Path) -> None:
    _write(tmp_path, {"a/x.bib": BIB, "b/y.bib": BIB})
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "again").symlink_to(tmp_path / "b")
    (tmp_path / "c.bib").symlink_to(tmp_path / "nowhere")
    (tmp_path / "self").symlink_to(tmp_path / "self")
    os.mkfifo(tmp_path / "pipe.bib")
    sources, troubles = _found(tmp_path)
    assert sources == [("x.bib", "bibtex"), ("y.bib", "bibtex")]
    assert "4 no regular" in troubles[0].reason
    assert "no regular" in _found(tmp_path / "pipe.bib")[1][0].reason


def test_a_link_to_what_it_lies_in_is_not_followed(tmp_path: Path) -> None:
    """One to the root would have the whole machine read; one to a folder beside is a short cut."""
    _write(tmp_path, {"in/a/x.bib": BIB, "y.bib": BIB, "data/z.bib": BIB})
    (tmp_path / "in" / "root").symlink_to("/")
    (tmp_path / "in" / "a" / "above").symlink_to(tmp_path)
    (tmp_path / "in" / "system").symlink_to("/proc")
    (tmp_path / "in" / "beside").symlink_to(tmp_path / "data")
    sources, troubles = _found(tmp_path / "in")
    assert sources == [("x.bib", "bibtex"), ("z.bib", "bibtex")]
    assert [t.reason[:2] for t in troubles] == ["3 "]


def test_the_same_folder_given_twice_is_read_once(tmp_path: Path) -> None:
    _write(tmp_path, {"a/x.bib": BIB})
    assert _found(tmp_path / "a", tmp_path, tmp_path / "a")[0] == [("x.bib", "bibtex")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_told(tmp_path: Path) -> None:
    _write(tmp_path, {"a.bib": BIB, "b/c.bib": BIB})
    (tmp_path / "a.bib").chmod(0)
    (tmp_path / "b").chmod(0)
    _, troubles = _found(tmp_path)
    (tmp_path / "b").chmod(0o700)
    assert [t.reason.rpartition(": ")[2] for t in troubles] == [os.strerror(errno.EACCES)] * 2


def test_a_name_that_is_no_unicode_is_shown_all_the_same(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.bib"))
    path.write_text(BIB)
    (source,) = detect.inputs([tmp_path])
    assert isinstance(source, PaperSource)
    (paper,) = read(source)
    assert isinstance(paper, Paper)
    assert paper.origin.endswith("\ufffd\ufffd.bib:2")


def test_repositories_keep_apart_what_has_one_name(tmp_path: Path) -> None:
    code = {"pyproject.toml": "", "m.py": "def f(): pass"}
    for place in ("x/net", "y/net", "x/owner/net"):
        _write(tmp_path / place, code)
    found = [s.origin for s in detect.inputs([tmp_path / "x", tmp_path / "y"])]
    assert found == ["net", "owner/net", "y/net"]
    assert [s.origin for s in detect.inputs([tmp_path / "x" / "net"])] == ["net"]


def test_a_folder_with_a_script_is_code_and_papers(tmp_path: Path) -> None:
    _write(tmp_path, {"fetch.py": "def f(): pass", "a.bib": BIB, "sub/g.py": "def g(): pass"})
    assert _found(tmp_path)[0] == [(tmp_path.name, "code"), ("a.bib", "bibtex")]


def test_a_paper_under_version_control_is_a_paper(tmp_path: Path) -> None:
    _write(tmp_path, {".git/config": "", "main.tex": MAIN, "fig/plot.py": "def f(): pass"})
    assert _found(tmp_path)[0] == [(tmp_path.name, "code"), ("main.tex", "latex")]
    _write(tmp_path / "lib", {".git/config": "", "a.bib": BIB})
    assert _found(tmp_path / "lib")[0] == [("a.bib", "bibtex")]


@pytest.mark.parametrize("size", [1, 50, 300, 10_000])
def test_parts_of_a_dump_give_what_the_dump_gives(tmp_path: Path, size: int) -> None:
    path = tmp_path / "d.json"
    rows = [json.dumps(ARXIV | {"id": f"0704.{n:04}", "title": f"Tïtle {n}"}) for n in range(30)]
    path.write_text("\n".join([*rows[:10], "broken", *rows[10:]]))
    (source,) = detect.inputs([path])
    assert isinstance(source, PaperSource)
    parts = list(detect.divide(source, size))
    assert len(parts) == -(-path.stat().st_size // size)
    assert [i for p in parts for i in read(p)] == list(read(source))
    assert [p for part in parts for p in detect.divide(part, size)] == parts


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress((json.dumps(ARXIV) + "\n").encode() * 50, mtime=0),
        json.dumps([ARXIV] * 50, indent=1).encode(),
        ((json.dumps(ARXIV) + "\n") * 50).encode("utf-16"),
        (ATOM + " " * 5000).encode(),
    ],
)
def test_what_has_no_parts_stays_whole(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "d"
    path.write_bytes(content)
    (source,) = detect.inputs([path])
    assert isinstance(source, PaperSource)
    assert list(detect.divide(source, 10)) == [source]


def test_a_file_that_is_gone_meanwhile_is_a_trouble(tmp_path: Path) -> None:
    (item,) = read(PaperSource(tmp_path / "gone.bib", "bibtex", "gone.bib"))
    assert isinstance(item, Trouble)
    assert item.reason.endswith(f": {os.strerror(errno.ENOENT)}")


@pytest.mark.parametrize(
    "first", [b'{"title": "' + b"a" * (17 * 2**20) + b'"}', b'{"title": [[[[', b"{", b"[]"]
)
def test_a_first_line_that_is_no_record_hides_no_others(tmp_path: Path, first: bytes) -> None:
    path = tmp_path / "dump.jsonl"
    path.write_bytes(first + b"\n\n" + json.dumps(GRAPH).encode() + b"\n")
    (source,) = detect.inputs([path])
    assert isinstance(source, PaperSource)
    assert source.kind == "semantic_scholar"
    papers = [item for item in read(source) if isinstance(item, Paper)]
    assert [paper.paper_id for paper in papers] == ["doi:10.1000/x"]
