from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcscientist.errors import ModelSpecError, PlaybookExhausted, ReplyError
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.records.model_calls import Message, ModelRequest

GOOD = '{"idea": 1, "stage": "propose", "text": "x"}'


def request(idea_id: str = "idea-0001", stage: str = "propose") -> ModelRequest:
    messages = (Message(role="user", content="12345"),)
    return ModelRequest(subject=idea_id, stage=stage, messages=messages)


def written(folder: Path, *lines: str) -> Path:
    path = folder / "book.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


async def test_objects_and_texts_are_replayed(tmp_path: Path) -> None:
    model = PlaybookModel(
        written(
            tmp_path,
            '{"idea": 12, "stage": "propose", "reply": {"title": "é", "n": [1]}}',
            "",
            '{"idea": 3, "stage": "code", "text": "not {json"}',
        )
    )
    assert model.name == "playbook:book.jsonl"
    assert model.ideas() == (3, 12)
    assert (model.ideas("code"), model.ideas("debug")) == ((3,), ())
    assert model.stages() == {"propose", "code"}
    reply = await model.complete(request("idea-0012"))
    assert json.loads(reply.text) == {"title": "é", "n": [1]}
    assert (reply.prompt_tokens, reply.tokens_estimated) == (2, True)
    assert reply.completion_tokens == 6
    assert (await model.complete(request("idea-0003", "code"))).text == "not {json"


@pytest.mark.parametrize(
    ("idea_id", "error"),
    [
        ("idea-0002", PlaybookExhausted),
        ("idea-0099", PlaybookExhausted),
        # A hole is about one call: nothing says that the later ideas are missing too.
        ("baseline", ReplyError),
        ("idea-0001x", ReplyError),
    ],
)
async def test_exhausted_or_a_hole(tmp_path: Path, idea_id: str, error: type[Exception]) -> None:
    path = written(tmp_path, GOOD)
    with pytest.raises(error) as caught:
        await PlaybookModel(path).complete(request(idea_id))
    for part in (idea_id, "propose/1", path.name):
        assert part in str(caught.value)
    assert str(path.parent) not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"idea": 1', "Invalid JSON"),
        ("[1]", "object"),
        ('{"stage": "code", "text": "x"}', "idea: Field required"),
        ('{"idea": -1, "stage": "code", "text": "x"}', "idea: "),
        ('{"idea": "1", "stage": "code", "text": "x"}', "idea: "),
        ('{"idea": 1, "stage": "code"}', "either 'reply' or 'text'"),
        ('{"idea": 1, "stage": "code", "text": "x", "reply": {}}', "either 'reply' or 'text'"),
        ('{"idea": 1, "stage": "code", "text": "x", "ideas": 1}', "ideas: Extra"),
        (GOOD, "line 1 already"),
        ('{"idea": 1, "stage": "cdoe", "text": "x"}', "mean 'code'?"),
        (f'{GOOD[:-1]}, "ordinal": 2, "prompt_tokens": {10**19}}}', "prompt_tokens: "),
        (f'{GOOD[:-1]}, "ordinal": 2, "completion_tokens": {10**30}}}', "completion_tokens: "),
    ],
)
def test_malformed_lines_have_their_place(tmp_path: Path, line: str, said: str) -> None:
    path = written(tmp_path, GOOD, "", line)
    with pytest.raises(ModelSpecError) as caught:
        PlaybookModel(path, ("propose", "code", "debug"))
    assert str(caught.value).startswith(f"{path}:3: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "book.jsonl"
    path.write_bytes(b'{"idea": 1, "stage": "code", "text": "\xff"}\n')
    with pytest.raises(ModelSpecError, match=r"book\.jsonl:1: "):
        PlaybookModel(path)


def test_missing_folder_or_empty(tmp_path: Path) -> None:
    with pytest.raises(ModelSpecError, match=rf"^{tmp_path}/none\.jsonl: .*\bplaybook:FILE\b"):
        PlaybookModel(tmp_path / "none.jsonl")
    with pytest.raises(ModelSpecError, match=rf"^{tmp_path}: .*/chat\.jsonl\).* playbook:DIR "):
        PlaybookModel(tmp_path)
    with pytest.raises(ModelSpecError, match="empty"):
        PlaybookModel(written(tmp_path, ""))
