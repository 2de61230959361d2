"""What the tiny model is taught is right: its replies are accepted, applied, and told apart."""

from __future__ import annotations

import json
from pathlib import Path

from tiny_lessons import IDEAS, code, lessons, proposal
from tiny_recipe import write_recipe

from hpcscientist.authoring import checks
from hpcscientist.authoring.edits import apply
from hpcscientist.ideation.bank import Bank
from hpcscientist.models.structured import parse
from hpcscientist.recipe.load import load
from hpcscientist.records.authoring import CodeReply, FixReply
from hpcscientist.records.idea import Proposal


def test_lessons_are_the_same_for_the_same_seed() -> None:
    first = lessons(repeats=1)
    assert first == lessons(repeats=1)
    assert first != lessons(repeats=1, seed=1)


def test_each_reply_fits_what_is_asked_for() -> None:
    kinds = {kind.__name__: kind for kind in (Proposal, CodeReply, FixReply)}
    for lesson in lessons(repeats=1):
        kind = kinds[lesson.schema["title"]]
        assert isinstance(parse(lesson.reply, kind), kind)
        # A server's grammar allows this form of edits alone, and no blanks between parts.
        assert "UnitEdit" not in lesson.schema.get("$defs", {})
        assert lesson.reply == json.dumps(
            json.loads(lesson.reply), separators=(",", ":"), ensure_ascii=False
        )


def test_each_idea_is_let_in_and_its_edits_change_the_reference(tmp_path: Path) -> None:
    recipe = load(write_recipe(tmp_path, tmp_path / "executed"))
    bank = Bank()
    for number in range(1, len(IDEAS) + 1):
        summary = proposal(number).summary
        assert bank.look_alike(summary) is None
        bank.add(str(number), summary)
        files = apply(recipe.reference, code(number).edits, recipe.spec.editable)
        assert isinstance(files, dict)
        assert files != recipe.reference
        assert not checks.check(files)
