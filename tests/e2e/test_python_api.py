"""The Python API: what the command line is made of, on a tiny campaign."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from campaigns import PLAIN, TinyCampaign, hpcsci

import hpcscientist
from hpcscientist.errors import ConfigError, NoRunDirectory
from hpcscientist.files import vault
from hpcscientist.records.events import CampaignEnded, Event

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def private_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where this process looks for keys is as before afterwards."""
    monkeypatch.setenv(vault.ROOT_VARIABLE, str(vault.path_of(".").resolve()))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    TinyCampaign.prepare(tmp_path)
    (tmp_path / "hpcsci.toml").write_text(PLAIN)
    return tmp_path


def launched(**settings: object) -> hpcscientist.Campaign:
    given = {"recipe": "./tiny", "ideas": 2, "model": "search", "allow_unsandboxed": True}
    return hpcscientist.launch(**given | settings)  # type: ignore[arg-type]


def test_a_campaign_is_launched_read_and_is_what_the_command_line_shows(folder: Path) -> None:
    seen: list[Event] = []
    campaign = hpcscientist.launch(
        lambda event, state: seen.append(event),
        recipe="./tiny",
        ideas=2,
        model="search",
        allow_unsandboxed=True,
        run_dir=folder / "run",
        loop={"confirm": False},
    )
    assert campaign.path == folder / "run"
    assert isinstance(seen[-1], CampaignEnded)
    assert campaign.status()["state"] == "finished"
    assert [idea.idea_id for idea in campaign.ideas] == ["idea-0001", "idea-0002"]
    loaded = hpcscientist.load_campaign("run")
    assert loaded.path == campaign.path
    shown = hpcsci("results", "run", "--format", "json", cwd=folder)
    assert loaded.to_arrow().to_pylist() == json.loads(shown.stdout)
    improved = [
        row["idea_id"] for row in json.loads(shown.stdout) if row["finding"] == "improvement"
    ]
    assert {row.idea_id for row in loaded.findings} == set(improved)
    assert loaded.resume().path == campaign.path  # it has ended


def test_a_notebooks_loop_is_no_hindrance(folder: Path) -> None:
    async def cell() -> hpcscientist.Campaign:
        return launched(run_dir="run", ideas=1)

    assert asyncio.run(cell()).status()["ideas"]["scored"] == 1


def test_wrong_settings_are_refused_by_name(folder: Path) -> None:
    with pytest.raises(ConfigError, match="idees"):
        launched(idees=3)
    with pytest.raises(ConfigError, match=r"loop\.confrim"):
        launched(loop={"confrim": False})
    with pytest.raises(NoRunDirectory):
        hpcscientist.load_campaign(folder / "nothing")
    assert not (folder / "scratch").exists()


def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import hpcscientist; "
        "print(sorted(m for m in set(sys.modules) - before if 'hpcscientist' in m))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['hpcscientist']"
    with pytest.raises(AttributeError):
        hpcscientist.nothing  # noqa: B018
