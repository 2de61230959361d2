"""What is wrong is named by code and with the fact to write; context counts as a reader reads."""

from __future__ import annotations

import pytest

from hpcscientist.bench.papers.campaign import PaperShelf, sheet
from hpcscientist.papers.check import check, coverage
from hpcscientist.papers.walls.citations import misfit
from hpcscientist.records.manuscript import (
    Defect,
    DefectCode,
    FigureUse,
    Manuscript,
    PaperScope,
    Paragraph,
    Section,
    Support,
    Text,
    parse_blocks,
    parse_line,
)

FACTS, PAPERS = sheet(), PaperShelf()
REST = (
    "The campaign tried {campaign.ideas.proposed} ideas, of which {campaign.ideas.failed} failed. "
    "All p-values are adjusted."
)


def defects(
    text: str,
    *ideas: str,
    title: str = "Results",
    rest: str = REST,
    figures: tuple[FigureUse, ...] = (),
    supports: tuple[Support, ...] = (),
) -> list[Defect]:
    manuscript = Manuscript(
        title="On recordings",
        abstract=parse_blocks(rest),
        sections=(Section(id="results", title=title, blocks=parse_blocks(text)),),
        figures=figures,
        supports=supports,
        scope=PaperScope(campaign_id="sounds-0001", ideas=ideas),
    )
    return check(manuscript, FACTS, PAPERS)


def codes(text: str, *ideas: str, title: str = "Results") -> list[DefectCode]:
    return [defect.code for defect in defects(text, *ideas, title=title)]


@pytest.mark.parametrize(
    ("text", "code", "fix"),
    [
        ("idea-0001 has a mean F1 of 0.8617 on test.", DefectCode.TYPED_NUMBER,
         "{idea-0001.test.f1.mean}"),
        ("idea-0005 has a mean F1 of {idea-0001.test.f1.mean} on test.", DefectCode.WRONG_IDEA,
         "{idea-0005.test.f1.mean}"),
        ("On test, idea-0001 has a mean F1 of {idea-0001.validation.f1.mean}.",
         DefectCode.WRONG_SPLIT, "{idea-0001.test.f1.mean}"),
        ("On test, idea-0001 has a mean F1 of {idea-0001.test.f1.best}.",
         DefectCode.WRONG_STATISTIC, "{idea-0001.test.f1.mean}"),
        ("On test, idea-0001 has a mean loss of {idea-0001.test.f1.mean}.",
         DefectCode.WRONG_METRIC, "{idea-0001.test.loss.mean}"),
        ("idea-0001 gains {idea-0001.test.f1.delta} percent on test.", DefectCode.WRONG_UNIT,
         "{points(idea-0001.test.f1.delta)}"),
        ("Without warm-up, idea-0001 has {idea-0001.validation.f1.mean} on validation.",
         DefectCode.WRONG_RUN, "{idea-0001.ablation-2.validation.f1.mean}"),
        ("idea-0001 has a mean F1 of {idea-0001.test.f1.mean} over {recipe.seeds} seeds on test.",
         DefectCode.WRONG_COUNT, "{idea-0001.test.f1.n}"),
        ("idea-0001 has a mean F1 of {idea-0001.tests.f1.mean} on test.", DefectCode.UNKNOWN_FACT,
         "{idea-0001.test.f1.mean}"),
        ("idea-0001 lowers the mean F1 by {idea-0001.test.f1.delta} on test.",
         DefectCode.WRONG_SIGN, "rose"),
        ("idea-0002 improves on the baseline.", DefectCode.UNCONFIRMED, "not confirmed"),
        ("The baseline lies below a published F1 of {recipe.published}.",
         DefectCode.FOREIGN_SETUP, "ten times as many recordings"),
        ("idea-0005 has the largest gain on test.", DefectCode.CONTRADICTED, "idea-0001"),
        ("idea-0006 was rejected.", DefectCode.CONTRADICTED, "failed"),
        ("idea-0001 has no effect.", DefectCode.CONTRADICTED, "improvement"),
        ("idea-0001 is optimal.", DefectCode.BEYOND_EVIDENCE, "leave it"),
        ("See [@arxiv:9999.99999].", DefectCode.UNKNOWN_PAPER, "library"),
        ("See [#tree].", DefectCode.UNKNOWN_FIGURE, "no figures"),
    ],
)  # fmt: skip
def test_code_and_nearest_fact(text: str, code: DefectCode, fix: str) -> None:
    found = defects(text)
    assert code in {defect.code for defect in found}
    assert any(fix in defect.fix for defect in found if defect.code is code)
    assert {str(defect.place) for defect in found} == {"results, paragraph 1"}


def test_what_a_sentence_leaves_out_is_taken_from_those_before() -> None:
    begun = "On validation, idea-0001 has a mean F1 of {idea-0001.validation.f1.mean}. "
    assert codes(begun + "Its standard deviation is {idea-0001.validation.f1.sd}.") == []
    assert codes(begun + "Its standard deviation is {idea-0001.test.f1.sd}.") == [
        DefectCode.WRONG_SPLIT
    ]
    assert codes(begun + "Its standard deviation is {idea-0005.validation.f1.sd}.") == [
        DefectCode.WRONG_IDEA
    ]
    apart = begun + "\n\nIts standard deviation is {idea-0001.validation.f1.sd}."
    assert DefectCode.WRONG_SPLIT in codes(apart)


def test_a_title_says_on_which_split_its_section_is() -> None:
    text = "idea-0001 has a mean F1 of {idea-0001.validation.f1.mean}."
    assert codes(text, title="The search on the validation split") == []
    assert codes(text, title="Results") == [DefectCode.WRONG_SPLIT]


def test_our_method_is_the_idea_of_a_manuscript_about_one() -> None:
    text = "Our method gains {idea-0001.test.f1.delta} on test, and improves on the baseline."
    assert codes(text, "idea-0001") == []
    assert DefectCode.WRONG_IDEA in codes(text, "idea-0005")
    assert DefectCode.WRONG_IDEA in codes(text), "of a campaign nobody knows which one that is"
    assert DefectCode.UNCONFIRMED in codes("Our method improves on the baseline.", "idea-0002")


def test_emphasis_hides_nothing() -> None:
    assert codes("The gain was tw*o* points.") == [DefectCode.TYPED_NUMBER]
    assert codes("*idea-0001* has *a mean F1 of {idea-0005.test.f1.mean}* on test.") == [
        DefectCode.WRONG_IDEA
    ]


def test_captions_titles_and_alternative_texts_are_text() -> None:
    figures = (
        FigureUse(id="forest", caption=parse_line("Effects of 8 ideas."), alt="Seven dots"),
        FigureUse(id="tree", caption=parse_line("The tree of attempts.")),
    )
    found = defects("See [#forest].", title="Our 2 findings", figures=figures)
    assert [(d.code, d.place.section) for d in found] == [
        (DefectCode.TYPED_NUMBER, "results"),
        (DefectCode.TYPED_NUMBER, "figure:forest"),
        (DefectCode.TYPED_NUMBER, "figure:forest"),
        (DefectCode.UNUSED_FIGURE, "figure:tree"),
    ]


def test_what_has_to_be_told() -> None:
    found = defects("Nothing else.", rest="A campaign on recordings.")
    assert [d.code for d in found] == [DefectCode.NOT_TOLD] * 3
    assert ["campaign.ideas.proposed" in d.fix for d in found] == [True, False, False]


def test_a_supported_paper_is_cited() -> None:
    support = Support(paper_id="arxiv:1710.09412", sentence="s", quote="q")
    assert [d.code for d in defects("Words.", supports=(support,))] == [DefectCode.UNCITED_PAPER]


@pytest.mark.parametrize(
    ("sentence", "quote", "fits"),
    [
        ("Mixup trains on convex combinations of pairs.", "convex combinations of pairs of", True),
        ("Mixup trains on convex combinations.", "on convex combinations", False),  # too short
        ("Mixup trains on convex combinations.", "convex combinations of three words", False),
        ("Mixup doubles the examples.", "convex combinations of pairs of examples", False),
        ("Mixup does not favour linear behaviour between examples.",
         "favour simple linear behaviour between training examples", False),
    ],
)  # fmt: skip
def test_what_supports_a_sentence(sentence: str, quote: str, fits: bool) -> None:
    paper = PAPERS.papers["arxiv:1710.09412"]
    assert (misfit(sentence, quote, paper) == "") is fits


def test_coverage_counts_what_is_traced_and_what_is_not() -> None:
    text = "idea-0001 has {idea-0001.test.f1.mean} on test, not {no.fact} and not 0.9."
    manuscript = Manuscript(
        title="t",
        abstract=parse_blocks(REST),
        sections=(Section(id="results", title="Results", blocks=parse_blocks(text)),),
        scope=PaperScope(campaign_id="sounds-0001"),
    )
    told = coverage(manuscript, FACTS, check(manuscript, FACTS, PAPERS))
    assert (told.traced, told.untraced, told.share) == (3, 2, 0.6)


def test_a_tree_that_was_not_parsed_hides_nothing() -> None:
    """Who writes manuscript.json by hand may put a reference, or its mark, into words."""
    for text in ("as {idea-0001.test.f1.mean} here", "a mark \ufffc here", "two\u200b words"):
        manuscript = Manuscript(
            title="t",
            abstract=parse_blocks(REST),
            sections=(
                Section(id="results", title="R", blocks=(Paragraph(parts=(Text(text=text),)),)),
            ),
            scope=PaperScope(campaign_id="sounds-0001"),
        )
        (defect,) = check(manuscript, FACTS, PAPERS)
        assert defect.code in (DefectCode.SYNTAX, DefectCode.HIDDEN_CHARACTER)
