"""From where requests go out, by how the engine is started."""

from __future__ import annotations

from pathlib import Path

import pytest
import queue_stand_in
from checkpoint_kit import write_model

from hpcscientist.config.settings import FanOutChoice, Settings
from hpcscientist.launching import launch
from hpcscientist.launching.serving.fan_out import from_where, remark
from hpcscientist.recipe.create import create
from hpcscientist.records.site import ServingSite, Site

COMMAND = "apptainer exec vllm.sif python3"


@pytest.mark.parametrize(
    ("choice", "python", "image", "goes"),
    [
        ("auto", "/env/bin/python", "", "auto"),
        ("auto", "", "", "auto"),
        ("auto", "", "/images/vllm.sif", "auto"),  # we start it, and it reaches Ray
        ("auto", COMMAND, "", "threads"),
        ("ray", COMMAND, "", "ray"),
        ("threads", "/env/bin/python", "", "threads"),
    ],
)
def test_a_command_is_not_asked_for_ray_unless_one_says_so(
    choice: FanOutChoice, python: str, image: str, goes: str
) -> None:
    site = Site(serving=ServingSite(python=python, image=image))
    assert from_where(choice, site) == goes
    assert ("and not as Ray's tasks" in remark(choice, site, 2)) == (goes != choice)
    assert not remark(choice, site, 1)


def test_a_launch_says_so_before_anything_waits_in_a_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_stand_in.install(tmp_path, monkeypatch)
    model = write_model(tmp_path / "small", num_hidden_layers=2)
    settings = Settings(
        model=f"vllm:{model}",
        recipe=str(create("mine", tmp_path)),
        backend="slurm",
        site="site.toml",
        nodes=2,
        allow_unsandboxed=True,
    )
    image = tmp_path / "vllm.sif"
    image.touch()
    said = []
    for serving in (
        "python = '/env/bin/python'",
        f"image = '{image}'",  # started by a command that is longer than any path
        f"python = '{COMMAND}'",
    ):
        (tmp_path / "site.toml").write_text(
            f"[controller]\nmemory_mb = 8000\n[serving]\n{serving}\n"
        )
        said.append([line.partition(" ")[0] for line in launch.check(settings, tmp_path).layout])
    assert "requests" not in said[0]
    assert said == [said[0], said[0], [*said[0], "requests"]]
