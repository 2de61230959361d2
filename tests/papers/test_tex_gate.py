"""The wall on the PDF, against the real engine: forged links, and digits by every way there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typesetting_kit import document, lay_out, manuscript, need_tex, typeset

from hpcscientist.papers.typesetting import engine, latex, pdf
from hpcscientist.records.manuscript import DefectCode, Paragraph, Section, Text

pytestmark = pytest.mark.tex

TYPED = {
    "digits": "0.93",
    "a sum": r"\number\numexpr 1+1\relax",
    "a character": r"\char57",
    "a half": r"\textonehalf",
    "a superscript": r"\texttwosuperior",
    "old style": r"\oldstylenums{7}",
    "white": r"\textcolor{white}{8}",
    "tiny": r"\scalebox{0.05}{7}",
    "turned": r"\rotatebox{90}{42}",
    "mathematics": r"$3^{4}$",
    "a counter": r"\arabic{page}7",
    "a footnote": r"\footnote{x}",
    "invisible": r"\pdfliteral direct{3 Tr}9\pdfliteral direct{0 Tr}",
    "a bare link": r"\hyperlink{hpc-trace}{5}",
    "a link to the web": r"\href{https://example.org}{6}",
    "a citation that is none": r"\hyperlink{cite.lecun1998gradient}{4}",
    "a list": r"\begin{enumerate}\item x\end{enumerate}",
}
FORGED = {
    "another value": r"\hyperlink{hpc.idea-0001.test.accuracy.delta}{+0.0471}",
    "another sign": r"\hyperlink{hpc.idea-0001.test.accuracy.delta}{-0.0470}",
    "nowhere": r"\hyperlink{hpc.idea-0001.nothing}{5}\hypertarget{hpc.idea-0001.nothing}{}",
    "more than the value": r"\hyperlink{hpc.idea-0001.test.accuracy.delta}{+0.0470 of 100}",
    "a value that nobody asked for": r"\hpcnum{idea-0001.test.accuracy.delta}",
    "a figure": r"\hyperlink{hpc.figure.effects}{9999}",
}


@pytest.fixture(autouse=True)
def tex() -> None:
    need_tex()


def read(folder: Path, body: str) -> pdf.PdfReading:
    of = document(folder)
    done = typeset(folder, of, body)
    assert done.pdf is not None, done.log[-2000:]
    return pdf.read(done.pdf, of)


def test_a_clean_paper_is_explained_to_the_last_digit(tmp_path: Path) -> None:
    found = read(tmp_path, "")
    assert found.defects == ()
    assert found.explained == found.digits > 50


def test_a_paper_that_cites_nothing_is_explained_to_the_last_digit(tmp_path: Path) -> None:
    of = replace(document(tmp_path, manuscript("It gains.", "See [#effects].")), bibliography=())
    done = typeset(tmp_path, of)
    assert done.pdf is not None, done.log[-2000:]
    found = pdf.read(done.pdf, of)
    assert found.defects == ()
    assert found.explained == found.digits > 50


@pytest.mark.parametrize("kind", TYPED)
def test_a_typed_digit_is_found(kind: str, tmp_path: Path) -> None:
    found = read(tmp_path, f"\n\nHere is {TYPED[kind]} typed.\n")
    assert found.coverage < 1.0 or found.defects
    assert {defect.code for defect in found.defects} & {
        DefectCode.UNTRACED_NUMBER,
        DefectCode.LINK_TEXT,
    }


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_link_is_found(kind: str, tmp_path: Path) -> None:
    found = read(tmp_path, f"\n\nHere is {FORGED[kind]} forged.\n")
    assert DefectCode.LINK_TEXT in {defect.code for defect in found.defects}


@pytest.mark.parametrize("character", list("½⅔²₃①９𝟗Ⅻ٣௩"))
def test_a_digit_in_disguise_is_found_or_not_printed(character: str, tmp_path: Path) -> None:
    block = Paragraph(parts=(Text(text=f"It is {character} of all."),))
    made = manuscript()
    section = Section(id="last", title="Last", blocks=(block,))
    of = document(tmp_path, made.model_copy(update={"sections": (*made.sections, section)}))
    done = typeset(tmp_path, of)
    assert done.pdf is not None
    found = pdf.read(done.pdf, of)
    boxed = r"\hpcunknown" in (tmp_path / "body.tex").read_text().rpartition("It is")[2]
    assert boxed or [(d.code, d.place.section) for d in found.defects] == [
        (DefectCode.UNTRACED_NUMBER, "last")
    ]


def test_a_layout_that_leaves_the_visible_line_out_is_found(tmp_path: Path) -> None:
    of = document(tmp_path)
    bare = of.venue.template.replace(r"\author{\hpcAuthors}", r"\author{Nobody}")
    done = typeset(tmp_path, replace(of, venue=replace(of.venue, template=bare)))
    assert done.pdf is not None
    assert DefectCode.BUILD_FAILED in {d.code for d in pdf.read(done.pdf, of).defects}


def test_a_value_that_is_another_in_the_source_is_found(tmp_path: Path) -> None:
    of = document(tmp_path)
    lay_out(tmp_path, of)
    content = (tmp_path / "content.tex").read_text()
    assert "{+0.0470}" in content
    (tmp_path / "content.tex").write_text(content.replace("{+0.0470}", "{+0.0471}"))
    done = engine.typeset(tmp_path, latex.NAME, of.epoch)
    assert done.pdf is not None
    found = [d for d in pdf.read(done.pdf, of).defects if d.code is DefectCode.LINK_TEXT]
    assert {defect.found.split()[0] for defect in found} == {"+0.0471"}


@pytest.mark.parametrize("file", ["references.tex", "appendix.tex"])
def test_a_digit_among_what_our_own_code_wrote_is_found(file: str, tmp_path: Path) -> None:
    of = document(tmp_path)
    lay_out(tmp_path, of)
    text = (tmp_path / file).read_text()
    (tmp_path / file).write_text(f"{text}\n\\par Here is 8 more.\n")
    done = engine.typeset(tmp_path, latex.NAME, of.epoch)
    assert done.pdf is not None
    found = pdf.read(done.pdf, of)
    assert found.digits - found.explained == 1
    assert DefectCode.UNTRACED_NUMBER in {defect.code for defect in found.defects}
