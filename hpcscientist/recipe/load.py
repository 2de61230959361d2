"""Finds recipes by name or folder, loads them, and copies them for a campaign."""

from __future__ import annotations

import os
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

import tomli_w

import hpcscientist
from hpcscientist.errors import RecipeError
from hpcscientist.files import handed
from hpcscientist.files.handed import expanded
from hpcscientist.files.hashing import hash_file, hash_texts, hash_tree, tree_files
from hpcscientist.recipe import knobs
from hpcscientist.recipe.checks.document import read_document, with_setup
from hpcscientist.recipe.checks.files import (
    PLAYBOOK,
    PREPARE,
    RECIPE_FILE,
    REFERENCE,
    SCORER,
    SEED_IDEAS,
    file_problems,
)
from hpcscientist.recipe.checks.replies import seed_ideas
from hpcscientist.recipe.checks.tree import as_error, copy_tree
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.idea import Proposal

# The recipes that come with the package; others in the same folder are users' own.
SHIPPED = frozenset(
    {
        "char-lm",
        "diffusion2d",
        "digits",
        "graph",
        "grokking",
        "image-classification",
        "image-diffusion",
        "point-cloud",
        "recommender",
        "text-classification",
        "vq",
    }
)


@dataclass(frozen=True)
class Recipe:
    """A loaded recipe. `reference` maps each reference file's name to its text."""

    folder: Path
    spec: RecipeSpec
    reference: dict[str, str]
    seed_ideas: tuple[Proposal, ...]
    playbook: Path | None

    @property
    def scorer(self) -> Path:
        """The trusted scorer."""
        return self.folder / SCORER

    @property
    def prepare(self) -> Path:
        """The script that prepares the data."""
        return self.folder / PREPARE

    @property
    def image(self) -> str | None:
        """The container image as an absolute path; relative paths start at recipe.toml's folder."""
        given = self.spec.image
        return str((self.folder / given).absolute()) if given else None

    @cached_property
    def scorer_hash(self) -> str:
        """The scorer's hash when this was first accessed."""
        return hash_file(self.scorer)

    @property
    def reference_hash(self) -> str:
        """The hash of the reference code as loaded."""
        return hash_texts(self.reference)

    @cached_property
    def recipe_hash(self) -> str:
        """The hash of all files of the recipe when this was first accessed."""
        return hash_tree(self.folder)


def shipped_folder() -> Path:
    """Return the folder of the recipes that come with the package."""
    package = Path(hpcscientist.__file__).resolve().parent
    installed = package / "shipped"
    return installed if installed.is_dir() else package.parent / "recipes"


def is_shipped(path: Path) -> bool:
    """Return whether a recipe is an unchanged recipe of the package.

    Its content decides, not its folder: a clone's ./recipes holds copies, and people add their own
    recipes there.
    """
    if path.name not in SHIPPED:
        return False
    original = shipped_folder() / path.name
    return path.samefile(original) or hash_tree(path) == hash_tree(original)


def available() -> list[Path]:
    """Return the folders of recipes, sorted by name; ./recipes hides shipped ones of equal name."""
    found: dict[str, Path] = {}
    for root in (Path("recipes"), shipped_folder()):
        for file in sorted(root.glob(f"*/{RECIPE_FILE}")):
            found.setdefault(file.parent.name, file.parent)
    return [found[name] for name in sorted(found)]


def find(name_or_path: str) -> Path:
    """Return a recipe's folder.

    If the text is a path, or names a folder with a recipe.toml, return that folder. Else return the
    recipe of that name in ./recipes or in the package. Raises RecipeError with the nearest name.
    """
    path = expanded(name_or_path)
    is_path = os.sep in name_or_path
    if name_or_path and (path / RECIPE_FILE).is_file():
        return path
    if path.name == RECIPE_FILE and path.is_file():
        return path.parent
    if is_path:
        what = "holds no recipe.toml" if path.is_dir() else "does not exist"
        raise RecipeError(f"{path} {what}; give a recipe's folder, or a name without a slash")
    known = {folder.name: folder for folder in available()}
    if name_or_path in known:
        return known[name_or_path]
    close = get_close_matches(name_or_path, known, n=1)
    fix = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known) or 'none'}"
    raise RecipeError(f"there is no recipe {name_or_path!r}; {fix}")


def copy(origin: Path, target: Path, setup: str = "") -> None:
    """Copy a recipe's folder to a new folder, as a campaign stores it.

    `setup` is applied to the copy's recipe.toml, entry script and prepare.py, so that their readers
    need not know of it. Raises RecipeError for what cannot be copied, and OSError.
    """
    spec = read_document(origin / RECIPE_FILE, setup)
    if setup and isinstance(spec, list):
        raise as_error(spec[0])
    copy_tree(origin, target, None if isinstance(spec, list) else spec.image)
    if setup:
        file = target / RECIPE_FILE
        document = with_setup(handed.parse(file.read_text(encoding="utf-8")), setup)
        file.write_text(tomli_w.dumps(document), encoding="utf-8")
        if not isinstance(spec, list):
            given = {f"{REFERENCE}/{spec.entry}": spec.constants, PREPARE: spec.prepare}
            for script, constants in given.items():
                path = target / script
                text = knobs.set_constants(path.read_text(encoding="utf-8"), constants)
                path.write_text(text, encoding="utf-8")


def load(path: Path, setup: str = "") -> Recipe:
    """Load the recipe in a folder, with a setup applied ("": none).

    Raises RecipeError, with file and line, for the first problem that prevents a campaign;
    `hpcsci recipe check` reports all of them.
    """
    folder = path.resolve()
    spec = read_document(folder / RECIPE_FILE, setup)
    if isinstance(spec, list):
        raise as_error(spec[0])
    for problem in file_problems(folder, spec):
        raise as_error(problem)
    ideas: list[Proposal] = []
    if (folder / SEED_IDEAS).exists():
        ideas, problems = seed_ideas(folder / SEED_IDEAS)
        if problems:
            raise as_error(problems[0])
    reference = folder / REFERENCE
    texts = {
        file.relative_to(reference).as_posix(): file.read_bytes().decode()
        for file in tree_files(reference)
    }
    playbook = folder / PLAYBOOK
    if playbook.is_dir():
        raise RecipeError("is a folder; make it a file, or remove it", playbook)
    return Recipe(
        folder=folder,
        spec=spec,
        reference=texts | {spec.entry: knobs.set_constants(texts[spec.entry], spec.constants)},
        seed_ideas=tuple(ideas),
        playbook=playbook if playbook.exists() else None,
    )
