"""Which suites there are, what each needs, and which test belongs to which.

A test belongs to the first suite, in the order of `CLAIMS`, that claims it: by marker, by file, or
by both. Those that are not marked belong to the gate.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

# A test with one of these markers is none of the gate's; tests/conftest.py leaves them out there.
MARKERS = ("slurm", "apptainer", "serving", "browser", "tex", "full")


class UnknownSuite(Exception):
    """A name that is no suite's; the message says which there are."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A group of tests that use the same services.

    `needs`: of "packages" (what the cluster is made of, nothing started), "cluster", "image" (for
    containers), "engine" (vLLM's CPU build), "browser" (Chromium and what drives it), "tex" (TeX,
    Typst). `limit_s`: when a case that names no limit of its own is given up as hanging; several
    times what the slowest was measured to take. `alone`: it runs after the others, beside none.
    `minutes`: about what it takes; the longest begin first.
    """

    name: str
    holds: str
    needs: tuple[str, ...] = ()
    limit_s: int = 900
    alone: bool = False
    minutes: int = 5

    @property
    def has_cluster(self) -> bool:
        """Whether a cluster is brought up, by the suite or by its tests."""
        return bool({"cluster", "packages"} & set(self.needs))


SUITES = (
    Suite(
        "smoke",
        "what a newcomer does: up, a campaign, a node that dies under it, down",
        ("packages", "image"),
    ),
    Suite("cluster", "the development cluster: up, down, its own faults", ("packages",)),
    Suite(
        "slurm",
        "trials and campaigns under Slurm's faults; the same findings as locally",
        ("cluster", "image"),
        minutes=35,
    ),
    Suite("once", "drivers killed around sbatch: every trial exactly once", ("cluster",)),
    # Root's candidates run as `nobody`, and some fork until the kernel refuses: it counts the
    # processes of a user for the whole machine, another suite's candidates among them.
    Suite(
        "sandbox",
        "hostile candidates in the real container, here and on Slurm",
        ("cluster", "image"),
        alone=True,
    ),
    Suite("containers", "real containers on this machine", ("image",)),
    Suite("controller", "the driver as a job of its own, and following it", ("cluster",)),
    Suite("doctor", "hpcsci doctor on a real cluster", ("cluster", "image")),
    Suite(
        "serving",
        "vLLM's CPU engine and Ray, on the cluster and beside it",
        ("cluster", "image", "engine"),
        1800,
        minutes=50,
    ),
    Suite("browser", "the report in Debian's Chromium, from a file", ("browser",), minutes=5),
    Suite(
        "recipes",
        "`recipe check --run` at the full budget of every shipped recipe that needs torch",
        ("engine",),
        minutes=15,
    ),
    Suite(
        "real",
        "a campaign by a real open-weight model on vLLM's CPU engine",
        ("engine",),
        4 * 3600,
        minutes=120,
    ),
    Suite(
        "papers",
        "papers by a real TeX: limits, hostile text, the PDF's own digits",
        ("tex",),
    ),
    Suite(
        "long",
        "whole campaigns in processes of their own; every kind of kill",
        (),
        1800,
        minutes=45,
    ),
    Suite("soak", "a thousand ideas; thousands of hostile inputs", (), 1800, minutes=65),
    # They measure.
    Suite("benchmarks", "benchmarks on the cluster, small", ("cluster", "image"), 1800, alone=True),
)

# Suite, markers of which a test has one, files. First match wins: what is special stands first.
CLAIMS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("real", ("serving",), ("tests/real/*.py",)),
    ("recipes", ("serving",), ("tests/recipe/*.py",)),
    ("serving", ("serving",), ("*",)),
    ("smoke", ("slurm",), ("tests/slurm/test_smoke.py",)),
    ("cluster", MARKERS, ("tests/slurm/test_devcluster*.py",)),
    (
        "once",
        ("slurm",),
        ("tests/slurm/test_faults_driver.py", "tests/slurm/test_faults_campaign.py"),
    ),
    ("sandbox", MARKERS, ("tests/*/test_hostile_*.py",)),
    ("sandbox", ("apptainer",), ("tests/e2e/test_cheats_*.py",)),
    ("controller", MARKERS, ("tests/e2e/test_controller.py", "tests/e2e/test_following.py")),
    ("doctor", ("slurm",), ("tests/doctor/*.py",)),
    ("benchmarks", ("slurm", "full"), ("tests/bench/*.py",)),
    ("slurm", ("slurm",), ("*",)),
    ("containers", ("apptainer",), ("*",)),
    ("browser", ("browser",), ("*",)),
    ("papers", ("tex",), ("*",)),
    ("soak", ("full",), ("tests/e2e/test_long_sweep.py", "tests/hostile_inputs/test_*.py")),
    ("long", ("full",), ("*",)),
)


def suite_of(file: str, markers: Collection[str]) -> str | None:
    """Name the suite of a test, given its file from the repository's root; None: the gate's."""
    for name, wanted, files in CLAIMS:
        if set(wanted) & set(markers) and any(fnmatchcase(file, glob) for glob in files):
            return name
    return None


def chosen(names: Sequence[str]) -> tuple[Suite, ...]:
    """Return the suites of these names in their usual order; all for none. Raises UnknownSuite."""
    there = [suite.name for suite in SUITES]
    for name in names:
        if name not in there:
            raise UnknownSuite(f"no suite {name!r}: there are {', '.join(there)}")
    return tuple(suite for suite in SUITES if not names or suite.name in names)


def longest_first(suites: Sequence[Suite]) -> list[Suite]:
    """Return suites in the order in which side by side they end soonest."""
    return sorted(suites, key=lambda suite: -suite.minutes)


def listing() -> str:
    """Say what each suite holds, a line each."""
    return "\n".join(f"{suite.name:<12}{suite.holds}" for suite in SUITES)
