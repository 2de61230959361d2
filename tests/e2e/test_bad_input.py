"""Wrong use: one line on stderr that names the fix, the right exit code, nothing left.

What is refused before anything runs is asked for in this process, as `main` does: to start one for
each would only import the package again.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from campaigns import HPCSCI, TinyCampaign, hpcsci

from hpcscientist.cli.main import run

Refused = Callable[..., None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    TinyCampaign.prepare(tmp_path)
    return tmp_path


@pytest.fixture
def check_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Refused:
    def check(code: int, says: str, *arguments: str) -> None:
        before = sorted(folder.rglob("*"))
        monkeypatch.chdir(folder)
        returned = run(arguments)
        out, err = capfd.readouterr()
        assert (returned, out) == (code, ""), err
        assert len(err.splitlines()) == 1, err
        assert err.startswith("hpcsci: ")
        assert re.search(says, err)
        assert sorted(folder.rglob("*")) == before, "something half made was left"

    return check


@pytest.mark.e2e
def test_the_exit_code_is_that_of_the_process(folder: Path) -> None:
    done = hpcsci("launch", "--recipe", "digit", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hpcsci: ")
    assert "Traceback" not in done.stderr


TINY = ("launch", "--recipe", "./tiny", "--model", "playbook", "--allow-unsandboxed")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("launch", "--recipe", "digit"), 2, "digits"),
        (("launch", "--recipe", "./nowhere"), 2, "nowhere"),
        (("launch", "--recipe", "./tiny"), 2, "--model"),
        (("launch", "--recipe", "./tiny", "--model", "playbook"), 2, "--allow-unsandboxed"),
        (("launch", "--model", "gpt"), 2, "http://HOST:PORT/v1#NAME"),
        (("launch", "--model", "http://127.0.0.1:1/v1"), 2, "#NAME"),
        (("launch", "--model", "playbook:nowhere.jsonl"), 2, "nowhere.jsonl"),
        (
            ("launch", "--recipe", "./tiny", "--model", "vllm:/missing", "--allow-unsandboxed"),
            *(2, "/missing: "),
        ),
        ((*TINY, "--ideas", "0"), 2, "--ideas"),
        ((*TINY, "--ideas", "-3"), 2, "--ideas"),
        ((*TINY, "--ideas", "many"), 2, "--ideas"),
        ((*TINY, "--rounds", "-1"), 2, "--rounds"),
        ((*TINY, "--seed", "-1"), 2, "--seed"),
        ((*TINY, "--run-dir", "tiny"), 2, "--run-dir"),
        ((*TINY, "--run-dir", "tiny/recipe.toml"), 2, "--run-dir"),
        ((*TINY, "--run-dir", "/proc/run"), 1, "--run-dir"),
        (
            (*TINY, "--run-dir", "tiny/recipe.toml/run", "--dry-run"),
            2,
            "recipe.toml: is not a folder",
        ),
        ((*TINY, "--backend", "pbs"), 2, "--backend"),
        ((*TINY, "--site", "nowhere.toml"), 2, "slurm/sites"),
        ((*TINY, "--site", "tiny/recipe.toml"), 2, "tiny/recipe.toml: unknown key"),
        ((*TINY, "--account", "a b"), 2, "--account"),
        ((*TINY, "--image", "nowhere.sif"), 2, "--image"),
        (("resume", "tiny"), 2, "run directory"),
        (("status", "nowhere"), 2, "run directory"),
        (("results", "nowhere"), 2, "run directory"),
        (("cancel", "nowhere"), 2, "run directory"),
        (("resume", "tiny/recipe.toml"), 2, "run directory"),
        (("reproduce", "./tiny/recipe.toml"), 2, "run directory"),
        (("results", "tiny", "--format", "xml"), 2, "--format"),
        (("lanch",), 2, "lanch"),
        (("bench", "speed"), 2, "startup"),
        (("recipe", "new", "../evil"), 2, "evil"),
        (("recipe", "new", "tiny", "--into", "."), 2, "tiny"),
    ],
)
def test_wrong_use(
    check_refused: Refused, arguments: tuple[str, ...], code: int, says: str
) -> None:
    check_refused(code, says, *arguments)


def test_an_embedding_model_that_is_missing_is_wrong_use(
    folder: Path, check_refused: Refused
) -> None:
    with (folder / "hpcsci.toml").open("a") as file:
        file.write('\n[embedding]\nmodel = "./missing"\n')
    check_refused(2, r"/missing: .* embedding\.model\b", *TINY)


@pytest.mark.e2e
def test_a_working_directory_that_was_deleted(folder: Path) -> None:
    gone = folder / "gone"
    gone.mkdir()
    arguments = [*HPCSCI, "status", str(folder)]
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$0" "$@"', *arguments],
        cwd=gone,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("hpcsci: ")
    assert "working directory" in line


def test_malformed_toml_names_the_line(folder: Path, check_refused: Refused) -> None:
    recipe = folder / "tiny" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("seeds = 2", "seeds = = 2"))
    check_refused(2, "recipe.toml:2", *TINY)


def test_missing_metric(folder: Path, check_refused: Refused) -> None:
    recipe = folder / "tiny" / "recipe.toml"
    text = recipe.read_text()
    start, end = text.index("[[metrics]]"), text.index("[budgets.pilot]")
    recipe.write_text(text[:start] + text[end:])
    check_refused(2, "metrics", *TINY)


@pytest.mark.e2e
def test_reference_that_crashes_leaves_nothing(folder: Path) -> None:
    experiment = folder / "tiny" / "reference" / "experiment.py"
    experiment.write_text(experiment.read_text().replace("import random", "import rondom"))
    done = hpcsci(*TINY, "--run-dir", "run", cwd=folder)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "rondom" in last
    assert "--image" in last
    assert "recipe check" in last
    assert not (folder / "run").exists()
    checked = hpcsci("recipe", "check", "./tiny", "--run", cwd=folder)
    assert checked.returncode == 2
    assert "Traceback (most recent call last)" in checked.stderr, "the candidate's own traceback"
    assert "--image" in checked.stderr.splitlines()[-1]


@pytest.mark.e2e
def test_scorer_without_the_metric(folder: Path) -> None:
    scorer = folder / "tiny" / "score.py"
    scorer.write_text(scorer.read_text().replace('"accuracy"', '"accuracy"[::-1]'))
    done = hpcsci(*TINY, "--run-dir", "run", cwd=folder)
    assert done.returncode == 1
    assert "accuracy" in done.stderr.splitlines()[-1]
    assert not (folder / "run").exists()


def test_unreachable_endpoint(folder: Path, check_refused: Refused) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        (folder / "hpcsci.toml").write_text("[client]\nretries = 1\nbackoff_s = 0.01\n")
        model = f"http://127.0.0.1:{port}/v1#m"
        arguments = ("launch", "--recipe", "./tiny", "--allow-unsandboxed", "--model", model)
        check_refused(1, str(port), *arguments)


def test_unknown_configuration_key(folder: Path, check_refused: Refused) -> None:
    (folder / "hpcsci.toml").write_text("idaes = 3\n")
    check_refused(2, "'ideas'", *TINY)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere: /proc stands in for it")
def test_run_directory_without_permission(folder: Path, check_refused: Refused) -> None:
    (folder / "locked").mkdir(mode=0o500)
    check_refused(1, "locked", *TINY, "--run-dir", "locked/run")


@pytest.mark.e2e
def test_dry_run_touches_nothing(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    done = hpcsci(*TINY, "--dry-run", cwd=folder)
    assert done.returncode == 0
    assert "at most" in done.stderr
    assert sorted(folder.rglob("*")) == before
