"""The engine's log as defects of paragraphs: excerpts as pdfTeX 1.40.24 writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.papers.typesetting.builder import defects_of
from hpcscientist.papers.typesetting.engine import Typeset
from hpcscientist.records.manuscript import DefectCode

LOG = r"""
hpc-place abstract/1
hpc-place introduction/2

LaTeX Warning: Citation `unknown-paper' on page 1 undefined on input line 12.

Overfull \hbox (300.63983pt too wide) in paragraph at lines 9--9
[]\T1/lmr/m/n/10.95 word
hpc-place figure:effects/1

LaTeX Warning: File `figures/missing-effects' not found on input line 3.

hpc-place results/4
LaTeX Warning: Reference `hpc-figure-x' on page 2 undefined on input line 17.
Missing character: There is no ^^e4 in font lmr10!
Underfull \hbox (badness 10000) in paragraph at lines 3--4
pdfTeX warning (dest): name{hpc.x} has been referenced but does not exist, replaced by a fixed one
Overfull \vbox (12.0pt too high) has occurred while \output is active
hpc-place layout/1

LaTeX Warning: Label(s) may have changed. Rerun to get cross-references right.
LaTeX Warning: There were undefined references.
Package rerunfilecheck Warning: File `paper.out' has changed.
(rerunfilecheck)                Rerun to get outlines right
./body.tex:7: Undefined control sequence.
"""


def made(log: str, stopped: str = "", pdf: Path | None = Path("paper.pdf")) -> Typeset:
    return Typeset(pdf, log, stopped, 1, 0.0, 0.0)


def test_each_complaint_is_a_defect_of_its_paragraph() -> None:
    found = [(d.code, d.place.section, d.place.paragraph) for d in defects_of(made(LOG))]
    assert found == [
        (DefectCode.UNDEFINED_REFERENCE, "introduction", 2),
        (DefectCode.OVERFULL_BOX, "introduction", 2),
        (DefectCode.MISSING_FIGURE, "figure:effects", 1),
        (DefectCode.UNDEFINED_REFERENCE, "results", 4),
        (DefectCode.BUILD_FAILED, "results", 4),
        (DefectCode.UNDEFINED_REFERENCE, "results", 4),
        (DefectCode.OVERFULL_BOX, "results", 4),
        (DefectCode.BUILD_FAILED, "layout", 1),
    ]


def test_of_a_broken_pass_only_what_broke_it_is_told() -> None:
    codes = {d.code for d in defects_of(made(LOG, "", None))}
    assert codes == {DefectCode.BUILD_FAILED, DefectCode.MISSING_FIGURE}


def test_what_is_said_of_a_first_pass_is_no_defect() -> None:
    log = LOG[LOG.index("LaTeX Warning: Label") : LOG.index("./body")]
    assert defects_of(made(log)) == []


@pytest.mark.parametrize("bound", ["deadline", "memory", "output", "processes"])
def test_a_bound_that_was_met_is_told(bound: str) -> None:
    (defect,) = defects_of(made("", bound, None))
    assert defect.code is DefectCode.BUILD_FAILED


def test_no_pdf_and_no_reason_is_a_defect_too() -> None:
    assert [d.code for d in defects_of(made("This is pdfTeX", "", None))] == [
        DefectCode.BUILD_FAILED
    ]
