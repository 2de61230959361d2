"""Turns a node's report into checks. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator

from hpcscientist import __version__
from hpcscientist.doctor.check import CheckState, DoctorCheck, graded, missing, ok, warning
from hpcscientist.doctor.compute.records import Inside, NodeReport, NodeRequest, Rehearsed
from hpcscientist.records.trial import IdeaFailed, MachineFailed

_ROOMY_MB = 1024
_IN_MEMORY = ("tmpfs", "ramfs")


def checks(report: NodeReport, request: NodeRequest, where: str) -> Iterator[DoctorCheck]:
    """Yield the checks from a node's report; `where` is the machine's name in the output."""
    yield graded(
        CheckState.OK if report.package == __version__ else CheckState.MISSING,
        "python",
        f"{where}: Python {report.python} with hpcscientist {report.package}, {report.cpus} CPUs "
        f"for us, {report.memory_mb / 1024:.1f} GiB",
        f"this machine has hpcscientist {__version__}: install the same there, or set python in "
        "the site profile's [slurm]",
    )
    yield _scratch(report)
    yield _gpus(report, request)
    yield from _apptainer(report, request)
    yield from _walls(report, request)


def shared(report: NodeReport, hidden_s: float) -> Iterator[DoctorCheck]:
    """Yield the checks that the node sees the same files as this machine."""
    yield graded(
        CheckState.OK if report.exclusive else CheckState.MISSING,
        "shared file system",
        f"{report.node} wrote a file that was seen here {max(0.0, hidden_s):.1f} s later "
        "(by two clocks)" + ("" if report.exclusive else "; it could create a file that existed"),
        "exclusive creation must hold between machines: give another --run-dir",
    )
    if report.unseen:
        yield missing(
            "folders",
            f"not the same on {report.node}: {', '.join(report.unseen)}",
            "set paths.data and paths.private to folders that nodes share",
        )
    else:
        yield ok("folders", f"{report.node} sees the same data and labels")


def _scratch(report: NodeReport) -> DoctorCheck:
    scratch = report.scratch
    if scratch.fault:
        return missing("scratch", scratch.fault, "set scratch in the site profile's [host]")
    in_memory = scratch.kind in _IN_MEMORY
    said = f"{scratch.path} ({scratch.kind}): {scratch.free_mb / 1024:.1f} GiB free"
    return graded(
        CheckState.WARNING if in_memory or scratch.free_mb < _ROOMY_MB else CheckState.OK,
        "scratch",
        said + (", in memory" if in_memory else ""),
        "set scratch in the site profile's [host] to a folder on the node's own disk",
    )


def _gpus(report: NodeReport, request: NodeRequest) -> DoctorCheck:
    found = ", ".join(report.gpus) or "none"
    if len(report.gpus) < request.gpus:
        return missing(
            "gpus",
            f"{request.gpus} requested, found: {found}",
            "set gres in the site profile's [slurm], or give another --partition",
        )
    asked = "" if request.gpus else " (none was requested: --gpus N)"
    return ok("gpus", found + ("" if report.gpus else asked))


def _apptainer(report: NodeReport, request: NodeRequest) -> Iterator[DoctorCheck]:
    mend = "load it with modules in the site profile's [slurm], or ask your administrators"
    if not report.apptainer:
        state = CheckState.WARNING if request.image is None else CheckState.MISSING
        found = "not installed: candidates have no sandbox, and code from models is refused"
        yield graded(state, "apptainer", found, mend)
        return
    yield ok("apptainer", report.apptainer)
    # An ordinary user's container needs both, unless Apptainer is installed set-user-ID. So what
    # is missing explains a failure, but only the container's start decides.
    started = _started(report, request)
    for name, there, lack in (
        ("user namespaces", report.namespaces, "an ordinary user cannot create one"),
        ("fuse", report.fuse, "/dev/fuse is not open to you"),
    ):
        yield graded(
            CheckState.OK if there or started else CheckState.WARNING,
            name,
            "open to you" if there else f"{lack}" + ("; not needed here" if started else ""),
            "ask your administrators; a set-user-ID Apptainer does not need it",
        )


def _started(report: NodeReport, request: NodeRequest) -> bool:
    return request.image is not None and any(r.inside is not None for r in report.rehearsals)


def _walls(report: NodeReport, request: NodeRequest) -> Iterator[DoctorCheck]:
    first = report.rehearsals[0]
    if request.image is None:
        yield _unboxed(first)
        return
    last = report.rehearsals[-1]
    if last.inside is None:
        yield missing(
            "container",
            f"{request.image}: {_why(first)}",
            "fix that, or give another --image; see containers/README.md",
        )
        return
    yield ok(
        "container",
        f"{request.image} ran a trial in {last.seconds:.1f} s, with Python {last.inside.python}",
    )
    yield _network(first, last, last.inside)
    yield from inside(last.inside)


def _unboxed(first: Rehearsed) -> DoctorCheck:
    if first.inside is None:
        return missing("trial", f"without a container: {_why(first)}", "fix that; see the message")
    return warning(
        "container",
        "not tried: a trial ran without one, NO SANDBOX",
        "give --image PATH; containers/README.md shows how to build one",
    )


def _network(first: Rehearsed, last: Rehearsed, found: Inside) -> DoctorCheck:
    others = [name for name in found.interfaces if name != "lo"]
    if first.inside is None:
        return missing(
            "network",
            f"containers start only with the network open: {_why(first)}",
            'ask for unprivileged network namespaces, or set network = "open" in the site '
            "profile's [host]: candidates then reach the network",
        )
    if not others and not found.reached:
        return ok("network", "cut: a candidate has only lo and reaches no port of its node")
    reached = ", ".join(f"{host}:{port}" for host, port in found.reached) or "no port of its node"
    return warning(
        "network",
        f"OPEN: a candidate has {', '.join(found.interfaces)} and reaches {reached}",
        'remove network = "open" from the site profile if Apptainer can cut it'
        if last.network == "open"
        else "the site's Apptainer does not cut it: ask your administrators",
    )


def inside(found: Inside) -> Iterator[DoctorCheck]:
    """Yield the checks of the sandbox's other walls."""
    seen = [*found.seen, *(f"the mount {target}" for target in found.mounts)]
    yield graded(
        CheckState.WARNING if seen else CheckState.OK,
        "host's folders",
        f"a candidate sees {', '.join(seen)}" if seen else "hidden from candidates",
        "check binds in the site profile's [host], and `bind path` in the site's apptainer.conf",
    )
    open_walls = [
        name
        for name, is_open in (
            ("the worker's environment", found.environment),
            ("the host's processes", found.processes),
        )
        if is_open
    ]
    yield graded(
        CheckState.WARNING if open_walls else CheckState.OK,
        "environment and processes",
        f"a candidate sees {' and '.join(open_walls)}" if open_walls else "hidden from candidates",
        "ask your administrators about process namespaces in apptainer.conf",
    )
    yield graded(
        CheckState.WARNING if found.is_root else CheckState.OK,
        "user",
        "a candidate is root in its container" if found.is_root else "a candidate is not root",
        "run campaigns as an ordinary user",
    )
    said = ", ".join(
        f"{name} {'unlimited' if value < 0 else value}"
        for name, value in sorted(found.limits.items())
    )
    yield ok(
        "limits", f"a candidate's hard limits: {said}; the worker limits time, memory and output"
    )


def _why(rehearsed: Rehearsed) -> str:
    outcome = rehearsed.outcome
    if isinstance(outcome, MachineFailed | IdeaFailed):
        return outcome.detail
    return "its candidate's report cannot be read"
