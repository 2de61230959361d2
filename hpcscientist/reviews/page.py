"""Renders a review or a comparison as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpcscientist.files.text import visible
from hpcscientist.records.reviews import (
    AspectResult,
    Finding,
    Measure,
    MemberReview,
    PaperComparison,
    Review,
    Spread,
)
from hpcscientist.reviews.calibrated import TOLD
from hpcscientist.reviews.form import Form


def of_review(review: Review, form: Form) -> str:
    """Return a review as Markdown."""
    return visible("\n".join(_review(review, form)) + "\n")


def verdict(review: Review) -> list[str]:
    """Return a summary in a few lines: scores, decision, calibration, findings."""
    overall = review.spread[review.overall]
    lines = [
        f"overall {_spread(overall)}: {review.decision} "
        f"(the form's threshold is {review.threshold:g})"
    ]
    if review.before is not None:
        lines.append(
            f"before the revision {review.before.overall:.2f}, a gain of "
            f"{measure(review.before.gain)}; revising for a reviewer raises its scores, so this "
            "is no measure of quality"
        )
    if review.chair is not None and (said := _decision(review.chair)):
        lines.append(f"area chair: {said}")
    calibrated = review.calibrated
    if calibrated.applied and calibrated.probability is not None:
        lines.append(
            f"calibrated: {calibrated.decision}, probability of acceptance "
            f"{calibrated.probability:.2f} (threshold {calibrated.threshold:.2f})"
        )
        errs = ", ".join(f"{name} {measure(calibrated.measures[name])}" for name in TOLD)
        lines.append(f"how far it errs: {errs}; {calibrated.note}")
    else:
        lines.append(f"uncalibrated: {calibrated.note}; nobody knows how far these scores err")
    instructing = [finding for finding in review.findings if finding.instructs]
    if review.findings:
        lines.append(
            f"left out of what reviewers read: {len(review.findings)} texts, "
            f"{len(instructing)} of them tell a reviewer what to do"
        )
    if review.parts > 1:
        lines.append(f"the paper is longer than the model's context: read in {review.parts} parts")
    lines += [f"lost: {reason}" for reason in review.lost]
    lines += [f"paper: {trouble}" for trouble in review.troubles]
    return lines


def measure(of: Measure) -> str:
    """Return a figure with its interval."""
    if of.value is None:
        return "unknown"
    interval = f" [{of.interval[0]:.2f}, {of.interval[1]:.2f}]" if of.interval else ""
    return f"{of.value:.2f}{interval}"


def _review(review: Review, form: Form) -> Iterator[str]:
    yield f"# Review of {review.title}"
    yield ""
    yield from (f"- {text}" for text in verdict(review))
    yield f"- {form.title}; {', '.join(review.models)}; {len(review.members)} reviewers"
    yield ""
    yield "| score | mean | as sampled | by expectation | one review's SD |"
    yield "| --- | --- | --- | --- | --- |"
    for name, spread in review.spread.items():
        expected = "" if spread.expected is None else f"{spread.expected:.2f}"
        deviation = "" if spread.deviation is None else f"{spread.deviation:.2f}"
        yield f"| {name} | {_spread(spread)} | {spread.sampled:.2f} | {expected} | {deviation} |"
    if review.findings:
        yield ""
        yield "## Left out of what reviewers read"
        yield from findings(review.findings)
    if review.chair is not None:
        yield ""
        yield "## Area chair"
        yield from _member(review.chair, form)
    for member in review.members:
        yield ""
        settled = "nothing left to change" if member.settled else "as far as it came"
        yield f"## Reviewer {member.member} ({member.rounds} rounds, {settled})"
        yield from _member(member, form)


def findings(of: Sequence[Finding]) -> Iterator[str]:
    """Yield a line for each removed text, with a quote of it."""
    for finding in of:
        where = f", page {finding.page}" if finding.page else ""
        why = f" ({finding.why})" if finding.why else ""
        quoted = finding.quote.replace("`", "'")
        yield f"- {finding.place}{where}{why}: `{quoted}`"


def _member(member: MemberReview, form: Form) -> Iterator[str]:
    scores = ", ".join(f"{name} {mark.sampled}" for name, mark in member.marks.items())
    if scores:
        yield f"{scores}"
    known = {field.id for field in form.fields}
    for name in [
        *(field.id for field in form.fields),
        *(n for n in member.choices if n not in known),
    ]:
        title = name.replace("_", " ").capitalize()
        if name in member.texts:
            yield f"\n**{title}.** {member.texts[name]}"
        elif name in member.choices:
            yield f"\n**{title}.** {member.choices[name]}"
        elif name in member.lists:
            yield f"\n**{title}.**"
            yield from (f"- {item}" for item in member.lists[name] or ("none",))


def _decision(member: MemberReview) -> str:
    return next((said for said in member.choices.values() if said in ("accept", "reject")), "")


def _spread(spread: Spread) -> str:
    interval = f" [{spread.interval[0]:.2f}, {spread.interval[1]:.2f}]" if spread.interval else ""
    return f"{spread.value:.2f}{interval}"


def of_comparison(found: PaperComparison) -> str:
    """Return a comparison as Markdown."""
    return visible("\n".join(comparison_lines(found)) + "\n")


def comparison_lines(found: PaperComparison) -> Iterator[str]:
    """Yield the lines of a comparison: a table for each judge, and one over all judges."""
    yield f"# {found.first} beside {found.second}"
    yield ""
    yield f"Positive: {found.first} is better. From -3 to 3; comparable: at least -1."
    for judge in found.judges:
        yield ""
        lost = f", {len(judge.lost)} lost" if judge.lost else ""
        yield f"## {', '.join(judge.models) or judge.judge}: {len(judge.samples)} samples{lost}"
        yield from _table(judge.aspects)
    if len(found.judges) > 1:
        yield ""
        yield f"## Over {len(found.judges)} judges"
        yield from _table(found.aspects)
    for name, of in found.findings.items():
        if of:
            yield ""
            yield f"## Left out of what judges read of {name}"
            yield from findings(of)


def _table(aspects: dict[str, AspectResult]) -> Iterator[str]:
    yield ""
    yield "| aspect | rating | by expectation | comparable | consistency | gain by position |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, of in aspects.items():
        cells = (of.rating, of.expected, of.comparable, of.consistency, of.position)
        yield f"| {name} | {' | '.join(measure(cell) for cell in cells)} |"
