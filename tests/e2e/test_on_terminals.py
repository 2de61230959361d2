"""`launch` and `watch` on a real terminal of 80 columns and 24 lines, by tmux."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from campaigns import HPCSCI

pytestmark = [pytest.mark.full, pytest.mark.e2e]
LIMIT_S = 300
LINE = re.compile(r"^\d+:\d\d \| \d+/4 ideas")


class Terminal:
    """A tmux of its own, with one window for each command."""

    def __init__(self, folder: Path) -> None:
        if not shutil.which("tmux"):
            pytest.skip("COULD NOT RUN: no tmux; `apt-get install tmux` installs it")
        self._folder, self._socket = folder, str(folder / "tmux")
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sleep 3600")

    def run(self, name: str, *arguments: str, **variables: str) -> None:
        """Run hpcsci in a window that stays as it is when the command has ended."""
        set_ = " ".join(f"{key}={shlex.quote(value)}" for key, value in variables.items())
        command = f"cd {shlex.quote(str(self._folder))}; env {set_} {shlex.join(HPCSCI)} "
        command += f"{shlex.join(arguments)}; echo ended=$?; sleep 3600"
        self._tmux("new-window", "-d", "-n", name, command)

    def screen(self, name: str, *, colours: bool = False) -> list[str]:
        """Return the lines of a window's screen."""
        escapes = ["-e"] if colours else []
        return self._tmux("capture-pane", "-p", *escapes, "-t", name).splitlines()

    def until(self, name: str, shows: Callable[[list[str]], bool]) -> list[str]:
        """Return the screen once it shows something."""
        until = time.monotonic() + LIMIT_S
        while not shows(lines := self.screen(name)):
            assert time.monotonic() < until, "\n".join(lines)
            time.sleep(0.2)
        return lines

    def close(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, *arguments]
        environment = os.environ | {"TERM": "screen", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


def test_one_line_is_drawn_anew_while_a_campaign_is_watched_beside(
    terminal: Terminal, tmp_path: Path
) -> None:
    terminal.run("launch", "launch", "--ideas", "4", "--run-dir", "run")
    first = terminal.until("launch", lambda lines: any(map(LINE.match, lines)))
    terminal.run("watch", "watch", "run", NO_COLOR="1")
    watched = terminal.until("watch", lambda lines: any("running" in line for line in lines))
    assert sum(bool(LINE.match(line)) for line in first) == 1
    assert LINE.match([line for line in first if line][-1])

    assert watched[0].split()[1] == "running"
    assert max(map(len, watched)) <= 80
    assert any(line.startswith("ideas    [") for line in watched)
    escapes = "".join(terminal.screen("watch", colours=True))
    assert not re.search(r"\x1b\[[0-9;]*(3[0-7]|4[0-7]|9[0-7])m", escapes), "a colour"

    # By the time ideas have ended, the line is another one, and still the only one.
    later = terminal.until(
        "launch", lambda lines: any(re.match(r"^\d+:\d\d \| [1-9]/4 ideas", n) for n in lines)
    )
    assert sum(bool(LINE.match(line)) for line in later) == 1

    done = terminal.until("launch", lambda lines: any("ended=" in line for line in lines))
    assert not any(map(LINE.match, done)), "the line is taken away at the end"
    assert any(line == "ended=0" for line in done)
    ended = terminal.until("watch", lambda lines: any("ended=" in line for line in lines))
    assert any("finished" in line for line in ended)
    assert any("4/4" in line for line in ended)


def test_ctrl_c_ends_the_watching_alone(terminal: Terminal, tmp_path: Path) -> None:
    terminal.run("launch", "launch", "--ideas", "3", "--run-dir", "run")
    terminal.until("launch", lambda lines: any(re.match(r"^\d+:\d\d \| ", n) for n in lines))
    terminal.run("watch", "watch", "run")
    terminal.until("watch", lambda lines: any("running" in line for line in lines))
    terminal._tmux("send-keys", "-t", "watch", "C-c")
    terminal.until("watch", lambda lines: "ended=0" in lines)
    terminal.until("launch", lambda lines: "ended=0" in lines)


def test_without_a_terminal_lines_are_plain_and_watch_prints_once(tmp_path: Path) -> None:
    launch = [*HPCSCI, "launch", "--ideas", "2", "--run-dir", "run"]
    done = subprocess.run(launch, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stderr + done.stdout
    assert "\r" not in done.stderr
    assert re.search(r"^\[ +\d+\.\d s, \d running\] idea-0001-a1-", done.stderr, re.MULTILINE)
    once = subprocess.run(
        [*HPCSCI, "watch", "run"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "\x1b" not in once.stdout
    assert "2/2" in once.stdout
