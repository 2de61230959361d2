"""Tests of the Apptainer definitions: their sections, and what each must contain."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hpcscientist.models.serving.nodes.offline import QUIET

CONTAINERS = Path(__file__).parents[1] / "containers"
SECTION = re.compile(r"^%(\w+)[^\n]*\n(.*?)(?=^%|\Z)", re.MULTILINE | re.DOTALL)


def sections(name: str) -> dict[str, str]:
    return dict(SECTION.findall((CONTAINERS / name).read_text()))


@pytest.mark.parametrize("name", ["experiment.def", "torch.def", "serving.def"])
def test_definition_has_a_base_and_its_sections(name: str) -> None:
    head = (CONTAINERS / name).read_text().splitlines()[:2]
    assert [line.partition(":")[0] for line in head] == ["Bootstrap", "From"]
    assert {"help", "post", "labels"} <= sections(name).keys()
    assert all(text.strip() for text in sections(name).values())


@pytest.mark.parametrize("name", ["experiment.def", "torch.def", "serving.def"])
def test_post_is_a_shell_script(name: str) -> None:
    done = subprocess.run(
        ["sh", "-n"], input=sections(name)["post"], text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_serving_image_tells_nobody_anything() -> None:
    exported = re.findall(r"^\s*export (\w+)=(\S+)$", sections("serving.def")["environment"], re.M)
    told = {name: value for name, value in QUIET.items() if "OFFLINE" in name or "TRACK" in name}
    told |= {name: QUIET[name] for name in ("VLLM_NO_USAGE_STATS", "RAY_USAGE_STATS_ENABLED")}
    assert told.items() <= dict(exported).items()


def test_serving_image_holds_this_project_with_its_engines() -> None:
    texts = sections("serving.def")
    assert "[serving]'" in texts["post"]
    root = CONTAINERS.parent
    copied = [line.split() for line in texts["files"].splitlines() if "/opt/source" in line]
    assert {"pyproject.toml", "hpcscientist", "recipes"} <= {source for source, _ in copied}
    assert all((root / source).exists() for source, _ in copied)


@pytest.mark.apptainer
@pytest.mark.skipif(shutil.which("apptainer") is None, reason="apptainer is not installed")
@pytest.mark.parametrize("name", ["experiment.def", "torch.def", "serving.def"])
def test_apptainer_reads_the_definition(name: str, tmp_path: Path) -> None:
    """With a missing base image, the build ends after the definition is parsed."""
    text = (CONTAINERS / name).read_text()
    definition = tmp_path / name
    definition.write_text(
        re.sub(r"\A.*\n.*\n", f"Bootstrap: localimage\nFrom: {tmp_path}/missing.sif\n", text)
    )
    done = subprocess.run(
        ["apptainer", "build", "--sandbox", str(tmp_path / "image"), str(definition)],
        cwd=CONTAINERS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "missing.sif" in done.stderr
    assert "parsing definition" not in done.stderr
