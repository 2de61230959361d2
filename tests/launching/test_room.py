"""The job that drives leaves room for trials: how many nodes it asks for, what is refused."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from hpcscientist.config.settings import Settings
from hpcscientist.errors import UsageError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.launching import launch, launch_plan
from hpcscientist.launching.jobs.dispatch import nodes_of
from hpcscientist.launching.launch_plan import LaunchPlan
from hpcscientist.recipe.schema import Resources
from hpcscientist.records.model_calls import Role
from hpcscientist.records.site import Site


@pytest.mark.parametrize(
    ("nodes", "spec", "is_inside", "asked"),
    [
        (4, "playbook", False, 1),
        (4, "http://127.0.0.1:8/v1#m", False, 1),
        (4, "vllm:/w", False, 4),
        (4, "playbook", True, 4),
        (1, "vllm:/w", False, 1),
        (0, "playbook", False, 0),
    ],
)
def test_the_job_holds_one_node_unless_something_runs_on_the_others(
    nodes: int, spec: str, is_inside: bool, asked: int
) -> None:
    settings = Settings.model_validate({"nodes": nodes, "serving": {"trials_inside": is_inside}})
    roles: dict[Role, str] = {"ideation": "playbook", "code": spec}
    assert nodes_of(settings, roles) == asked


def test_the_control_arm_drives_from_one_node() -> None:
    assert nodes_of(Settings(nodes=4), {}) == 1


def rows(
    names: str,
    partition: str = "batch*",
    shares: str = "NO",
    cpus: int = 2,
    memory: int = 12000,
    gres: str = "(null)",
) -> str:
    plain = partition.removesuffix("*")
    return "".join(
        f"{name}|{plain}|{partition}|{shares}|{cpus}|{memory}|{gres}\n" for name in names.split()
    )


FOUR = "n1 n2 n3 n4"
ONE_CPU = Resources(cpus=1, memory_mb=1000)
TWO_CPUS = Resources(cpus=2, memory_mb=1000)
GPU = Resources(cpus=1, memory_mb=1000, gpus=1)


@pytest.mark.parametrize(
    ("sinfo", "site", "resources", "most"),
    [
        # On nodes of two CPUs there is one left for trials, which take one.
        (rows(FOUR), {}, ONE_CPU, None),
        (rows(FOUR), {}, TWO_CPUS, 3),
        (rows(FOUR, cpus=1), {}, ONE_CPU, 3),
        (rows("n1", cpus=1), {}, ONE_CPU, 0),
        (rows(FOUR, shares="EXCLUSIVE"), {}, ONE_CPU, 3),
        (rows(FOUR), {"controller": {"extra": ("--exclusive",)}}, ONE_CPU, 3),
        # Memory.
        (rows(FOUR), {"controller": {"memory_mb": 11000}}, ONE_CPU, 3),
        (
            rows(FOUR),
            {"controller": {"memory_mb": 11000}, "slurm": {"memory": "none"}},
            ONE_CPU,
            None,
        ),
        # GPUs: all of them for models, or some.
        (rows(FOUR, gres="gpu:a100:4(S:0-1)"), {"controller": {"gpus": 4}}, GPU, 3),
        (rows(FOUR, gres="gpu:a100:4(S:0-1)"), {"controller": {"gpus": 3}}, GPU, None),
        (rows(FOUR, gres="gpu:4"), {"controller": {"gpus": 4}}, ONE_CPU, None),
        # Another partition of the same nodes, of other nodes, and of some of them.
        (
            rows(FOUR, cpus=1) + rows(FOUR, "urgent", cpus=1),
            {"controller": {"partition": "urgent"}},
            ONE_CPU,
            3,
        ),
        (
            rows(FOUR, cpus=1) + rows("m1 m2", "long", cpus=1),
            {"controller": {"partition": "long"}},
            ONE_CPU,
            None,
        ),
        (
            rows("n1 n2", cpus=1) + rows(FOUR, "long", cpus=1),
            {"controller": {"partition": "long"}},
            ONE_CPU,
            3,
        ),
        (rows(FOUR, cpus=1), {"slurm": {"exclude": ("n4",)}}, ONE_CPU, 2),
        # Trials that fit on no node are Slurm's to refuse.
        (rows(FOUR, cpus=1), {}, TWO_CPUS, None),
        (rows(FOUR, "batch"), {}, ONE_CPU, None),
        ("nothing|that|can be read\n", {}, ONE_CPU, None),
    ],
)
def test_how_many_nodes_leave_room(
    sinfo: str, site: dict[str, object], resources: Resources, most: int | None
) -> None:
    assert (
        launch_plan.most_nodes(launch_plan.parse_sinfo(sinfo), Site.model_validate(site), resources)
        == most
    )


class TestAtLaunch:
    @pytest.fixture
    def says(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """What sinfo prints; sbatch takes everything."""
        (tmp_path / "sbatch").write_text("#!/bin/sh\n")
        (tmp_path / "sbatch").chmod(0o755)
        said, program = tmp_path / "said", tmp_path / "sinfo"
        program.write_text(f'#!/bin/sh\n[ "$1" = --Node ] && cat {shlex.quote(str(said))}\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return said

    @pytest.mark.parametrize(("nodes", "fix"), [(4, "--nodes 3"), (5, "--nodes 3")])
    def test_a_job_that_takes_all_nodes_is_refused(self, nodes: int, fix: str, says: Path) -> None:
        says.write_text(rows(FOUR, cpus=1))
        with pytest.raises(UsageError, match=fix):
            launch_plan.require_room(Slurm(), Site(), ONE_CPU, nodes)

    def test_on_one_node_another_way_is_named(self, says: Path) -> None:
        says.write_text(rows("n1", cpus=1))
        with pytest.raises(UsageError, match="leave --nodes out"):
            launch_plan.require_room(Slurm(), Site(), ONE_CPU, 1)

    def test_a_job_that_leaves_one_is_not(self, says: Path) -> None:
        says.write_text(rows(FOUR, cpus=1))
        launch_plan.require_room(Slurm(), Site(), ONE_CPU, 3)

    def test_where_slurm_does_not_say_nothing_is_refused(self, says: Path) -> None:
        assert not says.exists()
        launch_plan.require_room(Slurm(), Site(), ONE_CPU, 4)

    def launched(self, folder: Path, **given: object) -> LaunchPlan:
        (folder / "i.sif").write_text("")
        settings = {"backend": "slurm", "model": "search", "run_dir": "run", "image": "i.sif"}
        return launch.check(Settings.model_validate({**settings, **given}), folder)

    def test_without_a_served_model_the_script_asks_for_one_node(
        self, says: Path, tmp_path: Path
    ) -> None:
        says.write_text(rows(FOUR, cpus=1))
        checked = self.launched(tmp_path, nodes=4)
        script = launch_plan.scripts(checked)["the job that drives the campaign"]
        assert "#SBATCH --nodes=1\n" in script
        launch_plan.check(checked)

    def test_a_launch_is_refused_before_anything_is_made(self, says: Path, tmp_path: Path) -> None:
        says.write_text(rows("n1", cpus=1))
        checked = self.launched(tmp_path, nodes=4)
        with pytest.raises(UsageError, match="trials_inside"):
            launch_plan.check(checked)
        assert not checked.run_dir.exists()
        inside = self.launched(tmp_path, nodes=4, serving={"trials_inside": True})
        launch_plan.check(inside)
