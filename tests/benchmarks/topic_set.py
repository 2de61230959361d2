"""A labelled set of papers on a topic and on its neighbours, with a form that asks how well each
fits: for `hpcsci bench review`, which says what expectations tell that sampled scores do not.

    PYTHONPATH=tests python -m benchmarks.topic_set FOLDER [SIZE]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.retrieval.labelled import labelled

_FORM = """
title = "How well a paper fits the task"
overall = "fit"
accept = 6.0
guidance = \"\"\"
You judge for a survey of the literature how well a paper fits a task.
The task: {inputs} in, {outputs} out. {other}
\"\"\"

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


def write(folder: Path, size: int = 24, seed: int = 3) -> None:
    """Write labels.jsonl, texts and form/form.toml; half of the papers are on the topic's
    task, a quarter on tasks of its family, and a quarter on others.
    """
    library = labelled(seed, 60 * size)
    topic = library.topics[0]
    near = {of.task for of in library.topics if of.family == topic.family} - {topic.task}
    on = [p for p in library.papers if library.tasks[p.paper_id] == topic.task]
    beside = [p for p in library.papers if library.tasks[p.paper_id] in near]
    far = [p for p in library.papers if library.tasks[p.paper_id] not in near | {topic.task}]
    half, quarter = size // 2, size // 4
    chosen = [*on[:half], *beside[:quarter], *far[: size - half - quarter]]
    folder.mkdir(parents=True)
    (folder / "form").mkdir()
    task = topic.attributes
    told = _FORM.format(inputs=task.inputs, outputs=task.outputs, other="; ".join(task.other))
    (folder / "form" / "form.toml").write_text(told)
    rows = []
    for number, paper in enumerate(chosen):
        fits = library.tasks[paper.paper_id] == topic.task
        name = f"{number:03}.txt"
        (folder / name).write_text(f"# {paper.title}\n\n## Abstract\n\n{paper.abstract}\n")
        decision = "accept" if fits else "reject"
        rows.append({"id": f"p{number:03}x", "text": name, "scores": [], "decision": decision})
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    write(Path(sys.argv[1]), *(int(size) for size in sys.argv[2:3]))
