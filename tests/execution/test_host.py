from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from hpcscientist.execution.sandbox.host import HostUnfit, binds, expand, scratch_base, unsafe
from hpcscientist.records.site import Host


def test_variables_are_those_of_the_node() -> None:
    known = {"USER": "ann", "SLURM_JOB_ID": "7"}
    assert expand("/s/$USER/${SLURM_JOB_ID}x", "host.scratch", known) == "/s/ann/7x"


@pytest.mark.parametrize("known", [{}, {"TMPDIR": ""}])
def test_a_variable_that_is_not_set_names_the_fix(known: dict[str, str]) -> None:
    with pytest.raises(HostUnfit, match=r"no TMPDIR.*slurm\.setup"):
        scratch_base(Host(scratch="$TMPDIR/x"), known)


def test_scratch_is_made_for_this_user_alone(tmp_path: Path) -> None:
    base = scratch_base(Host(scratch="$WHERE/a/b"), {"WHERE": str(tmp_path)})
    assert base == tmp_path / "a" / "b"
    assert {path.stat().st_mode & 0o777 for path in (base, base.parent)} == {0o700}
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    assert scratch_base(Host(scratch=str(shared))) == shared
    assert shared.stat().st_mode & 0o7777 == 0o1777


def test_without_a_setting_it_is_the_systems() -> None:
    assert scratch_base(Host()) == Path(tempfile.gettempdir())


def test_scratch_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for scratch in (str(tmp_path / "file" / "x"), "relative"):
        with pytest.raises(HostUnfit, match=r"host\.scratch"):
            scratch_base(Host(scratch=scratch))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.geteuid() != 0:
        with pytest.raises(HostUnfit, match="written"):
            scratch_base(Host(scratch=str(closed)))


def test_scratch_in_which_others_could_replace_our_files(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(HostUnfit, match=r"host\.scratch.*sticky.*profile"):
        scratch_base(Host(scratch=str(tmp_path)))
    for mode in (0o1777, 0o775, 0o700):
        tmp_path.chmod(mode)
        assert scratch_base(Host(scratch=str(tmp_path))) == tmp_path


def status(uid: int, mode: int) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, uid, 1, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("owner", "mode", "said"),
    [
        ("other", 0o700, "another user"),
        ("other", 0o1777, "another user"),
        ("root", 0o1777, ""),
        ("root", 0o1775, ""),
        ("root", 0o777, "sticky"),
        ("root", 0o775, "sticky"),
        ("me", 0o775, ""),
        ("me", 0o777, "sticky"),
    ],
)
def test_whose_folder_is_safe(
    owner: str, mode: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = unsafe(status({"other": 1001, "root": 0, "me": 1000}[owner], mode))
    assert (said in found) if said else found == ""


def test_binds(tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    known = {"SETS": str(tmp_path / "sets")}
    found = binds(Host(binds=("$SETS", f"{tmp_path}/sets:/in")), (), known)
    assert found == ((str(tmp_path / "sets"),) * 2, (str(tmp_path / "sets"), "/in"))
    with pytest.raises(HostUnfit, match=rf"host\.binds.* {tmp_path}/none,"):
        binds(Host(binds=(f"{tmp_path}/none",)), ())


@pytest.mark.parametrize("bind", ["", "sealed", "sealed/labels", "link", "sealed/labels/deep"])
def test_no_bind_shows_what_is_secret(tmp_path: Path, bind: str) -> None:
    secret = tmp_path / "sealed" / "labels"
    (secret / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("sealed")
    (tmp_path / "other").mkdir()
    with pytest.raises(HostUnfit, match=r"shows .* to candidates"):
        binds(Host(binds=(str(tmp_path / bind),)), (secret,))
    assert binds(Host(binds=(str(tmp_path / "other"),)), (secret,))
