"""The header says where trials run, why, under which names, and what is not protected."""

from __future__ import annotations

import re
import shutil
import uuid
from pathlib import Path

import pytest
from sentence_kit import model_folder

from hpcscientist.cli.shared.options import settings_from
from hpcscientist.cli.shared.progress import header
from hpcscientist.config.settings import Settings
from hpcscientist.errors import SiteError
from hpcscientist.launching import launch
from hpcscientist.launching.launch_plan import scripts
from hpcscientist.recipe.load import shipped_folder

SITE = """\
name = "ours"
[slurm]
account = "physics"
qos = "long"
[host]
network = "open"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an image and a site profile, and a PATH with nothing but sbatch."""
    (tmp_path / "sbatch").write_text("#!/bin/sh\n")
    (tmp_path / "sbatch").chmod(0o755)
    (tmp_path / "i.sif").write_text("")
    (tmp_path / "site.toml").write_text(SITE)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def said(folder: Path, capsys: pytest.CaptureFixture[str], **given: object) -> dict[str, str]:
    settings = Settings.model_validate({"model": "search", "run_dir": "run", **given})
    header(launch.check(settings, folder))
    lines = capsys.readouterr().err.splitlines()
    return {line[:8].strip(): line[9:] for line in lines}


def test_on_slurm(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"site": "site.toml", "image": "i.sif", "slurm": {"qos": "short"}}
    lines = said(folder, capsys, **given)
    assert lines["backend"] == "slurm: as --site says; site ours, account physics, qos short"
    assert lines["image"] == str(folder / "i.sif")
    assert "queue" in lines["trials"]
    assert "without network" not in lines["sandbox"]


PARTITIONS = """
[[partitions]]
name = "short"
qos = "rapid"
max_time = 2

[[partitions]]
name = "long,longer"
max_time = "7-00:00:00"
"""


def test_which_partition_each_budget_goes_to(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "site.toml").write_text(SITE + PARTITIONS)
    recipe = folder / "digits"
    shutil.copytree(shipped_folder() / "digits", recipe)
    written = (recipe / "recipe.toml").read_text()
    longer = re.sub(r"(\[budgets.full\]\n)seconds = \S+", r"\1seconds = 5000", written)
    assert longer != written
    (recipe / "recipe.toml").write_text(longer)
    settings = {"site": "site.toml", "image": "i.sif", "recipe": str(recipe), "nodes": 1}
    checked = launch.check(
        Settings.model_validate({"model": "search", "run_dir": "run", **settings}), folder
    )
    header(checked)
    err = capsys.readouterr().err
    assert re.search(r"pilot: .* short, .* physics, .* rapid$", err, re.M)
    assert re.search(r"full: .* long,longer, .* physics, .* long$", err, re.M)
    assert re.search(r"^backend .* long,longer, .* physics, .* long$", err, re.M)
    found = {
        purpose: re.findall(r"--(?:partition|qos)=(\S+)", text)
        for purpose, text in scripts(checked).items()
    }
    assert found == {
        "the job that drives the campaign": ["long,longer", "long"],
        "an array of trials: the baseline's": ["long,longer", "long"],
        "an array of trials: a pilot": ["short", "rapid"],
    }


def test_a_budget_that_no_partition_takes_is_refused_before_anything_is_made(folder: Path) -> None:
    (folder / "site.toml").write_text('[[partitions]]\nname = "tiny"\nmax_memory = "1M"\n')
    settings = Settings.model_validate({"model": "search", "run_dir": "run", "site": "site.toml"})
    with pytest.raises(SiteError) as caught:
        launch.check(settings.model_copy(update={"image": "i.sif"}), folder)
    assert caught.value.code == "fits-none"
    assert not (folder / "run").exists()


@pytest.mark.parametrize(("root", "said_so"), [("/tmp", True), ("/data", False)])
def test_a_run_directory_that_nodes_hardly_see(
    folder: Path, capsys: pytest.CaptureFixture[str], root: str, said_so: bool
) -> None:
    where = f"{root}/{uuid.uuid4()}"
    lines = said(folder, capsys, site="site.toml", image="i.sif", run_dir=where)
    assert ("note" in lines) == said_so
    assert "note" not in said(folder, capsys, backend="local", run_dir=where)


def test_here(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(folder, capsys, backend="local")
    assert lines["backend"] == "local: as --backend says"
    assert "NO SANDBOX" in lines["sandbox"]
    assert "image" not in lines
    assert re.match(r"experiments .* CPU-hours", lines["cost"])
    assert "idle" not in lines
    assert ", improvements x 5 " in lines["trials"]
    unconfirmed = said(folder, capsys, backend="local", loop={"confirm": False})
    assert "improvements" not in unconfirmed["trials"]


def test_what_a_job_leaves_idle(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(folder, capsys, site="site.toml", image="i.sif", nodes=3)
    assert lines["nodes"].startswith("1 of 3 ")
    assert "idle" not in lines
    assert re.search(r"driving job .* 24 node-hours", lines["cost"])
    assert "nodes" not in said(folder, capsys, site="site.toml", image="i.sif", nodes=1)


@pytest.mark.parametrize(
    ("ideas", "control", "lacking"), [(22, 0.0, 0), (50, 0.0, 28), (23, 0.0, 1), (50, 0.5, 14)]
)
def test_how_many_ideas_the_playbook_lacks(
    ideas: int, control: float, lacking: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"backend": "local", "ideas": ideas, "control": control, "allow_unsandboxed": True}
    lines = said(folder, capsys, model="playbook", **given)
    told = re.findall(r"playbook\D+(\d+)\D+(\d+)", lines["ideas"])
    assert told == ([("22", str(lacking))] if lacking else [])


def test_a_model_that_is_asked_lacks_no_ideas(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(folder, capsys, backend="local", ideas=500)
    assert "playbook" not in lines["ideas"]


def test_how_ideas_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(folder, capsys, backend="local")
    assert lines["likeness"].startswith("equal knobs")
    lines = said(folder, capsys, backend="local", model="playbook")
    assert lines["likeness"] == "keyword vectors"


@pytest.mark.serving
def test_ideas_are_compared_by_a_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mini").symlink_to(model_folder())
    given = {"model": "playbook", "embedding": {"model": "mini"}}
    lines = said(folder, capsys, backend="local", **given)
    assert lines["likeness"] in {f"sentence-transformers mini on {d}" for d in ("cpu", "cuda")}
    lines = said(folder, capsys, site="site.toml", image="i.sif", nodes=3, **given)
    assert re.search(r" on (cpu|cuda) here\b.*\bjob\b.*\bcuda\b", lines["likeness"])


def test_how_ideas_are_decided_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(folder, capsys)["findings"] == "FDR 0.05, online"
    assert said(folder, capsys, rounds=2)["findings"] == "FDR 0.05, batch"
    given = settings_from(decision="point").loop.model_dump()
    words = said(folder, capsys, loop=given)["findings"]
    assert words == "any better mean (point), no error controlled"
