"""Runs the system's TeX within bounds on untrusted sources.

The engine runs without shell escape, reads and writes nothing outside its own folder and the
installed TeX, has no network if the kernel allows that (pdfTeX opens no socket anyway), and is
stopped at limits of time, memory and output.
"""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from hpcscientist.execution.bounds.supervise import (
    BoundedLog,
    Bounds,
    CommandEnd,
    Reason,
    RunPlace,
    supervise,
)
from hpcscientist.files.hashing import hash_file

ENGINE: Final = "pdflatex"
# The Debian package of each file that our LaTeX loads; other systems use similar names.
NEEDED: Final = {
    "article.cls": "texlive-latex-base",
    "hyperref.sty": "texlive-latex-base",
    "geometry.sty": "texlive-latex-base",
    "amssymb.sty": "texlive-latex-base",
    "microtype.sty": "texlive-latex-recommended",
    "booktabs.sty": "texlive-latex-recommended",
    "caption.sty": "texlive-latex-recommended",
    "xcolor.sty": "texlive-latex-recommended",
    "lmodern.sty": "lmodern",
    "lmr10.pfb": "lmodern",
}
INSTALL: Final = "apt-get install texlive-latex-recommended texlive-fonts-recommended lmodern"
_RUNS: Final = 4  # references that do not settle in four runs never will


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The limits of one run of the engine, in seconds and MiB."""

    seconds: float = 60.0
    memory_mb: int = 1024
    output_mb: int = 64


@dataclass(frozen=True, slots=True)
class Typeset:
    """The result of typesetting a document, in seconds and MiB.

    `log` is the log of the last run; `pdf` is None if the engine made none. `stopped` is the limit
    that ended the engine, or "". `passes` is the number of runs.
    """

    pdf: Path | None
    log: str
    stopped: str
    passes: int
    seconds: float
    peak_mb: float


def lacking() -> list[str]:
    """Return the packages that this machine lacks to make a PDF with LaTeX."""
    if shutil.which(ENGINE) is None or shutil.which("kpsewhich") is None:
        return ["texlive-latex-base"]
    return list(_lacking_packages())


@cache
def _lacking_packages() -> tuple[str, ...]:
    said = subprocess.run(
        ["kpsewhich", *NEEDED], capture_output=True, text=True, check=False, timeout=60
    ).stdout
    there = {Path(line).name for line in said.splitlines()}
    return tuple(dict.fromkeys(package for name, package in NEEDED.items() if name not in there))


def typeset(
    folder: Path,
    name: str,
    epoch: int,
    limits: EngineLimits | None = None,
    stop: threading.Event | None = None,
) -> Typeset:
    """Run the engine on `folder/name.tex` until references settle; byte-identical for one `epoch`.

    `epoch` is the document's date in seconds since 1970. Raises OSError if the engine cannot be
    started. Call it from the main thread, as `supervise` requires.
    """
    bounds, seconds, peak, log = limits or EngineLimits(), 0.0, 0.0, ""
    command = [
        *without_network(),
        ENGINE,
        "-no-shell-escape",
        "-interaction=nonstopmode",
        "-halt-on-error",
        "-file-line-error",
        f"{name}.tex",
    ]
    pdf, known, passes, stopped = folder / f"{name}.pdf", "", 0, ""
    while passes < _RUNS:
        passes += 1
        ended = _run(command, folder, epoch, bounds, stop or threading.Event())
        seconds, peak = seconds + ended.wall, max(peak, ended.peak_mb)
        log = _read_log(folder / f"{name}.log")
        stopped = "" if ended.reason is Reason.EXITED else ended.reason.value
        if ended.exit_code != 0 or stopped:
            pdf.unlink(missing_ok=True)
            break
        settled = _settled(folder, name)
        if settled == known:
            break
        known = settled
    made = pdf if pdf.is_file() and not pdf.is_symlink() else None
    return Typeset(made, log, stopped, passes, seconds, peak)


def environment(folder: Path, epoch: int) -> dict[str, str]:
    """Return the engine's environment; of the user's environment it has only PATH."""
    nowhere = str(folder / "nowhere")
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": nowhere,
        "TEXMFHOME": nowhere,
        "TEXMFVAR": nowhere,
        "TEXMFCONFIG": nowhere,
        "TEXINPUTS": ".:",
        # "p" (paranoid): no parent folders, no absolute paths, no hidden files.
        "openin_any": "p",
        "openout_any": "p",
        "shell_escape": "f",
        "MKTEXPK": "0",
        "MKTEXTFM": "0",
        "SOURCE_DATE_EPOCH": str(epoch),
        "FORCE_SOURCE_DATE": "1",
        "max_print_line": "1000",  # the default breaks messages in the middle of a name
        "LC_ALL": "C.UTF-8",
    }


def _run(
    command: Sequence[str], folder: Path, epoch: int, limits: EngineLimits, stop: threading.Event
) -> CommandEnd:
    bounds = Bounds(
        deadline_s=limits.seconds,
        memory_mb=limits.memory_mb,
        output_mb=limits.output_mb,
        watched=(folder,),
        processes=32,
        apart=True,
    )
    place = RunPlace(folder, environment(folder, epoch))
    return supervise(command, place, bounds, stop, BoundedLog(io.BytesIO()))


@cache
def without_network() -> tuple[str, ...]:
    """Return the command prefix that removes network access; () if the kernel forbids it."""
    for command in (("unshare", "--net"), ("unshare", "--user", "--map-current-user", "--net")):
        try:
            tried = subprocess.run([*command, "true"], capture_output=True, check=False, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if tried.returncode == 0:
            return (*command, "--")
    return ()


def _settled(folder: Path, name: str) -> str:
    """Return a hash of the files that the next run would read from this one."""
    files = (folder / f"{name}.{end}" for end in ("aux", "out", "toc"))
    return " ".join(hash_file(file) if file.is_file() else "-" for file in files)


def _read_log(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(8 * 2**20).decode("utf-8", "replace")
    except OSError:
        return ""


# Reports what this machine lacks to make papers, before a run starts.


EXTRA: Final = "pip install 'hpcscientist[papers]'"
_PACKAGES: Final = {
    "pymupdf": "PyMuPDF, so no PDF can be checked",
    "matplotlib": "matplotlib, so no figure can be drawn",
}


def missing_for_papers() -> tuple[str, ...]:
    """Return what is missing here to make a PDF, each item with its fix."""
    found = []
    if packages := lacking():
        found.append(f"TeX packages: {' '.join(packages)} ({INSTALL})")
    found += [
        f"{what} ({EXTRA})"
        for name, what in _PACKAGES.items()
        if importlib.util.find_spec(name) is None
    ]
    return tuple(found)


def can_preview() -> bool:
    """Return whether Typst is installed."""
    return importlib.util.find_spec("typst") is not None


def missing_statement() -> str:
    """Return what is missing in one line, or ""."""
    found = missing_for_papers()
    return f"no PDF can be made here: lacking are {'; '.join(found)}" if found else ""
