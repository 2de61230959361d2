"""Copies of a campaign in which somebody tampered with what was recorded of a claim.

Each kind changes one record and leaves the others, but for `all alike`: a forger with the
campaign's key makes every value better in the journal, the results and claim.json, so that all of
them agree, and only running the trials again can tell.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hpcscientist.campaign import claims
from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.atomic import write_atomic, write_text
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen, journal
from hpcscientist.history.state import fold
from hpcscientist.history.upcasting import SignatureChain
from hpcscientist.recipe.load import load
from hpcscientist.records.findings import Claim
from hpcscientist.records.trial import Direction, MetricSpec, Scored, Split, TrialReport, TrialSpec
from hpcscientist.results import store

Tamper = Callable[[RunPaths, Claim], None]
Change = Callable[[dict[str, Any]], None]

_STEP = 0.01  # how much better a forged value is, of itself, or of 1 where that is more


class Inapplicable(RunDirectoryError):
    """What would be changed is not there in this campaign; another kind may be."""


def copy_campaign(paths: RunPaths, folder: Path) -> RunPaths:
    """Copy a campaign to `folder`, which is not there yet, without what a rerun never reads."""
    left_out = {paths.library.name, paths.lock.name, paths.reproductions.name}

    def ignore(place: str, names: list[str]) -> set[str]:
        return left_out & set(names) if Path(place) == paths.root else set()

    shutil.copytree(paths.root, folder, symlinks=True, ignore=ignore)
    return RunPaths(folder)


def _code(paths: RunPaths, claim: Claim) -> None:
    file = paths.idea(claim.idea_id).root / claim.code / claim.entry
    write_text(file, file.read_text(encoding="utf-8") + "\n# One line more.\n")


def _value(paths: RunPaths, claim: Claim) -> None:
    change_journal(paths, _one(claim), _raising(claim.metric))


def _predictions(paths: RunPaths, claim: Claim) -> None:
    def change(report: dict[str, Any]) -> None:
        report["predictions_hash"] = _other(report["predictions_hash"])

    change_journal(paths, _one(claim), change)


def _result(paths: RunPaths, claim: Claim) -> None:
    change_result(paths, _one(claim), _raising(claim.metric))


def _data(paths: RunPaths, claim: Claim) -> None:
    text = paths.campaign.read_text(encoding="utf-8")
    if claim.data_hash not in text:
        raise Inapplicable(f"{paths.campaign}: has no hash of the data")
    write_text(paths.campaign, text.replace(claim.data_hash, _other(claim.data_hash)))


def _all_alike(paths: RunPaths, claim: Claim) -> None:
    for evidence in claim.evidence.values():
        for trial in evidence.idea:
            change_journal(paths, trial.trial_id, _raising(claim.metric))
            change_result(paths, trial.trial_id, _raising(claim.metric))
    state = fold(journal.read(paths.journal))
    forged = claims.derive(frozen.read(paths), load(paths.recipe), state, claim.idea_id)
    assert forged is not None
    write_atomic(paths.idea(claim.idea_id).claim, claims.encode(forged))


# By what is changed; each takes a copy and a claim that was confirmed.
KINDS: Mapping[str, Tamper] = {
    "code": _code,
    "value in the journal": _value,
    "predictions hash": _predictions,
    "result file": _result,
    "data hash": _data,
    "all alike": _all_alike,
}


def change_journal(paths: RunPaths, trial_id: str, change: Change) -> None:
    """Change a scored trial's report in the journal, and no other line of it.

    `change` is given the report as JSON. Raises Inapplicable where there is not just one.
    """
    # Not str.splitlines: it ends a line at some characters that a model may write, too.
    lines = paths.journal.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    changed = 0
    for place, text in enumerate(lines):
        line = json.loads(text)
        report = line["event"].get("report")
        if not report or report.get("trial_id") != trial_id:
            continue
        if report["outcome"]["kind"] == "scored":
            change(report)
            lines[place] = json.dumps(line)
            changed += 1
    if changed != 1:
        raise Inapplicable(f"{paths.journal}: has {changed} reports of {trial_id}, scored")
    reseal(paths.journal, [json.loads(line) for line in lines])


def reseal(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Write a journal's lines with the seals that only the campaign's key makes."""
    chain, sealed = SignatureChain(), list[bytes]()
    for line in lines:
        if not sealed and line["event"].get("type") == "campaign_started":
            chain.begin(line["event"]["campaign_id"])
        bare = {name: value for name, value in line.items() if name not in ("k", "h")}
        sealed.append(chain.seal(json.dumps(bare, separators=(",", ":")).encode()) + b"\n")
    write_atomic(path, b"".join(sealed))


def change_result(paths: RunPaths, trial_id: str, change: Change) -> None:
    """Change a scored trial's result, with the seal that only the campaign's key makes.

    `change` is given the report as JSON. Raises Inapplicable where there is no result, as after
    the campaign's results were compacted.
    """
    folder = paths.trial(trial_id)
    report = store.read_result(folder)
    if report is None or not isinstance(report.outcome, Scored):
        raise Inapplicable(
            f"{folder.result}: cannot be read; set loop.compact_after higher than the campaign "
            "has trials"
        )
    forged = report.model_dump(mode="json")
    change(forged)
    spec = TrialSpec.model_validate_json(folder.spec.read_bytes())
    store.write_result(folder, spec, TrialReport.model_validate_json(json.dumps(forged)))


def _one(claim: Claim) -> str:
    """The idea's first trial on the test split, which every confirmed claim has."""
    return claim.evidence[Split.TEST].idea[0].trial_id


def _raising(metric: MetricSpec) -> Change:
    """Have a report say a better value."""

    def change(report: dict[str, Any]) -> None:
        metrics = report["outcome"]["metrics"]
        value = metrics[metric.name]
        step = _STEP * max(1.0, abs(value))
        metrics[metric.name] = value + (step if metric.direction is Direction.MAXIMIZE else -step)

    return change


def _other(text: str) -> str:
    """Return a hash with its first digit changed."""
    return ("1" if text[0] == "0" else "0") + text[1:]
