"""What a machine lacks for papers is named with what brings it, by doctor and at launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.doctor import examine
from hpcscientist.doctor.check import CheckState
from hpcscientist.papers.typesetting import engine


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that is all of PATH, with a TeX that finds only what `files` there names."""
    monkeypatch.setenv("PATH", str(tmp_path))
    engine._lacking_packages.cache_clear()
    return tmp_path


def tex(folder: Path, *files: str) -> None:
    for name in ("pdflatex", "kpsewhich"):
        script = folder / name
        script.write_text("#!/bin/sh\n" + "".join(f"echo /texmf/{file}\n" for file in files))
        script.chmod(0o755)


def test_without_tex_its_base_is_lacking(found: Path) -> None:
    assert engine.lacking() == ["texlive-latex-base"]
    assert engine.INSTALL in engine.missing_statement()
    assert examine.check_papers().state is CheckState.WARNING
    assert engine.INSTALL in examine.check_papers().mend


def test_packages_are_named_by_the_files_that_are_not_there(found: Path) -> None:
    tex(found, *(name for name in engine.NEEDED if name not in ("lmodern.sty", "booktabs.sty")))
    assert sorted(engine.lacking()) == ["lmodern", "texlive-latex-recommended"]


def test_with_all_of_it_nothing_is_said(found: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("pymupdf")
    tex(found, *engine.NEEDED)
    assert (engine.lacking(), engine.missing_for_papers(), engine.missing_statement()) == (
        [],
        (),
        "",
    )
    assert examine.check_papers().state is CheckState.OK


def test_what_python_lacks_is_named_too(found: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tex(found, *engine.NEEDED)
    monkeypatch.setattr(engine, "_PACKAGES", {"no_such_package": "what it does"})
    assert engine.missing_for_papers() == (f"what it does ({engine.EXTRA})",)
