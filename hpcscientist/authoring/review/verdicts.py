"""Which concepts an attempt must have, and what several judgements of them come to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpcscientist.models.prompting.citing import found_ids
from hpcscientist.models.prompting.quoting import line
from hpcscientist.records.asked.authoring import Brief
from hpcscientist.records.experiment import ConceptCheck, Implemented, ReviewReply
from hpcscientist.records.known.survey import ConceptRecord

_NAME, _DEFINITION = 300, 1000  # characters
_WORST_FIRST: tuple[Implemented, ...] = ("missing", "partial", "implemented")
_NUMBER = re.compile(
    r"(?:concept\s*)?#?\(?(\d{1,4})\)?(?:[.:)]\s.*|[.:)]?)", re.DOTALL | re.IGNORECASE
)
_LEAST = 8  # letters of a beginning by which a concept is known
# How a plan says that a part of it is the reference's, and stays as it is.
_OWN = re.compile(
    r"\b(?:unchanged|untouched|as in the (?:reference|baseline)|same as (?:in )?the "
    r"(?:reference|baseline)|(?:reference|baseline)(?:'s|’s) own)\b",
    re.IGNORECASE,
)
_NOT_OWN = re.compile(r"\b(?:replac|instead|in place of|rather than|unlike|add)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A concept to look for. `own`: the plan says that it is the reference's own."""

    name: str
    definition: str = ""
    own: bool = False


def wanted(brief: Brief) -> tuple[Wanted, ...]:
    """Return what the code of an idea must have, each under a name of its own.

    The parts of its plan; without a plan its concepts; without these the method as a whole.
    """
    if brief.plan is not None:
        found = [Wanted(line(part, _NAME), own=_is_own(part)) for part in brief.plan.parts]
    else:
        found = [
            Wanted(line(c.name, _NAME), line(c.definition, _DEFINITION)) for c in brief.concepts
        ]
    named: dict[str, Wanted] = {}
    for concept in found:
        if concept.name:
            named.setdefault(concept.name.casefold(), concept)
    of = brief.idea.proposal
    whole = Wanted(line(of.title, _NAME) or "the method", line(of.method, _DEFINITION))
    return tuple(named.values()) or (whole,)


def profiles(brief: Brief) -> tuple[ConceptRecord, ...]:
    """Return the concepts that tell more than a name: a definition, a formula or code."""
    named = brief.plan is None  # then their definitions stand beside their names already
    return tuple(c for c in brief.concepts if c.formula or c.code or not named)


def meant(named: str, concepts: Sequence[Wanted]) -> Wanted | None:
    """Return the concept that a reply names: by its name, its number, or one's beginning."""
    names = [concept.name for concept in concepts]
    found = found_ids((line(named, _NAME), named), names)
    if found:
        return concepts[names.index(found[0])]
    number = _NUMBER.fullmatch(named.strip(" `'\"*"))
    if number and 1 <= int(number[1]) <= len(concepts):
        return concepts[int(number[1]) - 1]
    said = _letters(named)
    alike = [c for c in concepts if _begins(said, _letters(c.name))]
    return alike[0] if len(alike) == 1 else None


def judgement(
    reply: ReviewReply,
    concepts: Sequence[Wanted],
    verify: Callable[[ConceptCheck, bool], ConceptCheck],
) -> tuple[ConceptCheck, ...]:
    """Return what one reply says of each concept, in their order, as far as it was verified.

    What it leaves out is missing; what it invents is dropped; of several entries on one concept
    the least favourable counts.
    """
    said: dict[str, list[ConceptCheck]] = {concept.name: [] for concept in concepts}
    for check in reply.checks:
        concept = meant(check.concept, concepts)
        if concept is not None:
            named = check.model_copy(update={"concept": concept.name})
            said[concept.name].append(verify(named, concept.own))
    return tuple(min(found, key=_order) if found else _left_out(n) for n, found in said.items())


def merged(judgements: Sequence[Sequence[ConceptCheck]]) -> tuple[ConceptCheck, ...]:
    """Return one entry a concept from the judgements of all of them, each in the same order.

    The state is that of more than half of the judgements, else the least favourable. The entry is
    one of those that have it; which, does not depend on the order of the judgements.
    """
    return tuple(_settled(checks) for checks in zip(*judgements, strict=True))


def pretended(replies: Sequence[ReviewReply]) -> bool:
    """Whether at least half of the replies say that the method is only pretended."""
    toys = sum(reply.toy for reply in replies)
    return toys > 0 and 2 * toys >= len(replies)


def _settled(checks: Sequence[ConceptCheck]) -> ConceptCheck:
    counts = Counter(check.state for check in checks)
    state, most = counts.most_common(1)[0]
    if 2 * most <= len(checks):
        state = min(counts, key=_WORST_FIRST.index)
    return min((check for check in checks if check.state == state), key=_order)


def _order(check: ConceptCheck) -> tuple[int, bool, str, int, int, str]:
    """The least favourable first; of those, what names a place."""
    worst = _WORST_FIRST.index(check.state)
    place = (check.file or "", check.first or 0, check.last or 0)
    return (worst, check.file is None, *place, check.remark)


def _left_out(name: str) -> ConceptCheck:
    remark = "the reviewer did not find it in the code"
    return ConceptCheck(concept=name, state="missing", remark=remark)


def _is_own(part: str) -> bool:
    return bool(_OWN.search(part)) and not _NOT_OWN.search(part)


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


def _begins(said: str, name: str) -> bool:
    shorter, longer = sorted((said, name), key=len)
    return said == name or (len(shorter) >= _LEAST and longer.startswith(shorter))
