"""Whoever follows a job is told how the campaign's own models come to be served."""

from __future__ import annotations

from pathlib import Path

import pytest
import queue_stand_in

from hpcscientist.errors import CampaignError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.files.rundir import RunPaths
from hpcscientist.launching.jobs.follow import CampaignFollower
from hpcscientist.models.serving.lease import PlaneNews
from hpcscientist.models.serving.order import ServingPaths

JOBS = Path(__file__).parents[2] / "hpcscientist" / "launching" / "jobs"


def test_each_step_of_the_plane_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_stand_in.install(tmp_path, monkeypatch)
    state = ServingPaths(RunPaths(tmp_path / "run").serving).state
    state.parent.mkdir(parents=True)
    state.write_text("ready\n")  # an earlier job's
    steps = iter(["", "1 of 2 nodes have joined\n", "1 of 2 nodes have joined\n", "ready\n"])
    told: list[str] = []
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += 0.5
        text = next(steps, None)
        if text == "":
            state.unlink()
        elif text is not None:
            state.write_text(text)

    follower = CampaignFollower(
        RunPaths(tmp_path / "run"), lambda event, now: None, told.append, wait, lambda: now
    )
    with pytest.raises(CampaignError, match="job 7 is gone"):
        follower.follow(Slurm(), "digits-1a2b", "7")
    assert [line for line in told if line.startswith("model plane")] == [
        "model plane: 1 of 2 nodes have joined",
        "model plane: ready",
    ]


class TestNews:
    """What is told of a plane's state: each once, then every minute while it lasts."""

    @pytest.fixture
    def paths(self, tmp_path: Path) -> ServingPaths:
        return ServingPaths(tmp_path)

    def test_a_state_that_lasts_is_told_again_each_minute(self, paths: ServingPaths) -> None:
        now = 0.0
        news = PlaneNews(paths, lambda: now)
        assert news.look(is_running=True) == ""
        paths.state.write_text("deploying: DEPLOYING\n")
        told = []
        for second in range(15 * 60):
            now = float(second)
            told.append(news.look(is_running=True))
        lines = [text for text in told if text]
        assert lines[0] == "model plane: deploying: DEPLOYING"
        assert [told.index(line) for line in lines] == [minute * 60 for minute in range(15)]
        assert lines[14].startswith(f"{lines[0]}, for 14 minutes")

    @pytest.mark.parametrize("state", ["ready", "failed: no memory"])
    def test_what_lasts_for_good_is_told_once(self, state: str, paths: ServingPaths) -> None:
        now = 0.0
        news = PlaneNews(paths, lambda: now)
        paths.state.write_text(f"{state}\n")
        assert news.look(is_running=True) == f"model plane: {state}"
        now = 1000.0
        assert news.look(is_running=True) == ""

    def test_who_comes_while_models_load_is_told_so(self, paths: ServingPaths) -> None:
        paths.state.write_text("deploying: DEPLOYING\n")
        news = PlaneNews(paths, lambda: 0.0)
        assert news.look(is_running=False) == ""  # of an earlier job, perhaps
        assert news.look(is_running=True) == "model plane: deploying: DEPLOYING"
        assert news.look(is_running=True) == ""

    def test_what_an_earlier_plane_came_to_is_no_news(self, paths: ServingPaths) -> None:
        paths.state.write_text("ready\n")
        assert PlaneNews(paths, lambda: 0.0).look(is_running=True) == ""


def test_a_follower_who_comes_while_models_load_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = queue_stand_in.install(tmp_path, monkeypatch)
    fields = ("7", "N/A", "RUNNING", "None", "n1", "hpcsci-digits-1a2b-controller", "", "7", "p")
    queue.file.write_text("\x1f".join(fields) + "\n")
    state = ServingPaths(RunPaths(tmp_path / "run").serving).state
    state.parent.mkdir(parents=True)
    state.write_text("deploying: DEPLOYING\n")
    told: list[str] = []
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += 0.5
        if now > 20:
            queue.file.write_text("")

    follower = CampaignFollower(
        RunPaths(tmp_path / "run"), lambda event, now: None, told.append, wait, lambda: now
    )
    with pytest.raises(CampaignError):
        follower.follow(Slurm(), "digits-1a2b", "7")
    assert told.count("model plane: deploying: DEPLOYING") == 1


def test_the_page_names_the_folders_in_which_logs_lie() -> None:
    page = (JOBS / "README.md").read_text()
    paths = RunPaths(Path("run"))
    assert f"`{ServingPaths(paths.serving).logs.relative_to('run')}`" in page
    assert f"`{paths.controller_log('JOB').relative_to('run')}`" in page
