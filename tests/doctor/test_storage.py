from __future__ import annotations

import pytest

from hpcscientist.doctor import storage
from hpcscientist.doctor.check import CheckState
from hpcscientist.doctor.storage import Quota

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
server:/home /home nfs4 rw 0 0
10.0.0.1@o2ib:/lustre /home/shared\\040data lustre rw 0 0
server:/over /home nfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/x", "ext4"),
        ("/tmp", "tmpfs"),
        ("/tmpfile", "ext4"),
        ("/home/me", "nfs"),
        ("/home/shared data/me", "lustre"),
    ],
)
def test_type_is_that_of_the_innermost_and_latest_mount(path: str, kind: str) -> None:
    assert storage.type_in(MOUNTS, path) == kind


QUOTA = """\
Disk quotas for user me (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
server:/home  41943040  52428800 62914560          90000   100000  110000
server:/old   900*  800 1000  6days  10 0 0
server:/none: some error
"""
LUSTRE = "/lustre 1048576* 1000000 2000000 6d23h 12 0 0 -\n"


def test_both_programs_are_understood() -> None:
    assert storage.parse_quotas(QUOTA) == [
        Quota("server:/home", 41943040, 52428800, 90000, 100000),
        Quota("server:/old", 900, 800, 10, 0),
    ]
    assert storage.parse_quotas(LUSTRE) == [Quota("/lustre", 1048576, 1000000, 12, 0)]
    assert storage.parse_quotas("Disk quotas for user me (uid 1000): none\n") == []


@pytest.mark.parametrize(
    ("quota", "state"),
    [
        (Quota("/a", 0, 0, 0, 0), CheckState.OK),
        (Quota("/a", 0, 100 * 2**20, 0, 10**6), CheckState.OK),
        (Quota("/a", 99 * 2**20, 100 * 2**20, 0, 0), CheckState.WARNING),
        (Quota("/a", 0, 0, 999_999, 10**6), CheckState.WARNING),
    ],
)
def test_quota_has_to_leave_enough(quota: Quota, state: CheckState) -> None:
    assert storage.check_quota(quota).state is state


def test_this_file_system_keeps_its_promises(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("doctor")
    check = storage.behaviour(folder.parent, folder)
    assert check.state is not CheckState.MISSING, check.found
    assert "atomic" in check.found
    assert {c.name for c in storage.space(folder)} == {"space", "inodes"}


def test_folder_that_is_gone_is_missing(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("doctor") / "gone"
    assert storage.behaviour(folder, folder).state is CheckState.MISSING
