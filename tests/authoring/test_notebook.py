from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hpcscientist.authoring.attempts import patch
from hpcscientist.authoring.notebook import (
    Concluded,
    Entry,
    NotedFailure,
    NotedPlan,
    NotedReading,
    NotedReview,
    NotedTree,
    NotedTrials,
    NotedVersion,
    changed_lines,
    plain,
    render,
)
from hpcscientist.authoring.tree import TreeVersion
from hpcscientist.records.experiment import (
    AnalysisReply,
    CodeReview,
    ConceptCheck,
    ExperimentPlan,
    FurtherRun,
)

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def course(text: str) -> tuple[Entry, ...]:
    """Everything that may stand in a journal, with the same text wherever one is free."""
    plan = ExperimentPlan(
        data=text, model=text, training=text, testing=text, comparison=text, parts=(text,),
        ablations=(text,), files=(text,), seconds=1.0, memory_mb=1.0,
    )  # fmt: skip
    check = ConceptCheck(concept=text, state="partial", file=text, first=1, last=2, remark=text)
    review = CodeReview(attempt=2, checks=(check,), marks=(2, 3), toy=True, advice=text)
    run = FurtherRun(kind="ablation", title=text[:200], purpose=text, change=text)
    return (
        NotedPlan(idea_id="idea-0001", title=text, plan=plan, remark=text),
        NotedVersion(attempt=1, note=text, added=1, removed=2),
        NotedTrials(attempt=1, budget="pilot", failure=text),
        NotedVersion(attempt=2, purpose="debug", parent=1, note=text, added=3),
        NotedTrials(attempt=2, budget="pilot", values={text: (0.5, None, 1)}),
        NotedTree(
            metric=text,
            nodes=(
                TreeVersion(number=1, state="broken"),
                TreeVersion(number=2, parent=1, kind="debug", state="works", value=0.5),
            ),
            best=2,
        ),
        NotedReview(review=review),
        NotedTrials(attempt=2, budget="full", values={text: (0.625, 0.02, 5)}),
        NotedReading(number=1, reply=AnalysisReply(reading=text, run=run)),
        NotedFailure(purpose=text, run=1, reason=text),
        NotedReading(number=2, reply=AnalysisReply(reading=text)),
        Concluded(status="scored", attempt=2, values={text: (0.625, 0.02, 5)}, reason=text),
    )


def test_a_journal_reads_from_plan_to_end() -> None:
    assert render(course("It is so.")) == GOLDEN


def structure(markdown: str) -> list[Any]:
    """The tokens of a document, without its words."""
    return [
        (token.type, token.tag, [child.type for child in token.children or ()])
        for token in PARSER.parse(markdown)
    ]


def words(markdown: str) -> list[str]:
    inline = [token for token in PARSER.parse(markdown) if token.type == "inline"]
    return ["".join(child.content for child in token.children or ()) for token in inline]


HOSTILE = (
    "# Heading", "- item", "1. item", "2) item", "+ item", "* item", "> quoted", "```\ncode\n```",
    "~~~", "---", "===", "- - -", "a | b\n--|--\n1 | 2", "<script>alert(1)</script>", "<!--",
    "[x](http://example.org)", "![x](http://example.org)", "[x]: http://example.org", "`code`",
    "**bold** _it_ ~~no~~", "&amp; &#35;", "back\\slash", "\\", "    indented", "\tindented",
    "$x$ $$y$$", "@someone #1", "http://example.org www.example.org", "a\u2028# b", "\x1b[31m",
    "line  \nbreak", "<a@example.org>", "|---|", "- [ ] task", "[^1]: note", "x" * 5000,
)  # fmt: skip


def test_no_text_changes_the_structure() -> None:
    expected = structure(render(course("word")))
    for text in HOSTILE:
        assert structure(render(course(text))) == expected, text


@given(
    st.text(min_size=1).filter(lambda text: any(c.isprintable() and not c.isspace() for c in text))
)
def test_no_text_at_all_changes_the_structure(text: str) -> None:
    assert structure(render(course(text))) == structure(render(course("word")))


@given(st.text(alphabet="ab1 .-+=*_`[]()<>#|~\\:/@&!$^{}\n'\"", min_size=1, max_size=40))
def test_escaped_words_are_read_as_they_were(text: str) -> None:
    shown = " ".join(text.split())
    if shown:
        (read,) = words(f"> {plain(text, 100)}")
        # Marks of a chat's turns get a space within.
        assert read.replace(" ", "") == shown.replace(" ", "")
        assert structure(f"> {plain(text, 100)}") == structure("> word")


def test_addresses_are_no_links_where_bare_ones_are() -> None:
    shown = plain("http://example.org and WWW.example.org or a@b.org", 100)
    assert shown == r"http\://example.org and WWW\.example.org or a\@b.org"


def test_length_is_bounded() -> None:
    assert len(render(course("*" * 20_000))) < 60 * 4100


def test_what_is_not_there_is_not_made_up() -> None:
    assert render(()) == "# Notes\n"
    found = render(
        (
            NotedPlan(idea_id="idea-0002", title="T"),
            NotedVersion(attempt=1, note=""),
            NotedReview(review=CodeReview(attempt=1, judged=False)),
            NotedReview(review=CodeReview(attempt=1)),
            NotedTrials(attempt=1, budget="pilot"),
            Concluded(status="failed"),
        )
    )
    assert found == (
        "# idea-0002: T\n\n## Plan\n\nThere is none.\n\n## Attempt 1: first version\n\n"
        "Made from the reference: 0 lines added, 0 removed.\n\n> …\n\n"
        "### Review\n\nNo judgement could be had.\n\n### Review\n\nNothing was found.\n\n"
        "### Pilot\n\nNo figures.\n\n## In the end\n\nThe idea failed.\n"
    )


def test_what_is_of_an_earlier_attempt_names_it() -> None:
    found = render(
        (
            NotedVersion(attempt=1, note="a"),
            NotedVersion(attempt=2, note="b", purpose="complete", parent=1),
            NotedTrials(attempt=1, budget="full", values={"score": (1.0, 0.0, 2)}),
            NotedReview(review=CodeReview(attempt=2, same_as_reference=True)),
        )
    )
    assert "### Full run of attempt 1\n\n- score: 1 ± 0 (2 seeds)" in found
    assert re.search("### Review\n\n- .*predictions.*unchanged", found)


def test_sections_are_apart_by_a_blank_line() -> None:
    lines = render(course("word")).split("\n")
    for before, line in pairwise(lines):
        assert not line.startswith("#") or before == ""
        assert line == line.rstrip()


def test_changed_lines_are_counted() -> None:
    old = {"a.py": "1\n2\n3\n", "b.py": "x\n"}
    assert changed_lines(old, old) == (0, 0)
    assert changed_lines(old, {**old, "a.py": "1\ntwo\n3\n4\n"}) == (2, 1)
    assert changed_lines(old, {"a.py": "1\n2\n3\n"}) == (0, 1)
    assert changed_lines({}, {"new.py": "1\n2\n"}) == (2, 0)
    assert changed_lines({"a": ""}, {"a": "\n"}) == (1, 0)
    assert changed_lines({}, {"empty.py": ""}) == (0, 0)


files = st.dictionaries(st.sampled_from("ab"), st.lists(st.sampled_from("xyz")).map("\n".join))


@given(files, files)
def test_counts_are_those_of_the_patch(old: dict[str, str], new: dict[str, str]) -> None:
    old, new = ({k: f"{v}\n" for k, v in side.items()} for side in (old, new))
    body = [line for line in patch(old, new).split("\n") if not line.startswith(("---", "+++"))]
    added, removed = (sum(line.startswith(sign) for line in body) for sign in "+-")
    assert changed_lines(old, new) == (added, removed)


GOLDEN = """\
# idea-0001: It is so.

## Plan

- What the code must contain: (1) It is so.
- Model: It is so.
- Training: It is so.
- Testing: It is so.
- Data: It is so.
- Files that change: (1) It is so.
- Comparison: It is so.
- Left out in later runs, to see what it gives: (1) It is so.

> It is so.

## Attempt 1: first version

Made from the reference: 1 line added, 2 removed.

> It is so.

### Pilot

Failed: It is so.

## Attempt 2: repair

Made from attempt 1: 3 lines added, 0 removed.

> It is so.

### Pilot

- It is so.: 0.5 (1 seed)

## Tree

By It is so. of the pilot. Attempt 2 goes on.

```text
reference
└─ 1 first version: failed
   └─ 2 repair: 0.5, the best
```

### Review

- It is so. (It is so., lines 1 to 2): partial. It is so.
- The method is only pretended, or simplified away.
- Correctness, 1 to 5: 2, 3
- Advice: It is so.

### Full run

- It is so.: 0.625 ± 0.02 (5 seeds)

## Reading 1

> It is so.

Next, a run of kind ablation: It is so.

- Question: It is so.
- Change: It is so.

## No It is so., further run 1

> It is so.

## Reading 2

> It is so.

No further run is asked for.

## In the end

The idea was scored, attempt 2.

- It is so.: 0.625 ± 0.02 (5 seeds)

> It is so.
"""
