from __future__ import annotations

from typing import Any

import pytest

from hpcscientist import __version__
from hpcscientist.doctor.check import CheckState, DoctorCheck
from hpcscientist.doctor.compute import node
from hpcscientist.doctor.compute.records import Inside, NodeReport, NodeRequest, Rehearsed, Scratch
from hpcscientist.records.site import Host
from hpcscientist.records.trial import MachineFailed, MachineFailure, Outcome, Scored

GOOD = Inside(
    python="3.11.2",
    interfaces=("lo",),
    reached=(),
    seen=(),
    mounts=(),
    environment=False,
    processes=False,
    is_root=False,
    limits={"processes": 512, "file size": -1},
)
SCORED = Scored(metrics={"ran": 1.0})
NOT_STARTED = MachineFailed(failure=MachineFailure.SETUP, detail="FATAL: no network namespace")


def rehearsed(
    inside: Inside | None = GOOD, outcome: Outcome = SCORED, network: str = "none"
) -> Rehearsed:
    return Rehearsed(network=network, outcome=outcome, seconds=0.5, inside=inside)


def report(**given: Any) -> NodeReport:
    values: dict[str, Any] = {
        "node": "n1",
        "written_at": 1.0,
        "python": "3.11.2",
        "executable": "/usr/bin/python3",
        "package": __version__,
        "cpus": 2,
        "memory_mb": 4000,
        "apptainer": "1.4.5",
        "namespaces": True,
        "fuse": True,
        "gpus": (),
        "scratch": Scratch(path="/local", kind="ext4", free_mb=50_000),
        "unseen": (),
        "exclusive": True,
        "rehearsals": (rehearsed(),),
    }
    return NodeReport.model_validate({**values, **given})


def request(image: str | None = "/i.sif", gpus: int = 0) -> NodeRequest:
    return NodeRequest(host=Host(), image=image, gpus=gpus, shared=())


def found(told: NodeReport, asked: NodeRequest) -> dict[str, DoctorCheck]:
    return {check.name: check for check in node.checks(told, asked, "n1")}


def test_good_node_has_nothing_to_mend() -> None:
    checks = found(report(), request())
    assert {check.state for check in checks.values()} == {CheckState.OK}
    assert {check.mend for check in checks.values()} == {""}
    assert "cut" in checks["network"].found
    assert "unlimited" in checks["limits"].found


@pytest.mark.parametrize(
    ("told", "asked", "name", "state"),
    [
        ({"package": "0.0.1"}, {}, "python", CheckState.MISSING),
        ({"apptainer": ""}, {}, "apptainer", CheckState.MISSING),
        ({"apptainer": ""}, {"image": None}, "apptainer", CheckState.WARNING),
        ({}, {"image": None}, "container", CheckState.WARNING),
        ({"gpus": ("A100",)}, {"gpus": 2}, "gpus", CheckState.MISSING),
        ({"gpus": ("A100", "A100")}, {"gpus": 2}, "gpus", CheckState.OK),
        ({"fuse": False}, {}, "fuse", CheckState.OK),
        ({"fuse": False}, {"image": None}, "fuse", CheckState.WARNING),
        ({"namespaces": False}, {"image": None}, "user namespaces", CheckState.WARNING),
        ({"scratch": Scratch(path="$NONE", fault="no NONE")}, {}, "scratch", CheckState.MISSING),
        (
            {"scratch": Scratch(path="/t", kind="tmpfs", free_mb=50_000)},
            {},
            "scratch",
            CheckState.WARNING,
        ),
        (
            {"scratch": Scratch(path="/t", kind="xfs", free_mb=10)},
            {},
            "scratch",
            CheckState.WARNING,
        ),
    ],
)
def test_what_a_node_lacks(
    told: dict[str, Any], asked: dict[str, Any], name: str, state: CheckState
) -> None:
    check = found(report(**told), request(**asked))[name]
    assert check.state is state
    assert bool(check.mend) is (state is not CheckState.OK)


@pytest.mark.parametrize(
    ("change", "name", "says"),
    [
        ({"interfaces": ("eth0", "lo")}, "network", "OPEN"),
        ({"reached": (("10.0.0.1", 4444),)}, "network", "10.0.0.1:4444"),
        ({"seen": ("the labels",)}, "host's folders", "the labels"),
        ({"mounts": ("/scratch",)}, "host's folders", "the mount /scratch"),
        ({"environment": True}, "environment and processes", "worker's environment"),
        ({"processes": True}, "environment and processes", "host's processes"),
        ({"is_root": True}, "user", "root"),
    ],
)
def test_a_wall_that_does_not_hold_is_said(change: dict[str, Any], name: str, says: str) -> None:
    inside = GOOD.model_copy(update=change)
    check = found(report(rehearsals=(rehearsed(inside),)), request())[name]
    assert check.state is CheckState.WARNING
    assert says in check.found


def test_container_that_never_starts_is_missing_with_its_own_words() -> None:
    failed = rehearsed(None, NOT_STARTED)
    checks = found(report(rehearsals=(failed, failed)), request())
    assert checks["container"].state is CheckState.MISSING
    assert "FATAL: no network namespace" in checks["container"].found
    assert "network" not in checks


def test_network_that_cannot_be_cut_names_the_profile_s_key() -> None:
    opened = rehearsed(GOOD.model_copy(update={"interfaces": ("eth0", "lo")}), network="open")
    told = report(rehearsals=(rehearsed(None, NOT_STARTED), opened))
    checks = found(told, request())
    assert checks["container"].state is CheckState.OK
    assert checks["network"].state is CheckState.MISSING
    assert 'network = "open"' in checks["network"].mend


def test_network_open_by_profile_is_a_warning() -> None:
    opened = rehearsed(GOOD.model_copy(update={"interfaces": ("eth0", "lo")}), network="open")
    assert found(report(rehearsals=(opened,)), request())["network"].state is CheckState.WARNING


def test_trial_that_fails_without_a_container_is_missing() -> None:
    failed = rehearsed(None, NOT_STARTED)
    checks = found(report(rehearsals=(failed,)), request(image=None))
    assert checks["trial"].state is CheckState.MISSING


class TestSharedFolders:
    def test_all_the_same(self) -> None:
        assert {c.state for c in node.shared(report(), 0.4)} == {CheckState.OK}

    def test_labels_elsewhere_are_missing(self) -> None:
        told = report(unseen=("labels (/home/me/.local/state)",))
        states = {c.name: c.state for c in node.shared(told, 0.4)}
        assert states == {"shared file system": CheckState.OK, "folders": CheckState.MISSING}

    def test_exclusive_creation_has_to_hold_between_machines(self) -> None:
        (first, *_) = node.shared(report(exclusive=False), 0.4)
        assert first.state is CheckState.MISSING
