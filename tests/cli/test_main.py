from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hpcscientist.cli.main import COMMANDS, run

HEAVY = ("torch", "ray", "pyarrow", "sklearn", "scipy", "optuna", "submitit", "pydantic", "rich")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import json, sys\nfrom hpcscientist.cli.main import run\nrun(['--help'])\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert "click" in loaded
    assert not set(HEAVY) & set(loaded)


# What a campaign needs that runs, and nobody who only asks how far it is.
RUNNING = (
    *("submitit", "psutil", "asyncio", "sklearn", "scipy.stats", "optuna", "httpx", "jinja2"),
    *("numpy", "pyarrow", "rich"),
    *("hpcscientist.models.endpoint.client", "hpcscientist.campaign.trial_runner"),
)


@pytest.mark.parametrize(
    ("name", "needed"), [("status", ()), ("results", ("asyncio", "numpy", "pyarrow", "rich"))]
)
def test_to_look_at_a_campaign_imports_nothing_that_runs_one(
    name: str, needed: tuple[str, ...]
) -> None:
    unwanted = [module for module in RUNNING if module not in needed]
    code = (
        f"import sys, hpcscientist.cli.{name}\n"
        f"sys.exit(str([name for name in {unwanted!r} if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    listed = capsys.readouterr().out
    for name, (_, text) in COMMANDS.items():
        assert (f"  {name} " in listed) == bool(text), name  # without a text: not for people


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert "Usage: hpcsci" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("hpcsci, version ")


@pytest.mark.parametrize(
    ("arguments", "code"), [(["nothing"], 2), (["launch", "--wrong"], 2), (["recipe"], 2)]
)
def test_wrong_use_is_one_line(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", ["status", "results", "resume", "cancel", "launch --run-dir"])
def test_a_name_too_long_is_wrong_use(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "x" * 300]) == 2
    assert "too long" in capsys.readouterr().err


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    arguments = ["status", str(tmp_path)]
    code = f"from hpcscientist.cli.main import run; run(['--debug', *{arguments!r}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Traceback" in done.stderr
    assert "NoRunDirectory" in done.stderr


def test_config_show_names_origins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hpcsci.toml").write_text("ideas = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCSCI_SEED", "4")
    assert run(["config", "show", "--json"]) == 0
    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["ideas"]["value"], rows["seed"]["value"]) == (3, 4)
    assert rows["ideas"]["origin"].endswith("hpcsci.toml")
    assert rows["seed"]["origin"] == "variable HPCSCI_SEED"
    assert rows["loop.q"]["origin"] == "default"
    assert run(["config", "show"]) == 0
    assert "# default" in capsys.readouterr().out
