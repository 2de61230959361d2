"""What a driver finds that was killed at a bad moment, or whose ground has changed meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaigns import HPCSCI, LIMIT_S, TinyCampaign, hpcsci

from hpcscientist.cli.main import run
from hpcscientist.config.layers import default_data_root, default_private_root
from hpcscientist.config.settings import Settings
from hpcscientist.files import vault
from hpcscientist.history import frozen
from hpcscientist.system import processes

pytestmark = pytest.mark.e2e


@pytest.fixture
def tiny(tmp_path: Path) -> TinyCampaign:
    return TinyCampaign.prepare(tmp_path)


@pytest.fixture
def preparing(tiny: TinyCampaign) -> Iterator[subprocess.Popen[bytes]]:
    """A launch whose prepare.py has begun and does not end before it may."""
    prepare, mark, go = tiny.folder / "tiny" / "prepare.py", tiny.folder / "m", tiny.folder / "go"
    os.mkfifo(mark)
    slow = f"open({str(mark)!r}, 'w').close()\nopen({str(go)!r}).close()\n"
    os.mkfifo(go)
    text = prepare.read_text()
    last_import = text.index("\n\n")
    prepare.write_text(f"{text[:last_import]}\n{slow}{text[last_import:]}")
    with subprocess.Popen(
        [*HPCSCI, *tiny.launch_arguments()], cwd=tiny.folder, stderr=subprocess.DEVNULL
    ) as launch:
        mark.open().close()  # waits until prepare.py is there
        yield launch
        prepare.write_text(text)
        processes.kill_trees(processes.naming(prepare))
        launch.kill()


def until_nobody_prepares(prepare: Path) -> None:
    """It dies with its launch, by the kernel's hand: a little later."""
    end = time.monotonic() + LIMIT_S
    while processes.naming(prepare):
        assert time.monotonic() < end, "prepare.py outlived its launch"
        time.sleep(0.02)


def staged(tiny: TinyCampaign) -> list[Path]:
    """Folders in which data are, or were, prepared."""
    roots = default_data_root(Settings()), default_private_root(Settings())
    return [folder for root in roots for folder in root.glob(".tiny-*")]


def leave_staged(target: Path) -> None:
    """Begin to prepare data in a process that ends before it has."""
    code = (
        "import sys, pathlib as p, hpcscientist.recipe.folder_copy as s; "
        "s.make_staging(p.Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-P", "-c", code, str(target)], check=True)
    assert list(target.parent.glob(f".{target.name}.*"))


def test_launch_that_was_killed_while_it_prepared_is_launched_again(
    tiny: TinyCampaign, preparing: subprocess.Popen[bytes]
) -> None:
    again = hpcsci(*tiny.launch_arguments(), cwd=tiny.folder)
    assert (again.returncode, "another launch" in again.stderr) == (2, True), again.stderr
    said = hpcsci("status", "run", cwd=tiny.folder)
    assert said.returncode == 1 and "being prepared" in said.stderr, said.stderr

    prepare = tiny.folder / "tiny" / "prepare.py"
    assert processes.naming(prepare)
    preparing.send_signal(signal.SIGKILL)
    preparing.wait(LIMIT_S)
    until_nobody_prepares(prepare)
    assert staged(tiny)
    for command in ("resume", "status", "results"):
        said = hpcsci(command, "run", cwd=tiny.folder)
        assert said.returncode == 1
        assert "killed" in said.stderr and "--run-dir" in said.stderr, said.stderr
    lines = [line for line in prepare.read_text().splitlines() if not line.startswith("open(")]
    prepare.write_text("\n".join(lines) + "\n")
    again = hpcsci(*tiny.launch_arguments(ideas=1), cwd=tiny.folder)
    assert again.returncode == 0, again.stderr
    assert not tiny.paths.launching.exists()
    assert staged(tiny) == []


@pytest.mark.parametrize("killed", [False, True])
def test_cancel_ends_a_launch_that_prepares(
    tiny: TinyCampaign, preparing: subprocess.Popen[bytes], killed: bool
) -> None:
    if killed:
        preparing.send_signal(signal.SIGKILL)
        preparing.wait(LIMIT_S)
    done = hpcsci("cancel", "run", cwd=tiny.folder)
    assert done.returncode == 0, done.stderr
    assert preparing.wait(LIMIT_S) != 0
    assert not tiny.paths.root.exists()
    until_nobody_prepares(tiny.folder / "tiny" / "prepare.py")
    assert staged(tiny) == []


def test_without_its_key_no_campaign_goes_on(tiny: TinyCampaign) -> None:
    died = tiny.drive("trial_ended:1:after", *tiny.launch_arguments())
    assert died.returncode < 0, died.stderr
    hpcsci("cancel", "run", cwd=tiny.folder)
    key = vault.path_of(f"keys/{frozen.read(tiny.paths).campaign_id}")
    kept = key.read_bytes()
    key.unlink()
    before = tiny.paths.journal.read_bytes()
    refused = hpcsci("resume", "run", cwd=tiny.folder)
    assert refused.returncode == 1
    assert re.search(rf"{key}: .*\bgone\b.*\bpaths\.private\b", refused.stderr)
    assert len(refused.stderr.splitlines()) == 1
    assert tiny.paths.journal.read_bytes() == before
    key.write_bytes(kept)
    leave_staged(default_data_root(Settings()) / "tiny-left")  # by who has died since
    assert hpcsci("resume", "run", cwd=tiny.folder).returncode == 0
    assert staged(tiny) == []


@pytest.mark.parametrize("name", ["a%jb", "a%tb", "100%"])
def test_a_path_that_is_a_pattern_is_refused_at_launch(
    tiny: TinyCampaign,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    arguments = [a if a != "run" else f"{name}/run" for a in tiny.launch_arguments()]
    before = sorted(tiny.folder.iterdir())
    monkeypatch.chdir(tiny.folder)
    for more in ([], ["--dry-run"]):
        refused, said = run([*arguments, *more]), capfd.readouterr().err
        assert refused == 2, said
        assert "%" in said and "--run-dir" in said
        assert len(said.splitlines()) == 1
    assert sorted(tiny.folder.iterdir()) == before


def test_a_run_directory_that_was_moved_below_a_pattern_is_refused(tiny: TinyCampaign) -> None:
    died = tiny.drive("trial_ended:1:after", *tiny.launch_arguments())
    assert died.returncode < 0, died.stderr
    hpcsci("cancel", "run", cwd=tiny.folder)
    tiny.paths.root.rename(tiny.folder / "run%j")
    refused = hpcsci("resume", "run%j", cwd=tiny.folder)
    assert refused.returncode == 2, refused.stderr
    assert "%" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_any_other_path_is_taken(tiny: TinyCampaign) -> None:
    name = "-x~#:,"
    run_dir = f"{name}/{{job_id}}{{0}}/a b'c\"d$HOME;e\\f/ünï/run"
    arguments = [a if a != "run" else run_dir for a in tiny.launch_arguments(ideas=1)]
    done = hpcsci(*arguments, cwd=tiny.folder)
    assert done.returncode == 0, done.stderr
    beside = {path.name for path in tiny.folder.iterdir()}
    assert beside == {"tiny", "executed", "hpcsci.toml", name} & beside | {name}
    assert hpcsci("status", f"./{run_dir}", cwd=tiny.folder).returncode == 0
