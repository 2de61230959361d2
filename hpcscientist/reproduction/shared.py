"""Trials of the baseline that were run again for another claim of the same campaign already.

All claims of a campaign have the same baseline, seed by seed. Where several are run again one after
the other, it is run once: a trial is taken over where its spec.json says the same, all hashes,
limits, places and the package included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.handed.regular import read_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.records.events import TrialEnded
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.outcome import Scored
from hpcscientist.records.trial import TrialReport, TrialSpec


def baseline_reports(
    beside: Iterable[RunPaths], specs: Sequence[TrialSpec]
) -> dict[str, TrialReport]:
    """Return the reports by trial id of the baseline's `specs` for which a rerun `beside` has a
    score.

    One that failed may have done so for what else the machine did, and is run again; so is what a
    rerun ran whose journal is damaged.
    """
    wanted = {spec.trial_id: spec for spec in specs if spec.idea_id == BASELINE_ID}
    found: dict[str, TrialReport] = {}
    for paths in beside:
        try:
            events = journal.read(paths.journal)
        except RunDirectoryError:
            continue
        for event in events:
            if not isinstance(event, TrialEnded) or event.report.trial_id in found:
                continue
            report, spec = event.report, wanted.get(event.report.trial_id)
            scored = isinstance(report.outcome, Scored)
            if spec is not None and scored and _is_same(paths, spec):
                found[report.trial_id] = report
    return found


def _is_same(paths: RunPaths, spec: TrialSpec) -> bool:
    """Whether that rerun's trial was specified as this one, but for when, and for which rerun."""
    try:
        other = TrialSpec.model_validate_json(read_regular(paths.trial(spec.trial_id).spec))
    except (OSError, ValueError):
        return False
    own = {"campaign_id": spec.provenance.campaign_id}
    free = {
        "run": spec.run,
        "queued_at": spec.queued_at,
        "seal": "",
        "provenance": other.provenance.model_copy(update=own),
    }
    return other.model_copy(update=free) == spec
