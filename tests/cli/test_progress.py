from __future__ import annotations

import pytest
from event_kit import idea_proposed

from hpcscientist.cli.shared.progress import ProgressPrinter
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import ProposalsExhausted

EVIL = idea_proposed(title="a\x1b]0;owned\x07 title\nwith two lines")


def test_a_title_cannot_take_the_terminal_over(capsys: pytest.CaptureFixture[str]) -> None:
    ProgressPrinter()(EVIL, CampaignState())
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "\x1b" not in err
    assert "\x07" not in err
    assert "title with two lines" in err


def test_that_nothing_is_left_to_propose_is_told_at_once_and_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress, state = ProgressPrinter(), CampaignState()
    for number in (3, 4):
        event = ProposalsExhausted(number=number, reason="the playbook holds no more")
        state.apply(event)
        progress(event, state)
    (line,) = capsys.readouterr().err.splitlines()
    assert "note: the playbook holds no more" in line


def test_a_reader_that_has_gone_does_not_stop_the_campaign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def gone(*args: object, **kwargs: object) -> None:
        calls.append(args)
        raise BrokenPipeError

    monkeypatch.setattr("hpcscientist.cli.shared.progress.click.echo", gone)
    progress = ProgressPrinter()
    progress(EVIL, CampaignState())
    progress(EVIL, CampaignState())
    assert len(calls) == 1
