"""Papers from the quickstart's run directory by a real TeX: every digit traced, killed and resumed,
and each command of an appendix run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from campaigns import HPCSCI, hpcsci

from hpcscientist.papers.typesetting.engine import missing_for_papers

pytestmark = [pytest.mark.e2e, pytest.mark.tex]

PAPERS = ["campaign", "idea-0001", "idea-0005", "idea-0008", "idea-0013"]
NUMBER = re.compile(r"\d")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the first command's campaign, as `run`, with all of its papers."""
    if lacking := missing_for_papers():
        pytest.skip(f"NOT TESTED, papers by a real TeX: lacking are {'; '.join(lacking)}")
    folder = tmp_path_factory.mktemp("papers")
    earlier = os.environ.get("HPCTEST_QUICKSTART")
    if earlier:
        shutil.copytree(Path(earlier) / "run", folder / "run", symlinks=True)
        shutil.rmtree(folder / "run" / "papers", ignore_errors=True)
    else:
        done = hpcsci("launch", "--ideas", "16", "--run-dir", "run", cwd=folder)
        assert done.returncode == 0, done.stderr
    done = hpcsci("paper", "run", cwd=folder)
    (folder / "said").write_text(done.stdout + done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return folder


def test_there_is_a_paper_of_each_claim_and_of_the_campaign(made: Path) -> None:
    papers = made / "run" / "papers"
    assert sorted(p.name for p in papers.iterdir() if p.is_dir()) == PAPERS
    said = (made / "said").read_text()
    assert said.count("coverage: 100 %") == len(PAPERS)
    assert "defect:" not in said
    assert said.count(" MB, TeX took ") == len(PAPERS)


@pytest.mark.parametrize("name", PAPERS)
def test_the_engine_complains_of_nothing(name: str, made: Path) -> None:
    log = (made / "run" / "papers" / name / "source" / "paper.log").read_text(errors="replace")
    assert re.findall(r"Warning|Overfull|Underfull \\vbox|Missing character|undefined", log) == []


@pytest.mark.parametrize("name", PAPERS)
def test_check_holds(name: str, made: Path) -> None:
    done = hpcsci("paper", "--check", f"run/papers/{name}", "--json", cwd=made)
    found = json.loads(done.stdout)
    assert (done.returncode, found["sound"], found["coverage"]) == (0, True, 1.0)
    assert found["links"] >= found["numbers"] > 10


@pytest.mark.parametrize("name", PAPERS)
def test_pdftotext_finds_no_digit_that_the_trace_does_not_explain(name: str, made: Path) -> None:
    """By another program than the gate's, from words alone: all that may be printed is known."""
    folder = made / "run" / "papers" / name
    raw = subprocess.run(
        ["pdftotext", "-layout", folder / "paper.pdf", "-"], capture_output=True, check=True
    ).stdout.decode()
    body = raw.partition("How to run it again")[0]
    done = hpcsci("paper", "--trace", folder, "--json", cwd=made)
    allowed = {_squeezed(row["text"]) for row in json.loads(done.stdout)}
    facts = json.loads((folder / "facts.json").read_text())
    allowed |= {*facts["names"], *(idea["idea_id"] for idea in facts["ideas"])}
    allowed |= {str(number) for number in range(1, 12)}  # pages, headings, figures, citations
    text, _, references = body.partition("References\n")
    # What stands on an axis or in a label is the figure's own.
    drawn = "".join(_words(path) for path in (folder / "figures").glob("*.pdf"))
    bib = (folder / "references.bib").read_text()
    for word in filter(NUMBER.search, text.split()):
        bare = _squeezed(word).strip("[](),.;:%")
        assert (
            bare in allowed
            or any(bare in value for value in allowed)
            or bare in drawn
            or bare.removesuffix(":") in allowed
        ), word
    for word in filter(NUMBER.search, references.split()):
        bare = word.strip("[](),.;:").rpartition(":")[2]
        assert bare.isdecimal() or bare.replace("_", r"\_") in bib, word


def _squeezed(text: str) -> str:
    return (
        re.sub(r"e(-?\d+)$", r"×10\1", "".join(text.split())).replace("-", "−", 1)
        if (re.search(r"\de-?\d+$", text))
        else "".join(text.split())
    )


def _words(path: Path) -> str:
    done = subprocess.run(["pdftotext", path, "-"], capture_output=True, check=True)
    return " ".join(done.stdout.decode().split())


def test_a_paper_that_was_killed_goes_on_to_the_same_bytes(made: Path, tmp_path: Path) -> None:
    arguments = ["paper", "run", "--idea", "idea-0013", "--out", str(tmp_path / "again")]
    chat = tmp_path / "again" / "idea-0013" / "chat.jsonl"
    process = subprocess.Popen(
        [*HPCSCI, *arguments], cwd=made, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and not (chat.exists() and chat.read_bytes().count(b"\n") > 5):
        time.sleep(0.01)
    process.kill()
    process.wait()
    before = chat.read_bytes()
    done = hpcsci(*arguments, cwd=made)
    assert done.returncode == 0, done.stdout
    assert chat.read_bytes().startswith(before.rpartition(b"\n")[0])
    hashes = {
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (
            tmp_path / "again" / "idea-0013" / "paper.pdf",
            made / "run" / "papers" / "idea-0013" / "paper.pdf",
        )
    }
    assert len(hashes) == 1


@pytest.mark.parametrize("name", ["idea-0013", "campaign"])
def test_each_command_of_the_appendix_runs(name: str, made: Path, tmp_path: Path) -> None:
    folder = made / "run" / "papers" / name
    page = (folder / "REPRODUCE.md").read_text()
    commands = re.findall(r"```sh\n(.*?)\n```", page, re.DOTALL)
    assert len(commands) >= 6
    places = {"DIR": shlex.quote(str(made / "run")), "PAPER": shlex.quote(str(folder))}
    if name == "campaign":  # what takes minutes is the same as of the other papers
        slow = ("hpcsci reproduce", "hpcsci launch")
        commands = [command for command in commands if not command.startswith(slow)]
    before = (folder / "paper.pdf").read_bytes()
    for command in commands:
        here = re.sub(r"\b(DIR|PAPER)\b", lambda found: places[found[1]], command)
        program = shlex.quote(str(Path(sys.executable).parent / "hpcsci"))
        here = re.sub(r"^hpcsci\b", program, here)
        done = subprocess.run(
            ["bash", "-c", here], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (here, done.stdout[-800:], done.stderr[-800:])
    assert (folder / "source" / "paper.pdf").read_bytes() == before


def test_a_changed_result_is_named_with_its_number_and_trial(made: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(made / "run", run, symlinks=True)
    victim = run / "trials" / "idea-0013-a1-confirm-1" / "result.arrow"
    other = run / "trials" / "idea-0001-a1-confirm-1" / "result.arrow"
    shutil.copyfile(other, victim)
    done = hpcsci("paper", "--check", run / "papers" / "idea-0013", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (done.returncode, found["sound"]) == (1, False)
    told = " ".join(f"{d['code']} {d['found']} {d['fix']}" for d in found["defects"])
    assert "changed_evidence" in told
    assert "idea-0013.test.accuracy" in told
    assert "idea-0013-a1-confirm-1" in told


def test_a_changed_pdf_does_not_hold(made: Path, tmp_path: Path) -> None:
    """Another paper's PDF in the place of this one's."""
    run = tmp_path / "run"
    shutil.copytree(made / "run", run, symlinks=True)
    papers = run / "papers"
    shutil.copyfile(papers / "idea-0001" / "paper.pdf", papers / "idea-0013" / "paper.pdf")
    done = hpcsci("paper", "--check", papers / "idea-0013", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert {d["code"] for d in json.loads(done.stdout)["defects"]} >= {"link_text"}


@pytest.mark.parametrize("venue", ["neurips-like", "iclr-like"])
def test_other_venues_hold_too(venue: str, made: Path, tmp_path: Path) -> None:
    arguments = ("--idea", "idea-0001", "--venue", venue, "--out", tmp_path / "papers")
    done = hpcsci("paper", "run", *arguments, cwd=made)
    assert "coverage: 100 %" in done.stdout, done.stdout + done.stderr[-1500:]
    assert done.returncode == 0
    held = hpcsci("paper", "run", "--check", tmp_path / "papers" / "idea-0001", cwd=made)
    assert held.returncode == 0, held.stdout
