"""What is tried once more, on what, and that nothing is lost when a pytest dies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from suites.records import FAILED, HUNG, NO_GPU, PASSED, SKIPPED, Result, Try, outcome_of_skip
from suites.retrying import ServicesFailed, run_cases


class Scripted:
    """A pytest whose outcomes are given: for each case what its first and second try come to.

    `ends`: cases before which a first pytest ends without a word.
    """

    def __init__(self, script: dict[str, list[str]], fails: int = 99) -> None:
        self.script, self.fails = script, fails
        self.ends: set[str] = set()
        self.seen: list[str] = []

    def run(self, cases: Sequence[str], which: str) -> Iterator[tuple[str, Try]]:
        self.seen.append(f"{which}: {' '.join(cases)}")
        for name in cases:
            if name in self.ends:
                return
            outcome = self.script[name].pop(0)
            yield name, Try(outcome, 1.0)
            if outcome not in (PASSED, NO_GPU):
                return

    def fresh(self) -> None:
        self.seen.append("fresh")
        self.fails -= 1
        if self.fails < 0:
            raise ServicesFailed("no cluster")


def outcomes(results: list[Result]) -> dict[str, list[str]]:
    return {result.case: [each.outcome for each in result.tries] for result in results}


def test_all_pass_in_one_process() -> None:
    pytest = Scripted({"a": [PASSED], "b": [NO_GPU]})
    results = list(run_cases("s", ["a", "b"], pytest))
    assert outcomes(results) == {"a": [PASSED], "b": [NO_GPU]}
    assert all(result.good for result in results)
    assert pytest.seen == ["first: a b"]


def test_failed_case_is_tried_alone_on_fresh_services_and_the_next_go_on_there() -> None:
    pytest = Scripted({"a": [PASSED], "b": [FAILED, PASSED], "c": [PASSED]})
    results = list(run_cases("s", ["a", "b", "c"], pytest))
    assert outcomes(results) == {"a": [PASSED], "b": [FAILED, PASSED], "c": [PASSED]}
    assert results[1].good
    assert results[1].seconds == 2.0
    assert pytest.seen == ["first: a b c", "fresh", "second: b", "first: c"]


def test_twice_failed_is_red_and_the_next_gets_fresh_services() -> None:
    pytest = Scripted({"a": [HUNG, SKIPPED], "b": [PASSED]})
    results = list(run_cases("s", ["a", "b"], pytest))
    assert outcomes(results) == {"a": [HUNG, SKIPPED], "b": [PASSED]}
    assert [result.good for result in results] == [False, True]
    assert pytest.seen == ["first: a b", "fresh", "second: a", "fresh", "first: b"]


def test_nothing_is_brought_up_after_the_last() -> None:
    pytest = Scripted({"a": [FAILED, FAILED]})
    list(run_cases("s", ["a"], pytest))
    assert pytest.seen == ["first: a", "fresh", "second: a"]


def test_pytest_that_says_nothing_is_the_next_cases_fault_and_is_no_endless_loop() -> None:
    pytest = Scripted({"a": [PASSED], "b": [], "c": [PASSED]})
    pytest.ends = {"b"}
    results = list(run_cases("s", ["a", "b", "c"], pytest))
    assert outcomes(results) == {"a": [PASSED], "b": [FAILED, FAILED], "c": [PASSED]}
    assert "began" in results[1].tries[0].reason


def test_services_that_do_not_come_back_leave_no_case_untold() -> None:
    pytest = Scripted({"a": [FAILED], "b": [PASSED], "c": [PASSED]}, fails=0)
    results = list(run_cases("s", ["a", "b", "c"], pytest))
    assert outcomes(results) == {"a": [FAILED, SKIPPED], "b": [SKIPPED], "c": [SKIPPED]}
    assert results[2].tries[0].reason == "no cluster"
    assert not any(result.good for result in results)


def test_a_skip_for_lack_of_a_gpu_alone_is_no_fault() -> None:
    assert outcome_of_skip("no GPU on this machine") == NO_GPU
    assert outcome_of_skip("NOT TESTED: no engine") == SKIPPED
    assert outcome_of_skip("") == SKIPPED
