"""Whatever a user hands in: one line, exit code 2, and nothing half-written."""

from __future__ import annotations

import os
import stat
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from import_kit import RIDGE, write

from hpcscientist.cli.main import run
from hpcscientist.errors import RecipeError, UsageError
from hpcscientist.importers import registry
from hpcscientist.importers.draft import slug
from hpcscientist.importers.source import open_source
from hpcscientist.system import plugins

LOSS = "print('loss:', 1)\n"  # all that a script needs to be imported


def member(name: str, mode: int = 0, text: str = LOSS) -> tuple[zipfile.ZipInfo, str]:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info, text


def archive(path: Path, *members: tuple[zipfile.ZipInfo, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for info, text in members:
            opened.writestr(info, text)
    return path


def slip(room: Path) -> Path:
    return archive(room / "a.zip", member("../../evil.py"))


def absolute(room: Path) -> Path:
    return archive(room / "a.zip", member("/etc/evil.py"))


def backslash(room: Path) -> Path:
    return archive(room / "a.zip", member("..\\evil.py"))


def drive(room: Path) -> Path:
    return archive(room / "a.zip", member("C:evil.py"))


def twice(room: Path) -> Path:
    with pytest.warns(UserWarning, match="Duplicate"):
        return archive(room / "a.zip", member("a.py"), member("a.py"))


def bomb(room: Path) -> Path:
    """5 MiB of text in a few kB, whose size the archive denies."""
    path = archive(room / "a.zip", member("a.py", text=LOSS + "#" * (5 * 2**20 - len(LOSS))))
    data = path.read_bytes()
    path.write_bytes(data.replace((5 * 2**20).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    return path


def cut_short(room: Path) -> Path:
    path = archive(room / "a.zip", member("a.py", text=LOSS * 999))
    data = bytearray(path.read_bytes())
    data[40:60] = b"\xff" * 20
    path.write_bytes(data)
    return path


def link_in_archive(room: Path) -> Path:
    return archive(room / "a.zip", member("a.py", stat.S_IFLNK | 0o777))


def link_in_folder(room: Path) -> Path:
    folder = write(room / "f", {"x.txt": ""})
    (folder / "a.py").symlink_to("/etc/passwd")
    return folder


def pipe(room: Path) -> Path:
    os.mkfifo(room / "a.py")
    return room / "a.py"


def device(room: Path) -> Path:
    return Path("/dev/zero")


def missing(room: Path) -> Path:
    return room / "nowhere"


def empty(room: Path) -> Path:
    return write(room / "f", {".hidden.py": "print('loss:', 1)"})


def huge(room: Path) -> Path:
    with (room / "a.py").open("wb") as file:
        file.truncate(2**40)
    return room / "a.py"


def utf16(room: Path) -> Path:
    return write(room, {"a.py": "print('loss:', 1)".encode("utf-16")}) / "a.py"


def nul(room: Path) -> Path:
    return write(room, {"a.py": "print('loss:', 1)\0"}) / "a.py"


def deep(room: Path) -> Path:
    return write(room, {"a.py": "print('loss:', " + "(" * 10_000 + ")" * 10_000 + ")"}) / "a.py"


@pytest.mark.parametrize(
    "make",
    [
        *(slip, absolute, backslash, drive, twice, bomb, cut_short, link_in_archive),
        *(link_in_folder, pipe, device, missing, empty, huge, utf16, nul, deep),
    ],
)
def test_a_hostile_source_is_one_line_and_leaves_nothing(
    make: Callable[[Path], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "here").mkdir()
    source = make(tmp_path / "in")
    monkeypatch.chdir(tmp_path / "here")
    before = sorted(tmp_path.rglob("*"))
    for more in ([], ["--check"]):
        words = ["recipe", "import", "script", str(source), "--out", "made/a", *more]
        assert run(words) == 2
        said = capsys.readouterr().err.splitlines()
        assert said[-1].startswith("hpcsci: ")
        assert not any("Traceback" in line for line in said)
        assert sorted(tmp_path.rglob("*")) == before


TRAP = "import pathlib\npathlib.Path({!r}).touch()\n"


def test_code_that_runs_when_it_is_imported_is_never_imported(tmp_path: Path) -> None:
    trap = TRAP.format(str(tmp_path / "ran"))
    parts = {"run_0/final_info.json": '{"a": {"means": {"loss": 1.0}}}', "prompt.json": "{}"}
    code = trap + RIDGE.replace("--learning-rate", "--out_dir")
    write(tmp_path / "t", {**parts, "experiment.py": code, "plot.py": trap, "helper.py": trap})
    write(tmp_path / "t", {"prepare.py": trap, "conftest.py": trap, "sitecustomize.py": trap})
    made = ["--out", str(tmp_path / "made")]
    assert run(["recipe", "import", "ai-scientist", str(tmp_path / "t"), *made]) == 0
    assert run(["recipe", "check", str(tmp_path / "made")]) == 0
    assert not (tmp_path / "ran").exists()


def test_check_writes_nothing_and_says_line_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = write(tmp_path, {"a.py": RIDGE}) / "a.py"
    monkeypatch.chdir(tmp_path)
    assert run(["recipe", "import", "script", str(script), "--check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} == {"maps", "adapted", "warning"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]


def test_a_recipe_that_is_there_is_kept(tmp_path: Path) -> None:
    script = write(tmp_path, {"a.py": RIDGE, "made/mine.txt": "mine"}) / "a.py"
    assert run(["recipe", "import", "script", str(script), "--out", str(tmp_path / "made")]) == 2
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    "words", [["scrip"], ["script", "--level", "2"], ["harbor", "--metric", "x"]]
)
def test_what_an_importer_has_no_use_for_is_refused(words: list[str], tmp_path: Path) -> None:
    script = write(tmp_path, {"a.py": RIDGE}) / "a.py"
    assert run(["recipe", "import", words[0], str(script), *words[1:], "--check"]) == 2


def test_a_zip_of_a_folder_is_that_folder(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", member("task/a.py"), member("task/sub/b.txt"))
    source = open_source(path)
    assert sorted(source.sizes) == ["a.py", "sub/b.txt"]
    assert source.text("a.py") == LOSS
    with pytest.raises(RecipeError, match="missing"):
        source.data("c")


@pytest.mark.parametrize(
    ("text", "name"),
    [("My Task!", "my-task"), ("2d_diffusion", "task-2d-diffusion"), ("..", "task"), ("é", "task")],
)
def test_names_of_recipes(text: str, name: str) -> None:
    assert slug(text) == name


PACKAGE = """\
from hpcscientist.importers.draft import base_on
from hpcscientist.importers.request import Format
from hpcscientist.recipe.load import find

def read(request, draft):
    base_on(draft, find("digits"))
    draft.maps("all", request.source.text("task.txt"))

FORMAT = Format(name={name!r}, says="for a test", read=read)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Install a package that has an importer, which calls itself something."""

    def install(name: str) -> None:
        info, points = (
            "acme_tasks-1.2.dist-info",
            "[hpcscientist.importers]\nacme = acme_tasks:FORMAT\n",
        )
        write(
            tmp_path / "site",
            {
                "acme_tasks.py": PACKAGE.format(name=name),
                f"{info}/METADATA": "Metadata-Version: 2.1\nName: acme-tasks\nVersion: 1.2\n",
                f"{info}/entry_points.txt": points,
            },
        )
        monkeypatch.syspath_prepend(tmp_path / "site")
        plugins.load.cache_clear()

    yield install
    plugins.load.cache_clear()
    sys.modules.pop("acme_tasks", None)


def test_an_importer_of_another_package_is_found_by_its_entry_point(
    installed: Callable[[str], None], tmp_path: Path
) -> None:
    installed("acme")
    task = write(tmp_path / "in", {"task.txt": "theirs"})
    assert run(["recipe", "import", "acme", str(task), "--out", str(tmp_path / "made")]) == 0
    assert (tmp_path / "made" / "recipe.toml").is_file()


def test_one_that_is_no_format_is_its_packages_fault(installed: Callable[[str], None]) -> None:
    installed("other")
    with pytest.raises(UsageError, match=r"acme-tasks 1\.2"):
        registry.formats()
