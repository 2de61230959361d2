"""Code of candidates is for the Python of trials, which may be newer or older than this one."""

from __future__ import annotations

import sys

import pytest
from authoring_kit import CODE, REFERENCE, ScriptedModel, edit, idea, toy_recipe
from newer_python import BROKEN, NEWER, python

from hpcscientist.authoring.checks import check
from hpcscientist.authoring.edits import apply
from hpcscientist.authoring.review.red_flags import find
from hpcscientist.authoring.revising import EditQuestion, Reviser
from hpcscientist.authoring.structure import local_structure, outline
from hpcscientist.authoring.tracebacks.log import frames
from hpcscientist.config.settings import CODE as SETTINGS
from hpcscientist.models.prompting.fitting import Window, fixed
from hpcscientist.records.authoring import Draft, Edit, GaveUp
from hpcscientist.records.model_calls import Message
from hpcscientist.system.interpreter import Interpreter

LATER = f"{CODE}\n\n{NEWER[0]}\n"


@pytest.mark.parametrize("source", NEWER)
@pytest.mark.parametrize("search", [None, "RATE = 0.1", "RATE = 0.1  "])
def test_edits_that_only_a_newer_python_reads_are_applied(source: str, search: str | None) -> None:
    change = Edit(file="experiment.py", search=search, replace=f"RATE = 0.1\n{source}\n")
    files = apply({"experiment.py": "import math\nRATE = 0.1\n"}, [change], ["experiment.py"])
    assert isinstance(files, dict)
    assert source in files["experiment.py"]
    assert check(files) == []
    again = apply(files, [Edit(file="experiment.py", search="RATE = 0.1", replace="RATE = 2")], "*")
    assert again == {"experiment.py": files["experiment.py"].replace("RATE = 0.1", "RATE = 2")}


@pytest.mark.parametrize("source", BROKEN[:-1])
def test_code_that_no_python_reads_is_a_problem(source: str) -> None:
    assert [p.file for p in check({"experiment.py": source, "b.py": "x = 1"})] == ["experiment.py"]


def test_what_a_file_for_a_newer_python_does_to_the_others_is_not_guessed() -> None:
    files = {"experiment.py": "import net\nnet.shape\nprint(width)", "net.py": LATER}
    if sys.version_info < (3, 12):
        assert check(files) == []
    files["net.py"] = CODE
    assert len(check(files, reference={"net.py": CODE})) == 2


async def revised(python: Interpreter) -> Draft | GaveUp:
    replies = {
        "code/1": {"note": "New.", "edits": [edit("RATE = 0.1", f"RATE = 0.3\n\n\n{NEWER[0]}")]},
        "code/2": {"note": "Old.", "edits": [edit("RATE = 0.1", "RATE = 0.2")]},
    }
    prompt = fixed((Message(role="user", content="Change it."),))
    asked = EditQuestion(
        idea(), "code", (1, 2), lambda _: prompt, {**REFERENCE, "experiment.py": CODE}
    )
    reviser = Reviser(ScriptedModel(replies), toy_recipe(), SETTINGS, Window(), python)
    return await reviser.revise(asked)


async def test_a_version_is_what_the_python_of_trials_compiles() -> None:
    """Whatever the driver's own compiles."""
    newer = await revised(Interpreter((python((3, 12)),)))
    older = await revised(Interpreter((python((3, 7), (3, 11)),)))
    unknown = await revised(Interpreter())
    assert [getattr(d, "note", None) for d in (newer, older, unknown)] == ["New.", "Old.", "New."]


def test_what_reads_code_reads_the_rest_of_it() -> None:
    files = {**REFERENCE, "experiment.py": LATER}
    find(files, REFERENCE, "experiment.py")
    line = LATER.split("\n").index(NEWER[0]) + 1
    log = (
        f'Traceback (most recent call last):\n  File "experiment.py", line {line}, in first\n'
        f"    {NEWER[0]}\nIndexError: list index out of range"
    )
    found = frames(log, files)
    assert [frame.line for frame in found] == [line]
    assert any(d.name.endswith("first") for d in local_structure(files, found).definitions)
    assert any(d.name.endswith("first") for d in outline(files).definitions)


def test_what_this_python_reads_and_that_of_trials_does_not_costs_no_trial() -> None:
    files = {"experiment.py": "try:\n    pass\nexcept* ValueError:\n    pass\n"}  # since 3.11
    assert check(files) == []
    older = check(files, python=Interpreter((python((3, 7), (3, 10)),)))
    assert [(p.file, p.line) for p in older] == [("experiment.py", 3)]
