"""Which concepts an attempt must have, and how judgements of them are verified and merged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from hpcscientist.authoring.review.source import code_lines, difference, shown_lines
from hpcscientist.models.prompting.naming import found_ids
from hpcscientist.models.prompting.prompts import line
from hpcscientist.records.authoring import Brief
from hpcscientist.records.experiment import ConceptCheck, Implemented, ReviewReply
from hpcscientist.records.literature import ConceptRecord

_NAME, _DEFINITION = 300, 1000  # characters
_WORST_FIRST: tuple[Implemented, ...] = ("missing", "partial", "implemented")
_NUMBER = re.compile(
    r"(?:concept\s*)?#?\(?(\d{1,4})\)?(?:[.:)]\s.*|[.:)]?)", re.DOTALL | re.IGNORECASE
)
_LEAST = 8  # fewest letters of a beginning that identifies a concept
# Words by which a plan says that a part is the reference's own and stays as it is.
_OWN = re.compile(
    r"\b(?:unchanged|untouched|as in the (?:reference|baseline)|same as (?:in )?the "
    r"(?:reference|baseline)|(?:reference|baseline)(?:'s|’s) own)\b",
    re.IGNORECASE,
)
_NOT_OWN = re.compile(r"\b(?:replac|instead|in place of|rather than|unlike|add)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WantedConcept:
    """A concept to look for. `own`: the plan says that it is the reference's own."""

    name: str
    definition: str = ""
    own: bool = False


def wanted(brief: Brief) -> tuple[WantedConcept, ...]:
    """Return the concepts that an idea's code must have, each under a unique name.

    They are the parts of its plan; without a plan, its concepts; without these, the method as a
    whole.
    """
    if brief.plan is not None:
        found = [WantedConcept(line(part, _NAME), own=_is_own(part)) for part in brief.plan.parts]
    else:
        found = [
            WantedConcept(line(c.name, _NAME), line(c.definition, _DEFINITION))
            for c in brief.concepts
        ]
    named: dict[str, WantedConcept] = {}
    for concept in found:
        if concept.name:
            named.setdefault(concept.name.casefold(), concept)
    of = brief.idea.proposal
    whole = WantedConcept(line(of.title, _NAME) or "the method", line(of.method, _DEFINITION))
    return tuple(named.values()) or (whole,)


def profiles(brief: Brief) -> tuple[ConceptRecord, ...]:
    """Return the concepts that say more than their names: a definition, a formula or code."""
    named = brief.plan is None  # then the prompt shows their definitions beside their names
    return tuple(c for c in brief.concepts if c.formula or c.code or not named)


def meant(named: str, concepts: Sequence[WantedConcept]) -> WantedConcept | None:
    """Return the concept that a reply names by name, number or beginning; None if unclear."""
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
    concepts: Sequence[WantedConcept],
    verify: Callable[[ConceptCheck, bool], ConceptCheck],
) -> tuple[ConceptCheck, ...]:
    """Return what one reply says of each concept, in their order, after verification.

    A concept that the reply leaves out is missing. One that it invents is dropped. Of several
    entries on one concept the least favourable counts.
    """
    said: dict[str, list[ConceptCheck]] = {concept.name: [] for concept in concepts}
    for check in reply.checks:
        concept = meant(check.concept, concepts)
        if concept is not None:
            named = check.model_copy(update={"concept": concept.name})
            said[concept.name].append(verify(named, concept.own))
    return tuple(min(found, key=_order) if found else _left_out(n) for n, found in said.items())


def merged(judgements: Sequence[Sequence[ConceptCheck]]) -> tuple[ConceptCheck, ...]:
    """Return one entry per concept, merged from judgements that have them in the same order.

    The state is that of more than half of the judgements, else the least favourable. The entry is
    one of those with this state; the choice does not depend on the order of the judgements.
    """
    return tuple(_settled(checks) for checks in zip(*judgements, strict=True))


def pretended(replies: Sequence[ReviewReply]) -> bool:
    """Return whether at least half of the replies say that the method is only pretended."""
    toys = sum(reply.toy for reply in replies)
    return toys > 0 and 2 * toys >= len(replies)


def _settled(checks: Sequence[ConceptCheck]) -> ConceptCheck:
    counts = Counter(check.state for check in checks)
    state, most = counts.most_common(1)[0]
    if 2 * most <= len(checks):
        state = min(counts, key=_WORST_FIRST.index)
    return min((check for check in checks if check.state == state), key=_order)


def _order(check: ConceptCheck) -> tuple[int, bool, str, int, int, str]:
    """Return a sort key: the least favourable first; of those, entries that name a place."""
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


# Evidence: the lines that a reviewer names for a claim are checked, not believed.
#
# The reviewer reads untrusted code, and may be mistaken or talked into something. So a claim that
# a concept is carried out counts only if the lines that it names exist, hold code that runs, and
# are not the reference's own. Only the reviewer can say what they mean.

MOST = 150  # lines; a longer span shows nothing in particular
_REMARK = 500  # characters
_IDENTIFIER = 200


class CodeComparison:
    """An attempt's code compared with the reference's; `idle` are lines that never run, by file."""

    def __init__(
        self,
        files: Mapping[str, str],
        reference: Mapping[str, str],
        idle: Mapping[str, frozenset[int]],
    ) -> None:
        self._length = {name: len(shown_lines(text)) for name, text in files.items()}
        self._code = {name: code_lines(name, text) for name, text in files.items()}
        self._idle = idle
        before = {name: code_lines(name, text) for name, text in reference.items()}
        self._difference = {
            name: difference(name, code, before) for name, code in self._code.items()
        }

    def new(self, name: str) -> frozenset[int]:
        """Return the numbers of a file's lines of code that the reference lacks."""
        return self._difference[name].new

    def verify(self, check: ConceptCheck, own: bool = False) -> ConceptCheck:
        """Return a claim, lowered to what its evidence supports.

        A claim that a concept is missing stands. If all named lines are unchanged from the
        reference, the concept is missing too, unless it is the reference's `own`. Lines that
        cannot be found, hold no code or never run make it partial at best. The remark says why.
        A place that exists in the file is kept, so that a reader can look there.
        """
        place = self._place(check)
        update: dict[str, object] = {"remark": line(check.remark, _REMARK) or "nothing was said"}
        file, first, last = place if not isinstance(place, str) else (None, None, None)
        update |= {"file": file, "first": first, "last": last}
        if check.state != "missing":
            state, fault = self._state(check, place, own)
            update["state"] = state
            if fault:
                update["remark"] = f"not shown, for {fault}; said of it: {update['remark']}"
        return check.model_copy(update=update)

    def _state(
        self, check: ConceptCheck, place: tuple[str, int, int] | str, own: bool
    ) -> tuple[str, str]:
        """Return the state that the evidence supports, and what is wrong with it, or ""."""
        if isinstance(place, str):
            return "partial", place
        file, first, last = place
        span = frozenset(range(first, last + 1))
        code = span & self._code[file].keys()
        differs = self._difference[file]
        if last - first >= MOST:
            return "partial", f"more than {MOST} lines of {file} are named"
        if not code:
            return "partial", f"{_place(place)} hold no code"
        if not own and not span & (differs.new | differs.cut):
            return "missing", f"{_place(place)} are the reference's, unchanged"
        if code <= self._idle.get(file, frozenset()):
            return "partial", f"{_place(place)} never run"
        return check.state, ""

    def _place(self, check: ConceptCheck) -> tuple[str, int, int] | str:
        """Return the file, first and last line that a claim names, or what is wrong with them."""
        if check.file is None or check.first is None:
            return "no lines are named"
        file = self._file(check.file)
        if file is None:
            return f"there is no file {line(check.file, _NAME)!r}"
        last = check.first if check.last is None else check.last
        if last < check.first:
            return f"the lines {check.first} to {last} run backwards"
        if last > self._length[file]:
            return f"{file} ends at line {self._length[file]}, and line {last} is named"
        return file, check.first, last

    def _file(self, named: str) -> str | None:
        """Return the file that is meant; models add `./`, a folder above, or quotation marks."""
        found = found_ids((named, named.strip(" `'\"").removeprefix("./")), self._code)
        if found:
            return found[0]
        tail = PurePosixPath(named.strip(" `'\"")).parts
        ends = [n for n in self._code if PurePosixPath(n).parts == tail[-len(n.split("/")) :]]
        return ends[0] if len(ends) == 1 else None


def _place(place: tuple[str, int, int]) -> str:
    file, first, last = place
    return f"lines {first} to {last} of {file}"
