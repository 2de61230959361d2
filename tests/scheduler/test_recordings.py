"""What counts as another answer than the recorded one, and what is luck."""

from __future__ import annotations

from dataclasses import replace

import pytest
from command_server import Answer
from recordings import Recording, difference, read

CASE = "worker-killed"


def changed(program: str, section: int, old: str, new: str) -> Recording:
    """The recording of a case, one word of its answers in another way."""
    found = read(CASE)
    said = found.sections[section].said
    (at,) = (k for k, one in enumerate(said) if one.program == program)
    answer = said[at].answer
    assert old in answer.out
    said[at] = replace(said[at], answer=Answer(answer.code, answer.out.replace(old, new), ""))
    return found


def test_a_recording_is_as_it_is() -> None:
    assert difference(read(CASE), read(CASE)) is None


@pytest.mark.parametrize(
    ("program", "section", "old", "new"),
    [
        ("squeue", 1, "|RUNNING|", "|STARTED|"),
        ("squeue", 1, "JOB1|1|", "JOB1|7|"),
        ("squeue", 2, "FAILED", "BOOT_FAIL"),
        ("sacct", 2, "FAILED", "BOOT_FAIL"),
        ("sacct", 2, "|0:9|", "|9:0|"),
    ],
)
def test_another_answer(program: str, section: int, old: str, new: str) -> None:
    said = difference(read(CASE), changed(program, section, old, new))
    assert said is not None
    assert program in said
    assert new.strip("|") in said


def test_a_row_that_is_gone() -> None:
    seen = read(CASE)
    one = seen.sections[1]
    one.said = [
        replace(each, answer=Answer()) if each.program == "squeue" else each for each in one.said
    ]
    assert "squeue" in str(difference(read(CASE), seen))


def test_accounting_lags_and_knows_little_of_an_array_that_it_heard_of_late() -> None:
    seen = read(CASE)
    for one in seen.sections:
        one.said = [each for each in one.said if each.program != "sacct"]
    assert difference(read(CASE), seen) is None
    late = changed(
        "sacct", 2, "JOB1_0|FAILED|0:9|n1|hpcsci-CAMPAIGN-BATCH1|", "JOB1|FAILED|0:9|n1|allocation|"
    )
    assert difference(read(CASE), late) is None


def test_a_row_may_come_a_look_sooner_and_not_a_look_later() -> None:
    recorded = read(CASE)
    rows = [one for one in recorded.sections[-1].said if one.program == "squeue"]
    (last,) = (row for row in rows[0].answer.out.splitlines() if row.startswith("JOB2|"))
    sooner = changed("squeue", 2, "JOB1|0|", f"{last}\nJOB1|0|")
    assert difference(recorded, sooner) is None
    assert "squeue" in str(difference(sooner, recorded))


def test_an_array_may_be_there_a_look_sooner_waiting_or_running() -> None:
    recorded = read(CASE)
    waits = "JOB2|0-1%2|PENDING|None||hpcsci-CAMPAIGN-BATCH2|hpcsci:CAMPAIGN:BATCH2|JOB2|batch"
    assert difference(recorded, changed("squeue", 2, "JOB1|0|", f"{waits}\nJOB1|0|")) is None
    for other in (waits.replace("JOB2", "JOB3"), waits.replace("PENDING", "FAILED")):
        assert "squeue" in str(
            difference(recorded, changed("squeue", 2, "JOB1|0|", f"{other}\nJOB1|0|"))
        )
