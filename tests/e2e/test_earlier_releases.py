"""Campaigns that earlier releases began are shown, resumed and ended by this one."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from campaigns import TinyCampaign, hpcsci

from hpcscientist.history import journal
from hpcscientist.history.upcasting import VERSION
from hpcscientist.records.events import (
    DriverStarted,
    IdeaEnded,
    IdeaProposed,
    ReplyRecorded,
    TrialEnded,
    TrialQueued,
)

pytestmark = pytest.mark.e2e

FOLDER = Path(__file__).with_name("earlier_releases")
RELEASES = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*-*.tar.xz"))
JOURNALS = [f"journal-{number}" for number in range(1, VERSION)]  # one of each before this one


@dataclass(frozen=True)
class Earlier(TinyCampaign):
    """A campaign that was begun elsewhere, with what its user had at home."""

    def run(self, *arguments: str) -> Any:
        env = os.environ | {"HOME": str(self.folder / "home")}
        return hpcsci(*arguments, cwd=self.folder, env=env)

    def findings(self) -> list[dict[str, Any]]:
        done = self.run("results", "run", "--format", "json")
        assert done.returncode == 0, done.stderr
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        return [{k: v for k, v in row.items() if not k.endswith("_hours")} for row in rows]

    def status(self) -> dict[str, Any]:
        done = self.run("status", "run", "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def unpack(name: str, folder: Path) -> Earlier:
    """Lay a campaign out in a folder, as if it had been begun there and by this interpreter."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        # The first releases of Python 3.11 know no filters; the archive is our own.
        archive.extractall(folder, **({"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}))
    (folder / "killed" / "run").rename(folder / "run")
    (holder,) = (folder / "run" / ".driver").iterdir()
    os.utime(holder, (0, 0))  # its driver's last beat was long ago, whatever the clocks say
    config = folder / "run" / "campaign.toml"
    places = {
        "/campaign/killed": str(folder),
        "/campaign/home": str(folder / "home"),
        "/release/.venv/bin/python": sys.executable,
    }
    text = config.read_text()
    for before, now in places.items():
        assert before in text
        text = text.replace(before, now)
    config.write_text(text)
    return Earlier(folder)


def test_there_is_one_of_each_journal_before_this_one_and_two_of_the_first_release() -> None:
    assert ["first-1", "first-2", *JOURNALS] == RELEASES


# The first and the last journal; of the others, whose changes lie between, --full.
IN_GATE = ("first-1", RELEASES[-1])


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in IN_GATE else [pytest.mark.full]) for n in RELEASES],
)
def test_it_is_shown_resumed_and_ends_as_it_would_have(name: str, tmp_path: Path) -> None:
    campaign = unpack(name, tmp_path)
    expected = json.loads((FOLDER / f"{name}.json").read_text())
    before = campaign.paths.journal.read_bytes()
    old = journal.read(campaign.paths.journal)
    ended = {event.idea_id for event in old if isinstance(event, IdeaEnded)}

    told = campaign.status()
    assert told["state"] == "stopped"
    proposed = [event for event in old if isinstance(event, IdeaProposed)]
    how = Counter(event.status for event in old if isinstance(event, IdeaEnded))
    assert told["ideas"]["proposed"] == len(proposed)
    assert (told["ideas"]["failed"], told["ideas"]["rejected"]) == (how["failed"], how["rejected"])
    under_way = {event.key for event in old if isinstance(event, TrialQueued)}
    assert sum(told["trials"][phase] for phase in ("queued", "running")) == len(under_way) - len(
        [event for event in old if isinstance(event, TrialEnded)]
    )
    assert [row["idea_id"] for row in campaign.findings()] == ["baseline", *sorted(ended)]

    done = campaign.run("resume", "run")
    assert done.returncode == 0, done.stderr
    assert campaign.status()["state"] == "finished"
    found = campaign.findings()
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        assert row.pop("parent_ids") == wanted.pop("parent_ids")
        # Later versions add fields. BLAS and SciPy may round otherwise.
        assert {name: row[name] for name in wanted} == pytest.approx(wanted)

    assert campaign.paths.journal.read_bytes().startswith(before), "what was written stands"
    new = journal.read(campaign.paths.journal)[len(old) :]
    (driver,) = [event for event in new if isinstance(event, DriverStarted)]
    assert driver.package_hash
    assert not [e for e in new if isinstance(e, IdeaEnded) and e.idea_id in ended]
    replies = {event.key for event in old if isinstance(event, ReplyRecorded)}
    assert not [e for e in new if isinstance(e, ReplyRecorded) and e.key in replies]
    trials = {event.key for event in old if isinstance(event, TrialEnded)}
    assert not [e for e in new if isinstance(e, TrialEnded) and e.key in trials]


def test_each_number_that_an_earlier_release_showed_is_shown_in_the_same_digits(
    tmp_path: Path,
) -> None:
    """Intervals and p-values too: they are computed anew whenever results are shown."""
    done = unpack("finished", tmp_path).run("results", "run", "--format", "csv")
    assert done.returncode == 0, done.stderr
    shown = list(csv.DictReader(done.stdout.splitlines()))
    recorded = csv.DictReader((FOLDER / "finished.csv").read_text().splitlines())
    for row, wanted in zip(shown, recorded, strict=True):
        assert {name: row[name] for name in wanted} == wanted  # later releases add columns


def test_a_finding_of_the_first_release_is_measured_again(tmp_path: Path) -> None:
    campaign = unpack("first-1", tmp_path)
    assert campaign.run("resume", "run").returncode == 0
    done = campaign.run("reproduce", "run", "--idea", "idea-0001")
    assert done.returncode == 0, done.stderr
    assert "idea-0001: holds" in done.stderr + done.stdout


def test_settings_that_this_release_does_not_know_name_the_one_that_does(tmp_path: Path) -> None:
    campaign = unpack("first-1", tmp_path)
    text = campaign.paths.campaign.read_text()
    campaign.paths.campaign.write_text(text.replace("[settings.propose]", "[settings.unheard_of]"))
    before = campaign.paths.journal.read_bytes()
    for command in ("results", "resume", "status"):
        done = campaign.run(command, "run")
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert "settings.unheard_of" in line
        assert re.search(r"hpcscientist 0\.1\.0 .*\b2026-11-26\b.*\binstall\b", line)
    assert campaign.paths.journal.read_bytes() == before


def test_one_of_a_later_release_is_refused_with_what_to_do(tmp_path: Path) -> None:
    campaign = unpack(RELEASES[-1], tmp_path)
    later = {"v": VERSION + 1, "n": 49, "t": 1.0, "event": {"type": "not_thought_of_yet"}}
    with campaign.paths.journal.open("a") as file:
        file.write(json.dumps(later, separators=(",", ":")) + "\n")
    before = campaign.paths.journal.read_bytes()
    for command in (["status", "run"], ["results", "run"], ["resume", "run"]):
        done = campaign.run(*command)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert re.search(rf" 49 .*\b{VERSION + 1}\b.*\b{VERSION}\b.*\binstall\b", line)
    assert campaign.paths.journal.read_bytes() == before
