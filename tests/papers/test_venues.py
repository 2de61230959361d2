"""Venues as data: those that come along, and a user's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.errors import UsageError
from hpcscientist.papers import venue

MINIMAL = """title = "Mine"
pages = 4
width_in = 5.0
[[sections]]
id = "all"
title = "Everything"
"""
MACROS = "\\hpcTitle\\hpcAuthors\\hpcAbstract\\hpcBody\\hpcReferences\\hpcAppendix"
TEMPLATE = f"\\begin{{document}}{MACROS}\\end{{document}}"


def own(folder: Path, description: str = MINIMAL, template: str = TEMPLATE) -> Path:
    folder.mkdir()
    (folder / "venue.toml").write_text(description)
    (folder / "paper.tex").write_text(template)
    return folder


@pytest.mark.parametrize("name", venue.names())
def test_each_venue_that_comes_along_can_be_read(name: str, tmp_path: Path) -> None:
    found = venue.load(name, tmp_path)
    assert found.name == name
    ids = [section.id for section in found.sections]
    assert {"introduction", "related-work", "method", "results", "limitations"} <= set(ids)
    assert found.pages > 0


def test_the_default_is_there() -> None:
    assert venue.DEFAULT in venue.names()


def test_a_users_folder_brings_its_class(tmp_path: Path) -> None:
    folder = own(tmp_path / "mine")
    (folder / "mine.cls").write_text("% a class")
    (folder / ".hidden").write_text("no")
    (folder / "link.sty").symlink_to("/etc/passwd")
    found = venue.load("mine", tmp_path)
    assert (found.name, found.pages, list(found.files)) == ("mine", 4, ["mine.cls"])


@pytest.mark.parametrize(
    ("description", "template"),
    [
        (MINIMAL.replace("pages = 4", "pages = -1"), TEMPLATE),
        (MINIMAL.replace("Everything", "All 3"), TEMPLATE),
        (MINIMAL.replace("Everything", "All Ⅲ"), TEMPLATE),
        (MINIMAL + '[[sections]]\nid = "all"\ntitle = "Again"\n', TEMPLATE),
        (MINIMAL + "colour = 3\n", TEMPLATE),
        ("title =", TEMPLATE),
        (MINIMAL, TEMPLATE.replace(r"\hpcReferences", "")),
        (MINIMAL, TEMPLATE.replace(r"\hpcBody", r"\hpcBodyOfMine")),
    ],
)
def test_a_folder_that_is_no_venue_is_refused(
    description: str, template: str, tmp_path: Path
) -> None:
    own(tmp_path / "mine", description, template)
    with pytest.raises(UsageError):
        venue.load("mine", tmp_path)


def test_an_unknown_venue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="article"):
        venue.load("nowhere", tmp_path)
