"""From where requests go out, by how the engine is started."""

from __future__ import annotations

from pathlib import Path

import pytest
import queue_stand_in
from checkpoint_kit import write_model

from hpcscientist.config.settings import FanOutChoice, Settings
from hpcscientist.launching import launch
from hpcscientist.launching.serving.going_out import from_where, remark
from hpcscientist.recipe.create import create


@pytest.mark.parametrize(
    ("choice", "python", "goes", "is_said"),
    [
        ("auto", "/env/bin/python", "auto", False),
        ("auto", "", "auto", False),
        ("auto", "apptainer exec vllm.sif python3", "threads", True),
        ("ray", "apptainer exec vllm.sif python3", "ray", False),
        ("threads", "/env/bin/python", "threads", False),
    ],
)
def test_a_command_is_not_asked_for_ray_unless_one_says_so(
    choice: FanOutChoice, python: str, goes: str, *, is_said: bool
) -> None:
    assert from_where(choice, python) == goes
    assert ("and not as Ray's tasks" in remark(choice, python, 2)) == is_said
    assert not remark(choice, python, 1)


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
    said = {}
    for python in ("/env/bin/python", "apptainer exec vllm.sif python3"):
        (tmp_path / "site.toml").write_text(
            f"[controller]\nmemory_mb = 8000\n[serving]\npython = '{python}'\n"
        )
        said[python] = [line.partition(" ")[0] for line in launch.check(settings, tmp_path).layout]
    assert "requests" not in said["/env/bin/python"]
    assert said["apptainer exec vllm.sif python3"] == [*said["/env/bin/python"], "requests"]
