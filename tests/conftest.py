"""Fixtures for all rooms: nobody's own configuration, cache or state is used by a test."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from slurm_kit import Cluster, close_cluster, open_cluster, why_not

# No timing is asserted, and a test draws the same examples in every run.
settings.register_profile(
    "deterministic",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deterministic")


# Markers of what a test needs beside this package; see pyproject.toml.
PLACES = ("slurm", "apptainer", "serving", "browser", "tex")
# Tests that the gate leaves out: what they find depends on daemons, or they take long.
LEFT_OUT = (*PLACES, "full")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the tests that only .ci/full runs."""
    told = "also what takes long or needs a cluster, containers or an engine (see tests/README.md)"
    parser.addoption("--full", action="store_true", help=told)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what belongs to --full, whatever this machine has; side by side, long ones first.

    Left out by marker and not by what is there, so that a cluster that happens to be up, or was
    left by an earlier run, changes nothing of the tests that decide on a landing.
    """
    if not config.getoption("--full"):
        left_out = [item for item in items if any(map(item.get_closest_marker, LEFT_OUT))]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not any(map(item.get_closest_marker, LEFT_OUT))]
    if hasattr(config, "workerinput"):
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """When a test's turn is among those side by side: what takes minutes must not be begun last."""
    if in_one_place(item.path) == CLUSTER:
        return 0
    if item.get_closest_marker("e2e"):
        return 1 if in_one_place(item.path) else 2
    return 3


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where tests run side by side, some follow each other in one process.

    Those of the cluster and of engines look at what is left in its queue, on its nodes and on its
    ports; those of a file that share what a fixture makes would have it made in every process.
    (xdist's own groups are not heeded beside pytest 9.2.)
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 (an option of the tests)

    class InPlaces(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return in_one_place(config.rootpath / nodeid.partition("::")[0]) or nodeid

    config.option.loadscopereorder = False  # by turn, not by number
    return InPlaces(config, log)


CLUSTER = "cluster"


@cache
def in_one_place(file: Path) -> str | None:
    """Name the place where a file's tests follow each other; None if each goes where it may."""
    text = file.read_text()
    if re.search(r"mark\.(slurm|serving)\b", text):
        return CLUSTER
    return str(file) if re.search(r"scope=\"(module|session)\"", text) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that was skipped though HPCTEST_REQUIRE promises all that it needs."""
    report = yield
    required = os.environ.get("HPCTEST_REQUIRE", "").split()
    needed = [name for name in PLACES if item.get_closest_marker(name)]
    if report.skipped and needed and set(needed) <= set(required):
        report.outcome = "failed"
        report.longrepr = f"skipped although HPCTEST_REQUIRE asks for it: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("HPCSCI_") and name != "HPCSCI_TEST_IMAGE":
                patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("HPCSCI_BACKEND", "local")  # also where a development cluster is up
        for name in ("CONFIG", "CACHE", "STATE"):
            patch.delenv(f"XDG_{name}_HOME", raising=False)
        yield home


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A real Slurm as an ordinary user sees it."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    opened = open_cluster()
    yield opened
    close_cluster(opened)


@pytest.fixture
def shared(cluster: Cluster) -> Path:
    """An empty folder that every node sees and the ordinary user owns."""
    return cluster.make_folder()
