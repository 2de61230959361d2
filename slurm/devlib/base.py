"""What every part uses: names, commands, waiting, and failures that name their fix."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

USER = "researcher"  # unless HPCSCI_DEVCLUSTER_USER names another one
CONTROLLER = "ctl"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Failed(Exception):
    """Something did not work; the message is one line and names the fix."""


def require_root() -> None:
    """Raise Failed unless this process is root."""
    if os.geteuid() != 0:
        raise Failed("only root can make namespaces, cgroups and users: run it with sudo")


def say(text: str) -> None:
    """Tell what is being done, at once."""
    print(text, flush=True)


def run(
    argv: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    check: bool = True,
    timeout: float = 600,
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, its output kept. Raises Failed with the last line it said.

    `environment` replaces the caller's. Without `check`, exit status 124 says that the command
    did not end within `timeout` seconds.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            env=dict(os.environ if environment is None else environment),
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            cwd="/",
        )
    except FileNotFoundError:
        raise Failed(f"{words[0]} is not installed: slurm/devcluster install") from None
    except subprocess.TimeoutExpired:
        if not check:
            return subprocess.CompletedProcess(words, 124, "", f"no answer within {timeout:.0f} s")
        raise Failed(f"`{' '.join(words[:4])}` did not end within {timeout:.0f} s") from None
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise Failed(f"`{' '.join(words[:6])}` failed: {said[-1].strip()}")
    return done


def with_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's environment and more."""
    return dict(os.environ) | dict(variables)


def wait_until(ready: Callable[[], object], within_s: float = 60, pause_s: float = 0.05) -> bool:
    """Return True once `ready()` is true, False after `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True


def write(path: Path, text: str | bytes, mode: int = 0o644) -> None:
    """Write a file, whole or not at all."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    new.replace(path)
