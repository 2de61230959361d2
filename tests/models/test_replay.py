"""A run directory in place of a playbook: the campaign's own replies, once more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import ModelSpecError, PlaybookExhausted, ReplyError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.models.open import open_model
from hpcscientist.models.playbook import PlaybookModel, copy
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.records.idea import SURVEY_ID
from hpcscientist.records.model_calls import Message, ModelReply, ModelRequest

ASKED = [
    (SURVEY_ID, "attributes", 1, 0),
    (SURVEY_ID, "rank", 12, 0),
    ("idea-0001", "propose", 1, 0),
    ("idea-0001", "propose", 1, 1),
    ("idea-0001", "code", 1, 0),
    ("idea-0002", "propose", 1, 0),
    ("idea-10000", "debug", 3, 0),
]


def request(idea_id: str, stage: str, ordinal: int = 1, repair: int = 0) -> ModelRequest:
    messages = (Message(role="user", content="a long prompt " * 50),)
    return ModelRequest(
        subject=idea_id, stage=stage, ordinal=ordinal, repair=repair, messages=messages
    )


class Talker:
    """Any model: each call has a reply of its own."""

    name = "talker"

    async def probe(self) -> None: ...

    async def close(self) -> None: ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        number = len(request.subject + request.key)
        return ModelReply(
            text=f"{request.subject} {request.key}: é\nnot {{json",
            reasoning="thinking" * (number % 3),
            finish="length" if number % 2 else "",
            model="talker",
            prompt_tokens=number,
            completion_tokens=2 * number,
            tokens_estimated=number % 2 == 0,
            latency_s=1.5,
        )


async def recorded(folder: Path) -> dict[tuple[str, str, int, int], ModelReply]:
    """Have a model asked for a campaign; return its replies by call."""
    model = RecordedModel(Talker(), RunPaths(folder), lambda *_: None)
    return {call: await model.complete(request(*call)) for call in ASKED}


async def test_every_recorded_call_is_answered_as_it_was(tmp_path: Path) -> None:
    replies = await recorded(tmp_path / "run")
    copy(tmp_path / "run", tmp_path / "book.jsonl")
    opened = open_model(f"playbook:{tmp_path / 'run'}", None, ClientSettings())
    for model in (opened, PlaybookModel(tmp_path / "book.jsonl")):
        assert isinstance(model, PlaybookModel)
        assert model.ideas() == (1, 2, 10000)
        assert model.stages() == {"attributes", "rank", "propose", "code", "debug"}
        for call, reply in replies.items():
            replayed = await model.complete(request(*call))
            spent = {"model": model.name, "latency_s": 0.0}
            assert replayed == reply.model_copy(update=spent)
        with pytest.raises(ReplyError, match="idea-0002, stage code/1"):
            await model.complete(request("idea-0002", "code"))
        with pytest.raises(PlaybookExhausted):
            await model.complete(request("idea-10001", "propose"))
    assert opened.name == "playbook:run"


async def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    await recorded(tmp_path)
    chat = RunPaths(tmp_path).idea("idea-0001").chat
    whole = chat.read_bytes()
    for torn in (whole[:-30], whole[:-30] + b"\n", whole + b'{"key": "deb', whole + b"\0\0\0\n"):
        chat.write_bytes(torn)
        model = PlaybookModel(tmp_path)
        assert (await model.complete(request("idea-0001", "propose"))).text.startswith("idea-0001")
    chat.write_bytes(whole[:-30])
    with pytest.raises(ReplyError):
        await PlaybookModel(tmp_path).complete(request("idea-0001", "code"))


async def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    await recorded(tmp_path)
    chat = RunPaths(tmp_path).idea("idea-0001").chat
    first, *rest = chat.read_bytes().splitlines(keepends=True)
    chat.write_bytes(first[:40] + b"\n" + b"".join(rest))
    with pytest.raises(ModelSpecError, match=r"idea-0001/chat\.jsonl:1: no record"):
        PlaybookModel(tmp_path)


async def test_of_two_questions_of_a_call_the_last_was_acted_on(tmp_path: Path) -> None:
    await recorded(tmp_path)
    chat = RunPaths(tmp_path).idea("idea-0002").chat
    first = chat.read_text(encoding="utf-8").splitlines()[0]
    line = json.loads(first) | {"reply": "to the other question"}
    line["prompt"][-1]["content"] += " as it was edited"
    with chat.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    stage = line["key"].partition("/")[0]
    again = await PlaybookModel(tmp_path).complete(request("idea-0002", stage))
    assert again.text == "to the other question"


async def test_of_two_replies_to_a_call_the_first_was_acted_on(tmp_path: Path) -> None:
    replies = await recorded(tmp_path)
    chat = RunPaths(tmp_path).idea("idea-0002").chat
    line = chat.read_text(encoding="utf-8")
    chat.write_text(line + line.replace("idea-0002 propose", "another"), encoding="utf-8")
    again = await PlaybookModel(tmp_path).complete(request("idea-0002", "propose"))
    assert again.text == replies["idea-0002", "propose", 1, 0].text


async def test_folders_that_are_no_ideas_are_left_alone(tmp_path: Path) -> None:
    await recorded(tmp_path)
    ideas = RunPaths(tmp_path).root / "ideas"
    for name in ("idea-0001-backup", "idea-1", "notes"):
        (ideas / name).mkdir()
        (ideas / name / "chat.jsonl").write_text("anything\nelse\n")
    assert PlaybookModel(tmp_path).ideas() == (1, 2, 10000)


@pytest.mark.parametrize("made", ["", "ideas", "ideas/idea-0001"])
def test_a_folder_without_replies_is_refused(tmp_path: Path, made: str) -> None:
    (tmp_path / made).mkdir(parents=True, exist_ok=True)
    with pytest.raises(ModelSpecError, match=rf"^{tmp_path}: .*/chat\.jsonl\).* playbook:DIR "):
        PlaybookModel(tmp_path)


async def test_replies_of_papers_are_for_whoever_writes_papers(tmp_path: Path) -> None:
    """A campaign that is replayed knows no such calls, and its copy of a playbook has none."""
    await recorded(tmp_path)
    papers = RecordedModel(Talker(), RunPaths(tmp_path).papers, lambda *_: None)
    asked = [("campaign", "outline"), ("idea-0001", "outline"), ("idea-0002", "section")]
    for subject, stage in asked:
        await papers.complete(request(subject, stage))
    writer = PlaybookModel(tmp_path)
    assert {"outline", "section", "propose"} <= writer.stages()
    for subject, stage in asked:
        reply = await writer.complete(request(subject, stage))
        assert reply.text == f"{subject} {stage}/1: é\nnot {{json"
    of_loop = ("attributes", "rank", "propose", "code", "debug")
    assert PlaybookModel(tmp_path, of_loop).stages() == set(of_loop)
    copy(tmp_path, tmp_path / "copied.jsonl")
    assert PlaybookModel(tmp_path / "copied.jsonl", of_loop).stages() == set(of_loop)
