from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.errors import UsageError
from hpcscientist.execution.sandbox.isolation import choose, require_permission, statement
from hpcscientist.records.site import Host
from hpcscientist.records.trial import Isolation


def test_choose_needs_both_the_program_and_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, program = tmp_path / "i.sif", tmp_path / "apptainer"
    image.write_text("")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert choose(str(image)) is Isolation.NONE
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert choose(str(image)) is Isolation.APPTAINER
    assert choose(str(tmp_path / "missing.sif")) is Isolation.NONE
    assert choose(None) is Isolation.NONE


def test_statement_hides_nothing() -> None:
    said = statement(Isolation.NONE)
    for word in ("labels", "library that bundles the data", "network", "write"):
        assert word in said
    # Both cases: the trials may run on other machines than this one.
    where, _, elsewhere = said.partition("process ids of their own")
    kept, _, open_to = elsewhere.partition("; elsewhere")
    assert "nor stop" in kept and "outlives" in kept
    assert all(word in open_to for word in ("memory", "environment", "kill"))
    assert "kill" not in where and "memory" not in where
    assert "without network" in statement(Isolation.APPTAINER)


def test_statement_says_what_a_site_leaves_open() -> None:
    said = statement(Isolation.APPTAINER, Host(network="open", binds=("/sw/data", "/a:/b")))
    assert "without network" not in said
    assert "THE NETWORK OPEN" in said
    assert "/sw/data, /a:/b" in said
    assert "network" in statement(Isolation.NONE, Host(network="open"))


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("allowed", [True, False])
def test_permission(isolation: Isolation, trusted: bool, allowed: bool) -> None:
    if isolation is Isolation.NONE and not trusted and not allowed:
        with pytest.raises(UsageError, match="--allow-unsandboxed"):
            require_permission(isolation, trusted, allowed)
    else:
        require_permission(isolation, trusted, allowed)
