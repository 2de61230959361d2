from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from novelty_kit import SHELF, Shelf
from proposing_kit import Scripted, an_idea, review

from hpcscientist.errors import EndpointError, LibraryError, PlaybookExhausted, ReplyError
from hpcscientist.ideation.novelty import NoveltyJudge
from hpcscientist.models.prompting.fitting import TokenEstimate, Window
from hpcscientist.records.idea import idea_seed
from hpcscientist.records.model_calls import ModelRequest
from hpcscientist.records.proposing import NoveltyVerdict


def said(decision: str, *cited: str, query: str = "", reason: str = "So it is.") -> dict[str, Any]:
    evidence = [{"paper_id": paper_id, "why": f"what {paper_id} shows"} for paper_id in cited]
    return {"decision": decision, "query": query, "evidence": evidence, "reason": reason}


async def judged(
    *replies: Any, shelf: Shelf | None, rounds: int = 4, hits: int = 10
) -> tuple[NoveltyVerdict, Scripted]:
    model = Scripted({f"novelty/{n}": reply for n, reply in enumerate(replies, start=1)})
    verdict = await NoveltyJudge(review(model), shelf, rounds, hits).judge(an_idea())
    return verdict, model


async def test_the_first_round_has_hits_of_the_idea_s_own_words() -> None:
    shelf = Shelf(SHELF)
    verdict, model = await judged(said("not_novel", "arxiv:1"), shelf=shelf)
    assert verdict.decision == "not_novel"
    assert [(c.paper_id, c.why) for c in verdict.evidence] == [("arxiv:1", "what arxiv:1 shows")]
    assert verdict.reason == "So it is."
    assert verdict.queries == tuple(shelf.asked) == ("Wider. A wider network.",)
    assert (verdict.rounds, verdict.library) == (1, "shelf")
    (request,) = model.asked
    assert (request.subject, request.key, request.role) == ("idea-0003", "novelty/1", "review")
    assert request.seed == idea_seed(5, 3)
    prompt = model.prompt("novelty/1")
    assert "- [arxiv:1] Wider networks (2001): We double the width of a network.\n" in prompt
    assert "- Method: Double the width.\n" in prompt


async def test_rounds_search_on_and_show_the_newest_in_full_and_the_rest_by_title() -> None:
    shelf = Shelf(SHELF)
    verdict, model = await judged(
        said("search", query="accumulated gradients", reason="Look at\nmomentum."),
        said("novel", "doi:3", "arxiv:2"),
        shelf=shelf,
    )
    assert verdict.decision == "novel"
    assert [c.paper_id for c in verdict.evidence] == ["doi:3", "arxiv:2"]
    assert verdict.queries == ("Wider. A wider network.", "accumulated gradients")
    prompt = model.prompt("novelty/2")
    earlier, newest = prompt.split("## Papers found by the latest search")
    assert "- [arxiv:1] Wider networks (2001)\n" in earlier
    assert "- [doi:3] Momentum (2001): Gradients are accumulated.\n" in newest
    assert "- “accumulated gradients” (Look at momentum.): 1 paper, 1 not" in earlier
    assert "Round 2 of 4" in prompt


@pytest.mark.parametrize("decision", ["novel", "not_novel"])
async def test_a_decision_without_evidence_is_asked_for_once_more(decision: str) -> None:
    verdict, model = await judged(
        said(decision, "arxiv:99"), said(decision, " [ARXIV:2]"), shelf=Shelf(SHELF)
    )
    assert (verdict.decision, verdict.rounds) == (decision, 2)
    assert [c.paper_id for c in verdict.evidence] == ["arxiv:2"]
    assert re.search(rf"\bdecision {decision} .*no paper\b", model.prompt("novelty/2"))


@pytest.mark.parametrize(
    ("replies", "rounds", "reason"),
    [
        ([said("not_novel"), said("not_novel", "doi:3")], 4, "decision not_novel .*no paper"),
        ([said("not_novel"), said("novel")], 4, "decision novel .*no paper"),
        ([said("not_novel", "arxiv:99")], 1, "no decision .* 1 round .* 2 papers"),
        ([said("undecided", reason="Too few.")], 4, r"Too few\."),
        ([said("search", query=f"q{n}") for n in range(9)], 3, "no decision .* 3 rounds"),
        ([said("search", query="  ")] * 9, 2, "no decision .* 2 rounds"),
        (["no JSON"], 4, "judged: idea-0003: "),
        ([PlaybookExhausted("none left")], 4, "judged: none left$"),
        ([said("search", query="depth"), ReplyError("a hole")], 4, "judged: a hole$"),
    ],
)
async def test_what_remains_is_undecided(replies: list[Any], rounds: int, reason: str) -> None:
    verdict, _ = await judged(*replies, shelf=Shelf(SHELF), rounds=rounds)
    assert verdict.decision == "undecided"
    assert re.search(reason, verdict.reason)
    assert verdict.library == "shelf"


async def test_without_a_library_nobody_is_asked() -> None:
    verdict, model = await judged(shelf=None)
    assert verdict.decision == "undecided"
    assert "no library" in verdict.reason
    assert (verdict.library, model.keys) == ("", [])


async def test_with_an_empty_library_nobody_is_asked() -> None:
    verdict, model = await judged(shelf=Shelf({}))
    assert verdict.decision == "undecided"
    assert "empty" in verdict.reason
    assert model.keys == []


async def test_a_lack_of_hits_is_no_evidence_whatever_the_model_says() -> None:
    unrelated = Shelf({"x:1": ("Protein folding", "Chains fold.")})
    for decision in ("not_novel", "novel"):
        verdict, model = await judged(said(decision), said(decision), shelf=unrelated)
        assert verdict.decision == "undecided"
        assert re.match("no search .* so far", verdict.reason)
        assert "None that" in model.prompt("novelty/1")
    searching = [said("search", query=f"q{n}") for n in range(9)]
    verdict, model = await judged(*searching, shelf=unrelated)
    assert re.match("no search .* 2 rounds, .*no evidence", verdict.reason)
    assert model.keys == ["novelty/1", "novelty/2"]


async def test_there_are_no_more_rounds_where_nothing_is_left_to_find() -> None:
    """All papers were shown, or two searches in a row found none that was not shown before."""
    searching = [said("search", query=f"depth {n}") for n in range(9)]
    few = Shelf({"x:1": ("Wider", "Depth."), "x:2": ("Wider yet", "Depth.")})
    verdict, model = await judged(*searching, shelf=few)
    assert (verdict.decision, model.keys) == ("undecided", ["novelty/1"])
    many = Shelf({f"x:{n}": ("Wider", "Depth.") for n in range(20)})
    verdict, model = await judged(*searching, shelf=many, hits=2, rounds=9)
    assert (verdict.rounds, len(model.keys)) == (3, 3)
    schema = model.asked[-1].reply_schema
    assert schema is not None
    assert "search" not in schema["properties"]["decision"]["enum"]


@pytest.mark.parametrize(("fails_at", "asked"), [(1, []), (2, ["novelty/1"])])
async def test_a_damaged_library_is_no_verdict(fails_at: int, asked: list[str]) -> None:
    model = Scripted({"novelty/1": said("search", query="depth"), "novelty/2": said("undecided")})
    judge = NoveltyJudge(review(model), Shelf(SHELF, fails_at), rounds=4)
    with pytest.raises(LibraryError, match=r"papers\.arrow is damaged; build the library again"):
        await judge.judge(an_idea())
    assert model.keys == asked


async def test_once_the_library_is_fixed_the_verdict_is_the_one_without_the_damage() -> None:
    replies = [said("search", query="depth"), said("novel", "arxiv:2")]
    shelf = Shelf(SHELF, fails_at=2)
    with pytest.raises(LibraryError):
        await judged(*replies, shelf=shelf)
    again, _ = await judged(*replies, shelf=shelf)
    assert again == (await judged(*replies, shelf=Shelf(SHELF)))[0]
    assert again.decision == "novel"


async def test_an_endpoint_that_fails_is_no_answer() -> None:
    with pytest.raises(EndpointError):
        await judged(EndpointError("down"), shelf=Shelf(SHELF))


async def test_a_search_is_made_once_and_none_in_the_last_round() -> None:
    shelf = Shelf(SHELF)
    replies = [said("search", query=query) for query in ("Depth", " depth ", "units")]
    _, model = await judged(*replies, shelf=shelf, rounds=3)
    assert shelf.asked == ["Wider. A wider network.", "Depth"]
    assert re.search("“depth” .* already", model.prompt("novelty/3"))
    assert "last round" in model.prompt("novelty/3")


async def test_no_more_hits_are_shown_than_asked_for() -> None:
    many = {f"x:{n}": ("A wider network", "text") for n in range(30)}
    _, model = await judged(said("novel", "x:0"), shelf=Shelf(many), hits=7)
    assert model.prompt("novelty/1").count("A wider network (2001): text") == 7


async def test_a_short_context_costs_abstracts_first() -> None:
    many = {f"x:{n}": (f"A wider network {n}", "abstract, " * 60) for n in range(10)}
    replies = {"novelty/1": said("novel", "x:0")}
    whole, seen = Scripted(replies), []
    await NoveltyJudge(review(whole), Shelf(many)).judge(an_idea(technical_details="DETAILS"))
    size = TokenEstimate().count(whole.asked[0].messages)
    for less in (0, 500, 1500, 2400):
        model = Scripted(replies)
        judge = NoveltyJudge(
            review(model, Window(size + 4096 - less, TokenEstimate())), Shelf(many)
        )
        await judge.judge(an_idea(technical_details="DETAILS"))
        prompt = model.prompt("novelty/1")
        assert "Double the width." in prompt
        seen.append(tuple(prompt.count(m) for m in ("abstract,", "[x:", "DETAILS")))
    assert seen[0] == (600, 10, 1)
    for column in zip(*seen, strict=True):
        assert list(column) == sorted(column, reverse=True)
    assert 0 < seen[1][0] < 600
    assert all(titles == 10 or abstracts == 0 for abstracts, titles, _ in seen)


_IDS = st.sampled_from([*SHELF, "[arxiv:1]", "ARXIV:2", "arxiv:11", "doi:", "", "Momentum", "1"])
_QUERIES = st.sampled_from(["", "depth network", "gradients", "units", "nothing of the kind"])
_SAID = st.builds(
    lambda decision, cited, query: said(decision, *cited, query=query),
    st.sampled_from(["novel", "not_novel", "undecided", "search", "maybe"]),
    st.lists(_IDS, max_size=3),
    _QUERIES,
)
_REPLIES = st.one_of(
    _SAID,
    st.sampled_from(["nonsense", "{}", ReplyError("a hole"), PlaybookExhausted("none left")]),
)
_SHELVES = st.sampled_from([SHELF, {}, dict(list(SHELF.items())[2:]), {"x:1": ("Folding", "x")}])


def _told(asked: list[ModelRequest]) -> set[str]:
    texts = (message.content for request in asked for message in request.messages)
    return {found for text in texts for found in re.findall(r"^- \[(\S+)\] ", text, re.MULTILINE)}


@settings(max_examples=80, deadline=None)
@given(st.lists(_REPLIES, max_size=5), _SHELVES, st.integers(0, 4), st.integers(0, 3))
def test_a_decision_rests_on_papers_that_were_shown_whatever_is_said(
    replies: list[Any], papers: dict[str, tuple[str, str]], rounds: int, fails_at: int
) -> None:
    def judge() -> tuple[NoveltyVerdict, Scripted]:
        shelf = Shelf(papers, fails_at)
        return asyncio.run(judged(*replies, shelf=shelf, rounds=rounds, hits=2))

    try:
        verdict, model = judge()
    except LibraryError:
        assert fails_at
        return
    cited = [citation.paper_id for citation in verdict.evidence]
    assert len(cited) == len(set(cited))
    assert set(cited) <= _told(model.asked) <= set(papers)
    if verdict.decision != "undecided":
        assert cited
        last = replies[verdict.rounds - 1]
        assert last["decision"] == verdict.decision
    assert verdict.reason.strip()
    assert len({key.split("/repair")[0] for key in model.keys}) <= rounds
    assert judge()[0] == verdict
