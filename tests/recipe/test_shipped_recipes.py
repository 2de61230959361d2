"""Every shipped recipe is whole: its files load and check, in each of its setups. Nothing runs."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from recipes_kit import NAMES, PLAIN, TORCH, folder_of

from hpcscientist.recipe import load
from hpcscientist.recipe.checks.check import check
from hpcscientist.recipe.packages import imported

ROOT = load.shipped_folder()
OTHERS = [name for name in NAMES if name != "digits"]
TABLE = re.compile(r"^\| `([a-z0-9-]+)` \|", re.MULTILINE)


def test_shipped_recipes_are_those_in_the_folder_and_in_its_readme() -> None:
    there = {path.parent.name for path in ROOT.glob("*/recipe.toml")}
    told = set(TABLE.findall((ROOT / "README.md").read_text()))
    assert there == load.SHIPPED == told & there


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_recipe_has_no_problem(name: str) -> None:
    assert check(folder_of(name)) == []
    recipe = load.load(folder_of(name))
    assert recipe.spec.name == name
    assert recipe.seed_ideas and recipe.spec.knobs
    assert recipe.spec.primary.minimum_effect > 0
    for setup in recipe.spec.setups:
        own = load.load(folder_of(name), setup).spec
        assert own.setup == setup and own.knobs


@pytest.mark.parametrize("name", NAMES)
def test_its_reference_imports_what_its_container_has(name: str) -> None:
    packages = set(imported(load.load(folder_of(name)).reference))
    assert packages <= {"numpy", *(("torch",) if name in TORCH else ())} | {
        # of its published setup alone
        *(("torch", "transformers") if name == "text-classification" else ()),
    }
    assert name in PLAIN or "torch" in packages


@pytest.mark.parametrize("name", OTHERS)
def test_it_has_all_its_parts(name: str) -> None:
    folder = folder_of(name)
    assert (folder / "plot.py").read_bytes() == (ROOT / "digits" / "plot.py").read_bytes()
    readme = (folder / "README.md").read_text()
    for part in ("## Setups", "## Data", "## What is scored", "## What a search finds"):
        assert part in readme, part
    records = (folder / "library" / "references.bib").read_text()
    assert records.count("\n@") >= 6
    keys = re.findall(r"^@\w+\{(\w+),", records, re.MULTILINE)
    assert len(keys) == len(set(keys))
    assert len(json.loads((folder / "seed_ideas.json").read_text())) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_its_prepare_and_scorer_stand_alone(name: str) -> None:
    known = {"numpy", "scipy", "sklearn"}
    for script in ("prepare.py", "score.py"):
        text = (folder_of(name) / script).read_text()
        ast.parse(text)
        assert set(imported({script: text})) <= known


def test_no_two_files_give_the_same_paper_another_record() -> None:
    seen: dict[str, str] = {}
    for path in sorted(ROOT.glob("*/library/references.bib")):
        for entry in _entries(path):
            key, _, rest = entry.partition(",")
            title = re.search(r"title\s*=\s*\{(.+?)\},?\n", rest)
            assert title is not None, key
            assert seen.setdefault(key.lower(), title[1]) == title[1]


def _entries(path: Path) -> list[str]:
    return [part.partition("{")[2] for part in path.read_text().split("\n@")[1:]]
