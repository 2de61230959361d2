"""campaign.toml: what was frozen is read back, privately kept, and refused where it is damaged."""

from __future__ import annotations

import stat
import sys
import tomllib
from pathlib import Path

import pytest
import tomli_w

from hpcscientist.config.settings import Settings
from hpcscientist.errors import NoRunDirectory, RunDirectoryError
from hpcscientist.files.hashing import package_hash
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.records.site import PartitionChoice, Site, SlurmSite
from hpcscientist.records.trial import Isolation, Split


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path)


CONFIG = CampaignConfig(
    campaign_id="digits-1",
    created="2026-01-01T00:00:00+00:00",
    package_version="0.1.0",
    python=sys.executable,
    recipe_name="digits",
    recipe_origin="/recipes/digits",
    recipe_hash="1" * 64,
    data_hash="2" * 64,
    views={Split.VALIDATION: "/data/v", Split.TEST: "/data/t"},
    labels={Split.VALIDATION: "a", Split.TEST: "b"},
    model_spec="http://h:1/v1#m",
    model_name="m",
    role_specs={"review": 'http://h:1/v1#"quoted" name'},
    steps=("directions", "plan"),
    isolation=Isolation.NONE,
    backend="slurm",
    site=Site(
        name="ours",
        slurm=SlurmSite(account="a", extra=("--hold",)),
        partitions=(PartitionChoice(name="p", max_time="1-0", gpus=0, extra=("--nice",)),),
    ),
    slots=3,
    in_flight=4,
    lag=2,
    settings=Settings(ideas=7),
)


def test_what_is_written_is_read_and_nobody_else_reads_it(paths: RunPaths) -> None:
    frozen.write(paths, CONFIG)
    assert frozen.read(paths) == CONFIG
    assert stat.S_IMODE(paths.campaign.stat().st_mode) == 0o600


def test_the_playbooks_of_a_launch_move_with_its_run_directory(paths: RunPaths) -> None:
    own, given = paths.root / "playbook-review.jsonl", paths.root / "given.jsonl"
    for file in (own, given):
        file.write_text("{}")
    gone = "playbook:/gone/run"
    specs = {"review": f"{gone}/{own.name}", "code": f"{gone}/playbook-code.jsonl"}
    launched = {"model_spec": f"playbook:{given}", "role_specs": specs}
    frozen.write(paths, CONFIG.model_copy(update=launched))
    found = frozen.read(paths)
    assert found.model_spec == f"playbook:{given}"
    assert found.role_specs == {"review": f"playbook:{own}", "code": specs["code"]}


def test_a_launch_of_an_older_version_ends_by_the_rules_it_began_with(paths: RunPaths) -> None:
    frozen.write(paths, CONFIG)
    text = paths.campaign.read_text()
    older = [line for line in text.splitlines() if not line.startswith(("lag = ", "error_control"))]
    paths.campaign.write_text("\n".join(older))
    found = frozen.read(paths)
    assert found.lag == CONFIG.in_flight
    assert found.settings.loop.error_control == "batch"


def test_a_setting_that_there_is_no_longer_is_passed_over(paths: RunPaths) -> None:
    frozen.write(paths, CONFIG)
    data = tomllib.loads(paths.campaign.read_text())
    data["settings"]["serving"]["fan_out"] = "ray"
    paths.campaign.write_text(tomli_w.dumps(data))
    assert frozen.read(paths) == CONFIG


def test_the_first_release_s_settings_are_read(paths: RunPaths) -> None:
    frozen.write(paths, CONFIG)
    data = tomllib.loads(paths.campaign.read_text())
    settings = data["settings"]
    for key in ("ideation", "authoring", "review", "proposing", "control"):
        del settings[key]
    settings["loop"] = {"q": 0.1}
    settings["propose"] = {"temperature": 0.7, "max_tokens": 3000}
    paths.campaign.write_text(tomli_w.dumps(data))
    found = frozen.read(paths).settings
    assert (found.ideation.temperature, found.ideation.max_tokens) == (0.7, 3000)
    assert (found.loop.q, found.loop.error_control, found.loop.confirm) == (0.1, "two-sided", False)
    assert not found.authoring.plan


@pytest.mark.parametrize(
    ("hashed", "fix"), [("0" * 64, r" 0\.0\.9 .*2026-01-01"), ("ours", "; restore it")]
)
def test_what_cannot_be_read_names_the_release_that_can(
    paths: RunPaths, hashed: str, fix: str
) -> None:
    ours = package_hash() if hashed == "ours" else hashed
    config = CONFIG.model_copy(update={"package_version": "0.0.9", "package_hash": ours})
    frozen.write(paths, config)
    text = paths.campaign.read_text()
    paths.campaign.write_text(text.replace("debug_rounds =", "debug_turns ="))
    with pytest.raises(RunDirectoryError, match=rf"settings\.loop\.debug_turns: .*{fix}"):
        frozen.read(paths)


@pytest.mark.parametrize("damaged", ["", "campaign_id = ", "\x00", 'campaign_id = "x"\n'])
def test_a_damaged_one_is_refused_by_its_name(paths: RunPaths, damaged: str) -> None:
    paths.campaign.write_text(damaged)
    with pytest.raises(RunDirectoryError, match=r"campaign\.toml: .*restore it"):
        frozen.read(paths)


def test_where_there_is_none_there_is_no_campaign(paths: RunPaths) -> None:
    with pytest.raises(NoRunDirectory):
        frozen.read(paths)
