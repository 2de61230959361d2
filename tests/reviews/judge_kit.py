"""Scripted judges of papers, and papers to judge."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpcscientist.config.settings import Settings
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.models.role_client import Roles
from hpcscientist.records.base import NumberOdds
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.reviews import form as forms
from hpcscientist.reviews import reviewer
from hpcscientist.reviews.form import Form

FORM = forms.load(forms.DEFAULT, Path())
NEURIPS = forms.load("neurips", Path())
Script = Callable[[ModelRequest], "str | dict[str, Any]"]


def filled(form: Form = FORM, **answers: Any) -> dict[str, Any]:
    """A whole form; scores are in the middle where none is given."""
    blank: dict[str, Any] = {"text": "It shifts images.", "list": ["one"], "yes-no": False}
    found = {}
    for of in form.fields:
        if of.kind == "score":
            found[of.id] = (1 + of.highest) // 2
        elif of.kind == "choice":
            found[of.id] = "reject"
        else:
            found[of.id] = blank[of.kind]
    return found | answers


def summed_up(form: Form = FORM, **answers: Any) -> dict[str, Any]:
    """What an area chair replies."""
    scores = {of.id for of in form.scores}
    words = {name: of for name, of in filled(form).items() if name not in scores}
    return words | {"decision": "reject"} | answers


def kind(request: ModelRequest) -> str:
    """Which kind of call it is, whatever the form."""
    return request.stage.partition("-")[0]


def text_of(request: ModelRequest) -> str:
    return "\n".join(message.content for message in request.messages)


@dataclass
class Judge:
    """A model that answers by a script. `odds` are those of numbers, by the number sampled."""

    script: Script
    odds: Callable[[ModelRequest, int], Mapping[int, float]] | None = None
    name: str = "scripted"
    asked: list[ModelRequest] = field(default_factory=list)

    async def probe(self) -> None: ...

    async def close(self) -> None: ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        said = self.script(request)
        text = said if isinstance(said, str) else json.dumps(said)
        return ModelReply(
            text=text, model=self.name, prompt_tokens=len(text_of(request)) // 4,
            completion_tokens=len(text) // 4, tokens_estimated=True, latency_s=0.5,
            odds=self._odds(request, text) if request.scale else (),
        )  # fmt: skip

    def _odds(self, request: ModelRequest, text: str) -> tuple[NumberOdds, ...]:
        if self.odds is None:
            return ()
        found, at = [], 0
        for line in text.split(", "):
            digits = line.rstrip("}").rpartition(" ")[2]
            if digits.isdigit():
                place = at + line.rstrip("}").rindex(" ") + 1
                values = tuple(sorted(self.odds(request, int(digits)).items()))
                found.append(NumberOdds(at=place, values=values))
            at += len(line) + 2
        return tuple(found)

    def stages(self) -> list[str]:
        return sorted(f"{kind(r)}/{r.ordinal}" for r in self.asked)


def use(monkeypatch: Any, judges: Mapping[str, Judge], context: int = 0) -> None:
    """Have SPECs open scripted judges, whose context is so many tokens."""

    def opened(settings: Settings, spec: str, *_: object) -> Roles:
        model = judges[spec]
        return Roles({"review": model}, {"review": Window(context)})

    monkeypatch.setattr("hpcscientist.reviews.review.open_judge", opened)
    monkeypatch.setattr("hpcscientist.reviews.compare.open_judge", opened)
    assert reviewer.ROLE == "review"


def noisy(
    request: ModelRequest, centre: float, spread: float, highest: int, about: str = ""
) -> int:
    """A score drawn around a centre, by the request's seed and what it is about."""
    drawn = random.Random(f"{request.seed}/{request.key}/{about}").gauss(centre, spread)
    return min(highest, max(1, round(drawn)))


def labelled(folder: Path, count: int, seed: int = 0, humans: int = 4) -> Sequence[float]:
    """Write a labelled set in our layout, whose papers' quality stands in their text (0 to 10)."""
    drawn = random.Random(seed)
    rows, worths = [], []
    for number in range(count):
        worth = min(9.5, max(0.5, drawn.gauss(5, 2)))
        scores = [min(10, max(1, round(drawn.gauss(worth, 1.2)))) for _ in range(humans)]
        accepted = drawn.gauss(worth, 1) > 5
        (folder / f"{number:03}.txt").write_text(f"# Paper {number:03}\n\nworth={worth:.3f}\n")
        rows.append(
            {
                "id": f"p{number:03}x", "text": f"{number:03}.txt", "scores": scores,
                "decision": "accept" if accepted else "reject",
            }
        )  # fmt: skip
        worths.append(worth)
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return worths
