"""Runs all checks of the doctor in order, on this machine or on a Slurm cluster."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcscientist import __version__
from hpcscientist.config.layers import default_data_root, default_private_root
from hpcscientist.config.partitions import of_controller
from hpcscientist.config.sbatch import cluster_of
from hpcscientist.config.settings import Settings, SlurmOverrides
from hpcscientist.doctor import model, places, slurm, storage
from hpcscientist.doctor.check import CheckState, DoctorCheck, graded, missing, ok, warning
from hpcscientist.doctor.compute import job, node
from hpcscientist.doctor.compute.job import MODULE
from hpcscientist.doctor.compute.probe import apptainer_version
from hpcscientist.doctor.compute.records import DoctorFolder, FileIdentity, NodeReport, NodeRequest
from hpcscientist.doctor.rehearse import place
from hpcscientist.errors import SchedulerError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.files.text import one_line
from hpcscientist.papers.typesetting import engine
from hpcscientist.records.site import Site

# The check of what papers need: TeX with its packages, plotting, and a PDF reader.


_NAME = "papers"


def check_papers() -> DoctorCheck:
    """Return the check of papers; campaigns run without any of this."""
    found = engine.missing_for_papers()
    preview = "Typst is installed" if engine.can_preview() else "Typst is not installed"
    if not found:
        return ok(_NAME, f"TeX, figures and PDF checks are available; for previews {preview}")
    told = f"`hpcsci paper` makes LaTeX and HTML here, but no PDF; for previews {preview}"
    return warning(_NAME, told, f"install what is missing: {'; '.join(found)}")


_COMMAND_S = 20.0
_LOCAL_S = 180.0


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """What to check. `run_dir` is where run directories would be, `wait_s` how long to wait for
    the job. `image` is a path that exists, or None.
    """

    settings: Settings
    site: Site
    run_dir: Path
    image: str | None
    gpus: int = 0
    wait_s: float = 120.0
    with_job: bool = True


def examine(options: DoctorOptions, say: Callable[[str], object]) -> Iterator[DoctorCheck]:
    """Yield the checks as they are made; `say` announces what takes long.

    Leaves no file and no job behind, even if it is interrupted.
    """
    yield ok(
        "hpcscientist",
        f"{__version__} with Python {'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})",
    )
    yield model.check(options.settings)
    yield check_papers()
    calls = Slurm(_COMMAND_S, cluster_of(options.site.slurm))
    there = calls.is_there()
    if there:
        yield from slurm.checks(calls, options.site)
    else:
        yield _no_slurm(options.settings)
    reports: list[NodeReport] = []
    try:
        with _folder(options.run_dir) as folder:
            yield from storage.checks(folder.root.parent, folder.root)
            if there:
                yield from _elsewhere(calls, options, folder, say, reports)
            else:
                yield from _here(options, folder, say, reports)
    except OSError as error:
        yield missing(
            "file system",
            f"{options.run_dir}: {error.strerror or error}",
            "give another --run-dir",
        )
    if model.served(options.settings):
        say("checking the model, and the interpreter that would serve it")
        where = _places(calls if there else None, options, reports)
        yield from model.checks(options.settings, options.site, where)


def _places(
    calls: Slurm | None, options: DoctorOptions, reports: Sequence[NodeReport]
) -> Sequence[places.ServingPlace]:
    """Return where models could be served: this machine, if no place on a cluster is known."""
    report = next(iter(reports), None)
    nodes, site = options.settings.nodes, options.site
    if calls is None:
        return [places.here(site)]
    job = [places.of_the_job(site, nodes, report)] if nodes else []
    try:
        found = slurm.parse(
            calls.run("scontrol", "show", "partition"),
            calls.run("sinfo", "--noheader", slurm.SINFO),
        )
    except SchedulerError:
        return job or [places.here(site)]  # `slurm.checks` reported the error
    wanted = of_controller(site).partition
    others = places.places_of(found, wanted, report, binding=not job)
    return [*job, *others] or [places.here(site)]


def _no_slurm(settings: Settings) -> DoctorCheck:
    wanted = settings.backend == "slurm" or settings.site or settings.slurm != SlurmOverrides()
    return graded(
        CheckState.MISSING if wanted else CheckState.WARNING,
        "slurm",
        "there is no sbatch on PATH: trials run on this machine (--backend local)",
        "load your site's Slurm module; on your own machine, nothing is needed",
    )


def _elsewhere(
    calls: Slurm,
    options: DoctorOptions,
    folder: DoctorFolder,
    say: Callable[[str], object],
    reports: list[NodeReport],
) -> Iterator[DoctorCheck]:
    """Examine a compute node by a job; add its report to `reports`."""
    version = apptainer_version()
    yield ok("apptainer here", version or "not on this machine; only compute nodes need it")
    if not options.with_job:
        yield warning("job", "not tried (--no-job): nodes were not checked", "leave --no-job out")
        return
    if not calls.answers():
        yield warning("job", "not tried: the controller does not answer", "try again later")
        return
    request = _request(options, folder)
    say(f"waiting for a compute node, at most {options.wait_s:g} s; Ctrl-C stops and cleans up")
    result = job.run(calls, options.site, folder, options.gpus, options.wait_s)
    if result.report is None:
        state = CheckState.MISSING if result.is_lacking else CheckState.WARNING
        yield graded(state, "job", result.said, result.mend)
        return
    report = result.report
    reports.append(report)
    yield ok("job", f"ran on {report.node}, {result.taken_s:.0f} s from sbatch to its report")
    yield from node.shared(report, result.hidden_s)
    yield from node.checks(report, request, report.node)


def _here(
    options: DoctorOptions,
    folder: DoctorFolder,
    say: Callable[[str], object],
    reports: list[NodeReport],
) -> Iterator[DoctorCheck]:
    """Examine this machine in a separate process, as a worker would run; see `_elsewhere`."""
    request = _request(options, folder)
    say("running a trial on this machine")
    command = [sys.executable, "-P", "-m", MODULE, str(folder.root)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LOCAL_S, check=False
        )
        report = NodeReport.model_validate_json(folder.report.read_bytes())
    except subprocess.TimeoutExpired:
        yield missing("trial", f"did not end within {_LOCAL_S:g} s", "see why this machine is slow")
        return
    except FileNotFoundError:
        said = one_line(done.stderr.strip().rpartition("\n")[2])
        yield missing("trial", f"could not be run: {said}", "fix that and try again")
        return
    reports.append(report)
    yield from node.checks(report, request, "this machine")


def _request(options: DoctorOptions, folder: DoctorFolder) -> NodeRequest:
    """Write the request for the node, and the files that it tests; return the request."""
    request = NodeRequest(
        host=options.site.host,
        image=options.image,
        gpus=options.gpus,
        shared=tuple(_shared(options.settings)),
    )
    folder.request.write_text(request.model_dump_json())
    folder.taken.write_text("")
    folder.labels.mkdir()
    return request


def _shared(settings: Settings) -> Iterator[FileIdentity]:
    """Yield the folders that workers need, or the nearest parent folder that exists."""
    roots = {
        "prepared data": default_data_root(settings),
        "labels": default_private_root(settings),
        "the interpreter": Path(sys.executable),
    }
    roots |= {f"the weights in {folder}": folder for folder in model.folders(settings)}
    for name, root in roots.items():
        yield place(name, next(p for p in (root, *root.parents) if p.exists()))


@contextmanager
def _folder(where: Path) -> Iterator[DoctorFolder]:
    """Create a temporary folder where run directories would be, and always remove it."""
    base = next(p for p in (where, *where.parents) if p.is_dir())
    root = base / f"doctor-{secrets.token_hex(4)}"
    root.mkdir(mode=0o755)
    try:
        yield DoctorFolder(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)
