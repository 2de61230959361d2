"""Fixtures for all tests; no test uses the developer's own configuration, cache or state."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from slurm_kit import Cluster, close_cluster, open_cluster, why_not

from hpcscientist.system.lean import start_quickly

start_quickly()

# Without deadlines, and with the same examples in every run; with --full, more of them.
for _profile, _examples in (("gate", 50), ("full", 200)):
    settings.register_profile(
        _profile,
        max_examples=_examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples are drawn where a test does not say it."""
    settings.load_profile("full" if config.getoption("--full") else "gate")


# Markers of what a test needs besides this package; see pyproject.toml.
PLACES = ("slurm", "apptainer", "serving", "browser", "tex")
# Tests that the gate leaves out: their results depend on daemons, or they are slow.
LEFT_OUT = (*PLACES, "full")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for tests that only .ci/full runs."""
    told = "also what takes long or needs a cluster, containers or an engine (see tests/README.md)"
    parser.addoption("--full", action="store_true", help=told)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that need --full; in parallel runs, put slow tests first.

    Tests are deselected by marker, not by what the machine has. So a cluster that happens to be up,
    or was left by an earlier run, does not change which tests decide on a merge.
    """
    if not config.getoption("--full"):
        left_out = [item for item in items if any(map(item.get_closest_marker, LEFT_OUT))]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not any(map(item.get_closest_marker, LEFT_OUT))]
    if hasattr(config, "workerinput"):
        items.sort(key=_turn)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let no garbage collection look through all that was collected, which stays to the end."""
    gc.freeze()


def _turn(item: pytest.Item) -> int:
    """Return a test's rank in a parallel run: tests that take minutes must not start last."""
    if in_one_place(item.path) == CLUSTER:
        return 0
    if item.get_closest_marker("e2e"):
        return 1 if in_one_place(item.path) else 2
    return 3


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """In parallel runs, keep some tests together in one process.

    Tests of the cluster and of engines look at leftovers in its queue, on its nodes and on its
    ports. Tests that share a module or session fixture would create it in every process. (xdist's
    own groups do not work with pytest 9.2.)
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 (an option of the tests)

    class InPlaces(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return in_one_place(config.rootpath / nodeid.partition("::")[0]) or nodeid

    config.option.loadscopereorder = False  # keep the order of `_turn`, not of group sizes
    return InPlaces(config, log)


CLUSTER = "cluster"


@cache
def in_one_place(file: Path) -> str | None:
    """Return the group in which a file's tests run in sequence; None if they may run anywhere."""
    text = file.read_text()
    if re.search(r"mark\.(slurm|serving)\b", text):
        return CLUSTER
    return str(file) if re.search(r"scope=\"(module|session)\"", text) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that is skipped although HPCTEST_REQUIRE promises all that it needs."""
    report = yield
    required = os.environ.get("HPCTEST_REQUIRE", "").split()
    needed = [name for name in PLACES if item.get_closest_marker(name)]
    if report.skipped and needed and set(needed) <= set(required):
        report.outcome = "failed"
        report.longrepr = f"skipped although HPCTEST_REQUIRE asks for it: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[None]:
    """Let no test wait for the disk: a test's files need not outlive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("HPCSCI_") and name != "HPCSCI_TEST_IMAGE":
                patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("HPCSCI_BACKEND", "local")  # even if a development cluster is up
        for name in ("CONFIG", "CACHE", "STATE"):
            patch.delenv(f"XDG_{name}_HOME", raising=False)
        yield home


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Yield a real Slurm as an ordinary user sees it."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    opened = open_cluster()
    yield opened
    close_cluster(opened)


@pytest.fixture
def shared(cluster: Cluster) -> Path:
    """Return an empty folder that every node sees and the ordinary user owns."""
    return cluster.make_folder()
