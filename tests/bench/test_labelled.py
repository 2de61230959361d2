"""The labelled library: the same everywhere, balanced, and worded so that words alone mislead."""

from __future__ import annotations

from collections import Counter

from benchmarks.retrieval.labelled import labelled


def test_the_same_seed_gives_the_same_papers_and_another_others() -> None:
    assert labelled(3, 200) == labelled(3, 200)
    assert labelled(3, 200).papers != labelled(4, 200).papers


def test_every_paper_is_labelled_and_every_task_has_as_many() -> None:
    made = labelled(0, 405)
    counts = Counter(made.tasks.values())
    assert [paper.paper_id for paper in made.papers] == list(made.tasks)
    assert set(counts) == {topic.task for topic in made.topics}
    assert max(counts.values()) - min(counts.values()) == 1


def test_papers_name_tasks_that_are_not_theirs() -> None:
    made = labelled(0, 400)
    others = sum(
        any(topic.task in paper.abstract.lower() for topic in made.topics if topic.task != task)
        for paper, task in zip(made.papers, made.tasks.values(), strict=True)
    )
    assert others > 40


def test_no_paper_is_worded_as_all_queries_of_its_task() -> None:
    made = labelled(0, 400)
    for topic in made.topics:
        mine = [p for p in made.papers if made.tasks[p.paper_id] == topic.task]
        for query in topic.queries[:4]:
            phrase = query.partition(":")[0]
            worded = [p for p in mine if phrase in f"{p.title} {p.abstract}".lower()]
            assert len(worded) < 0.7 * len(mine), query


def test_a_small_library_and_an_empty_one() -> None:
    assert len(labelled(0, 3).papers) == 3
    assert labelled(0, 0).papers == ()
