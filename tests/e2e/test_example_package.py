"""A stage, a strategy, a backend and a model of another installed package, in one campaign."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from campaigns import PLAIN, TinyCampaign, hpcsci
from tiny_recipe import PLAYBOOK, RATE, edit, idea

from hpcscientist.history import frozen, journal
from hpcscientist.records.events import ReplyRecorded

pytestmark = pytest.mark.e2e

PACKAGE = Path(__file__).resolve().parents[1] / "data" / "example_package"
ASKED = PLAIN + '[extensions.ethics]\nrule = "Nothing may be sorted."\n'
NAME, VERSION = "hpcsci_example", "1.2"


def wheel(folder: Path, version: str = VERSION) -> Path:
    """Build the package as its pyproject.toml says, without a build backend, which is on no net."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {where}\n" for name, where in points.items())
        for group, points in project["entry-points"].items()
    )
    info = f"{NAME}-{version}.dist-info"
    files = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")} | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: hpcsci-example\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": points,
    }
    record = "".join(f"{name},sha256={_digest(text)},{len(text)}\n" for name, text in files.items())
    path = folder / f"{NAME}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in (files | {f"{info}/RECORD": record}).items():
            archive.writestr(name, text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def install(folder: Path, version: str = VERSION) -> dict[str, str]:
    """Install it for processes with this environment."""
    built, place = wheel(folder, version), folder / f"site-{version}"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", place, built], check=True, capture_output=True)
    paths = [str(place), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def replies() -> list[dict[str, Any]]:
    said = [
        idea(number, "ethics", {"allowed": number != 3, "reason": f"idea {number} sorts"})
        for number in (1, 3, 4)
    ]
    # The first reply to a second first version; see `authoring.coder`.
    again = {"note": "another way", "edits": edit(RATE, "ERROR_RATE = 0.2")}
    return [*PLAYBOOK, *said, idea(4, "code", again, 1001)]


@pytest.fixture
def campaign(tmp_path: Path) -> TinyCampaign:
    tiny = TinyCampaign.prepare(tmp_path)
    (tmp_path / "hpcsci.toml").write_text(ASKED + '[roles.board]\nmodel = ""\ntemperature = 0.0\n')
    lines = "".join(json.dumps(entry) + "\n" for entry in replies())
    (tmp_path / "canned.jsonl").write_text(lines)
    return tiny


def arguments(campaign: TinyCampaign) -> tuple[str, ...]:
    return (
        *("launch", "--recipe", "./tiny", "--run-dir", "run", "--allow-unsandboxed"),
        *("--ideas", "4", "--backend", "one-at-a-time"),
        *("--model", f"canned:{campaign.folder / 'canned.jsonl'}"),
    )


def given(env: dict[str, str]) -> dict[str, str]:
    return {**env, "HPCSCI_AUTHORING_SEARCH": "second-try"}


def launch(campaign: TinyCampaign, env: dict[str, str], *more: str) -> Any:
    return hpcsci(*arguments(campaign), *more, cwd=campaign.folder, env=given(env))


def test_a_campaign_uses_what_another_package_has(campaign: TinyCampaign) -> None:
    env = install(campaign.folder)
    dry = launch(campaign, env, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "board" in dry.stdout + dry.stderr
    done = launch(campaign, env)
    assert done.returncode == 0, done.stderr
    rows = {row["idea_id"]: row for row in campaign.findings()}
    assert [rows[f"idea-000{n}"]["status"] for n in (1, 2, 3, 4)] == [
        *("scored", "rejected", "rejected", "scored")
    ]
    assert rows["idea-0003"]["reason"] == "not allowed: idea 3 sorts"
    assert rows["idea-0004"]["attempts"] == 2
    verdict = campaign.paths.idea("idea-0001").verdict("ethics")
    assert json.loads(verdict.read_text()) == {"allowed": True, "reason": "idea 1 sorts"}
    config = frozen.read(campaign.paths)
    assert (config.backend, config.slots) == ("one-at-a-time", 1)
    assert (config.steps, config.plugins) == (("ethics",), ("hpcsci-example 1.2",))
    roles = [
        event.role
        for event in journal.read(campaign.paths.journal)
        if isinstance(event, ReplyRecorded) and event.call == "ethics/1"
    ]
    assert roles == ["board"] * 3


def test_it_goes_on_with_the_release_that_it_began_with(campaign: TinyCampaign) -> None:
    env = install(campaign.folder)
    killed = campaign.drive("attempt_written:1:after", *arguments(campaign), env=given(env))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    later = install(campaign.folder, "2.0")
    for other in (later, dict(os.environ)):
        refused = hpcsci("resume", "run", cwd=campaign.folder, env=other)
        assert refused.returncode == 1
        assert "install hpcsci-example==1.2" in refused.stderr.splitlines()[-1]
    done = hpcsci("resume", "run", cwd=campaign.folder, env=env)
    assert done.returncode == 0, done.stderr


def test_what_is_nobody_s_is_refused_by_name(campaign: TinyCampaign) -> None:
    env = install(campaign.folder)
    for more in (["--backend", "one-at-time"], ["--model", "caned:x"]):
        refused = launch(campaign, env, *more)
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == 1
    assert launch(campaign, dict(os.environ)).returncode == 2
