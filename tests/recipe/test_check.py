import json
import re
import sys

import pytest
from newer_python import NEWER

from hpcscientist.campaign.stages import replies
from hpcscientist.recipe import load
from hpcscientist.recipe.checks.check import check
from hpcscientist.recipe.create import create
from hpcscientist.records.base import MOST
from hpcscientist.records.writing import REPLIES


@pytest.fixture
def folder(tmp_path):
    return create("moons", tmp_path)


def change(path, old, new):
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


def only(folder):
    problems = check(folder)
    assert len(problems) == 1, problems
    assert "\n" not in str(problems[0])
    return problems[0].file.name, problems[0].line, problems[0].message


def test_sound_recipes_have_no_problems(folder):
    assert check(folder) == []
    assert check(load.shipped_folder() / "digits", replies(), REPLIES) == []


def test_a_reference_may_be_for_a_newer_python_and_what_runs_here_may_not(folder):
    for path in (folder / "reference" / "experiment.py", folder / "score.py"):
        path.write_text(f"{path.read_text()}\n\n{NEWER[0]}\n")
    problems = check(folder)
    old = sys.version_info < (3, 12)
    assert [p.file.name for p in problems] == (["score.py"] if old else [])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds = 5", "seeds = ", "not TOML"),
        ("seeds = 5", "seed = 5", "mean 'seeds'"),
        ("seeds = 5", "frobnicate = 5", "known here: name, version"),
        ("seeds = 5", "seeds = 1", "greater than or equal to 2"),
        ("seeds = 5", 'seeds = "5"', "valid integer"),
        ('title = "Two', 'tittle = "Two', "mean 'title'"),
        ('direction = "maximize"', 'direction = "up"', "maximize"),
        ("seconds = 5", "seconds = -5", "greater than 0"),
        ("seconds = 5", "seconds = inf", "finite"),
        ("seeds = 5", f"seeds = {10**30}", f"seeds: .* {MOST} "),
        ("seeds = 5", f"seeds = {'9' * 5000}", "not TOML: .* digits"),
        ("seeds = 5", f"seeds = {'[' * 5000}{']' * 5000}", "not TOML: nested"),
        ('title = "Two', 'title = "\\u0000Two', "title: .* NUL"),
        ("seconds = 20", "seconds = 2020-01-01", "date"),
        ("cpus = 1", "cpu = 1", "mean 'cpus'"),
        ("low = 0.01", "low = 5.0", "low < high"),
        ('name = "STEPS"', 'name = "steps"', "pattern"),
        ('entry = "experiment.py"', 'entry = "main.py"', "reference/main.py .*exist"),
        ('editable = ["experiment.py"]', 'editable = ["a.py"]', "reference/a.py .*exist"),
        ('predictions = "p', 'predictions = "a/../../p', "'a/../../predictions.csv'"),
        ('predictions = "p', f'predictions = "{"p" * 256}', "pattern"),
        ('name = "DEGREE"', 'name = "DEGREES"', "add a line DEGREES = VALUE"),
    ],
)
def test_each_fault_of_recipe_toml_has_its_line(folder, old, new, message):
    line = change(folder / "recipe.toml", old, new)
    problems = check(folder)
    found = [p for p in problems if re.search(message, p.message)]
    assert found, problems
    assert found[0].file == folder / "recipe.toml"
    if "low < high" in message:
        line -= 3  # what is wrong is the knob, which begins three lines above
    assert found[0].line == line


def test_a_missing_metric(folder):
    text = (folder / "recipe.toml").read_text()
    start, end = text.index("[[metrics]]"), text.index("[budgets.pilot]")
    (folder / "recipe.toml").write_text(text[:start] + text[end:])
    assert only(folder) == ("recipe.toml", 1, "'metrics' is missing; add it")


def test_a_metric_that_the_scorer_never_names(folder):
    change(folder / "recipe.toml", '"accuracy"', '"f1"')
    assert only(folder) == ("score.py", 1, "never names the metric 'f1' of recipe.toml; print it")


def test_a_name_given_twice(folder):
    change(folder / "recipe.toml", '"STEPS"', '"DEGREE"')
    assert re.search("'DEGREE'.* twice", only(folder)[2])


def test_the_metric_that_decides_has_no_tolerance(folder):
    change(folder / "recipe.toml", "minimum_effect = 0.005", "tolerance = 0.005")
    assert only(folder)[0] == "recipe.toml"
    assert "tolerance" in only(folder)[2]


def test_all_problems_are_found_at_once(folder):
    change(folder / "recipe.toml", "seeds = 5", "seeds = 0\nextra = 1")
    change(folder / "recipe.toml", "low = 1\n", "")
    knob = change(folder / "recipe.toml", "[[knobs]]", "[[knobs]]  # the first")
    (folder / "seed_ideas.json").write_text("{")
    (folder / "playbook.jsonl").write_text("")
    assert [(p.file.name, p.line) for p in check(folder)] == [
        ("recipe.toml", 4),
        ("recipe.toml", knob),
        ("recipe.toml", 5),
        ("seed_ideas.json", 1),
        ("playbook.jsonl", 1),
    ]


@pytest.mark.parametrize("name", ["prepare.py", "score.py", "reference/experiment.py"])
def test_python_that_does_not_parse(folder, name):
    line = change(folder / name, "import argparse", "import import argparse")
    file, at, message = only(folder)
    assert (file, at) == (name.rsplit("/", maxsplit=1)[-1], line)
    assert "valid Python" in message


@pytest.mark.parametrize("name", ["prepare.py", "score.py", "recipe.toml"])
def test_missing_files(folder, name):
    (folder / name).unlink()
    assert only(folder)[:2] == (name, None)


@pytest.mark.parametrize(
    ("file", "option"),
    [("score.py", "--predictions"), ("score.py", "--labels"), ("prepare.py", "--out")],
)
def test_scripts_need_their_options(folder, file, option):
    change(folder / file, f'"{option}"', '"--other"')
    assert only(folder) == (file, 1, f"takes no {option}; its command line needs it")


def test_a_knob_whose_value_is_out_of_range(folder):
    line = change(folder / "reference" / "experiment.py", "DEGREE = 1", "DEGREE = 9")
    file, at, message = only(folder)
    assert (file, at) == ("experiment.py", line)
    assert re.search(r"\b9\b.*\b1\b.*\b5\b", message)


def test_text_that_is_not_utf8(folder):
    (folder / "reference" / "notes.txt").write_bytes(b"fine\n\xff\n")
    assert only(folder) == ("notes.txt", 2, "not UTF-8 text; save it as UTF-8")


PROPOSAL = {"title": "t", "hypothesis": "h", "method": "m", "experiment_plan": "p", "summary": "s"}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{", "Invalid JSON"),
        ({"idea": -1, "stage": "code", "text": "x"}, "idea: "),
        ({"idea": 1, "stage": "propse", "text": "x"}, "mean 'propose'"),
        ({"idea": 1, "stage": "zzz", "text": "x"}, "known: propose, attributes, queries, rank"),
        ({"idea": 1, "stage": "code"}, "give either 'reply' or 'text'"),
        ({"idea": 1, "stage": "code", "txt": "x"}, "mean 'text'"),
        ({"idea": 1, "stage": "propose", "reply": {**PROPOSAL, "novelty": 11}}, "novelty"),
        ({"idea": 1, "stage": "propose", "reply": {"title": "t"}}, "'hypothesis' is missing"),
        ({"idea": 1, "stage": "code", "reply": {"note": "n"}}, "'edits' is missing"),
        (
            {"idea": 1, "stage": "code", "reply": {"note": "n", "edits": [{"file": "a"}]}},
            "edits.0.replace",
        ),
        ({"idea": 1, "stage": "debug", "reply": {"edits": []}}, "'diagnosis' is missing"),
    ],
)
def test_each_fault_of_a_playbook_has_its_line(folder, entry, message):
    good = json.dumps({"idea": 9, "stage": "propose", "reply": PROPOSAL})
    line = entry if isinstance(entry, str) else json.dumps(entry)
    (folder / "playbook.jsonl").write_text(f"{good}\n\n{line}\n")
    problems = check(folder, replies())
    assert problems and {(p.file.name, p.line) for p in problems} == {("playbook.jsonl", 3)}
    assert any(message in p.message for p in problems), problems


def test_a_call_answered_twice(folder):
    line = json.dumps({"idea": 1, "stage": "code", "text": "not even JSON"})
    (folder / "playbook.jsonl").write_text(f"{line}\n{line}\n")
    assert only(folder)[1:] == (2, "the same call is answered in line 1 already; raise its ordinal")


def test_faults_of_seed_ideas_have_their_lines(folder):
    items = [json.dumps(PROPOSAL), json.dumps({**PROPOSAL, "title": ""}), json.dumps(7)]
    (folder / "seed_ideas.json").write_text("[\n" + ",\n\n".join(items) + "\n]\n")
    assert [(p.file.name, p.line) for p in check(folder)] == [
        ("seed_ideas.json", 4),
        ("seed_ideas.json", 6),
    ]
    (folder / "seed_ideas.json").write_text('{"a": 1}')
    assert only(folder)[2] == "must be a JSON array of proposals"


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, f"[{'9' * 5000}]"])
def test_seed_ideas_that_no_parser_takes(folder, text):
    (folder / "seed_ideas.json").write_text(text)
    assert only(folder)[:2] == ("seed_ideas.json", 1)


def test_papers_playbook_is_checked_by_the_kinds_of_papers(folder):
    whole = {"idea": 0, "stage": "whole", "reply": {"remarks": []}}
    lines = [
        whole,
        {"idea": 1, "stage": "whole", "reply": {"remark": []}},
        {"idea": 1, "stage": "code", "reply": {}},
    ]
    (folder / "papers.jsonl").write_text("\n".join(map(json.dumps, lines)))
    problems = check(folder, replies(), REPLIES)
    assert [(p.file.name, p.line) for p in problems] == [("papers.jsonl", 2), ("papers.jsonl", 3)]
    (folder / "papers.jsonl").write_text(json.dumps(whole))
    assert check(folder, replies(), REPLIES) == []
