from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.models.prompting.fitting import (
    GONE,
    Prompt,
    PromptPart,
    entries,
    fixed,
    from_the_end,
    lines_from_the_end,
    of_template,
    read_only_files,
    shortened,
    tail,
)
from hpcscientist.records.model_calls import Message


def forms(part: PromptPart) -> list[object]:
    return [part.at(step) for step in range(part.steps + 1)]


def test_entries_go_the_first_first_and_those_to_keep_at_last() -> None:
    assert forms(entries("a", "wXyZ", str.isupper)) == [
        tuple("wXyZ"), tuple("XyZ"), tuple("XZ"), tuple("Z"), (),
    ]  # fmt: skip
    assert forms(entries("a", ())) == [()]


def test_entries_go_from_the_end() -> None:
    assert forms(from_the_end("a", "abc")) == [tuple("abc"), tuple("ab"), tuple("a"), ()]


def test_headings_go_with_their_last_entry() -> None:
    text = "Improved:\n- a\n- b\nWorse:\n- c"
    assert forms(lines_from_the_end("a", text)) == [
        text,
        f"Improved:\n- a\n- b\n{GONE}",
        f"Improved:\n- a\n- b\n{GONE}",
        f"Improved:\n- a\n{GONE}",
        "",
        "",
    ]


def test_a_log_keeps_its_last_lines() -> None:
    lines = [f"line {n}" for n in range(40)]
    found = [str(form) for form in forms(tail("a", "\n".join(lines)))]
    assert [form.count("\n") for form in found] == [39, 20, 10, 8, 0]
    assert found[0] == "\n".join(lines)
    assert found[3] == "\n".join([GONE, *lines[-8:]])
    assert found[4] == ""
    assert forms(tail("a", "")) == [""]
    assert forms(tail("a", "one\ntwo")) == ["one\ntwo", ""]


def test_read_only_files_go_whole_and_keep_their_names() -> None:
    files = {"own.py": "x" * 99, "short.py": "y", "long.py": "z" * 80, "middle.py": "m" * 50}
    part = read_only_files("a", files, ("own.py",))
    assert part.steps == 2
    gone = [[n for n in files if part.at(step)[n] != files[n]] for step in range(3)]
    assert gone == [[], ["long.py"], ["long.py", "middle.py"]]
    assert "left out" in part.at(1)["long.py"]


@given(st.text(max_size=40_000))
def test_an_earlier_reply_gets_ever_shorter(text: str) -> None:
    found = shortened(text)
    assert found[0] == (text or "(empty)")[: len(found[0])] or len(text) > 16_000
    assert sorted(found, key=len, reverse=True) == list(found) or len(text) < len(GONE)


def test_parts_go_in_order_and_the_template_is_told() -> None:
    prompt = of_template(
        "rejected",
        (entries("first", "ab"), PromptPart("problem", 2, lambda step: "xyz"[step:])),
    )
    assert prompt.levels == 4
    shown = [prompt.at(level)[0].content.splitlines()[2] for level in range(5)]
    assert shown == ["xyz", "xyz", "xyz", "yz", "z"]


def test_an_answer_goes_before_the_prompt_itself() -> None:
    base = Prompt(1, lambda level: (Message(role="user", content="ab"[level:]),))
    prompt = base.noted("note").answered(("long", "short"), "again")
    assert prompt.levels == 2
    assert [[m.content for m in prompt.at(level)] for level in range(3)] == [
        ["ab\n\nnote", "long", "again"],
        ["ab\n\nnote", "short", "again"],
        ["b\n\nnote", "short", "again"],
    ]
    assert [m.role for m in prompt.at(0)] == ["user", "assistant", "user"]


@pytest.mark.parametrize("roles", [("system",), ("system", "user"), ()])
def test_a_note_never_makes_two_user_messages_in_a_row(roles: tuple[str, ...]) -> None:
    messages = tuple(Message.model_validate({"role": r, "content": "x"}) for r in roles)
    noted = fixed(messages).noted("n").at(0)
    assert [m.role for m in noted].count("user") == 1
    assert noted[-1].content.endswith("n")
