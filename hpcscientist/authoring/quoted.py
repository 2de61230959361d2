"""Ideas, plans and reviews as prompts quote them: bounded, one field per line.

Models wrote these texts, so they are tamed: none can open a section of its own in the prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hpcscientist.models.prompting.fitting import GONE
from hpcscientist.models.prompting.prompts import line, tame
from hpcscientist.records.authoring import Variant
from hpcscientist.records.experiment import CodeReview, ConceptCheck, ExperimentPlan
from hpcscientist.records.idea import Proposal

_FIELD, _BLOCK = 1500, 6000  # characters of a field, and of a text that keeps its lines
_ENTRY, _ENTRIES = 200, 20  # characters of a list entry, and how many entries are shown

Fields = tuple[tuple[str, str], ...]


def idea_fields(proposal: Proposal) -> Fields:
    """Return the filled fields of an idea's proposal, each on one line."""
    return _filled(
        ("Title", proposal.title),
        ("Hypothesis", proposal.hypothesis),
        ("Method", proposal.method),
        ("Details", proposal.technical_details),
        ("Plan", proposal.experiment_plan),
    )


def plan_fields(plan: ExperimentPlan | None) -> Fields:
    """Return the filled fields of a plan, the most important first; () if there is no plan."""
    if plan is None:
        return ()
    return _filled(
        ("What the code must contain", _listed(plan.parts)),
        ("Model", plan.model),
        ("Training", plan.training),
        ("Testing", plan.testing),
        ("Data", plan.data),
        ("Files that change", _listed(plan.files)),
        ("Comparison", plan.comparison),
        ("Left out in later runs, to see what it gives", _listed(plan.ablations)),
    )


def findings(review: CodeReview) -> tuple[str, ...]:
    """Return what a reviewer found lacking, one line each."""
    found = [finding(check) for check in review.lacking[:_ENTRIES]]
    if review.toy:
        found.append("the method is only pretended, or simplified until it is another")
    if review.same_as_reference:
        found.append("its predictions are those of the unchanged reference: nothing was done")
    return tuple(found)


def finding(check: ConceptCheck) -> str:
    """Return what a reviewer found about one concept, and where."""
    place = "" if check.file is None else f" ({entry(check.file)}{_lines(check)})"
    return f"{entry(check.concept)}{place}: {check.state}. {field(check.remark)}"


def figures(found: tuple[float, float | None, int]) -> str:
    """Return a mean with its standard deviation, if there is one, and the number of seeds."""
    mean, std, seeds = found
    spread = "" if std is None else f" ± {std:.2g}"
    return f"{mean:.5g}{spread} ({'1 seed' if seeds == 1 else f'{seeds} seeds'})"


def values(measured: Mapping[str, float]) -> str:
    """Return the values of one run by metric, in one line; "" if there are none."""
    return "; ".join(f"`{entry(name)}` {value:.5g}" for name, value in measured.items())


def variant(tried: Variant) -> str:
    """Return what was tried from a version and its result, in one line."""
    came_to = values(tried.values) if tried.failure is None else f"failed: {field(tried.failure)}"
    return f"{field(tried.note) or 'no note'} Result: {came_to or 'no figures'}"


def block(text: str) -> str:
    """Return a text with its lines, for a fence, because it may hold code."""
    shown = tame(text[:_BLOCK]).strip()
    return shown if len(text) <= _BLOCK else f"{shown}\n{GONE}"


def entry(text: str) -> str:
    """Return a short text on one line."""
    return line(text, _ENTRY)


def field(text: str) -> str:
    """Return a longer text on one line."""
    return line(text, _FIELD)


def _lines(check: ConceptCheck) -> str:
    if check.first is None:
        return ""
    last = check.first if check.last is None else check.last
    return f", line {check.first}" if last == check.first else f", lines {check.first} to {last}"


def _listed(entries: Iterable[str]) -> str:
    shown = [text for text in map(entry, entries) if text][:_ENTRIES]
    return "; ".join(f"({number}) {text}" for number, text in enumerate(shown, start=1))


def _filled(*pairs: tuple[str, str]) -> Fields:
    return tuple((name, shown) for name, text in pairs if (shown := field(text)))
