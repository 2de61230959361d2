"""Guards the test split: checks before every trial whether it may see that split."""

from __future__ import annotations

from hpcscientist.errors import SplitGuarded
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import SplitSpent
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import Split, Stage, TrialSpec


def check(spec: TrialSpec, state: CampaignState) -> None:
    """Raise SplitGuarded for a trial on the test split that the journal does not allow.

    An idea's trial needs a SplitSpent of that idea with this attempt and seed. A baseline trial
    needs the baseline's or, in campaigns of earlier versions, any idea's. Confirmations run only on
    the test split.
    """
    on_test = spec.split is Split.TEST
    if on_test is not (spec.stage is Stage.CONFIRM):
        raise SplitGuarded(
            f"{spec.trial_id}: a trial of stage {spec.stage.value} may not run on the "
            f"{spec.split.value} split; report this, for no code should ask for it"
        )
    if on_test and not any(_allows(spent, spec) for spent in _spent(spec.idea_id, state)):
        raise SplitGuarded(
            f"{spec.trial_id}: the journal has no split_spent that lets seed {spec.seed} of "
            f"{spec.idea_id} to the test split; restore journal.jsonl from a backup, or report this"
        )


def _spent(idea_id: str, state: CampaignState) -> list[SplitSpent]:
    if idea_id == BASELINE_ID:
        spent = [state.baseline_spent, *(idea.spent for idea in state.ideas.values())]
        return [one for one in spent if one is not None]
    idea = state.ideas.get(idea_id)
    return [idea.spent] if idea is not None and idea.spent is not None else []


def _allows(spent: SplitSpent, spec: TrialSpec) -> bool:
    attempt = BASELINE_ATTEMPT if spec.idea_id == BASELINE_ID else spent.attempt
    return spec.attempt == attempt and spec.seed in spent.seeds
