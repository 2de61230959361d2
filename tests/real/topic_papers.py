"""A labelled set for `bench review`: papers on one task, and on the tasks beside it.

    python tests/real/topic_papers.py FOLDER [COUNT]

FOLDER/form is the form that asks how well a paper fits the task.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.retrieval.labelled import labelled

FORM = """\
title = "How well a paper fits the task"
overall = "fit"
accept = 6.0
guidance = "You judge for a survey how well a paper fits a task. The task: {task}"

[[fields]]
id = "about"
kind = "text"
ask = "What the paper's method is given and what it returns, in one sentence."

[[fields]]
id = "fit"
kind = "score"
highest = 10
ask = "How well the paper's task is the task above: 10 is the same, 1 another one."
"""


def write(folder: Path, count: int) -> None:
    """Write `count` papers, half of them on the first task, and half on its whole family's."""
    made = labelled(size=20 * count)
    topic = made.topics[0]
    near = {of.task for of in made.topics if of.family == topic.family}
    kinds = {True: list(made.papers[:0]), False: list(made.papers[:0])}
    for paper in made.papers:
        if made.tasks[paper.paper_id] in near:
            kinds[made.tasks[paper.paper_id] == topic.task].append(paper)
    (folder / "form").mkdir(parents=True)
    wanted = topic.attributes
    task = f"given {wanted.inputs}; returned {wanted.outputs}; {'; '.join(wanted.other)}"
    (folder / "form" / "form.toml").write_text(FORM.format(task=task))
    rows = []
    for fits, papers in kinds.items():
        for paper in papers[: count // 2]:
            name = f"p{len(rows):03}x"
            text = f"# {paper.title}\n\n## Abstract\n\n{paper.abstract}\n"
            (folder / f"{name}.txt").write_text(text)
            decision = "accept" if fits else "reject"
            rows.append({"id": name, "text": f"{name}.txt", "scores": [], "decision": decision})
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40)
