"""Reading squeue's and sacct's tables; marks by which jobs are known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.execution.backends.slurm import commands
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.watching.queue import accounted, queued, task_numbers
from hpcscientist.execution.backends.slurm.watching.states import Phase
from hpcscientist.records.trial import EndState


class Said(Slurm):
    """Slurm as it printed once: what is tested is the reading."""

    def __init__(self, *rows: tuple[str, ...]) -> None:
        super().__init__()
        self.text = "".join("\x1f".join(row) + "\n" for row in rows)
        self.asked: list[str] = []

    def run(self, program: str, *arguments: str, stdin: str | None = None) -> str:
        self.asked += [program, *arguments]
        return self.text


def test_rows_of_an_array_a_plain_job_and_another_campaign() -> None:
    said = Said(
        ("7", "0-3,6", "PENDING", "Priority", "", "hpcsci-c1-b1", "hpcsci:c1:b1", "7", "batch"),
        ("7", "4", "RUNNING", "None", "n2", "hpcsci-c1-b1", "hpcsci:c1:b1", "12", "batch"),
        ("9", "N/A", "RUNNING", "None", "n1", "hpcsci-c1-controller", "(null)", "9", "batch"),
        ("8", "N/A", "PENDING", "Priority", "", "bash", "(null)", "8", "batch"),
    )
    rows = queued(said, "c1")
    assert [(row.job_id, [n for part in row.tasks for n in part]) for row in rows] == [
        ("7", [0, 1, 2, 3, 6]),
        ("7", [4]),
        ("9", []),
    ]
    assert [row.phase for row in rows] == [Phase.WAITING, Phase.RUNNING, Phase.RUNNING]
    assert rows[1].node == "n2"
    assert len(queued(said)) == 4


def test_accounts_of_tasks_leave_out_what_waits() -> None:
    said = Said(
        ("7_0", "COMPLETED", "0:0", "n1", "hpcsci-c1-b1", "", "1", "2"),
        ("7_1", "FAILED", "0:9", "n2", "hpcsci-c1-b1", "", "1", "2"),
        ("7_2", "CANCELLED by 1000", "0:15", "n2", "hpcsci-c1-b1", "", "1", "2"),
        ("7_[3-5]", "PENDING", "0:0", "None assigned", "hpcsci-c1-b1", "", "1", "2"),
    )
    rows = accounted(said, {"7"})
    assert [(row.task, row.cause, row.signal) for row in rows] == [
        (0, EndState.ENDED, 0),
        (1, EndState.FAILED, 9),
        (2, EndState.CANCELLED, 15),
    ]


def test_accounts_of_what_was_cancelled_while_it_waited() -> None:
    said = Said(
        ("7_0", "COMPLETED", "0:0", "n1", "hpcsci-c1-b1", "", "1", "2"),
        ("7_[1-2%1]", "CANCELLED by 1000", "0:0", "None assigned", "hpcsci-c1-b1", "", "2", "2"),
        ("8", "CANCELLED by 1000", "0:0", "None assigned", "hpcsci-c1-b2", "", "2", "2"),
    )
    rows = accounted(said, {"7", "8"})
    assert [(row.job_id, row.task, row.cause) for row in rows] == [
        ("7", 0, EndState.ENDED),
        ("7", None, EndState.CANCELLED),
        ("8", None, EndState.CANCELLED),
    ]


def test_steps_are_no_array_tasks() -> None:
    said = Said(
        ("7_0.batch", "FAILED", "1:0", "n1", "batch", "", "1", "2"),
        ("7_1", "RUNNING", "0:0", "n1", "hpcsci-c1-b1", "", "1", "Unknown"),
        ("7_1.extern", "COMPLETED", "0:0", "n1", "extern", "", "1", "2"),
    )
    assert [(row.job_id, row.task) for row in accounted(said, {"7"})] == [("7", 1)]


class Noisy(Said):
    """A squeue whose answer is cut as often as is said."""

    def __init__(self, cuts: int, *rows: tuple[str, ...]) -> None:
        super().__init__(*rows)
        self.cuts = cuts

    def run(self, program: str, *arguments: str, stdin: str | None = None) -> str:
        text = super().run(program, *arguments, stdin=stdin)
        self.cuts -= 1
        return text[: len(text) // 2 + self.cuts] if self.cuts >= 0 else text


ROW = ("7", "4", "RUNNING", "None", "n2", "hpcsci-c1-b1", "hpcsci:c1:b1", "12", "batch")


@pytest.mark.parametrize("cuts", [0, 1, 2])
def test_a_cut_answer_is_asked_for_anew(cuts: int) -> None:
    assert [row.job_id for row in queued(Noisy(cuts, ROW), "c1")] == ["7"]


def test_a_job_with_an_odd_name_hides_no_other() -> None:
    said = Said(("9", "N/A", "RUNNING", "odd"), ROW)
    assert [row.job_id for row in queued(said, "c1")] == ["7"]
    assert said.asked.count("squeue") == 2


def test_nothing_to_account_asks_nothing() -> None:
    said = Said()
    assert accounted(said, set()) == []
    assert said.asked == []


@given(st.lists(st.integers(0, 5000), unique=True, min_size=1))
def test_every_list_of_tasks_is_read(numbers: list[int]) -> None:
    text = ",".join(str(number) for number in numbers)
    assert [n for part in task_numbers(f"[{text}%4]") for n in part] == numbers


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 7))
def test_ranges_with_steps(first: int, length: int, step: int) -> None:
    (found,) = task_numbers(f"{first}-{first + length}:{step}")
    assert list(found) == list(range(first, first + length + 1, step))


def test_a_cut_list_is_an_error() -> None:
    with pytest.raises(ValueError, match="no list"):
        task_numbers("1,3,5,...")


def test_either_mark_will_do() -> None:
    name, said = commands.job_name("c-1", "b9"), commands.job_comment("c-1", "b9")
    assert commands.batch_of_job("c-1", name, "rewritten by the site") == "b9"
    assert commands.batch_of_job("c-1", "rewritten", said) == "b9"
    assert commands.batch_of_job("c-1", "bash", "") is None
    assert commands.batch_of_job("c", name, said) is None
