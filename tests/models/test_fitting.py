from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.errors import ContextOverflow, EndpointError, ReplyError
from hpcscientist.models.prompting.fitting import LEAST_ANSWER, Prompt, PromptPart, Window
from hpcscientist.records.model_calls import Message, ModelReply


class Letters:
    """Counts a token a character, and remembers what it was told."""

    def __init__(self) -> None:
        self.learnt: list[int] = []
        self.factor = 1

    def count(self, messages: Sequence[Message]) -> int:
        return self.factor * sum(len(message.content) for message in messages)

    def learn(self, messages: Sequence[Message], tokens: int) -> None:
        self.learnt.append(tokens)

    def distrust(self) -> None:
        self.factor += 1


def prompt_of(sizes: Sequence[Sequence[int]], fixed_size: int) -> Prompt:
    """A prompt of several lists, the least relevant first; entries have these sizes."""

    def part(letter: str, own: Sequence[int]) -> PromptPart:
        return PromptPart(letter, len(own), lambda step: "".join(letter * n for n in own[step:]))

    parts = [part(chr(97 + i), own) for i, own in enumerate(sizes)]

    def at(level: int) -> tuple[Message, ...]:
        text = "!" * fixed_size
        for part in parts:
            taken = min(level, part.steps)
            text += part.at(taken)
            level -= taken
        return (Message(role="user", content=text),)

    return Prompt(sum(part.steps for part in parts), at)


SIZES = st.lists(st.lists(st.integers(0, 900), max_size=6), max_size=4)
CONTEXTS = st.integers(1, 12_000)
ANSWERS = st.integers(1, 9000)


@given(SIZES, st.integers(0, 3000), CONTEXTS, ANSWERS)
async def test_prompt_and_answer_never_exceed_the_context(
    sizes: list[list[int]], core: int, context: int, max_tokens: int
) -> None:
    counter, prompt = Letters(), prompt_of(sizes, core)
    least = min(max_tokens, LEAST_ANSWER)
    try:
        fitted = await Window(context, counter).fit(prompt, max_tokens, "x")
    except ReplyError as error:
        assert core + least > context
        assert str(core + least) in str(error)
        return
    size = counter.count(fitted.messages)
    assert size + fitted.max_tokens <= context
    assert least <= fitted.max_tokens <= max_tokens
    assert fitted.messages == prompt.at(fitted.level)
    # Nothing is left out without need: one level less would not have fitted.
    if fitted.level:
        kept = min(max_tokens, max(least, context // 2))
        assert counter.count(prompt.at(fitted.level - 1)) + kept > context


@given(SIZES, st.integers(0, 3000), CONTEXTS, CONTEXTS, ANSWERS)
async def test_a_longer_context_never_leaves_out_more(
    sizes: list[list[int]], core: int, context: int, more: int, max_tokens: int
) -> None:
    prompt = prompt_of(sizes, core)
    try:
        tight = await Window(context, Letters()).fit(prompt, max_tokens, "x")
    except ReplyError:
        return
    roomy = await Window(context + more, Letters()).fit(prompt, max_tokens, "x")
    assert roomy.level <= tight.level


@given(SIZES, CONTEXTS)
async def test_the_least_relevant_goes_first(sizes: list[list[int]], context: int) -> None:
    prompt = prompt_of(sizes, 0)
    fitted = await Window(context, Letters()).fit(prompt, 1, "x")
    text = fitted.messages[0].content
    whole = prompt.at(0)[0].content
    left = [text.count(chr(97 + i)) for i in range(len(sizes))]
    had = [whole.count(chr(97 + i)) for i in range(len(sizes))]
    for (less, _), (later, all_of_it) in itertools.pairwise(zip(left, had, strict=True)):
        assert less == 0 or later == all_of_it


async def test_an_unknown_context_takes_all() -> None:
    prompt = prompt_of([[5000]], 9)
    fitted = await Window().fit(prompt, 70_000, "x")
    assert (fitted.messages, fitted.max_tokens) == (prompt.at(0), 70_000)


async def test_what_would_be_needed_is_named() -> None:
    with pytest.raises(ReplyError) as caught:
        await Window(2000, Letters()).fit(prompt_of([[50]], 1800), 4096, "idea-0001: code/1")
    told = str(caught.value)
    assert re.match(r"idea-0001: code/1: .*\b1800 .*\b512, .*\b2000; .*\b2312 ", told)


async def test_the_server_is_asked_once() -> None:
    asked: list[int] = []

    async def ask() -> int:
        asked.append(1)
        return 3000

    window = Window(ask=ask)
    assert [await window.context() for _ in range(3)] == [3000] * 3
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("own", "told", "context"), [(0, 0, 0), (9, 0, 9), (0, 7, 7), (9, 7, 7), (7, 9, 7)]
)
async def test_the_smaller_of_what_is_known_counts(own: int, told: int, context: int) -> None:
    async def ask() -> int:
        return told

    assert await Window(own, ask=ask).context() == context


async def test_a_server_that_does_not_answer_is_asked_again() -> None:
    answers: list[int | Exception] = [EndpointError("down"), 5]

    async def ask() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    window = Window(ask=ask)
    assert [await window.context() for _ in range(3)] == [0, 5, 5]


def reply(estimated: bool) -> ModelReply:
    return ModelReply(
        text="", model="m", prompt_tokens=7, completion_tokens=1,
        tokens_estimated=estimated, latency_s=0.0,
    )  # fmt: skip


def test_only_the_servers_own_counts_are_learnt() -> None:
    counter = Letters()
    window = Window(9, counter)
    window.learn((), reply(estimated=True))
    window.learn((), reply(estimated=False))
    assert counter.learnt == [7]


async def test_a_refusal_teaches_length_and_count() -> None:
    counter = Letters()
    window = Window(0, counter)
    messages = (Message(role="user", content="x" * 10),)
    window.refused(messages, ContextOverflow("no", context=4000, prompt_tokens=8))
    assert await window.context() == 4000
    assert (counter.learnt, counter.factor) == ([8], 1)
    window.refused(messages, ContextOverflow("no", prompt_tokens=50))  # still counted too few
    assert counter.factor == 2
    window.refused(messages, ContextOverflow("no", context=5000))
    assert counter.factor == 3
    assert await window.context() == 4000
