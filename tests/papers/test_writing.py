"""A manuscript is written section by section, and nothing stands that a wall refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from writing_kit import (
    BRIEF,
    IDEA,
    NAMES,
    OUTLINE,
    SHEET,
    TEXTS,
    Script,
    Shelf,
    advice,
    only,
    section,
    walls,
    written,
)

from hpcscientist.errors import EndpointError, ReplyError
from hpcscientist.files.rundir import PaperPaths
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.models.prompting.fitting import TokenEstimate
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.papers.writing import drafts
from hpcscientist.papers.writing.brief import MOST, facts_for
from hpcscientist.papers.writing.evidence import FoundPapers, sentences_of
from hpcscientist.records.facts import Statistic
from hpcscientist.records.manuscript import (
    Defect,
    DefectCode,
    Manuscript,
    Place,
    lines,
    parse_line,
)
from hpcscientist.records.manuscript import written as plain
from hpcscientist.records.model_calls import ModelReply, ModelRequest

INTRODUCTION, RELATED, RESULTS = "section/101", "section/201", "section/601"


def texts(manuscript: Manuscript, place: str) -> list[str]:
    return [plain(line) for where, line in lines(manuscript) if where.section == place]


def test_calls_of_a_good_writer() -> None:
    script = Script()
    done = written(script)
    assert script.calls() == [
        "outline/1", "related/1", "related/2",
        *(key for n in (1, 2, 4, 6, 7, 9) for key in (f"section/{n}01", f"checklist/{n}")),
        "whole/1",
    ]  # fmt: skip
    assert done.defects == ()
    assert (done.sent_back, done.struck) == (0, ())
    manuscript = done.manuscript
    assert manuscript.title == OUTLINE["title"]
    assert [part.id for part in manuscript.sections] == list(NAMES)
    assert texts(manuscript, "method") == ["Method", TEXTS["method"]]
    assert texts(manuscript, "abstract") == [TEXTS["abstract"]]
    assert [use.id for use in manuscript.figures] == ["forest"]
    assert manuscript.scope.ideas == (IDEA,)
    assert Manuscript.model_validate_json(manuscript.model_dump_json()) == manuscript


def test_a_citation_is_a_paper_with_the_sentence_that_bears_it_out() -> None:
    manuscript = written(Script()).manuscript
    (support,) = manuscript.supports
    assert support.paper_id == "title:aa"
    assert support.sentence == "A velocity gathers gradient directions [@title:aa]."
    assert support.quote.startswith("The velocity accumulates")
    assert texts(manuscript, "related-work")[1].startswith(support.sentence)


def test_a_section_s_writer_is_shown_what_was_kept_and_for_what() -> None:
    script = Script()
    written(script)
    asked = {request.key: request.messages[0].content for request in script.asked}
    kept = "[@sutskever2013#2] The velocity accumulates consistent gradient directions of earlier"
    assert f"- {kept} steps. (Kept for: velocity)\n" in asked[RELATED]
    assert kept in asked[INTRODUCTION]
    assert kept not in asked[RESULTS], "a section that cites nothing is shown nothing to cite"


def test_roles_write_and_judge() -> None:
    script = Script()
    written(script)
    by_stage = {request.stage: request.role for request in script.asked}
    assert by_stage == {
        "outline": "writing", "related": "writing", "section": "writing",
        "checklist": "review", "whole": "review",
    }  # fmt: skip


def test_a_defect_goes_back_with_what_to_write() -> None:
    bad = section("Accuracy rises to 0.97.")
    script = Script(only(INTRODUCTION, bad))
    done = written(script)
    first, second = (r for r in script.asked if r.key in (INTRODUCTION, "section/102"))
    said = second.messages[-1].content
    assert "typed_number" in said
    assert "0.97" in said
    assert "write the id of a fact" in said
    assert json.loads(second.messages[-2].content)["paragraphs"] == bad["paragraphs"]
    assert second.temperature > first.temperature
    assert second.seed != first.seed
    assert done.sent_back == 1
    assert done.defects == ()
    assert texts(done.manuscript, "introduction")[1] == TEXTS["introduction"]


def test_latex_goes_back_too() -> None:
    script = Script(only(INTRODUCTION, section("Read \\input{/etc/passwd}.")))
    done = written(script)
    second = next(r for r in script.asked if r.key == "section/102")
    assert "introduction, paragraph 1: syntax" in second.messages[-1].content
    assert texts(done.manuscript, "introduction")[1] == TEXTS["introduction"]


def test_a_reply_that_repeats_a_refused_one_is_no_try() -> None:
    bad = section("Accuracy is 0.97.")
    keys = ("section/101", "section/102", "section/103")
    script = Script(*(only(key, bad) for key in keys))
    done = written(script, repairs=1)
    assert texts(done.manuscript, "introduction")[1] == TEXTS["introduction"]
    first, again = (r.messages[-1].content for r in script.asked if r.key in keys[1:])
    assert "before" in again
    assert "before" not in first
    assert done.struck == ()


def test_of_a_defect_that_stays_the_sentence_goes() -> None:
    kept = "The effect is {idea-0001.test.accuracy.delta}."

    def stubborn(request: ModelRequest) -> Any:
        wrong = f"It is 0.9{request.ordinal} now. {kept}"
        return section(wrong) if request.key.startswith("section/6") else None

    script = Script(stubborn)
    done = written(script, repairs=2)
    assert len([key for key in script.calls() if key.startswith("section/6")]) == 3
    assert texts(done.manuscript, "results") == ["Results", kept]
    assert done.struck == ("results",)
    assert done.defects == ()


def test_a_section_of_which_nothing_is_left_lists_its_facts() -> None:
    def stubborn(request: ModelRequest) -> Any:
        return section(f"It is {request.ordinal}.") if request.key.startswith("section/6") else None

    done = written(Script(stubborn), repairs=1)
    _, first, *items = texts(done.manuscript, "results")
    assert "No text" in first
    assert "{idea-0001.test.accuracy.delta}" in items[0]
    assert done.defects == ()


def test_captions_are_of_the_section_s_figures_alone() -> None:
    text = "See [#forest]."
    script = Script(only(RESULTS, section(text, forest="All *effects*.", other="Nothing.")))
    (use,) = written(script).manuscript.figures
    assert plain(use.caption) == "All *effects*."


def test_the_figures_of_other_sections_cannot_be_replied() -> None:
    script = Script()
    written(script)
    of = {r.key: r.reply_schema or {} for r in script.asked}
    figure = of[RESULTS]["$defs"]["Caption"] if "$defs" in of[RESULTS] else {}
    assert figure
    assert "forest" in json.dumps(of[RESULTS])
    assert of[INTRODUCTION]["properties"]["captions"]["maxItems"] == 0
    assert of["outline/1"]["properties"]["sections"]["maxItems"] == len(NAMES)
    assert '"enum": ["sutskever2013#1", "sutskever2013#2"]' in json.dumps(of["related/1"])


def test_a_question_that_is_not_met_has_the_section_refined() -> None:
    questions = [q.id for q in advice("method").checklist]
    answers = [{"question": q, "met": q != "exact", "remark": "Say the rule."} for q in questions]
    better = "The velocity keeps {idea-0001.MOMENTUM} of itself, plus a step."
    script = Script(only("checklist/4", {"answers": answers}), only("refine/401", section(better)))
    done = written(script)
    refined = next(r for r in script.asked if r.key == "refine/401")
    assert "Say the rule." in refined.messages[0].content
    assert TEXTS["method"] in refined.messages[0].content
    assert texts(done.manuscript, "method")[1] == better


def test_a_refinement_with_defects_leaves_what_stood() -> None:
    remark = {"remarks": [{"section": "results", "remark": "Say more."}]}

    def worse(request: ModelRequest) -> Any:
        return section(f"Now {request.ordinal}.") if request.stage == "refine" else None

    done = written(Script(only("whole/1", remark), worse), repairs=1)
    assert texts(done.manuscript, "results")[1] == TEXTS["results"]
    assert done.struck == ()


def test_without_refinement_nobody_judges() -> None:
    script = Script()
    written(script, refine=False)
    assert {r.stage for r in script.asked} == {"outline", "related", "section"}


def test_a_title_with_a_number_is_asked_for_again_and_given_up() -> None:
    def numbered(request: ModelRequest) -> Any:
        title = f"Our {request.ordinal} ideas"
        return OUTLINE | {"title": title} if request.stage == "outline" else None

    script = Script(numbered)
    assert written(script, repairs=2).manuscript.title == BRIEF.title
    assert script.calls("outline") == ["outline/1", "outline/2", "outline/3"]
    first = next(r for r in script.asked if r.key == INTRODUCTION)
    assert f"## The paper\n{BRIEF.title}\n" in first.messages[0].content


def test_a_title_without_words_gives_way_to_the_idea_s() -> None:
    def bare(request: ModelRequest) -> Any:
        return OUTLINE | {"title": ","} if request.stage == "outline" else None

    assert written(Script(bare)).manuscript.title == BRIEF.title


def test_rounds_of_search_end_when_nothing_new_is_found() -> None:
    def hungry(request: ModelRequest) -> Any:
        return {"query": f"momentum {request.ordinal}", "done": False} \
            if request.stage == "related" else None  # fmt: skip

    script, shelf = Script(hungry), Shelf()
    written(script, library=shelf, related_rounds=6)
    assert script.calls("related") == ["related/1", "related/2", "related/3"]
    assert shelf.queries == [BRIEF.query, "momentum 1", "momentum 2"]


@pytest.mark.parametrize("library", [Shelf(()), Shelf()])
def test_without_papers_nothing_is_cited(library: Shelf) -> None:
    quiet = only(RELATED, section("Nothing is known of it."))
    done = written(Script(quiet), library=library, related_rounds=0)
    assert done.manuscript.supports == ()


def test_a_key_that_nobody_knows_stays_for_the_walls() -> None:
    evidence = FoundPapers(Shelf())
    evidence.offer(["title:aa"], "velocity")
    line = parse_line("As said [@nobody1999; @sutskever2013]. And [@title:aa].")
    found, cited = evidence.resolved(line)
    assert plain(found) == "As said [@nobody1999; @title:aa]. And [@title:aa]."
    assert {paper for paper, _ in cited} == {"title:aa"}


def test_a_writer_is_shown_its_own_keys() -> None:
    evidence = FoundPapers(Shelf())
    evidence.offer(["title:aa", "doi:10.1/x"], "velocity")
    text = "Both gather [@sutskever2013#2; @krogh1991#1]. So it is."
    draft = drafts.read(advice("related-work"), _reply(text), evidence, {})
    assert draft.text() == "Both gather [@title:aa; @doi:10.1/x]. So it is."
    assert evidence.as_cited(draft.text(), draft.supports) == text


def test_a_citation_after_a_full_stop_is_of_the_sentence_before() -> None:
    line = parse_line("It works. [@a] The rest follows. [@b; @c]")
    assert [drafts.said(s) for s in drafts.sentences(line)] == [
        "It works. [@a]", "The rest follows. [@b; @c]",
    ]  # fmt: skip


def test_a_sentence_with_what_nobody_sees_is_not_offered() -> None:
    plain_one, hidden = "These five words are seen.", "These five words\u200b are hidden."
    assert sentences_of(f"{plain_one} {hidden}") == [plain_one]


@given(st.text(max_size=300))
def test_sentences_are_words_of_their_paper(text: str) -> None:
    whole = " ".join(text.split())
    for sentence in sentences_of(text):
        assert sentence in whole


def test_facts_of_a_section_are_its_own_idea_s_and_few() -> None:
    many = SHEET.model_copy(update={"facts": SHEET.facts * 20})
    for section_advice in (advice("results"), advice("method"), advice("limitations")):
        found = facts_for(section_advice, many, (IDEA,))
        assert 0 < len(found) <= MOST
        assert {fact.scope.idea for fact in found} <= {None, "baseline", IDEA}
    alone = facts_for(advice("results"), SHEET, (IDEA,))
    assert all(fact.scope.statistic is not Statistic.BEST for fact in alone)
    assert facts_for(advice("results"), SHEET, (IDEA,))[0].id == "idea-0001.test.accuracy.delta"
    campaign = {fact.scope.idea for fact in facts_for(advice("results"), SHEET, ())}
    assert {"idea-0001", "idea-0002", "baseline"} <= campaign


def test_defects_of_the_document_go_back_at_most_so_often() -> None:
    built = list[int]()

    async def build(manuscript: Manuscript) -> Sequence[Defect]:
        built.append(len(built))
        place = Place(section="method", paragraph=1)
        return (Defect(code=DefectCode.OVERFULL_BOX, place=place, found="x", fix="break it"),)

    def other(request: ModelRequest) -> Any:
        if request.stage != "mend":
            return None
        assert "break it" in request.messages[0].content
        return section(f"The velocity keeps {'very ' * (request.ordinal % 100)}little.")

    script = Script(other)
    done = written(script, build=build, fixes=3)
    assert len(built) == 4
    assert script.calls("mend") == ["mend/401", "mend/411", "mend/421"]
    assert done.defects == ()  # of the walls; the document is the builder's


def test_a_document_that_is_fixed_is_not_built_again() -> None:
    built = list[int]()

    async def build(manuscript: Manuscript) -> Sequence[Defect]:
        built.append(1)
        place = Place(section="document")
        page = Defect(code=DefectCode.PAGE_COUNT, place=place, found="11", fix="one page less")
        return () if len(built) > 1 else (page,)

    script = Script(lambda r: section("Short.") if r.stage == "mend" else None)
    written(script, build=build)
    assert len(built) == 2
    assert len(script.calls("mend")) == 1


def test_what_is_not_told_is_told_where_limits_are() -> None:
    def check(manuscript: Manuscript) -> list[Defect]:
        said = " ".join(plain(line) for _, line in lines(manuscript))
        place = Place(section="limitations")
        lacking = "{campaign.ideas.failed}"
        defect = Defect(
            code=DefectCode.NOT_TOLD, place=place, found="failed", fix=f"tell {lacking}"
        )
        return [*walls(manuscript), *(() if lacking in said else (defect,))]

    told = section("Of all ideas {campaign.ideas.failed} failed.")
    script = Script(lambda r: told if r.stage == "mend" else None)
    done = written(script, check)
    assert script.calls("mend") == ["mend/701"]
    assert texts(done.manuscript, "limitations")[1] == told["paragraphs"][0]
    assert done.defects == ()


def test_what_a_writer_never_tells_is_told_in_its_place() -> None:
    def check(manuscript: Manuscript) -> list[Defect]:
        said = " ".join(plain(line) for _, line in lines(manuscript))
        place = Place(section="limitations")
        defect = Defect(code=DefectCode.NOT_TOLD, place=place, found="tried", fix="tell it")
        return [] if "{campaign.ideas.proposed}" in said else [defect]

    done = written(Script(), check, fixes=1)
    assert done.defects == ()
    first, last = texts(done.manuscript, "limitations")[1:]
    assert first == TEXTS["limitations"]
    assert "{campaign.ideas.failed} failed" in last


class Killed(BaseException):
    """What a driver dies of."""


class Dies(Script):
    """A model whose process ends at its call number `at`."""

    def __init__(self, at: int, *answers: Any) -> None:
        super().__init__(*answers)
        self.at = at

    async def complete(self, request: ModelRequest) -> ModelReply:
        if len(self.asked) == self.at:
            raise Killed
        return await super().complete(request)


def test_killed_at_any_call_it_goes_on_to_the_same_paper(tmp_path: Path) -> None:
    bad = only(INTRODUCTION, section("It is 3."))
    remark = only("whole/1", {"remarks": [{"section": "results", "remark": "Say more."}]})
    whole = Script(bad, remark)
    expected = written(whole).manuscript
    for at in range(len(whole.asked)):
        folder = PaperPaths(tmp_path / str(at))
        first, second = Dies(at, bad, remark), Script(bad, remark)
        with pytest.raises(Killed):
            written(RecordedModel(first, folder, lambda *_: None))
        found = written(RecordedModel(second, folder, lambda *_: None)).manuscript
        assert found == expected
        assert first.calls() + second.calls() == whole.calls(), "no call is asked twice"


def test_a_recorded_paper_is_a_playbook(tmp_path: Path) -> None:
    """`playbook:DIR` answers the calls of the papers that a run directory holds."""
    expected = written(RecordedModel(Script(), PaperPaths(tmp_path / "papers"), lambda *_: None))
    assert written(PlaybookModel(tmp_path)).manuscript == expected.manuscript


def test_an_endpoint_that_fails_is_told_and_nothing_is_made_up(tmp_path: Path) -> None:
    class Gone(Script):
        async def complete(self, request: ModelRequest) -> ModelReply:
            if request.stage == "section":
                raise EndpointError("http://127.0.0.1:1/v1: no answer")
            return await super().complete(request)

    with pytest.raises(EndpointError):
        written(Gone())


def test_without_an_outline_there_is_no_paper() -> None:
    with pytest.raises(ReplyError):
        written(Script(lambda request: "no JSON"))


def test_a_small_context_is_respected() -> None:
    long = BRIEF.__class__(**{f: getattr(BRIEF, f) for f in BRIEF.__slots__} | {
        "fields": tuple((f"Field {n}", "word " * 200) for n in range(30)),
    })  # fmt: skip
    script, context = Script(), 4096
    written(script, brief=long, context=context)
    for request in script.asked:
        assert TokenEstimate().count(request.messages) + 512 <= context


HOSTILE = st.sampled_from(
    [
        "\\input{/etc/passwd}", "\\write18{rm -rf /}", "$x$", "<script>alert(1)</script>",
        "\\def\\a{\\a}\\a", "{", "}", "{sum(", "[@", "[#forest", "[@sutskever2013#9]", "*", "%",
        "&#48;", "\u202e123\u202c", "9\u200b7", "x" * 30_000, "{idea-0001.test.accuracy.mean}",
        "[@sutskever2013#2]", "[#forest]", "[#/etc/passwd]", "- item", "\n\n", "97 %", "plain.",
    ]
)  # fmt: skip


@settings(max_examples=25)
@given(st.lists(st.lists(HOSTILE, min_size=1, max_size=4), min_size=1, max_size=6), st.data())
def test_a_hostile_writer_is_refused_or_harmless(replies: list[list[str]], data: Any) -> None:
    def answer(request: ModelRequest) -> Any:
        if request.stage not in ("section", "refine", "mend"):
            return None
        chosen = replies[request.ordinal % len(replies)]
        return section(" ".join(chosen), forest=chosen[0])

    done = written(Script(answer), repairs=1, fixes=1)
    assert done.defects == ()
    for place, line in lines(done.manuscript):
        said = plain(line)
        assert "\\" not in said, place
        assert "<script" not in said
        assert "/etc" not in said
    texts_of = {p.paper_id: p.abstract for p in Shelf().papers}
    for support in done.manuscript.supports:
        assert support.quote in texts_of[support.paper_id]


def _reply(text: str) -> Any:
    from hpcscientist.records.writing import SectionReply  # noqa: PLC0415

    return SectionReply(paragraphs=(text,))


def test_asking_is_sequential_for_one_paper_and_independent_for_two(tmp_path: Path) -> None:
    """Papers are written side by side, each with a record of its own."""

    async def both() -> list[Manuscript]:
        from writing_kit import writer  # noqa: PLC0415

        folder = PaperPaths(tmp_path)
        model = RecordedModel(Script(), folder, lambda *_: None)
        other = BRIEF.__class__(**{f: getattr(BRIEF, f) for f in BRIEF.__slots__} | {
            "subject": "campaign", "number": 0,
        })  # fmt: skip
        done = await asyncio.gather(writer(model).write(), writer(model, brief=other).write())
        return [d.manuscript for d in done]

    first, second = asyncio.run(both())
    assert first.sections == second.sections
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.jsonl"))
    assert names == ["campaign/chat.jsonl", f"{IDEA}/chat.jsonl"]
