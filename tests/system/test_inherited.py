"""What a process inherits that would keep it from doing its work: told, or undone."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from hpcscientist.cli.main import run
from hpcscientist.errors import UsageError
from hpcscientist.execution.trial_outcome import of_error
from hpcscientist.records.trial import MachineFailure
from hpcscientist.system.inherited import limit_met

NOBODY = 65534
STATUS = [sys.executable, "-c", "from hpcscientist.cli.main import main; main()", "status", "none"]
MIB = 2**20


def status(before: Callable[[], object], **variables: str) -> subprocess.CompletedProcess[str]:
    """Ask for the status of no campaign, after `before` in a child: one line, and exit code 2."""
    return subprocess.run(
        STATUS,
        env=os.environ | variables,
        preexec_fn=before,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )


def limited(kind: int, value: int) -> Callable[[], object]:
    return lambda: resource.setrlimit(kind, (value, value))


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (resource.RLIMIT_NOFILE, 12, "ulimit -n"),
        (resource.RLIMIT_NOFILE, 63, "ulimit -n"),
        (resource.RLIMIT_AS, 1023 * MIB, "ulimit -v"),
        (resource.RLIMIT_DATA, 200 * MIB, "ulimit -d"),
        (resource.RLIMIT_FSIZE, 4096, "ulimit -f"),
        (resource.RLIMIT_NOFILE, 64, "none: "),
        (resource.RLIMIT_AS, 1024 * MIB, "none: "),
        (resource.RLIMIT_FSIZE, MIB, "none: "),
    ],
)
def test_a_limit_that_leaves_too_little_is_named(kind: int, value: int, said: str) -> None:
    done = status(limited(kind, value))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


TASKS = """
import os, resource, sys
from hpcscientist.errors import UsageError
from hpcscientist.system import inherited

def limit(count):
    resource.setrlimit(resource.RLIMIT_NPROC, (count, 4000))

os.setresuid(*[int(sys.argv[1])] * 3)
limit(4000)
limit(int(4000 - inherited._tasks_left()) + int(sys.argv[2]))
try:
    inherited.adapt_to_limits()
except UsageError as error:
    print(error)
print(os.environ.get("OPENBLAS_NUM_THREADS", "many"))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become a user who has no other processes")
@pytest.mark.parametrize(
    ("left", "is_told", "threads"), [(2, True, "many"), (15, True, "many"), (16, False, "1")]
)
def test_a_user_who_may_start_hardly_any_process_is_told(
    left: int, is_told: bool, threads: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TASKS, str(NOBODY), str(left)],
        env={k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("ulimit -u" in done.stdout) == is_told
    assert done.stdout.split()[-1] == threads


def test_open_files_are_as_many_as_may_be() -> None:
    code = (
        "import resource as r\nfrom hpcscientist.system.inherited import adapt_to_limits\n"
        "adapt_to_limits(); print(r.getrlimit(r.RLIMIT_NOFILE))"
    )

    def low() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (70, 4000))

    done = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=low,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "(4000, 4000)"


def test_what_is_written_can_be_read_again(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\nfrom hpcscientist.system.inherited import adapt_to_limits\n"
        "adapt_to_limits(); Path('x').write_text(''); print(oct(Path('x').stat().st_mode & 0o777))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=lambda: os.umask(0o737),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.strip() == "0o640"


HEARD = """
import os, signal, subprocess, sys
from hpcscientist.system.inherited import reset_signals
reset_signals()
print(subprocess.run(["sh", "-c", "exit 3"]).returncode, flush=True)
os.kill(os.getpid(), signal.SIGHUP if len(sys.argv) > 1 else signal.SIGTERM)
print("lives")
"""


@pytest.mark.parametrize("how", ["ignored", "blocked"])
def test_a_request_to_end_and_the_ends_of_children_are_heard(how: str) -> None:
    def deafen() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() if how == "blocked" else ())
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", HEARD, *arguments],
            preexec_fn=deafen,
            capture_output=True,
            text=True,
            check=False,
        )

    ended, told_otherwise = run(), run("nohup stays nohup")
    assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, "3\n")
    assert (told_otherwise.returncode, told_otherwise.stdout) == (0, "3\nlives\n")


def test_commands_begin_with_signals_as_they_are_by_default() -> None:
    code = (
        "import signal\nfrom hpcscientist.cli import main\n"
        "numbers = (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP)\n"
        "main.run = lambda _: print(*(int(signal.getsignal(n)) for n in numbers)) or 0\n"
        "main.main()"
    )

    def deafen() -> None:
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    done = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=deafen, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "0", "1"]


def test_what_a_trial_could_not_do_for_a_limit_names_it() -> None:
    error = OSError(errno.EMFILE, os.strerror(errno.EMFILE), "scratch")
    outcome = of_error(error)
    assert outcome.failure is MachineFailure.SETUP
    assert outcome.detail == limit_met(error)


@pytest.mark.parametrize(
    ("error", "option"),
    [
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE), "x"), "-n"),
        (BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)), "processes"),
        (RuntimeError("can't start new thread"), "processes"),
        (ValueError("An IO error occurred: '... (os error 11)'"), "processes"),
        (ValueError("An IO error occurred: '... (os error 2)'"), ""),
        (MemoryError(), "memory"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "memory"),
        (ImportError("x.so: failed to map segment from shared object"), "memory"),
        (OSError(errno.EFBIG, "it is larger than 64 MiB", "x"), ""),
        (BlockingIOError(errno.EAGAIN, "write could not complete without blocking"), ""),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), ""),
        (RuntimeError("dictionary changed size"), ""),
        (OSError("no number"), ""),
    ],
)
def test_which_limit_an_error_met(error: Exception, option: str) -> None:
    said = limit_met(error)
    assert bool(said) == bool(option)
    assert option in said


def test_a_thread_that_found_no_memory_blames_that() -> None:
    code = (
        "import resource as r\nfrom hpcscientist.system.inherited import limit_met\n"
        f"r.setrlimit(r.RLIMIT_AS, ({1500 * MIB},) * 2)\n"
        'print(limit_met(RuntimeError("can\'t start new thread")))'
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "`ulimit -v` allows 1536000 KiB" in done.stdout


def test_a_limit_behind_another_error_is_what_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The file that could not be opened then is as good as any other."""
    group = click.Group()

    @group.command()
    def write() -> None:
        try:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "folder")
        except OSError as error:
            raise UsageError("folder: cannot be written; give another") from error

    assert run(["write"], group) == UsageError.exit_code
    assert "ulimit -n" in capsys.readouterr().err


def test_what_ran_into_a_limit_says_so(tmp_path: Path) -> None:
    """Where it was met while a command ran, wherever that was."""
    code = (
        "import resource, sys\nfrom pathlib import Path\nfrom hpcscientist.cli.main import run\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "sys.exit(run(['config']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "ulimit -n" in done.stderr
