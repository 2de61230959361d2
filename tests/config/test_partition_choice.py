"""Which of a profile's [[partitions]] a job goes to, and what may stand there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hpcscientist.cli.config import show
from hpcscientist.config import partitions
from hpcscientist.config.layers import load_site, resolve_site
from hpcscientist.config.partitions import JobNeeds, choose, mebibytes, minutes, of_controller
from hpcscientist.config.settings import SlurmOverrides
from hpcscientist.errors import ConfigError, SiteError
from hpcscientist.records.site import ControllerSite, PartitionChoice, Site, SlurmSite

SHORT = PartitionChoice(name="short", qos="rapid", max_time="1:00:00", gpus=0)
LONG = PartitionChoice(name="long", max_memory="64G", max_cpus=8, gpus=0)
GPU = PartitionChoice(name="gpu", gpus=2, gres="gpu:a100:{gpus}", extra=("--gpu-bind=closest",))
SITE = Site(
    slurm=SlurmSite(partition="main", qos="normal", account="a", extra=("--hold",)),
    partitions=(SHORT, LONG, GPU),
)


@pytest.mark.parametrize(
    ("need", "partition", "qos"),
    [
        (JobNeeds(60, 1000), "short", "rapid"),
        (JobNeeds(61, 1000), "long", "normal"),
        (JobNeeds(61, 65536, cpus=8), "long", "normal"),
        (JobNeeds(60, 1000, gpus=1), "gpu", "normal"),
        (JobNeeds(9999, 10**6, cpus=64, gpus=2), "gpu", "normal"),
    ],
)
def test_the_first_partition_that_a_job_fits_is_used(
    need: JobNeeds, partition: str, qos: str
) -> None:
    found = choose(SITE, need)
    assert (found.partition, found.qos, found.account) == (partition, qos, "a")


@pytest.mark.parametrize(
    "need",
    [JobNeeds(61, 65537), JobNeeds(61, 1000, cpus=9), JobNeeds(60, 1000, gpus=3)],
)
def test_a_job_that_fits_none_is_refused(need: JobNeeds) -> None:
    with pytest.raises(SiteError) as caught:
        choose(SITE, need, "recipe.toml")
    assert caught.value.code == "fits-none"
    for word in (str(need), "short", "max_memory 64G", "recipe.toml"):
        assert word in str(caught.value)


def test_what_a_partition_says_comes_over_the_profile_and_its_options_beside() -> None:
    found = choose(SITE, JobNeeds(5, 1000, gpus=1))
    assert found.gres == "gpu:a100:{gpus}"
    assert found.extra == ("--hold", "--gpu-bind=closest")
    assert choose(SITE, JobNeeds(5, 1000)).max_minutes == 60
    tight = SITE.model_copy(update={"slurm": SITE.slurm.model_copy(update={"max_minutes": 30})})
    assert choose(tight, JobNeeds(5, 1000)).max_minutes == 30
    assert choose(Site(slurm=SITE.slurm), JobNeeds(5, 1000)) == SITE.slurm


def test_memory_a_core_is_rounded_up() -> None:
    row = PartitionChoice(name="p", max_memory_per_cpu=1000)
    site = Site(partitions=(row,))
    assert choose(site, JobNeeds(1, 3000, cpus=3)).partition == "p"
    with pytest.raises(SiteError):
        choose(site, JobNeeds(1, 3001, cpus=3))


@pytest.mark.parametrize(
    ("own", "partition"),
    [
        ({"minutes": 30}, "short"),
        ({"minutes": 1440}, "long"),
        ({"minutes": 1440, "gpus": 2}, "gpu"),
        ({"minutes": 1440, "partition": "drivers"}, "drivers"),
    ],
)
def test_the_job_that_drives_goes_by_its_own_needs(own: dict[str, Any], partition: str) -> None:
    site = SITE.model_copy(update={"controller": ControllerSite(**own, qos="driving")})
    found = of_controller(site)
    assert (found.partition, found.qos) == (partition, "driving")


def test_the_command_line_beats_partitions() -> None:
    named = partitions.overridden(SITE, {"partition": "mine", "qos": ""})
    assert (named.slurm.partition, named.partitions) == ("mine", ())
    lent = partitions.overridden(SITE, {"qos": "lent"})
    assert {choose(lent, JobNeeds(m, 1000)).qos for m in (5, 500)} == {"lent"}
    assert choose(lent, JobNeeds(500, 1000)).partition == "long"
    assert partitions.overridden(SITE, {"qos": ""}) == SITE


@pytest.mark.parametrize(
    ("text", "expected"),
    [(90, 90), ("90", 90), ("5:30", 5), ("1:02:03", 62), ("2-12", 3600), ("2-12:30", 3630),
     ("2-00:00:00", 2880), ("UNLIMITED", 525600)],
)  # fmt: skip
def test_times_are_read_as_slurm_reads_them(text: str | int, expected: int) -> None:
    assert minutes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [(4000, 4000), ("4000", 4000), ("4G", 4096), ("1T", 1048576), ("512K", 0)]
)
def test_memory_is_read_as_sbatch_reads_it(text: str | int, expected: int) -> None:
    assert mebibytes(text) == expected


PROFILE = """
[slurm]
qos = "normal"

[[partitions]]
name = "short,debug"
max_time = "1:00:00"
extra = ["--nice=5"]

[[partitions]]
name = "long"
gpus = 0
"""


def write(folder: Path, text: str) -> str:
    (folder / "site.toml").write_text(text)
    return "site.toml"


def test_partitions_are_read_from_a_profile(tmp_path: Path) -> None:
    path = write(tmp_path, PROFILE)
    site = load_site(path, tmp_path)
    assert site.partitions == (
        PartitionChoice(name="short,debug", max_time="1:00:00", extra=("--nice=5",)),
        PartitionChoice(name="long", gpus=0),
    )
    assert {kind.partition for kind in partitions.all_kinds(site)} == {"short,debug", "long"}
    over, values = resolve_site(path, tmp_path, SlurmOverrides(partition="p"))
    assert over.partitions == ()
    origins = {value.key: (value.value, value.origin) for value in values}
    assert origins["partitions"] == ((), "setting slurm.partition")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[partitions]]\nnme = "a"', r"\[\[partitions\]\] 1: unknown key 'nme'; .*'name'"),
        ('[[partitions]]\n[[partitions]]\nmax_time = "24h"', r"partitions: 1\.max_time: "),
        ("[[partitions]]\nmax_time = 1.5", r"partitions: 0\.max_time"),
        ('[[partitions]]\nmax_memory = "250.GB"', r"partitions: 0\.max_memory: "),
        ('[[partitions]]\ngres = "gpu:2"', r"partitions: 0\.gres"),
        ("[[partitions]]\ngpus = -1", r"partitions: 0\.gpus"),
        ('[partitions]\nname = "a"', r"unknown key 'partitions\.name'"),
        ("partitions = 3", "partitions: "),
    ],
)
def test_a_bad_partition_is_refused_by_name(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_site(write(tmp_path, text), tmp_path)
    assert re.search(says, str(caught.value))
    assert len(str(caught.value).splitlines()) == 1


def test_config_show_lists_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCSCI_SITE", write(tmp_path, PROFILE))
    rows = json.loads(CliRunner().invoke(show, ["--json"]).stdout)
    shown = {row["key"]: row["value"] for row in rows}
    assert [row["name"] for row in shown["site.partitions"]] == ["short,debug", "long"]
    assert "short,debug" in CliRunner().invoke(show, []).stdout


@pytest.mark.parametrize(
    ("gres", "needed", "asked"),
    [
        ("gpu:{gpus}", "h100", "gpu:h100:{gpus}"),
        ("gpu:h100:{gpus}", "h100", "gpu:h100:{gpus}"),
        ("gpu:a100:{gpus}", "", "gpu:a100:{gpus}"),
        ("gpu:{gpus}", "", "gpu:{gpus}"),
    ],
)
def test_a_kind_of_gpu_is_asked_for(gres: str, needed: str, asked: str) -> None:
    site = Site(slurm=SlurmSite(gres=gres))
    assert choose(site, JobNeeds(60, 1000, gpus=1, gpu_type=needed)).gres == asked


def test_a_kind_of_gpu_that_the_profile_has_not_is_refused() -> None:
    need = JobNeeds(60, 1000, gpus=1, gpu_type="h100")
    with pytest.raises(SiteError, match="gpu_type"):
        choose(Site(slurm=SlurmSite(gres="gpu:a100:{gpus}")), need)
    with pytest.raises(SiteError, match="h100"):
        choose(SITE, need)


def test_a_partition_that_has_the_kind_of_gpu_is_chosen() -> None:
    big = PartitionChoice(name="big", gpus=8, gres="gpu:h100:{gpus}")
    site = Site(slurm=SlurmSite(), partitions=(GPU, big))
    assert choose(site, JobNeeds(60, 1000, gpus=1, gpu_type="h100")).partition == "big"
    assert choose(site, JobNeeds(60, 1000, gpus=1)).partition == "gpu"
