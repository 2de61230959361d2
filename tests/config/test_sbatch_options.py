"""What `extra` of a site profile may be: read as sbatch reads it, ours refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcscientist.config import sbatch
from hpcscientist.config.layers import load_site, resolve_site
from hpcscientist.errors import SiteError
from hpcscientist.records.site import ControllerSite, Site, SlurmSite


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (["-w node1"], [("nodelist", "node1")]),
        (["-wnode1"], [("nodelist", "node1")]),
        (["-w", "node1"], [("nodelist", "node1")]),
        (["--nodelist node1"], [("nodelist", "node1")]),
        (["--nodelist=node1"], [("nodelist", "node1")]),
        (["--nodel=node1"], [("nodelist", "node1")]),
        (["-HO"], [("hold", None), ("overcommit", None)]),
        (["-Hwn[1-3]"], [("hold", None), ("nodelist", "n[1-3]")]),
        (["-k"], [("no-kill", None)]),
        (["-koff"], [("no-kill", "off")]),
        (["--exclusive"], [("exclusive", None)]),
        (["--exclusive=user"], [("exclusive", "user")]),
        (["--mail-type=END --mail-user=a@b.org"], [("mail-type", "END"), ("mail-user", "a@b.org")]),
        (["--comment='two words'"], [("comment", "two words")]),
        (["--cluster=a"], [("clusters", "a")]),
        (["-Ma"], [("clusters", "a")]),
        (["--tasks-per-node=2"], [("ntasks-per-node", "2")]),
        (["--gres=a:1"], [("gres", "a:1")]),  # not --gres-flags: a whole name counts
        (["--container-image=x.sqsh"], [("container-image", "x.sqsh")]),  # a plugin's
        (["--x11"], [("x11", None)]),
    ],
)
def test_options_are_read_as_sbatch_reads_them(
    entries: list[str], expected: list[tuple[str, str | None]]
) -> None:
    assert sbatch.options(entries) == expected


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("mail", "word"),
        ("--mail-user=a b", "word"),
        ("-Z", "word"),
        ("--", "word"),
        ("-w", "value"),
        ("--nodelist", "value"),
        ("-p=gpu", "value"),
        ("--hold=1", "value"),
        ("--comment='open", "value"),
        ("--gpu=1", "unclear"),
        ("--mail=x", "unclear"),
        ("--array=0-9", "ours:array"),
        ("-a0-9", "ours:array"),
        ("--arr=0-9", "ours:array"),
        ("--output=x", "ours:output"),
        ("-o x", "ours:output"),
        ("-e x", "ours:error"),
        ("--time=5", "ours:time"),
        ("-t5", "ours:time"),
        ("--time-min=5", "ours:time-min"),
        ("--comment=x", "ours:comment"),
        ("-J x", "ours:job-name"),
        ("-N2", "ours:nodes"),
        ("-n 4", "ours:ntasks"),
        ("-c 4", "ours:cpus-per-task"),
        ("--mem=4G", "ours:mem"),
        ("--mem-per-cpu=4G", "ours:mem-per-cpu"),
        ("--mem-per-gpu=4G", "ours:mem-per-gpu"),
        ("-G 1", "ours:gpus"),
        ("--gpus-per-node=1", "ours:gpus-per-node"),
        ("--gres=gpu:1", "ours:gres"),
        ("--gres=lscratch:10,gpu:a100:1", "ours:gres"),
        ("--tres-per-task=cpu:2", "ours:tres-per-task"),
        ("--export=NONE", "ours:export"),
        ("--export=HOME", "ours:export"),
        ("--propagate=ALL", "ours:propagate"),
        ("--signal=TERM@60", "ours:signal"),
        ("--wait", "ours:wait"),
        ("-W", "ours:wait"),
        ("--wrap=true", "ours:wrap"),
        ("-Q", "ours:quiet"),
        ("-h", "ours:help"),
        ("--test-only", "ours:test-only"),
        ("-A physics", "key:account"),
        ("-pgpu", "key:partition"),
        ("--partit=gpu", "key:partition"),
        ("-q long", "key:qos"),
        ("-C zen2", "key:constraint"),
        ("-x n1", "key:exclude"),
        ("--no-requeue", "key:no-requeue"),
        ("--clusters=a,b", "clusters"),
        ("-Mall", "clusters"),
    ],
)
def test_what_is_ours_or_no_option_is_refused_by_name(entry: str, code: str) -> None:
    with pytest.raises(SiteError) as caught:
        sbatch.extra_of([entry])
    assert caught.value.code == code
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "entry",
    ["--nodes=1", "-N 1", "-n1", "--ntasks-per-node=1", "--parsable", "--propagate=NONE",
     "--requeue", "--open-mode=append"],
)  # fmt: skip
def test_what_says_the_same_as_we_do_changes_nothing(entry: str) -> None:
    assert sbatch.extra_of([entry]) == sbatch.Extra({})


@pytest.mark.parametrize(
    ("given", "entry", "options"),
    [
        ({}, "--export=ALL,DEBUG=1", {"export": "ALL,DEBUG=1"}),
        ({"memory": "none"}, "--mem=1M", {"mem": "1M"}),
        ({"memory": "none"}, "--mem-per-cpu=8000", {"mem-per-cpu": "8000"}),
        ({"requeue": False}, "--no-requeue", {}),
        ({}, "--begin=now+1hour", {"begin": "now+1hour"}),
    ],
)
def test_what_contradicts_nothing_goes_along(
    given: dict[str, Any], entry: str, options: dict[str, str]
) -> None:
    assert dict(sbatch.extra_of([entry], **given).options) == options


def test_generic_resources_stand_beside_gpus() -> None:
    slurm = SlurmSite(extra=("--gres=lscratch:100", "--gres=nvme:1,lscratch:100"))
    beside = sbatch.extra_of_trials(slurm).gres
    assert beside == ("lscratch:100", "nvme:1")
    assert sbatch.gpu_options(slurm, 2, beside) == {"gres": "gpu:2,lscratch:100,nvme:1"}
    assert sbatch.gpu_options(slurm, 0, beside) == {"gres": "lscratch:100,nvme:1"}
    typed = SlurmSite(gres="gpu:a100:{gpus}", gpu_option="gpus-per-node")
    assert sbatch.gpu_options(typed, 2, beside) == {
        "gpus-per-node": "a100:2",
        "gres": "lscratch:100,nvme:1",
    }
    assert sbatch.gpu_options(typed, 0) == {}


@pytest.mark.parametrize(
    ("slurm", "controller", "cluster"),
    [
        ({"cluster": "a"}, (), "a"),
        ({"extra": ("-M", "a")}, (), "a"),
        ({"cluster": "a", "extra": ("--clusters=a",)}, ("--clusters=a",), "a"),
        ({}, (), ""),
    ],
)
def test_a_cluster_is_named_by_its_key_or_as_sbatch_has_it(
    slurm: dict[str, Any], controller: tuple[str, ...], cluster: str
) -> None:
    site = Site(slurm=SlurmSite(**slurm), controller=ControllerSite(extra=controller))
    assert sbatch.cluster_of(site.slurm) == cluster
    sbatch.extra_of_controller(site)


@pytest.mark.parametrize("extra", [("--time=1", "-Ma"), ("--time=1", "a word", "-Ma")])
def test_a_campaign_whose_profile_would_be_refused_today_can_be_cancelled(
    extra: tuple[str, ...],
) -> None:
    slurm = SlurmSite(extra=extra)
    assert sbatch.cluster_of(slurm) == ("a" if len(extra) == 2 else "")
    with pytest.raises(SiteError):
        sbatch.extra_of_trials(slurm)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('[slurm]\nextra = ["--array=0-9"]', "ours:array"),
        ('[controller]\nextra = ["-t", "9"]', "ours:time"),
        ('[controller]\nextra = ["-d afterok:1"]', "ours:dependency"),
        ('[controller]\nextra = ["-Ma"]', "clusters"),
        ('[slurm]\ncluster = "a"\nextra = ["-Mb"]', "clusters"),
        ('[slurm]\ncluster = "a,b"', "clusters"),
        ('[[partitions]]\nname = "a"\nextra = ["-Ma"]', "clusters"),
        ('[[partitions]]\nname = "a"\nextra = ["--time=1"]', "ours:time"),
        ('[slurm]\ngres = "nvidia_a30={gpus}"\ngpu_option = "gpus"', "gpu_option"),
    ],
)
def test_a_profile_is_refused_when_it_is_read(text: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(SiteError) as caught:
        load_site("site.toml", tmp_path)
    assert caught.value.code == code
    assert "site.toml: " in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "text", "cluster"),
    [
        ({"SLURM_CLUSTERS": "a"}, "", "a"),
        ({"SBATCH_CLUSTERS": "a"}, "", "a"),
        ({"SBATCH_CLUSTERS": "a", "SLURM_CLUSTERS": "b"}, "", "b"),  # as sbatch has it
        ({"SLURM_CLUSTERS": "a"}, '[slurm]\ncluster = "b"', "b"),
        ({"SLURM_CLUSTERS": "a"}, '[slurm]\nextra = ["-Mb"]', ""),
    ],
)
def test_a_cluster_of_the_environment_is_every_command_s(
    environment: dict[str, str], text: str, cluster: str, tmp_path: Path
) -> None:
    (tmp_path / "site.toml").write_text(text)
    site, values = resolve_site("site.toml", tmp_path, environment=environment)
    assert site.slurm.cluster == cluster
    origins = {value.key: value.origin for value in values}
    if not text:
        assert origins["slurm.cluster"].startswith("variable S")


def test_several_clusters_of_the_environment_are_refused_where_slurm_is_asked() -> None:
    site, _ = resolve_site("", Path(), environment={"SLURM_CLUSTERS": "a,b"})
    with pytest.raises(SiteError, match="several clusters"):
        sbatch.cluster_of(site.slurm)
