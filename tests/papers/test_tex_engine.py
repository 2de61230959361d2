"""The real engine: what papers look like, and what hostile LaTeX and hostile words come to."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from test_escaped import HOSTILE
from typesetting_kit import (
    EPOCH,
    document,
    lay_out,
    manuscript,
    need_tex,
    typeset,
)

from hpcscientist.literature.sources.pdf.document import pymupdf
from hpcscientist.papers import venue
from hpcscientist.papers.typesetting import builder, engine, escape, latex, pdf, preview
from hpcscientist.papers.typesetting.escape import squeezed
from hpcscientist.records.manuscript import (
    DefectCode,
    FigureRef,
    FigureUse,
    ItemList,
    Manuscript,
    Paragraph,
    Section,
    Text,
)

pytestmark = pytest.mark.tex

QUICK = engine.EngineLimits(seconds=6, memory_mb=512, output_mb=8)


@pytest.fixture(autouse=True)
def tex() -> None:
    need_tex()


def text_of(path: Path) -> str:
    with pymupdf().open(path) as opened:
        return "\n".join(page.get_text() for page in opened)


@pytest.mark.parametrize("name", venue.names())
def test_each_venue_builds_without_a_word_of_complaint(name: str, tmp_path: Path) -> None:
    made = document(tmp_path, name=name)
    done = typeset(tmp_path, made)
    assert builder.defects_of(done) == []
    assert done.pdf is not None
    found = pdf.read(done.pdf, made)
    assert found.defects == ()
    assert found.coverage == 1.0
    assert found.links == 7
    words = squeezed(text_of(done.pdf))
    assert "Thispaperwaswrittenbysoftware" in words
    assert "6.1×10\N{MINUS SIGN}5" in words


def test_the_same_paper_has_the_same_bytes_wherever_it_is_built(tmp_path: Path) -> None:
    hashes = set[str]()
    for place in ("one", "another/place"):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        done = typeset(folder, document(folder))
        assert done.pdf is not None
        hashes.add(hashlib.sha256(done.pdf.read_bytes()).hexdigest())
    assert len(hashes) == 1


def test_it_says_who_wrote_it_in_its_metadata(tmp_path: Path) -> None:
    done = typeset(tmp_path, document(tmp_path))
    assert done.pdf is not None
    with pymupdf().open(done.pdf) as opened:
        told = opened.metadata
    assert "software" in told["author"]
    assert told["title"] == "Momentum"
    assert told["creationDate"].startswith("D:20231114")


SECRET = "the-secret-word"
RAW = {
    "a shell": r"\immediate\write18{touch pwned}",
    "a shell by a pipe": r'\input{|"touch pwned"}',
    "a file above": r"\input{../secret.tex}",
    "a file by its path": r"\input{SECRET}",
    "a file by a stream": r"\openin5=SECRET \ifeof5 closed\else\read5 to\x \x\fi",
    "a file above by a stream": r"\openin5=../secret.tex \ifeof5 closed\else\read5 to\x \x\fi",
    "a hidden file": r"\input{.hidden.tex}",
    "a dump of a file": r"\pdffiledump offset 0 length 64 {SECRET}",
    "a picture that is a file": r"\includegraphics{SECRET}",
    "an object that is a file": r"\immediate\pdfobj file {SECRET}",
    "a verbatim file": r"\makeatletter\@input{SECRET}\makeatother",
    "writing above": r"\immediate\openout5=../pwned \immediate\write5{x}\immediate\closeout5",
    "writing by a path": r"\immediate\openout5=PWNED \immediate\write5{x}\immediate\closeout5",
}


@pytest.mark.parametrize("kind", RAW)
def test_latex_that_reaches_outside_gets_nothing(kind: str, tmp_path: Path) -> None:
    """As of a venue from anywhere: our own renderer writes nothing of the kind."""
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "secret.tex").write_text(f"{SECRET}\n")
    (folder / ".hidden.tex").write_text(f"{SECRET}\n")
    raw = RAW[kind].replace("SECRET", str(tmp_path / "secret.tex"))
    raw = raw.replace("PWNED", str(tmp_path / "pwned"))
    done = typeset(folder, document(folder), raw, QUICK)
    assert list(tmp_path.rglob("pwned*")) == []
    if done.pdf is not None:
        hexadecimal = SECRET.encode().hex().upper()
        assert SECRET not in text_of(done.pdf)
        assert hexadecimal not in text_of(done.pdf).replace("\n", "")
        assert SECRET.encode() not in done.pdf.read_bytes()


ENDLESS = {
    "a loop": r"\loop\iftrue\repeat",
    "itself": r"\def\x{\x}\x",
    "growth": r"\def\x{a\x\x}\x",
    "pages": r"\loop\iftrue x\newpage\repeat",
    "its log": r"\loop\iftrue\immediate\write16{aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}\repeat",
    "a file": r"\immediate\openout5=big \loop\iftrue\immediate\write5{aaaaaaaaaaaaaaaaaaaa}\repeat",
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_what_has_no_end_is_ended_and_told(kind: str, tmp_path: Path) -> None:
    done = typeset(tmp_path, document(tmp_path), ENDLESS[kind], QUICK)
    assert done.pdf is None
    assert DefectCode.BUILD_FAILED in {defect.code for defect in builder.defects_of(done)}
    written = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert written < 64 * 2**20


def test_the_engine_reaches_no_network(tmp_path: Path) -> None:
    apart = engine.without_network()
    if not apart:
        pytest.skip("no GPU, and no network namespaces here: pdfTeX opens no sockets by itself")
    look = "print(open('/proc/self/net/dev').read())"
    said = subprocess.run(
        [*apart, sys.executable, "-c", look], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split(":")[0].strip() for line in said.strip().splitlines()[2:]] == ["lo"]


def test_hostile_words_are_printed(tmp_path: Path) -> None:
    """Past all walls on text: as a manuscript.json that somebody else wrote."""
    words = [word.replace("\n", " ") for word in HOSTILE]
    blocks = tuple(Paragraph(parts=(Text(text=word),)) for word in words)
    made = manuscript(title=words[0]).model_copy(
        update={"sections": (Section(id="x", title=words[6], blocks=blocks),), "figures": ()}
    )
    of = document(tmp_path, made)
    done = typeset(tmp_path, of)
    codes = {defect.code for defect in builder.defects_of(done)}
    assert codes <= {DefectCode.OVERFULL_BOX, DefectCode.MISSING_FIGURE}
    assert done.pdf is not None
    seen = squeezed(text_of(done.pdf))
    for word in ("\\write18{touchx}", "\\input{/etc/passwd}", "}\\end{document}", "^^5cinputx"):
        assert word in seen
    assert not (tmp_path / "x").exists()
    assert "root:" not in seen


def test_each_letter_that_is_let_through_builds(tmp_path: Path) -> None:
    letters = [
        chr(code)
        for code in range(0xA0, 0x20000)
        if unicodedata.category(chr(code))[0] not in "C"
        and escape.UNKNOWN not in escape.latex(chr(code))
    ]
    assert len(letters) > 2000
    lines = [" ".join(letters[at : at + 40]) for at in range(0, len(letters), 40)]
    blocks = (ItemList(items=tuple((Text(text=line),) for line in lines)),)
    made = manuscript().model_copy(
        update={"sections": (Section(id="x", title="Letters", blocks=blocks),), "figures": ()}
    )
    done = typeset(tmp_path, document(tmp_path, made))
    assert [d for d in builder.defects_of(done) if d.code is not DefectCode.OVERFULL_BOX] == []
    assert done.pdf is not None


def test_megabytes_of_words_are_too_many_pages(tmp_path: Path) -> None:
    blocks = tuple(Paragraph(parts=(Text(text="many words " * 2000),)) for _ in range(50))
    made = manuscript().model_copy(
        update={"sections": (Section(id="x", title="Long", blocks=blocks),), "figures": ()}
    )
    done = typeset(tmp_path, document(tmp_path, made))
    assert done.pdf is not None
    pages = pdf.pages_of_text((tmp_path / "paper.aux").read_text())
    assert pages is not None
    assert pages > 150


def test_complaints_name_their_paragraph(tmp_path: Path) -> None:
    word = "Donau" + "dampfschifffahrtsgesellschaftskapitän" * 8
    made = manuscript(results="Plain.\n\nSee " + word.replace("schiff", "qqqq") + ".")
    lost = made.model_copy(
        update={
            "sections": (
                *made.sections,
                Section(
                    id="last",
                    title="Last",
                    blocks=(Paragraph(parts=(Text(text="See "), FigureRef(id="nowhere"))),),
                ),
            ),
            "figures": (FigureUse(id="nothing", caption=(Text(text="A caption."),)),),
        }
    )
    found = [
        (d.code, str(d.place))
        for d in builder.defects_of(typeset(tmp_path, document(tmp_path, lost)))
    ]
    assert (DefectCode.MISSING_FIGURE, "figure:nothing, paragraph 1") in found
    without = lost.model_copy(update={"figures": ()})
    found = [
        (d.code, d.place.section)
        for d in builder.defects_of(typeset(tmp_path, document(tmp_path, without)))
    ]
    assert (DefectCode.UNDEFINED_REFERENCE, "last") in found
    assert (DefectCode.OVERFULL_BOX, "results") in found


def test_a_number_that_nobody_defined_stops_the_build(tmp_path: Path) -> None:
    of = document(tmp_path)
    lay_out(tmp_path, of)
    body = (tmp_path / "body.tex").read_text()
    (tmp_path / "body.tex").write_text(body + r"\hpcnum{idea-0009.test.accuracy.mean}")
    done = engine.typeset(tmp_path, latex.NAME, EPOCH)
    assert done.pdf is None
    defect = builder.defects_of(done)[0]
    assert "idea-0009.test.accuracy.mean" in defect.found


def test_a_users_class_is_used(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "mine.cls").write_text(
        r"\NeedsTeXFormat{LaTeX2e}\ProvidesClass{mine}\LoadClass[twocolumn]{article}"
        "\n"
    )
    (mine / "venue.toml").write_text(
        'title = "Mine"\npages = 2\ncolumns = 2\nwidth_in = 3.2\n'
        '[[sections]]\nid = "introduction"\ntitle = "Introduction"\n'
        '[[sections]]\nid = "results"\ntitle = "Results"\n'
    )
    (mine / "paper.tex").write_text(
        r"\documentclass{mine}\usepackage{hpcpaper}\title{\hpcTitle}\author{\hpcAuthors}\date{}"
        r"\begin{document}\maketitle\begin{abstract}\hpcAbstract\end{abstract}\hpcBody"
        r"\hpcReferences\hpcAppendix\end{document}"
    )
    of = document(tmp_path, name=str(mine))
    for name, content in of.venue.files.items():
        (tmp_path / name).write_bytes(content)
    done = typeset(tmp_path, of)
    assert done.pdf is not None
    assert pdf.read(done.pdf, of).coverage == 1.0


@pytest.mark.parametrize("hostile", [False, True])
def test_a_preview_is_made_where_there_is_no_tex(hostile: bool, tmp_path: Path) -> None:
    made: Manuscript = manuscript()
    if hostile:
        blocks = tuple(Paragraph(parts=(Text(text=word),)) for word in HOSTILE)
        section = Section(id="x", title="Words", blocks=blocks)
        made = made.model_copy(update={"sections": (*made.sections, section)})
    found = preview.preview(document(tmp_path, made), tmp_path)
    assert found is not None
    words = squeezed(text_of(found))
    assert "Thispaperwaswrittenbysoftware" in words
    assert "+0.0470" in words
    assert "root:" not in words
