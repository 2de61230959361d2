from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.literature.material import block, described, line, papers, sentences
from hpcscientist.models.prompting.fitting import GONE
from hpcscientist.recipe.schema import Topic
from hpcscientist.records.literature import Hit


@given(st.text(max_size=300), st.integers(2, 100))
def test_a_line_is_one_bounded_line_without_marks(text: str, limit: int) -> None:
    shown = line(text, limit)
    assert len(shown) <= limit
    assert shown.splitlines() in ([], [shown])
    assert "<|" not in shown
    assert "|>" not in shown


@given(st.text(alphabet="ab<|>\n `", max_size=200), st.integers(20, 100))
def test_a_block_is_bounded_and_without_marks(text: str, limit: int) -> None:
    shown = block(text, limit)
    assert "<|" not in shown
    assert "|>" not in shown
    if len(text) > limit:
        assert shown.endswith(GONE)


def test_an_honest_text_stays_as_it_is() -> None:
    assert line("  Über\n größe |x| < 1, ψ|φ ", 99) == "Über größe |x| < 1, ψ|φ"
    assert line("می\u200cخواهم", 99) == "می\u200cخواهم"
    assert block("def f():\n\treturn 1\n", 99) == "def f():\n\treturn 1"


def test_a_block_is_cut_between_lines() -> None:
    assert block("one\ntwo\nthree", 11) == f"one\n{GONE}"


def test_sentences_go_the_last_first() -> None:
    part = sentences("abstract", "One. Two! 三。四？ Five")
    assert [part.at(step) for step in range(part.steps + 1)] == [
        "One. Two! 三。四？ Five", f"One. Two! 三。 四？ {GONE}", f"One. Two! 三。 {GONE}",
        f"One. Two! {GONE}", f"One. {GONE}", "",
    ]  # fmt: skip
    assert sentences("abstract", "").steps == 0


def test_abstracts_go_before_titles() -> None:
    hits = [
        Hit(paper_id=t, title=t, abstract=a, year=None, origin="o", score=1.0)
        for t, a in (("A", "a"), ("B", "b"))
    ]
    part = papers("papers", hits)
    assert [part.at(step) for step in range(part.steps + 1)] == [
        (("A", "a"), ("B", "b")), (("A", "a"), ("B", "")), (("A", ""), ("B", "")),
        (("A", ""),), (),
    ]  # fmt: skip


def test_a_topic_s_description_goes_line_by_line() -> None:
    topic = Topic(title="t", description="one\ntwo", inputs="i", outputs="o")
    part = described(topic)
    assert part.name == "topic"
    assert [part.at(step).description for step in range(part.steps + 1)] == [
        "one\ntwo", f"one\n{GONE}", "",
    ]  # fmt: skip
