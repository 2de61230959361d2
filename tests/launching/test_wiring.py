"""What a driver's parts are given when they are put together."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.campaign.agents import Session
from hpcscientist.config.settings import Settings
from hpcscientist.history import frozen
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.launching import create_run_dir, launch, wiring
from hpcscientist.records.trial import Isolation
from hpcscientist.system.interpreter import Interpreter


class Asked(Exception):
    """Ends `wire` once its authors have been asked for."""


def test_authors_have_the_python_of_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what code compiles; see authoring/test_newer_python.py."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho '{\"version\": [3, 99]}'\n")
    python.chmod(0o755)
    checked = launch.check(Settings(backend="local", model="playbook", run_dir="run"), tmp_path)
    claimed = create_run_dir.claim(checked)
    create_run_dir.furnish(checked, claimed)
    config = frozen.read(claimed.paths)
    trials = {"python": str(python), "isolation": Isolation.NONE, "image": None}
    frozen.write(claimed.paths, config.model_copy(update=trials))
    given: list[Interpreter] = []

    def agents(*arguments: object) -> None:
        given.extend(one for one in arguments if isinstance(one, Interpreter))
        raise Asked

    monkeypatch.setattr(wiring, "model_agents", agents)
    state = CampaignState()
    session = Session(claimed.paths, Journal(claimed.paths.journal, state.apply), state, 1)
    with pytest.raises(Asked):
        wiring.wire(session)
    assert [one.version for one in given] == [(3, 99)]
