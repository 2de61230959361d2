"""`hpcsci cancel` has stopped the campaign, whatever else cannot be found or cleared."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.cli.main import run
from hpcscientist.launching.jobs import cancel as cancelling


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory whose campaign was just stopped."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "campaign.toml").touch()
    monkeypatch.setattr(cancelling, "cancel", lambda *_, **__: True)
    monkeypatch.chdir(tmp_path)
    return folder


def said(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    out, err = capfd.readouterr()
    assert (out, err) == ("", f"{folder}: stopped\n")


def test_without_a_home_folder(
    stopped: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def nobody(*_: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", nobody)
    assert run(["cancel", str(stopped)]) == 0
    said(capfd, stopped)


def test_where_data_cannot_be_looked_for(
    stopped: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hpcsci.toml").write_text(f'[paths]\ndata = "{"d" * 300}"\n')
    assert run(["cancel", str(stopped)]) == 0
    said(capfd, stopped)
