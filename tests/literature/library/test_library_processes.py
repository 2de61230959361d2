"""A reader that crashes, hangs or swells costs its source; signals end a build cleanly."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from library_kit import article, papers, titles, tree, write_abstracts, write_bib

from hpcscientist.config.layers import KEY_VARIABLES
from hpcscientist.errors import LibraryError
from hpcscientist.literature.library.build import BuildOptions, BuildReport, build
from hpcscientist.literature.library.processes.forks import READER
from hpcscientist.literature.library.processes.pool import SourceLimits

# Runs in every Python that is started with its folder on the path: what is opened by these names
# ends the process, stops it, or makes it grow, as a parser that is written in C can. What it holds
# then is bounded: whoever looks at it may come to look late.
TRAP = """
import os, signal, sys, time

def trap(event, arguments):
    if event != "open" or not isinstance(arguments[0], str):
        return
    name = os.path.basename(arguments[0])
    if name == "abort.bib":
        os.abort()
    elif name == "hang.bib":
        while True:
            time.sleep(3600)
    elif name == "swell.bib":
        held = b"x" * (600 << 20)
        while True:
            time.sleep(3600)
    elif name == "once.bib" and not os.path.exists(arguments[0] + ".mark"):
        os.close(os.open(arguments[0] + ".mark", os.O_CREAT))
        os.kill(os.getpid(), signal.SIGKILL)

if "hpcscientist.literature.library.processes.reader" in " ".join(sys.orig_argv):
    sys.addaudithook(trap)
"""


@pytest.fixture
def traps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "traps"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(TRAP)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def sources(folder: Path, *names: str) -> list[Path]:
    folder.mkdir()
    return [
        write_bib(folder / f"{name}.bib", {name: article(f"An article in a file of name {name}")})
        for name in names
    ]


def reasons(out: Path) -> dict[str, str]:
    lines = (out / "skipped.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return {Path(entry["origin"]).name: entry["reason"] for entry in found}


def build_with(given: list[Path], out: Path, jobs: int = 2, seconds: int = 300) -> BuildReport:
    limits = SourceLimits(seconds=seconds, memory_mb=400)
    return build(given, out, jobs=jobs, options=BuildOptions(limits=limits))


@pytest.mark.usefixtures("traps")
def test_source_that_kills_its_reader_costs_itself_alone(tmp_path: Path) -> None:
    given = sources(tmp_path / "in", "a", "abort", "b", "c", "swell", "d", "once")
    out = tmp_path / "library"
    report = build_with(given, out)
    assert report.papers == 5
    assert titles(out) == [
        f"An article in a file of name {n}" for n in ("a", "b", "c", "d", "once")
    ]
    told = reasons(out)
    assert set(told) == {"abort.bib", "swell.bib"}
    assert "SIGABRT" in told["abort.bib"]
    assert "400 MiB" in told["swell.bib"]
    # They are known, and not tried again before they change.
    assert build_with(given, out).read == 0


@pytest.mark.usefixtures("traps")
def test_source_at_which_a_reader_hangs_costs_itself_alone(tmp_path: Path) -> None:
    given, out = sources(tmp_path / "in", "a"), tmp_path / "library"
    build_with(given, out)  # known from here on: a slow machine may need long to read it
    given += sources(tmp_path / "more", "hang")
    assert build_with(given, out, seconds=5).papers == 1
    assert titles(out) == ["An article in a file of name a"]
    assert "nothing for 5 s" in reasons(out)["hang.bib"]


@pytest.mark.usefixtures("traps")
def test_what_one_process_loses_is_what_two_lose(tmp_path: Path) -> None:
    given = sources(tmp_path / "in", "abort", "a", "b")
    build_with(given, tmp_path / "one", jobs=1)
    build_with(given, tmp_path / "two", jobs=2)
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


# Whatever started the tests may ignore signals, and ignoring is inherited.
HEEDING = "import os, signal, sys; [signal.signal(n, signal.SIG_DFL) for n in (2, 15)]; "
HEEDING += "os.execv(sys.argv[1], sys.argv[1:])"


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_build_that_goes_on_later(tmp_path: Path, number: signal.Signals) -> None:
    source = write_abstracts(tmp_path / "a.jsonl", 12_000, words=3)
    out = tmp_path / "library"
    command = [sys.executable, "-m", "hpcscientist.cli.main", "library", "build", str(source)]
    command += ["--out", str(out), "--jobs", "1"]
    heeding = [sys.executable, "-c", HEEDING, *command]
    process = subprocess.Popen(heeding, stderr=subprocess.PIPE, text=True)
    first = out / "sources" / "commit-000001.jsonl"
    while not first.exists():
        assert process.poll() is None
    readers = psutil.Process(process.pid).children()
    os.kill(process.pid, number)
    _, error = process.communicate()
    assert process.returncode == 130, error
    last = error.splitlines()[-1]
    assert re.match(rf"hpcsci: .*\b{number.name}; .*\bkept; .*\bagain\b", last)
    assert not psutil.wait_procs(readers, timeout=300)[1]
    if number is signal.SIGTERM:
        report = build([source], out)
        assert (report.papers, len(papers(out))) == (12_000, 12_000)
        assert report.documents < 12_000


def test_reader_that_cannot_start_is_no_fault_of_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'hpcscientist.literature.library.processes.reader' in sys.orig_argv:\n    os._exit(3)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(LibraryError, match="exit code 3"):
        build(sources(tmp_path / "in", "a"), tmp_path / "library", jobs=1)
    monkeypatch.delenv("PYTHONPATH")
    assert build([tmp_path / "in"], tmp_path / "library", jobs=1).papers == 1


def test_names_that_are_no_unicode(tmp_path: Path) -> None:
    (source,) = sources(tmp_path / "in", "a")
    odd = source.with_name(os.fsdecode(b"caf\xe9.bib"))
    source.rename(odd)
    for jobs in (None, 1):
        report = build([tmp_path / "in"], tmp_path / f"library{jobs}", jobs=jobs)
        assert (report.papers, report.skipped) == (1, {})
        assert build([tmp_path / "in"], tmp_path / f"library{jobs}", jobs=jobs).unchanged == 1


@pytest.mark.parametrize("name", ["hostile.py", "hostile.tex"])
def test_what_could_take_this_process_along_is_not_read_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(TRAP.replace("abort.bib", name))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    given = sources(tmp_path / "in", "a")
    text = "\\documentclass{article}" if name.endswith("tex") else "x = 1"
    (tmp_path / "in" / name).write_text(text)
    report = build([tmp_path / "in"], tmp_path / "library", jobs=None)
    assert len(given) == report.papers == 1
    assert any("SIGABRT" in reason for reason in report.skipped), report.skipped


def test_readers_know_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "told.json"
    (tmp_path / "sitecustomize.py").write_text(
        "import json, os, sys\n"
        "if 'hpcscientist.literature.library.processes.reader' in sys.orig_argv:\n"
        f"    with open({str(told)!r}, 'w') as file:\n"
        "        json.dump(dict(os.environ), file)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for variable in (*KEY_VARIABLES, "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "MY_TOKEN"):
        monkeypatch.setenv(variable, "a secret")
    assert build(sources(tmp_path / "in", "a"), tmp_path / "library", jobs=1).papers == 1
    known = json.loads(told.read_text())
    assert known["PATH"] == os.environ["PATH"]
    assert "a secret" not in known.values()


def test_the_fork_server_begins_light() -> None:
    """It imports Arrow itself, without the NumPy that Arrow would bring."""
    code = f"import sys, {READER}; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-P", "-c", code], text=True).split()
    assert not {"numpy", "pyarrow", "pydantic"} & set(loaded)
