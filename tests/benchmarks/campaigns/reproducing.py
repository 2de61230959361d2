"""Does every confirmed claim come out again, and none with which somebody tampered?

Each confirmed claim of each campaign is reproduced as `hpcsci reproduce` does it. One claim a
campaign that holds is then tampered with in a copy of the campaign, the kinds of tampering taking
turns, and reproduced there. The campaigns are not changed: all of it lies in `again/`, where
the verdicts are kept, so that the same command goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.campaigns import spoiling
from benchmarks.campaigns.claims import Options
from benchmarks.campaigns.measuring import share
from benchmarks.campaigns.tampering import KINDS
from benchmarks.campaigns.verdicts import Tampered, kept
from hpcscientist.bench.figure import Figure
from hpcscientist.config.settings import SlurmOverrides
from hpcscientist.files.atomic import write_text
from hpcscientist.files.rundir import RunPaths
from hpcscientist.judgement.summary import read_rows
from hpcscientist.ports import Tell
from hpcscientist.records.findings import Holding, Reproduction
from hpcscientist.reproduction import rerun
from hpcscientist.reproduction.environment import RerunOptions
from hpcscientist.reproduction.reproduce import reproduce

_HOLDS = (Holding.BITS, Holding.FIGURES)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All verdicts, each with its campaign's name."""

    again: tuple[tuple[str, Reproduction], ...]
    tampered: tuple[tuple[str, Tampered], ...]


def measure(options: Options, tell: Tell) -> Verdicts:
    """Reproduce the confirmed claims of campaigns that have ended, and tampered ones.

    Raises what `reproduce` raises, and UsageError where verdicts of other campaigns lie there; the
    same command goes on.
    """
    wanted = RerunOptions("", "", SlurmOverrides(), "", Path.cwd(), options.settings)
    todo = [
        (paths, [row.idea_id for row in read_rows(paths).rows if row.confirmed is True])
        for paths in options.folders.values()
    ]
    total, done = sum(len(ideas) for _, ideas in todo), 0
    again: list[tuple[str, Reproduction]] = []
    tampered: list[tuple[str, Tampered]] = []
    for number, (paths, ideas) in enumerate(todo):
        name, holding = paths.root.name, []
        place = options.folder / "again" / name
        place.mkdir(parents=True, exist_ok=True)
        for idea in ideas:
            done += 1
            tell(f"{name}/{idea}: reproducing it, {done} of {total} claims")
            found = _again(paths, idea, place, wanted)
            again.append((name, found))
            tell(f"{name}/{idea}: {found.outcome.value}")
            if found.outcome in _HOLDS:
                holding.append(idea)
        if holding:
            turn, idea = number % len(KINDS), holding[number % len(holding)]
            kinds = [*KINDS][turn:] + [*KINDS][:turn]
            tampered.append((name, spoiling.tampered(paths, idea, kinds, place, wanted, tell)))
    return Verdicts(tuple(again), tuple(tampered))


def _again(paths: RunPaths, idea_id: str, place: Path, wanted: RerunOptions) -> Reproduction:
    """Reproduce a claim in `place`/`idea_id`, or read what came of it before."""
    verdict, out = place / f"{idea_id}.json", place / idea_id
    # A command that was stopped in between has left the second alone.
    for file in (verdict, out / rerun.OUTCOME):
        known = kept(file, Reproduction, paths)
        if known is not None:
            return known
    beside = [RunPaths(other) for other in sorted(place.glob("idea-*/")) if other != out]
    found = reproduce(paths, idea_id, wanted, out, lambda text: None, beside)
    write_text(verdict, found.model_dump_json(indent=2) + "\n")
    return found


def figures(found: Verdicts) -> list[Figure]:
    """Return the shares of claims that hold again, and of tampered ones that are caught.

    The intervals take claims for independent, and claims of one campaign share its baseline's
    rerun: `notes` says so.
    """
    shown, outcomes = [], [claim.outcome for _, claim in found.again]
    if outcomes:
        hold, of = sum(outcome in _HOLDS for outcome in outcomes), len(outcomes)
        name = "confirmed claims that hold again"
        shown.append(share(name, hold, of, target=1.0, at_least=True))
        shown.append(share(f"{name}, bit by bit", outcomes.count(Holding.BITS), of))
    if found.tampered:
        shown.append(_caught("tampered claims that are caught", found.tampered))
    for kind in KINDS:
        of_kind = [entry for entry in found.tampered if entry[1].kind == kind]
        if of_kind:
            shown.append(_caught(f"tampered claims that are caught, {kind}", of_kind))
    return shown


def _caught(name: str, tampered: Sequence[tuple[str, Tampered]]) -> Figure:
    caught = sum(entry.caught for _, entry in tampered)
    return share(name, caught, len(tampered), target=1.0, at_least=True)


def failures(found: Verdicts) -> Iterator[str]:
    """Yield a line for each claim that does not hold again, and each tampered one that passed."""
    for name, claim in found.again:
        if claim.outcome not in _HOLDS:
            why = "; ".join(claim.reasons)
            yield f"{name}/{claim.idea_id}: {claim.outcome.value}: {why}"
    for name, spoilt in found.tampered:
        if not spoilt.caught:
            why = "; ".join(spoilt.reasons) or "it holds"
            yield f"{name}/{spoilt.idea_id}: tampered with ({spoilt.kind}) and not caught: {why}"


def notes(found: Verdicts) -> Iterator[str]:
    """Yield what must be known beside the figures.

    That is how their intervals are to be read, what else differs, such as another package, and of
    how many claims that is said, and which kinds of tampering could not be applied.
    """
    if len(found.again) > len({name for name, _ in found.again}):
        yield (
            "note: the intervals take claims for independent; those of one campaign share one "
            "rerun of its baseline, so they can be too narrow"
        )
    counted = Counter(note for _, claim in found.again for note in claim.notes)
    for note, count in counted.items():
        yield f"note: {note} ({count} of {len(found.again)} claims)"
    for name, spoilt in found.tampered:
        for text in spoilt.passed_over:
            yield f"note: {name}/{spoilt.idea_id}: {spoilt.kind} took the turn of {text}"
