"""Candidates that kill, stop or trace whoever runs them, beside a good idea.

Each campaign runs in a namespace of process ids of its own, so that a candidate reaches nobody
else of this machine: once where it is set apart, as the kernel allows, and once where the kernel
refuses that, so that the candidate does reach its worker, and the driver.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from campaigns import HPCSCI, LIMIT_S, PLAIN, TinyCampaign
from cheats import adding
from tiny_recipe import RATE, edit, idea, propose

from hpcscientist.history import journal
from hpcscientist.records.events import TrialEnded, TrialStarted

pytestmark = [pytest.mark.e2e, pytest.mark.full]

DEADLINE_S = 6.0  # of a pilot
DRIVERS = 6  # an attack may end one driver after another, but not for ever

# Who runs it, by what they were started as: workers, and their guards, which are forked.
OTHERS = """
import ctypes, os, signal, time
def theirs():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = open(f"/proc/{pid}/cmdline", "rb").read()
        except OSError:
            continue
        if b'hpcscientist.worker' in line and int(pid) != os.getpid():
            yield int(pid)
segment = ctypes.CDLL(None).shmget(0x4711, 4096, 0o1600)
open("/dev/shm/left-behind", "w").write("x")
"""
LINGER = "while True: time.sleep(60)\n"
ATTACKS = {
    "kills all": "try: os.kill(-1, signal.SIGKILL)\nexcept OSError: pass\n",
    "kills workers": "for pid in theirs(): os.kill(pid, signal.SIGKILL)\n",
    "asks workers to end": "for pid in theirs(): os.kill(pid, signal.SIGTERM)\n",
    "stops workers": "for pid in theirs(): os.kill(pid, signal.SIGSTOP)\n",
    "traces workers": "for pid in theirs(): ctypes.CDLL(None).ptrace(16, pid, 0, 0)\n",
}

# The first process of the namespace. What it leaves of its children's ends with it.
FIRST = """
mount -t tmpfs tmpfs /dev/shm || exit 99
[ "$1" = apart ] || echo 0 > /proc/sys/user/max_pid_namespaces || exit 99
shift
"$@"
code=$?
{ grep -la HPCSCI_TRIAL /proc/[0-9]*/environ; ls /dev/shm; tail -n +2 /proc/sysvipc/shm; } \
    2>/dev/null >left
exit $code
"""
NAMESPACE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--ipc"]


@dataclass(frozen=True)
class Attacked:
    """A campaign of a good idea and one that attacks, each as wide awake as the other."""

    tiny: TinyCampaign
    apart: bool

    @classmethod
    def prepare(cls, folder: Path, attack: str, apart: bool) -> Attacked:
        campaign = cls(TinyCampaign.prepare(folder), apart)
        playbook = [
            propose(1, "Fewer slips", "Lower the share of wrong answers to almost nothing at all."),
            idea(
                *(1, "code"),
                {
                    "note": "x",
                    "edits": [*edit(RATE, "import time\ntime.sleep(1)\nERROR_RATE = 0.01")],
                },
            ),
            propose(2, "Evil", "Reach beyond what one was given to whoever gave it."),
            adding(2, OTHERS + attack + LINGER),
        ]
        recipe = folder / "tiny"
        lines = "".join(json.dumps(entry) + "\n" for entry in playbook)
        (recipe / "playbook.jsonl").write_text(lines)
        spec = recipe / "recipe.toml"
        spec.write_text(
            spec.read_text().replace(
                "[budgets.pilot]\nseconds = 20.0", f"[budgets.pilot]\nseconds = {DEADLINE_S}"
            )
        )
        settings = f"{PLAIN}hopeless = 0.0\n[local]\nslots = 2\n[loop]\nconfirm = false\n"
        (folder / "hpcsci.toml").write_text(settings)
        (folder / "scratch").mkdir()
        return campaign

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        mode = "apart" if self.apart else "among all"
        return subprocess.run(
            [*NAMESPACE, "sh", "-c", FIRST, "sh", mode, *HPCSCI, *arguments],
            cwd=self.tiny.folder,
            env={**os.environ, "TMPDIR": str(self.tiny.folder / "scratch")},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def run_to_its_end(self) -> int:
        """Launch, and resume after each driver that was killed; return how many were."""
        killed, arguments = 0, self.tiny.launch_arguments(2)
        while True:
            done = self.run(*arguments)
            if done.returncode == 99:
                pytest.skip(f"NOT TESTED: no namespaces on this machine: {done.stderr}")
            if done.returncode not in (137, -9):
                assert done.returncode == 0, done.stderr
                return killed
            killed, arguments = killed + 1, ["resume", "run"]
            assert killed <= DRIVERS, "its drivers are lost for ever"

    def longest_s(self) -> float:
        """The longest that any run of the attacker's trials took, seconds."""
        begun: dict[str, float] = {}
        longest = 0.0
        for line in journal.read_lines(self.tiny.paths.journal):
            if isinstance(line.event, TrialStarted):
                begun[line.event.trial_id] = line.t
            elif isinstance(line.event, TrialEnded) and line.event.idea_id == "idea-0002":
                # A driver that was killed at once did not record the start.
                longest = max(longest, line.t - begun.get(line.event.report.trial_id, line.t))
        return longest


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "among all"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_idea_is_blamed_and_the_good_one_is_scored(
    tmp_path: Path, attack: str, apart: bool
) -> None:
    campaign = Attacked.prepare(tmp_path, ATTACKS[attack], apart)
    killed = campaign.run_to_its_end()
    _, good, bad = campaign.tiny.findings()
    assert (good["title"], good["status"]) == ("Fewer slips", "scored")
    assert (bad["title"], bad["status"]) == ("Evil", "failed")
    if apart:
        assert bad["reason"].startswith("timeout"), bad["reason"]
        assert killed == 0
    else:
        assert bad["reason"].startswith("worker_lost"), bad["reason"]
        assert killed == (2 if attack == "kills all" else 0)
    print(
        f"{attack}: {killed} drivers lost, longest run {campaign.longest_s():.1f} s", bad["reason"]
    )
    left = (tmp_path / "left").read_text().split("\n")
    if apart:
        assert left == [""], "a process or shared memory is left"
    else:  # named shared memory is any user's to leave, where nothing sets it apart
        assert [line for line in left if "environ" in line] == []
    assert list((tmp_path / "scratch").glob("hpcsci-*")) == []
    assert not any(campaign.tiny.paths.submission.glob("*"))
