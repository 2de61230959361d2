"""A review form: its questions, and the schema of a model's reply to them.

A form is a folder with `form.toml`. This package's forms are in `forms/`; `--form FOLDER` names a
venue's own.
"""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, ValidationError, create_model, model_validator

from hpcscientist.errors import UsageError
from hpcscientist.files.handed import read_regular
from hpcscientist.models.prompting.prompts import line
from hpcscientist.records.base import Prose, Record, Scored, place_of
from hpcscientist.records.reviews import Mark, MemberReview

DEFAULT: Final = "ai-scientist"
_HOME: Final = Path(__file__).resolve().parent / "forms"
_FILE: Final = "form.toml"
_MOST_ITEMS = 30
_ITEM = 4000  # characters

Kind = Literal["text", "list", "score", "choice", "yes-no"]


class FormField(Record):
    """One question of a form.

    A score runs from 1 to `highest`, and `values` may name what each value means. The `values` of a
    choice are its possible answers.
    """

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    kind: Kind
    ask: str = Field(min_length=1)
    highest: int = Field(default=0, ge=0, le=10)
    values: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _whole(self) -> FormField:
        if self.kind == "score" and self.highest < 2:
            raise ValueError("a score needs 'highest' from 2 to 10")
        if self.kind == "score" and self.values and len(self.values) != self.highest:
            raise ValueError(f"name all of its {self.highest} values, or none")
        if self.kind == "choice" and len(self.values) < 2:
            raise ValueError("a choice needs two values or more")
        return self

    @property
    def told(self) -> str:
        """The question as it appears in a prompt."""
        match self.kind:
            case "score":
                named = "; ".join(f"{n}: {said}" for n, said in enumerate(self.values, start=1))
                return f"{self.ask} Whole number from 1 to {self.highest}. {named}".strip()
            case "choice":
                return f"{self.ask} One of: {', '.join(self.values)}."
            case "list":
                return f"{self.ask} A list of strings, one thought each."
            case "yes-no":
                return f"{self.ask} true or false."
            case _:
                return self.ask


class _Description(Record):
    title: str = Field(min_length=1)
    guidance: str = Field(min_length=1)
    overall: str
    decision: str = ""
    accept: float
    fields: tuple[FormField, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _fits(self) -> _Description:
        kinds = {field.id: field.kind for field in self.fields}
        if len(kinds) < len(self.fields):
            raise ValueError("two fields have the same id")
        if kinds.get(self.overall) != "score":
            raise ValueError(f"overall: {self.overall!r} is no field of the kind 'score'")
        if self.decision:
            field = next((f for f in self.fields if f.id == self.decision), None)
            if field is None or set(field.values) != {"accept", "reject"}:
                raise ValueError(
                    f"decision: {self.decision!r} is no choice between accept and reject"
                )
        return self


class FormReply(Scored):
    """The reply schema of stage `review-FORM`; the fields are the form's."""


@dataclass(frozen=True)
class Form:
    """A loaded form. A paper whose overall score is `accept` or more is accepted."""

    name: str
    title: str
    guidance: str
    overall: str
    decision: str
    accept: float
    fields: tuple[FormField, ...]
    sha256: str

    @property
    def scores(self) -> tuple[FormField, ...]:
        """The fields that are scores."""
        return tuple(field for field in self.fields if field.kind == "score")

    def stage(self, name: str) -> str:
        """Return a stage name that includes the form's name: a playbook may hold several forms."""
        return f"{name}-{self.name}"

    @cached_property
    def reply(self) -> type[FormReply]:
        """The schema of a reviewer's reply: all fields, in the form's order."""
        return _reply("FormReply", self.fields, FormReply)

    @cached_property
    def reflection(self) -> type[ReconsideredReply]:
        """The schema of a reviewer's reply when it is asked to reconsider its review."""
        inner: Any = self.reply
        made = create_model(
            "ReconsideredReply",
            __base__=ReconsideredReply,
            __doc__=ReconsideredReply.__doc__,
            review=(
                inner | None,
                Field(default=None, description="The whole review, corrected; null to keep it."),
            ),
        )
        made.highest = inner.highest
        return made

    @cached_property
    def summing_up(self) -> type[FormReply]:
        """The schema of an area chair's reply: no scores, since those are the reviewers'."""
        words = tuple(field for field in self.fields if field.kind != "score")
        if not self.decision:
            ask = "Whether the paper should be accepted."
            answers = ("accept", "reject")
            words += (FormField(id="decision", kind="choice", ask=ask, values=answers),)
        return _reply("ChairReply", words, FormReply)

    def read(self, reply: FormReply, member: int, rounds: int, settled: bool) -> MemberReview:
        """Return a reviewer's reply as a record, with the expectation of each score if known."""
        known = reply.model_dump()
        kinds = {field.id: field for field in self.fields}
        marks = {
            field.id: Mark(sampled=known[field.id], expected=_expected(reply, field))
            for field in self.scores
            if field.id in known
        }
        texts, lists, choices = dict[str, str](), dict[str, tuple[str, ...]](), dict[str, str]()
        for name, value in known.items():
            kind = kinds[name].kind if name in kinds else "choice"
            if kind == "text":
                texts[name] = value
            elif kind == "list":
                lists[name] = tuple(value)
            elif kind != "score":
                choices[name] = value if isinstance(value, str) else ("yes" if value else "no")
        return MemberReview(
            member=member,
            rounds=rounds,
            settled=settled,
            texts=texts,
            lists=lists,
            choices=choices,
            marks=marks,
        )


class ReconsideredReply(Scored):
    """The reply schema of stage `reconsider-FORM`. Without a review the one before stands."""

    prefix: ClassVar[str] = "review."
    remarks: Prose = Field(
        min_length=1, description="What in the review is wrong, unfair or unsupported, or nothing."
    )
    done: bool = Field(description="True if the review needs no further round.")
    review: Any = None

    def revised(self) -> FormReply | None:
        """Return the corrected review with its scores' odds; None to keep the previous one."""
        found: FormReply | None = self.review
        if found is not None:
            found.expect(
                {
                    name.removeprefix(self.prefix): odds
                    for name, odds in self._odds.items()
                    if name.startswith(self.prefix)
                }
            )
        return found


def names() -> list[str]:
    """Return the names of this package's forms."""
    return sorted(path.parent.name for path in _HOME.glob(f"*/{_FILE}"))


def load(wanted: str, folder: Path) -> Form:
    """Return a form by its name, or by its folder (relative to `folder`).

    Raises UsageError, which says what is wrong with the form.
    """
    own = _HOME / wanted
    place = own if wanted in names() else folder / wanted
    if not (place / _FILE).is_file():
        raise UsageError(
            f"--form {wanted}: no form and no folder with {_FILE}; there are {', '.join(names())}"
        )
    file = place / _FILE
    try:
        data = read_regular(file)
        found = _Description.model_validate(tomllib.loads(data.decode()), strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = place_of(first["loc"])
        raise UsageError(f"{file}: {where or 'form'}: {first['msg']}; fix that") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: cannot be read as a form: {error}") from error
    return Form(
        name=place.resolve().name,
        title=found.title,
        guidance=found.guidance.strip(),
        overall=found.overall,
        decision=found.decision,
        accept=found.accept,
        fields=found.fields,
        sha256=hashlib.sha256(data).hexdigest(),
    )


def _reply(name: str, fields: tuple[FormField, ...], base: type[FormReply]) -> type[FormReply]:
    made: type[FormReply] = create_model(
        name,
        __base__=base,
        __doc__=base.__doc__,
        **{field.id: _typed(field) for field in fields},
    )
    made.highest = max((field.highest for field in fields), default=0)
    return made


def _typed(field: FormField) -> Any:
    told = Field(description=field.ask)
    match field.kind:
        case "score":
            return (int, Field(ge=1, le=field.highest, description=field.ask))
        case "choice":
            answers: Any = Literal[field.values]
            return (Annotated[answers, BeforeValidator(_plain)], told)
        case "list":
            return (Annotated[tuple[_Item, ...], BeforeValidator(_listed)], told)
        case "yes-no":
            return (Annotated[bool, BeforeValidator(_truth)], told)
        case _:
            text = Field(min_length=1, description=field.ask)
            return (Annotated[Prose, BeforeValidator(_text)], text)


# Small models leave a text empty, write a string instead of a list, and "Accept." instead of
# "accept". A review that has its scores is not lost for that.
def _text(value: object) -> object:
    return "None given." if isinstance(value, str) and not value.strip() else value


def _plain(value: object) -> object:
    return value.strip(" .").lower() if isinstance(value, str) else value


def _truth(value: object) -> object:
    return {"yes": True, "true": True, "no": False, "false": False}.get(
        str(_plain(value)) if isinstance(value, str) else "", value
    )


def _listed(value: object) -> object:
    items = [value] if isinstance(value, str) and value.strip() else value
    return tuple(items[:_MOST_ITEMS]) if isinstance(items, list | tuple) else items


def _item(value: object) -> object:
    return line(value, _ITEM) if isinstance(value, str) else value


_Item = Annotated[str, BeforeValidator(_item)]


def _expected(reply: FormReply, field: FormField) -> float | None:
    odds = reply.odds(field.id)
    kept = odds.within(1, field.highest) if odds is not None else None
    return None if kept is None else kept.mean
