"""Creates tiny language models, in the format of published open weights.

    python tests/tiny_models.py FOLDER [--hidden N] [--layers N] [--seed N]

makes one of random weights; tests/e2e/tiny_lessons.py makes a trained one. The interpreter needs
torch and transformers (tests/serving_environment makes one). The same seed gives the same weights
on the same machine.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpcscientist.bench.serving.model import (
    ASSISTANT,
    CONTEXT,
    END,
    SPECIAL,
    llama,
    main,
    make_random,
    save,
)

__all__ = ["Lesson", "Trained", "make_random", "make_trained"]

# Lines are the words of a trained model's tokenizer, so that text common to all prompts becomes
# few tokens. Quoted text within lines is split off, because replies are one long line.
LINES = r'[^\n"]*"|[^\n"]+\n?|\n+'


@dataclass(frozen=True)
class Lesson:
    """A question as chat messages, the wanted reply, and the schema that a server holds it to."""

    messages: tuple[dict[str, str], ...]
    reply: str
    schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trained:
    """The result of training. `loss` is the mean per reply token over the last steps."""

    steps: int
    seconds: float
    loss: float
    vocabulary: int
    longest: int  # tokens of the longest lesson


def make_trained(
    folder: Path,
    lessons: Sequence[Lesson],
    hidden: int = 96,
    layers: int = 2,
    steps: int = 260,
    seed: int = 0,
) -> Trained:
    """Train a tiny Llama and its tokenizer to give the lessons' replies; write it to a folder.

    Each step sees a batch of lessons of similar length. From here on this process uses one thread.
    """
    import torch  # noqa: PLC0415

    begin = time.monotonic()
    torch.set_num_threads(1)  # the same order of sums for any number of cores
    tokenizer = _learn_tokenizer(lessons)
    examples = [_encode(tokenizer, lesson) for lesson in lessons]
    torch.manual_seed(seed)
    model = llama(tokenizer, hidden, layers, CONTEXT, spread=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, betas=(0.9, 0.98), weight_decay=0.01)
    batches = _batches(examples, random.Random(seed))
    recent: list[float] = []
    step = 0
    for step in range(1, steps + 1):
        rate = 3e-3 * min(1.0, step / 30) * (0.55 + 0.45 * math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = _loss(model, next(batches))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        recent = [*recent[-19:], loss.item()]
        if step % 20 == 0:
            print(f"step {step}: loss {sum(recent) / len(recent):.4f}", flush=True)
    save(folder, model, tokenizer)
    return Trained(
        steps=step,
        seconds=time.monotonic() - begin,
        loss=sum(recent) / len(recent),
        vocabulary=tokenizer.get_vocab_size(),
        longest=max(len(ids) for ids, _ in examples),
    )


def _learn_tokenizer(lessons: Sequence[Lesson], vocabulary: int = 8192) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415
    from tokenizers.trainers import BpeTrainer  # noqa: PLC0415

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LINES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=8,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(lessons), trainer)
    return tokenizer


def _texts(lessons: Iterable[Lesson]) -> Iterator[str]:
    for lesson in lessons:
        yield from (message["content"] for message in lesson.messages)
        yield lesson.reply


def _encode(tokenizer: Any, lesson: Lesson) -> tuple[list[int], int]:
    """Return a lesson's tokens, and how many of them belong to the question."""
    chat = "".join(f"<|{m['role']}|>{m['content']}{END}" for m in lesson.messages)
    question = tokenizer.encode(chat + ASSISTANT).ids
    return question + tokenizer.encode(lesson.reply + END).ids, len(question)


def _batches(
    examples: Sequence[tuple[list[int], int]], draw: random.Random, size: int = 8
) -> Iterator[list[tuple[list[int], int]]]:
    """Yield batches without end: all examples in a new order each time, of similar length."""
    while True:
        order = draw.sample(examples, len(examples))
        order.sort(key=lambda example: len(example[0]) // 64)
        groups = [order[i : i + size] for i in range(0, len(order), size)]
        yield from draw.sample(groups, len(groups))


def _loss(model: Any, batch: Sequence[tuple[list[int], int]]) -> Any:
    """Return the mean loss over the tokens of the replies only."""
    import torch  # noqa: PLC0415

    longest = max(len(ids) for ids, _ in batch)
    # Padded on the right, which causal attention never sees.
    ids = torch.tensor([row + [0] * (longest - len(row)) for row, _ in batch])
    asked = torch.tensor([[start] for _, start in batch])
    ends = torch.tensor([[len(row)] for row, _ in batch])
    place = torch.arange(1, longest)[None, :]
    wanted = (place >= asked) & (place < ends)
    states = model.model(input_ids=ids).last_hidden_state[:, :-1][wanted]
    return torch.nn.functional.cross_entropy(model.lm_head(states), ids[:, 1:][wanted])


if __name__ == "__main__":
    main(["--hidden=64", "--layers=2", *sys.argv[1:]])
