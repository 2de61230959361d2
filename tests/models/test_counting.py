from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.models.prompting.fitting import Exact, TokenEstimate, counter_of
from hpcscientist.records.model_calls import Message

PROSE = "The quick brown fox jumps over the lazy dog. " * 40


def chat(*texts: str) -> list[Message]:
    return [Message(role="user", content=text) for text in texts]


def test_before_anything_is_known_the_estimate_is_high() -> None:
    # English has about four characters a token.
    assert len(PROSE) / 4 < TokenEstimate().count(chat(PROSE)) < len(PROSE)


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 1.0])
def test_what_the_server_counted_calibrates_it(rate: float) -> None:
    counter = TokenEstimate()
    counter.learn(chat(PROSE), round(rate * len(PROSE)))
    measured = rate * 3 * len(PROSE)
    assert measured <= counter.count(chat(PROSE, PROSE, PROSE)) <= 1.2 * measured + 80


def test_the_greatest_rate_counts_until_it_is_long_ago() -> None:
    counter = TokenEstimate()
    counter.learn(chat(PROSE), len(PROSE))
    high = counter.count(chat(PROSE))
    counter.learn(chat(PROSE), len(PROSE) // 4)
    assert counter.count(chat(PROSE)) == high
    for _ in range(64):
        counter.learn(chat(PROSE), len(PROSE) // 4)
    assert counter.count(chat(PROSE)) < high / 2


@pytest.mark.parametrize(("text", "tokens"), [("short", 500), (PROSE, 0), ("", 9)])
def test_what_tells_nothing_changes_nothing(text: str, tokens: int) -> None:
    counter = TokenEstimate()
    before = counter.count(chat(PROSE))
    counter.learn(chat(text), tokens)
    assert counter.count(chat(PROSE)) == before


def test_after_a_refusal_it_counts_a_token_a_byte() -> None:
    counter = TokenEstimate()
    counter.learn(chat(PROSE), len(PROSE) // 5)
    counter.distrust()
    assert counter.count(chat(PROSE, "é")) >= len(PROSE) + 2
    counter.learn(chat(PROSE), len(PROSE) // 5)
    assert counter.count(chat(PROSE)) < len(PROSE) / 3


def test_bytes_count_and_not_characters() -> None:
    assert TokenEstimate().count(chat("日本語" * 100)) > 2 * TokenEstimate().count(
        chat("abc" * 100)
    )


def test_without_a_tokenizer_there_is_an_estimate(tmp_path: Path) -> None:
    assert isinstance(counter_of(None), TokenEstimate)
    assert isinstance(counter_of(tmp_path), TokenEstimate)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert isinstance(counter_of(tmp_path), TokenEstimate)


@pytest.mark.serving
def test_a_models_own_tokenizer_counts_exactly(tmp_path: Path) -> None:
    library = pytest.importorskip("tokenizers", reason="comes with vLLM")
    words = library.Tokenizer(library.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = library.pre_tokenizers.Whitespace()
    words.enable_truncation(3)
    words.enable_padding(length=3)
    words.save(str(tmp_path / "tokenizer.json"))
    counter = counter_of(tmp_path)
    assert isinstance(counter, Exact)
    around = counter.count(chat(""))
    assert counter.count(chat("a b a zzz")) == around + 4
    counter.learn(chat("a b"), around + 2 + 100)  # its template says much more than was thought
    assert counter.count(chat("a b")) == around + 2 + 100
    counter.learn(chat("a b"), 3)
    assert counter.count(chat("a b")) == around + 2 + 100
    counter.distrust()
    assert counter.count(chat("a b")) > around + 2 + 100
