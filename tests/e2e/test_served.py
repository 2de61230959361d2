"""Open weights served on the nodes of the job that drives: from nothing to finished, then nothing.

vLLM's real CPU engine, two replicas on two nodes, and models made on the spot.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from controlled import Controlled
from served_campaign import (
    LIMIT_S,
    TAUGHT,
    await_engines,
    await_reply,
    check_nothing_left,
    check_whole,
    family,
    launch,
    launching,
    order_of,
    write_site,
)

from hpcscientist.records.events import Event, IdeaEnded, ReplyRecorded, TrialEnded
from hpcscientist.records.literature import Survey
from hpcscientist.records.proposing import NoveltyVerdict

pytestmark = [pytest.mark.e2e, pytest.mark.slurm, pytest.mark.serving, pytest.mark.timeout(1800)]

IDEAS = 6
# All that an idea goes through before its code, each step as short as it can be.
STEPS = """\
[proposing]
batch = 3
directions = 3
reflections = 1
novelty_rounds = 1
[literature]
queries = 1
expansions = 0
papers = 3
concepts = 1
[authoring]
plan = false
analysis = false
"""
REFERENCES = """\
@article{one, title = {Telling odd numbers}, year = {1999}, abstract = {Which numbers are odd.}}
@article{two, title = {Parity by voting}, year = {2001}, abstract = {Odd or even numbers, by vote.}}
"""


def check(served: Controlled) -> list[Event]:
    """It finished, and nothing of it is left anywhere."""
    events = check_whole(served)
    order = order_of(served)
    assert len(order.nodes) == 2
    check_nothing_left(served, order.nodes, order.ports.all())
    return events


def give_library(served: Controlled) -> None:
    """Give its recipe two papers."""
    library = served.tiny.folder / "tiny" / "library"
    library.mkdir()
    (library / "references.bib").write_text(REFERENCES)


def test_the_doctor_says_that_models_can_be_served(served: Controlled, random_model: Path) -> None:
    """With the engine that a job's nodes have, on the memory that the site's jobs ask for."""
    asked = ("--site", "site.toml", "--model", f"vllm:{random_model}", "--json")
    done = served.hpcsci("doctor", *asked)
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows["serving engine"]["state"] == "ok", rows["serving engine"]
    assert "vLLM" in rows["serving engine"]["found"]
    weights = rows[f"model {random_model}"]
    assert weights["state"] != "missing", weights
    assert all(what in weights["found"] for what in ("weights", "tokenizer", "chat template"))
    fits = [row for name, row in rows.items() if name.startswith(f"{random_model.name} on ")]
    assert fits
    assert all(row["found"].startswith("fits with --nodes ") for row in fits), fits


def test_nonsense_becomes_honest_failures(served: Controlled, random_model: Path) -> None:
    give_library(served)
    options = {"context": 16_384, "answer": 2_000, "ideas": IDEAS}
    with launching(served, random_model, **options, steps=STEPS) as launched:
        await_engines(served, launched)
        done = launched.result()
    assert done.returncode == 3, done.stderr + served.logs()
    events = check(served)
    ended = [event for event in events if isinstance(event, IdeaEnded)]
    assert len(ended) == IDEAS
    assert all(event.status in {"failed", "rejected"} and event.reason for event in ended)
    survey = Survey.model_validate_json(served.tiny.paths.survey.read_bytes())
    assert len(survey.papers) == 2
    asked = {e.call.partition("/")[0] for e in events if isinstance(e, ReplyRecorded)}
    assert {"attributes", "queries", "rank", "directions", "propose"} <= asked
    shown = served.hpcsci("results", "run", "--format", "json")
    rows = json.loads(shown.stdout)
    assert [row["status"] for row in rows if row["idea_id"] == "baseline"] == ["baseline"]
    assert all(row["finding"] != "improvement" for row in rows)


def test_model_that_was_taught_has_its_ideas_run_and_scored(
    served: Controlled, trained_model: Path
) -> None:
    """Searched for in a library and reviewed too, by members who were taught nothing of that: their
    replies change no score.
    """
    give_library(served)
    steps = TAUGHT.replace("advice_rounds = 0", "advice_rounds = 1\njudges = 2")
    steps = steps.replace("[proposing]", "[proposing]\nnovelty_rounds = 1")
    steps = steps.replace("[literature]", "[literature]\nsurvey = false")
    options = {"context": 4_096, "answer": 600, "temperature": 0.3, "ideas": IDEAS}
    done = launch(served, trained_model, **options, steps=steps)
    assert done.returncode == 0, done.stderr + served.logs()
    events = check(served)
    ended = [event for event in events if isinstance(event, IdeaEnded)]
    scored = [event.idea_id for event in ended if event.status == "scored"]
    assert scored
    asked = {e.call.partition("/")[0] for e in events if isinstance(e, ReplyRecorded)}
    assert {"novelty", "advise"} <= asked
    for idea_id in scored:
        text = served.tiny.paths.idea(idea_id).verdict("novelty").read_bytes()
        assert NoveltyVerdict.model_validate_json(text).queries


def test_roles_have_models_of_their_own(
    served: Controlled, random_model: Path, trained_model: Path
) -> None:
    """One plane serves both, each from a node of its own, and each role asks its own."""
    # Each model has its own context: what one reads in few tokens is many of the other's.
    options = {"context": 0, "answer": 600, "temperature": 0.3, "ideas": 2}
    env = {"HPCSCI_CODE_MODEL": f"vllm:{random_model}"}
    with launching(served, trained_model, **options, env=env) as launched:
        order = await_engines(served, launched)
        done = launched.result()
    assert done.returncode == 3, done.stderr + served.logs()  # the author knows nothing
    check(served)
    names = {model.folder: model.name for model in order.models}
    assert set(names) == {str(trained_model), str(random_model)}
    assert len(set(names.values())) == 2
    answered = {
        (line["stage"], line["model"])
        for chat in served.tiny.paths.root.glob("ideas/*/chat.jsonl")
        for line in map(json.loads, chat.read_bytes().splitlines())
    }
    assert answered == {("propose", names[str(trained_model)]), ("code", names[str(random_model)])}


def test_trials_run_beside_the_engines(served: Controlled, trained_model: Path) -> None:
    """As steps of the job that serves: no array is submitted, and no more is left of it."""
    options = {"context": 4_096, "answer": 600, "temperature": 0.3, "ideas": 2}
    jobs: set[str] = set()

    def is_over() -> bool:
        jobs.update(job.job_id for job in served.queue() if job.state == "RUNNING")
        return launched.done()

    with launching(served, trained_model, **options, serving="trials_inside = true") as launched:
        served.wait_until(is_over, LIMIT_S)
        done = launched.result()
    assert done.returncode == 0, done.stderr + served.logs()
    assert re.search(r"\bnode models .*\btrials\b", done.stderr)
    events = check(served)
    assert len(jobs) == 1
    assert {e.report.usage.slurm_job for e in events if isinstance(e, TrialEnded)} == jobs
    assert [e.idea_id for e in events if isinstance(e, IdeaEnded) and e.status == "scored"]
    nodes = {e.report.usage.node for e in events if isinstance(e, TrialEnded)}
    assert nodes
    assert nodes <= set(order_of(served).nodes)


def test_an_engine_may_lie_in_an_image(
    controlled: Controlled, image: str, trained_model: Path
) -> None:
    """Each node has an engine as elsewhere, and Ray's own processes are those of the image."""
    write_site(controlled, image, "image")
    options = {"context": 4_096, "answer": 600, "temperature": 0.3, "ideas": 2}
    with launching(controlled, trained_model, **options) as launched:
        await_engines(controlled, launched)
        inside = {own.title.split()[0] for own in family(controlled) if "gcs_server" in own.title}
        done = launched.result()
    assert done.returncode == 0, done.stderr + controlled.logs()
    assert inside
    assert all(title.startswith("/opt/engine/") for title in inside), inside
    events = check(controlled)
    assert [e.idea_id for e in events if isinstance(e, IdeaEnded) and e.status == "scored"]


def test_a_replica_may_be_several_workers(served: Controlled, random_model: Path) -> None:
    """Two on each of two nodes, which share the matrices of the model (tensor parallelism)."""
    options = {"context": 16_384, "answer": 600, "ideas": 2}
    with launching(served, random_model, **options, serving="tensor_parallel = 2") as launched:
        await_reply(served, launched)
        workers = Counter(own.node for own in family(served) if "VLLM::Worker" in own.title)
        done = launched.result()
    assert done.returncode == 3, done.stderr + served.logs()  # nonsense, whoever computes it
    check(served)
    assert workers == dict.fromkeys(order_of(served).nodes, 2), workers
