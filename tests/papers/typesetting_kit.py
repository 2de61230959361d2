"""A small document made by hand: a manuscript, numbers, a figure, papers of a library."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hpcscientist.papers import venue
from hpcscientist.papers.figures import draw
from hpcscientist.papers.figures.data import FigureTable
from hpcscientist.papers.typesetting import engine, latex
from hpcscientist.papers.typesetting.bibliography import entries
from hpcscientist.papers.typesetting.document import (
    Appendix,
    Drawn,
    PaperDocument,
    TracedNumber,
    numbers_of,
)
from hpcscientist.papers.typesetting.engine import missing_for_papers
from hpcscientist.records.literature import Paper
from hpcscientist.records.manuscript import (
    FigureUse,
    Manuscript,
    PaperScope,
    Section,
    parse_blocks,
    parse_line,
)

EPOCH = 1_700_000_000
VALUES = {
    "idea-0001.test.accuracy.delta": "+0.0470",
    "idea-0001.test.accuracy.interval": "[+0.0396, +0.0544]",
    "idea-0001.test.accuracy.p": "6.1e-5",
    "difference(idea-0001.test.accuracy.mean, baseline.test.accuracy.mean)": "\N{MINUS SIGN}1.25",
}
PAPERS = (
    Paper(
        paper_id="doi:10.1109/5.726791",
        title="Gradient-based learning applied to document recognition",
        authors=("LeCun, Yann", "Bottou, Léon", "Bengio, Yoshua", "Haffner, Patrick"),
        year=1998,
        venue="Proceedings of the IEEE",
        doi="10.1109/5.726791",
        source="bibtex",
        origin="refs.bib:1",
    ),
    Paper(
        paper_id="title:x",
        title="CIFAR-100 & 50 % of $x^2$ \\input{/etc/passwd} }{",
        authors=("{Ø}rsted, \\write18", "中村"),
        year=2009,
        source="bibtex",
        origin="refs.bib:2",
    ),
)
FOREST = FigureTable(
    "effects",
    "effect of each scored idea on accuracy",
    ("idea", "title", "delta", "ci_low", "ci_high", "n", "outcome", "in_paper"),
    (
        ("idea-0001", "Momentum $x$ \\alpha 中", 0.047, 0.0396, 0.0544, 5, "confirmed", True),
        ("idea-0002", "Decay", -0.035, None, None, 1, "decline", False),
    ),
    {"minimum_effect": 0.005, "metric": "accuracy", "split": "validation"},
)
TEXT = (
    "On the test split idea-0001 gains {idea-0001.test.accuracy.delta}, with the interval "
    "{idea-0001.test.accuracy.interval} and p = {idea-0001.test.accuracy.p} "
    "[@doi:10.1109/5.726791]."
)
RESULTS = (
    "See [#effects] and [@title:x; @doi:10.1109/5.726791]. On CIFAR-100 it is *really* "
    "{difference(idea-0001.test.accuracy.mean, baseline.test.accuracy.mean)}.\n\n"
    "- one point of {idea-0001.test.accuracy.delta}\n- “another” — α ≤ Ω & 中"
)


def manuscript(text: str = TEXT, results: str = RESULTS, title: str = "Momentum") -> Manuscript:
    return Manuscript(
        title=title,
        abstract=parse_blocks("It gains {idea-0001.test.accuracy.delta}."),
        sections=(
            Section(id="introduction", title="Introduction", blocks=parse_blocks(text)),
            Section(id="results", title="Results", blocks=parse_blocks(results)),
        ),
        figures=(
            FigureUse(
                id="effects",
                caption=parse_line("Effects, p = {idea-0001.test.accuracy.p}."),
                alt="A forest",
            ),
        ),
        scope=PaperScope(campaign_id="digits-00000000", ideas=("idea-0001",)),
    )


def document(
    folder: Path, made: Manuscript | None = None, name: str = venue.DEFAULT
) -> PaperDocument:
    """The document of a manuscript; its figure is drawn into `folder/figures`."""
    made = made or manuscript()
    numbers = {
        ref: TracedNumber(ref, VALUES[ref], "what it is", ("Computed as: mean of 5 trials.",))
        for ref in (str(number.ref) for number in numbers_of(made))
        if ref in VALUES
    }
    appendix = Appendix(
        (("The trials again", "hpcsci reproduce DIR --idea idea-0001"),),
        (("Recipe, hash", "0123456789abcdef" * 4),),
    )
    return PaperDocument(
        manuscript=made,
        venue=venue.load(name, folder),
        numbers=numbers,
        figures={"effects": drawn(folder)},
        bibliography=entries(PAPERS),
        appendix=appendix,
        epoch=EPOCH,
        names=("CIFAR-100", "idea-0001"),
    )


def drawn(folder: Path) -> Drawn:
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    (figures / "effects.csv").write_text(FOREST.as_csv())
    found = Drawn("effects", FOREST.title, figures / "effects.csv", "ab" * 32)
    if not draw.is_possible():
        return found
    files = {kind: figures / f"effects.{kind}" for kind in ("pdf", "svg")}
    for kind, content in _forest().items():
        files[kind].write_bytes(content)
    return replace(found, **files)


@cache
def _forest() -> dict[str, bytes]:
    return draw.draw(FOREST, 5.5)


def lay_out(folder: Path, of: PaperDocument) -> Path:
    """Write the LaTeX of a document, whose figures lie in the same folder."""
    for name, text in latex.sources(of).items():
        (folder / name).write_text(text)
    return folder


def typeset(
    folder: Path, of: PaperDocument, body: str = "", limits: engine.EngineLimits | None = None
) -> engine.Typeset:
    """Typeset a document; `body` is raw LaTeX that is put at the end of its text."""
    lay_out(folder, of)
    with (folder / "body.tex").open("a") as file:
        file.write(body)
    return engine.typeset(folder, latex.NAME, of.epoch, limits)


def need_tex() -> None:
    """Skip, loudly, where TeX or what reads a PDF is lacking."""
    if lacking := missing_for_papers():
        pytest.skip(f"NOT TESTED, papers by a real TeX: lacking are {'; '.join(lacking)}")
