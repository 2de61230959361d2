"""What daemons logged during a case is cut out by position."""

from __future__ import annotations

import os
from pathlib import Path

from suites import logs


def test_what_was_added_between_two_moments(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    (log / "n1").mkdir(parents=True)
    (log / "slurmctld.log").write_text("before\n")
    (log / "n1" / "slurmd.log").write_text("quiet\n")
    begin = logs.positions([log, tmp_path / "none"])
    with (log / "slurmctld.log").open("a") as file:
        file.write("during\n")
    (log / "slurmdbd.log").write_text("new\n")
    end = logs.positions([log])
    with (log / "slurmctld.log").open("a") as file:
        file.write("after\n")
    written = logs.cut(begin, end, out)
    assert {path.name: path.read_text() for path in written} == {
        "slurmctld.log": "during\n",
        "slurmdbd.log": "new\n",
    }


def test_a_file_made_anew_is_kept_whole(tmp_path: Path) -> None:
    """As after `down` and `up`: longer than before, but another file."""
    log = tmp_path / "slurmctld.log"
    log.write_text("old\n")
    begin = logs.positions([tmp_path])
    new = tmp_path / "new"
    new.write_text("all of it is new\n")
    new.replace(log)
    end = logs.positions([tmp_path])
    (written,) = logs.cut(begin, end, tmp_path / "out")
    assert written.read_text() == "all of it is new\n"


def test_a_file_cut_short_is_kept_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("long, long before\n")
    begin = logs.positions([tmp_path])
    log.write_text("short\n")
    end = logs.positions([tmp_path])
    (written,) = logs.cut(begin, end, tmp_path / "out")
    assert written.read_text() == "short\n"


def test_what_has_gone_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x")
    end = logs.positions([tmp_path])
    (tmp_path / "a.log").unlink()
    assert logs.cut({}, end, tmp_path / "out") == []


def test_folder_names_are_plain_short_and_never_shared() -> None:
    assert logs.folder_name("tests/slurm/test_x.py::test_a[b-1]") == "test_x.test_a[b-1]"
    names = [
        logs.folder_name(f"tests/slurm/test_x.py::test_a[{parameter}]")
        for parameter in ("a b", "a/b", "a_b", "../../x", "y" * 300, "y" * 301)
    ]
    assert len(set(names)) == len(names)
    assert all("/" not in name and len(os.fsencode(name)) < 200 for name in names)
