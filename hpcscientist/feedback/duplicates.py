"""Finds ideas that repeat the predictions of an earlier idea, or of the reference code.

Such ideas have no findings of their own. Predictions are compared by the hash of the scored file,
so byte-for-byte copies are found. In a sandbox no candidate sees what another one wrote. Without a
sandbox, a disguised copy is not found: on the test split it is as good as its original, and is
reported like any other idea.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from hpcscientist.history.entities import IdeaState, TrialState
from hpcscientist.history.state import CampaignState
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import Scored

_Hashes = Mapping[int, str]
"""Hashes of predictions by seed."""


def repeated(state: CampaignState) -> dict[str, str]:
    """Return the original by idea, for each scored idea that repeats another one's predictions.

    The first by number is the original; the baseline's id means the reference code. The control arm
    may repeat the reference, because its settings may be the reference's own. An idea repeats
    another if all seeds that both ran (at least two, or all of its own) have equal predictions, or
    if each of its predictions equals one of the other's, of whatever seed.
    """
    scored = [i for i in state.in_order() if i.ended and i.ended.status == "scored"]
    hashes = {
        idea.idea_id: _hashes(state.full.get((idea.idea_id, idea.ended.attempt), {}))
        for idea in scored
        if idea.ended and idea.ended.attempt
    }
    reference = _hashes(state.full.get((BASELINE_ID, BASELINE_ATTEMPT), {}))
    return _repeats(state, scored, hashes, reference)


def repeated_on_test(state: CampaignState) -> dict[str, str]:
    """Return the same for ideas that ran on the test split, by their predictions there."""
    spent = [idea for idea in state.in_order() if idea.spent]
    hashes = {
        idea.idea_id: _hashes(state.confirming.get((idea.idea_id, idea.spent.attempt), {}))
        for idea in spent
        if idea.spent
    }
    reference = _hashes(state.confirming.get((BASELINE_ID, BASELINE_ATTEMPT), {}))
    return _repeats(state, spent, hashes, reference)


def said(state: CampaignState, idea_id: str, original: str) -> str:
    """Return a phrase that says whose predictions or code an idea repeats."""
    if original == BASELINE_ID:
        return "its predictions are those of the unchanged reference"
    same = _code(state.ideas[idea_id]) == _code(state.ideas[original])
    return f"its {'code is that' if same else 'predictions are those'} of {original}"


def _repeats(
    state: CampaignState,
    ideas: list[IdeaState],
    hashes: Mapping[str, _Hashes],
    reference: _Hashes,
) -> dict[str, str]:
    found: dict[str, str] = {}
    owners: defaultdict[str, list[str]] = defaultdict(list)  # by hash: originals in order
    for value in set(reference.values()):
        owners[value].append(BASELINE_ID)
    known = {BASELINE_ID: reference}
    for idea in sorted(ideas, key=lambda idea: idea.number):
        own = hashes.get(idea.idea_id, {})
        candidates = dict.fromkeys(o for value in own.values() for o in owners.get(value, ()))
        original = next((o for o in candidates if _same(own, known[o])), None)
        if original == BASELINE_ID and state.ideas[idea.idea_id].arm == "control":
            continue
        if original is not None:
            found[idea.idea_id] = original
            continue
        known[idea.idea_id] = own
        for value in set(own.values()):
            owners[value].append(idea.idea_id)
    return found


def _same(one: _Hashes, other: _Hashes) -> bool:
    shared = one.keys() & other.keys()
    enough = len(shared) >= min(2, len(one))  # one seed of several may be equal by chance
    equal = bool(shared) and enough and all(one[seed] == other[seed] for seed in shared)
    return equal or set(one.values()) <= set(other.values())


def _hashes(trials: Mapping[str, TrialState]) -> _Hashes:
    return {
        trial.seed: report.predictions_hash
        for trial in trials.values()
        if (report := trial.report) is not None
        and isinstance(report.outcome, Scored)
        and report.predictions_hash is not None
    }


def _code(idea: IdeaState) -> str | None:
    attempt = idea.ended.attempt if idea.ended else None
    return idea.code_hashes.get(attempt) if attempt else None
