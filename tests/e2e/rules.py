"""The rules by which a campaign can decide, and its rows as another one judges them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from campaigns import TinyCampaign

# By name, the lines of [loop].
RULES = {
    "point": 'decision = "point"\nerror_control = "auto"',
    "batch": 'decision = "fdr"\nerror_control = "batch"',
    "online": 'decision = "fdr"\nerror_control = "online"',
}


def judged_by(rule: str, campaign: TinyCampaign, folder: Path) -> TinyCampaign:
    """Return a copy in a folder that decides by a rule; verdicts follow when they are read."""
    shutil.copytree(campaign.paths.root, folder / "run", symlinks=True)
    judged = TinyCampaign(folder)
    text = judged.paths.campaign.read_text()
    text, found = re.subn(r"^decision = .*\nerror_control = .*$", RULES[rule], text, flags=re.M)
    assert found == 1
    judged.paths.campaign.write_text(text)
    return judged
