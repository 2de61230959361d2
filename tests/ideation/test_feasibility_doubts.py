"""Estimates that contradict themselves are asked about once, and the second word counts."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from feasibility_kit import FITS, NAMES, NUMPY_ALONE, judged
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.errors import PlaybookExhausted, ReplyError


class TestAModelThatContradictsItself:
    DOUBT = FITS | {"fits": False, "reason": "It seems hard."}

    async def test_is_asked_which_limit_is_exceeded(self) -> None:
        verdict, model = await judged(self.DOUBT, FITS | {"seconds": 40, "fits": False})
        (told,) = verdict.problems
        assert re.fullmatch("needs .* 40 s .*; .* 20 s", told)
        assert model.keys == ["feasibility/1", "feasibility/2"]
        roles = [message.role for message in model.asked[1].messages]
        assert roles == ["user", "assistant", "user"]
        assert "your figures" in model.prompt("feasibility/2")

    async def test_may_take_it_back(self) -> None:
        verdict, _ = await judged(self.DOUBT, FITS)
        assert (verdict.fits, verdict.reason) == (True, "Twice as slow.")

    async def test_is_believed_if_it_says_so_again_with_its_reason_alone(self) -> None:
        again = self.DOUBT | {"reason": "It needs the test\nlabels."}
        verdict, _ = await judged(self.DOUBT, again)
        assert (verdict.fits, verdict.problems) == (False, ("It needs the test labels.",))

    @pytest.mark.parametrize("reply", [ReplyError("a hole"), PlaybookExhausted("none"), "?"])
    async def test_is_not_believed_if_it_cannot_say_it_again(self, reply: Any) -> None:
        verdict, _ = await judged(self.DOUBT, reply)
        assert (verdict.fits, verdict.problems) == (True, ())
        assert re.search(r"not .*fit: It seems hard\.$", verdict.reason)


class TestAModelThatSaysItFitsAndListsWhatIsNotThere:
    """Names alone set no idea aside that was said to fit: they are asked about."""

    @pytest.mark.parametrize(("named", "problem"), NAMES)
    async def test_is_asked_whether_that_is_needed(
        self, named: dict[str, Any], problem: str
    ) -> None:
        verdict, model = await judged(FITS | named, FITS | {"reason": "Without it."})
        assert (verdict.fits, verdict.problems, verdict.reason) == (True, (), "Without it.")
        assert [message.role for message in model.asked[1].messages][1:] == ["assistant", "user"]
        assert re.search(f"^- {problem}$", model.prompt("feasibility/2"), re.MULTILINE)
        assert "your figures" not in model.prompt("feasibility/2")

    @pytest.mark.parametrize(("named", "problem"), NAMES)
    async def test_is_believed_if_it_then_says_that_it_does_not_fit(
        self, named: dict[str, Any], problem: str
    ) -> None:
        verdict, _ = await judged(FITS | named, FITS | named | {"fits": False})
        assert not verdict.fits
        (told,) = verdict.problems
        assert re.fullmatch(problem, told)

    async def test_may_say_so_without_a_name(self) -> None:
        again = FITS | {"fits": False, "reason": "Its labels are missing."}
        verdict, _ = await judged(FITS | {"data": ["MNIST"]}, again)
        assert (verdict.fits, verdict.problems) == (False, ("Its labels are missing.",))

    @pytest.mark.parametrize(
        ("named", "problems"),
        [
            ({"data": ["Only the digits, as they are"]}, ()),
            ({"files": ["model.py (new)"]}, ()),
            ({"packages": ["torch"], "data": ["x"]}, (f"imports torch; {NUMPY_ALONE}",)),
        ],
    )
    async def test_that_repeats_itself_counts_for_packages_alone(
        self, named: dict[str, Any], problems: tuple[str, ...]
    ) -> None:
        verdict, model = await judged(FITS | named, FITS | named)
        assert verdict.fits is (not problems)
        assert len(verdict.problems) == len(problems)
        assert all(map(re.fullmatch, problems, verdict.problems))
        assert len(model.keys) == 2

    async def test_is_held_to_its_second_figures(self) -> None:
        verdict, _ = await judged(FITS | {"data": ["MNIST"]}, FITS | {"seconds": 40})
        (told,) = verdict.problems
        assert re.fullmatch("needs .* 40 s .*; .* 20 s", told)

    @pytest.mark.parametrize("reply", [ReplyError("a hole"), PlaybookExhausted("none"), "?"])
    async def test_is_believed_if_it_cannot_answer_and_what_it_listed_is_told(
        self, reply: Any
    ) -> None:
        verdict, _ = await judged(FITS | {"data": ["MNIST"]}, reply)
        assert (verdict.fits, verdict.problems, verdict.seconds) == (True, (), 4.0)
        told = r"it .*fit \(Twice as slow\.\), .* needs data .*: MNIST"
        assert re.fullmatch(told, verdict.reason)


_REPLIES = st.builds(
    lambda **reply: FITS | reply,
    seconds=st.sampled_from([1, 20, 21]),
    memory_mb=st.sampled_from([10, 1024, 2048]),
    files=st.sampled_from([[], ["experiment.py"], ["new.py"]]),
    data=st.sampled_from([[], ["none"], ["MNIST"], ["provided"]]),
    packages=st.sampled_from([[], ["numpy"], ["torch"], ["empty"]]),
    fits=st.booleans(),
)
_ANSWERS = st.one_of(_REPLIES, st.sampled_from(["?", ReplyError("a hole")]))


@settings(max_examples=150, deadline=None)
@given(_REPLIES, _ANSWERS)
def test_names_alone_set_nothing_aside_unless_it_was_confirmed(first: Any, second: Any) -> None:
    verdict, model = asyncio.run(judged(first, second))
    asked = "feasibility/2" in model.keys
    heavy = first["seconds"] > 20 or first["memory_mb"] > 1024
    assert verdict.fits is not bool(verdict.problems)
    assert verdict.reason
    if heavy:
        assert not verdict.fits
        assert not asked
    elif not asked:
        assert verdict.fits is first["fits"]
    elif not isinstance(second, dict):
        assert verdict.fits
    elif second["seconds"] <= 20 and second["memory_mb"] <= 1024:
        assert verdict.fits is (second["fits"] and second["packages"] != ["torch"])
    else:
        assert not verdict.fits
