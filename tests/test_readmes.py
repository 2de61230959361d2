"""Tests that every command of every README runs as written.

A README's shell blocks are one script, run in the root of a clone with the package in .venv. A
block that begins with a comment `# needs …` is not run here; only its commands are parsed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from hpcscientist.cli.main import cli
from hpcscientist.recipe.create import create

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "",
    "recipes",
    "containers",
    "slurm",
    "slurm/sites",
    "slurm/ondemand",
    "scratch",
    "tests",
    "hpcscientist",
)
READMES = sorted(
    {path for name in FOLDERS for path in (ROOT / name).glob("README.md")}
    | set((ROOT / "hpcscientist").rglob("README.md"))
)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)")
COMMANDS = re.compile(r"(?:^|&& *|=\S* +|\| *)((?:\S*/)?hpcsci +[^|&>#\n]*)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    line: int
    text: str

    @property
    def is_run(self) -> bool:
        return not self.text.startswith("# needs ")


def blocks(readme: Path) -> list[Block]:
    text = readme.read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, found.start()) + 2, found[2])
        for found in BLOCK.finditer(text)
        if found[1] == "sh"
    ]


def commands(readme: Path) -> list[tuple[int, str]]:
    found = []
    for block in blocks(readme):
        for number, line in enumerate(block.text.splitlines(), block.line):
            found += [(number, words.strip()) for words in COMMANDS.findall(line)]
    return found


def refused(arguments: list[str]) -> str:
    """Return why the command line rejects a command, "" if it accepts it. Nothing is run."""
    command: click.Command = cli
    context = click.Context(cli, info_name="hpcsci")
    try:
        while isinstance(command, click.Group):
            name, found, arguments = command.resolve_command(context, arguments)
            assert found is not None
            command = found
            if not isinstance(command, click.Group):
                command.make_context(name, arguments, parent=context)
    except (click.ClickException, IndexError) as error:
        return str(error)
    return ""


def name_of(readme: Path) -> str:
    return str(readme.relative_to(ROOT))


@pytest.mark.parametrize("readme", READMES, ids=name_of)
def test_every_command_is_one_and_has_its_options(readme: Path) -> None:
    for line, words in commands(readme):
        program, *arguments = shlex.split(words)
        where = f"{name_of(readme)}:{line}: {words}"
        assert "..." not in arguments and "…" not in arguments, f"{where}: not as one writes it"
        assert program in (".venv/bin/hpcsci", "venv/bin/hpcsci"), f"{where}: found on no PATH"
        assert refused(arguments) == "", where


@pytest.mark.parametrize("readme", READMES, ids=name_of)
def test_every_link_leads_somewhere(readme: Path) -> None:
    for place, anchor in LINK.findall(readme.read_text(encoding="utf-8")):
        target = readme.parent / place if place else readme
        assert target.exists(), place
        if anchor:
            heads = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            known = {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in heads}
            assert anchor in known, f"{place}#{anchor}"


def test_a_command_that_is_none_would_be_found() -> None:
    assert "No such option" in refused(["launch", "--idea", "3"])
    assert "No such command" in refused(["lunch"])
    assert refused(["recipe", "new", "x", "--into", "y"]) == ""
    assert len(commands(ROOT / "README.md")) > 20


@pytest.mark.parametrize("readme", READMES, ids=name_of)
def test_what_installs_or_asks_a_scheduler_says_what_it_needs(readme: Path) -> None:
    for block in blocks(readme):
        needs = re.search(
            r"\b(pip install|apptainer|devcluster|--site|hf download|python tests)\b", block.text
        )
        assert not (needs and block.is_run and "sites" not in block.text), (
            f"{name_of(readme)}:{block.line}: begin with a comment `# needs …`"
        )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return what a user has after the first command: a clone, and a campaign in scratch/.

    Beside it lies a script of theirs, which README imports.
    """
    (tmp_path / "train.py").write_text('print("accuracy:", 0.5)\n')
    for name in ("recipes", "slurm/sites", "containers", "scratch"):
        kept = shutil.ignore_patterns("__pycache__", "*-2*")  # campaigns of this checkout
        shutil.copytree(ROOT / name, tmp_path / name, ignore=kept)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, code in (
        ("hpcsci", "-c 'from hpcscientist.cli.main import main; main()'"),
        ("python", ""),
    ):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {code} "$@"\n')
        (programs / name).chmod(0o755)
    return tmp_path


def run(script: str, clone: Path) -> None:
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.full
@pytest.mark.e2e
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "readme", [r for r in READMES if any(b.is_run for b in blocks(r))], ids=name_of
)
def test_commands_run_as_written(readme: Path, clone: Path) -> None:
    first = ".venv/bin/hpcsci launch --ideas 16"
    assert f"&& {first}\n" in (ROOT / "README.md").read_text()
    script = "\n".join(block.text for block in blocks(readme) if block.is_run)
    if "$(ls -d scratch/" in script:
        script = f"{first}\n{script}"
    run(script, clone)


@pytest.mark.full
@pytest.mark.e2e
def test_commands_of_a_new_recipe_run_as_written(clone: Path) -> None:
    run(".venv/bin/hpcsci recipe new mytopic", clone)
    readme = clone / "recipes" / "mytopic" / "README.md"
    (block,) = blocks(readme)
    run(block.text, clone)


def test_a_new_recipe_names_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for into, word in ((Path("a b"), "'a b/topic'"), (Path(), "./topic")):
        (block,) = blocks(create("topic", into) / "README.md")
        assert f"recipe check {word} --run" in block.text
        for _, words in commands(into / "topic" / "README.md"):
            assert refused(shlex.split(words)[1:]) == ""
