"""Restricted text is read, written and refused; manuscripts and facts survive JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.records.facts import (
    BadReference,
    Fact,
    FactKind,
    FactRef,
    FactSheet,
    Formula,
    Op,
    parse_reference,
    printed,
    with_unit,
)
from hpcscientist.records.manuscript import (
    Citation,
    DefectCode,
    Emphasis,
    FigureRef,
    FigureUse,
    ItemList,
    Manuscript,
    NotRestrictedText,
    Number,
    PaperScope,
    Paragraph,
    Section,
    Support,
    Text,
    lines,
    parse_blocks,
    parse_line,
    written,
)

LINE = (
    "The *mean {a.mean}* is {difference(a.mean, b.mean)} above "
    "[@doi:10.1/x; @arxiv:2401.00001] in [#forest]."
)


def test_line_of_every_part() -> None:
    assert parse_line(LINE) == (
        Text(text="The "),
        Emphasis(parts=(Text(text="mean "), Number(ref=FactRef(id="a.mean")))),
        Text(text=" is "),
        Number(ref=Formula(op=Op.DIFFERENCE, args=(FactRef(id="a.mean"), FactRef(id="b.mean")))),
        Text(text=" above "),
        Citation(papers=("doi:10.1/x", "arxiv:2401.00001")),
        Text(text=" in "),
        FigureRef(id="forest"),
        Text(text="."),
    )
    assert written(parse_line(LINE)) == LINE


def test_blocks() -> None:
    text = "One paragraph\nof two lines.\n\nThese:\n- first *item*\n- {a.mean}\n\nLast."
    first, before, items, last = parse_blocks(text)
    assert first == Paragraph(parts=(Text(text="One paragraph of two lines."),))
    assert before == Paragraph(parts=(Text(text="These:"),))
    assert isinstance(items, ItemList)
    assert [written(item) for item in items.items] == ["first *item*", "{a.mean}"]
    assert last == Paragraph(parts=(Text(text="Last."),))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("\\input{/etc/passwd}", DefectCode.SYNTAX),
        ("a $x$ b", DefectCode.SYNTAX),
        ("x^2", DefectCode.SYNTAX),
        ("<script>", DefectCode.SYNTAX),
        ("&#49; and &frac12;", DefectCode.SYNTAX),
        ("{a.mean", DefectCode.SYNTAX),
        ("a.mean}", DefectCode.SYNTAX),
        ("{1 + 1}", DefectCode.SYNTAX),
        ("{exp(a)}", DefectCode.SYNTAX),
        ("{sum(a, b}", DefectCode.SYNTAX),
        ("{" + "sum(" * 20 + "a" + ")" * 20 + "}", DefectCode.SYNTAX),
        ("*a", DefectCode.SYNTAX),
        ("see [1]", DefectCode.SYNTAX),
        ("see [@]", DefectCode.SYNTAX),
        ("1\u200b2", DefectCode.HIDDEN_CHARACTER),
        ("\u202e21\u202c", DefectCode.HIDDEN_CHARACTER),
        ("a\u00adb", DefectCode.HIDDEN_CHARACTER),
        ("1\ufe0f", DefectCode.HIDDEN_CHARACTER),
        ("a\x07", DefectCode.HIDDEN_CHARACTER),
        ("\ue000", DefectCode.HIDDEN_CHARACTER),
        ("x" * 20_001, DefectCode.TOO_LONG),
    ],
)
def test_refused(text: str, code: DefectCode) -> None:
    with pytest.raises(NotRestrictedText) as refused:
        parse_line(text)
    assert refused.value.code is code


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parts = parse_line(text)
    except NotRestrictedText:
        return
    assert parse_line(written(parts)) == parts


@pytest.mark.parametrize("text", ["", "a b", "a,", "sum()", "sum(a))", "difference(a, b", "{a}"])
def test_bad_references(text: str) -> None:
    with pytest.raises(BadReference):
        parse_reference(text)


@pytest.mark.parametrize(
    ("value", "uncertainty", "text"),
    [
        (0.925812, 0.0084123, "0.9258"),
        (0.925812, 0.0996, "0.93"),
        (12345.6, 210.0, "12350"),
        (-0.00412, 0.0015, "\N{MINUS SIGN}0.0041"),
        (-0.0000001, 0.01, "0.000"),
        (16.0, None, "16"),
        (0.0123456, None, "0.01235"),
        (0.99999, None, "1.000"),
        (3.2e-8, None, "3.200e-8"),
        (0.0, None, "0"),
        (5.0, 0.0, "5"),
    ],
)
def test_rounding(value: float, uncertainty: float | None, text: str) -> None:
    assert printed(value, uncertainty) == text


def test_signs_and_units() -> None:
    assert printed(0.0213, 0.0041, signed=True) == "+0.0213"
    assert with_unit("93.4", "percent") == "93.4%"
    assert with_unit("5", "seeds") == "5 seeds"


def test_json_round_trip() -> None:
    manuscript = Manuscript(
        title="On digits",
        abstract=parse_blocks(LINE),
        sections=(Section(id="results", title="Results", blocks=parse_blocks("- a\n- {a}")),),
        figures=(FigureUse(id="forest", caption=parse_line("Effects of {n} ideas."), alt="Dots"),),
        supports=(Support(paper_id="doi:10.1/x", sentence="s", quote="q"),),
        scope=PaperScope(campaign_id="c", ideas=("idea-0001",)),
    )
    assert Manuscript.model_validate_json(manuscript.model_dump_json()) == manuscript
    places = [(str(place.section), place.paragraph) for place, _ in lines(manuscript)]
    assert places == [
        ("title", 1),
        ("abstract", 1),
        ("results", 1),
        ("results", 1),
        ("results", 1),
        ("figure:forest", 1),
        ("figure:forest", 1),
    ]
    fact = Fact(id="a.mean", label="a", kind=FactKind.METRIC, value=1.0, text="1")
    sheet = FactSheet(campaign_id="c", recipe="r", metrics=(), ideas=(), facts=(fact,))
    assert FactSheet.model_validate_json(sheet.model_dump_json()) == sheet
    assert sheet.by_id["a.mean"] is sheet.facts[0]
