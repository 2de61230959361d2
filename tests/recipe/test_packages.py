"""What a reference imports, and what is there with it."""

from __future__ import annotations

import pytest
from newer_python import NEWER

from hpcscientist.recipe.packages import available, importable, imported


def test_imports_of_what_does_not_parse_and_of_the_reference_itself() -> None:
    reference = {
        "net/model.py": "import numpy",
        "experiment.py": "import net.model\nimport model",
        "broken.py": "import torch (",
        "notes.md": "import jax",
    }
    assert imported(reference) == ("numpy",)


@pytest.mark.parametrize("source", NEWER)
def test_imports_of_code_for_a_newer_python(source: str) -> None:
    text = f"import numpy\n{source}\ndef f():\n    from torch.nn import Linear\n"
    assert imported({"experiment.py": text}) == ("numpy", "torch")


def test_names_under_which_packages_are_installed() -> None:
    there = ("numpy", "sklearn", "PIL")
    for name in ("NumPy", "scikit-learn", "pillow", "json", "Math"):
        assert importable(name, there)
    for name in ("torch", "scipy", "sklearn-extra"):
        assert not importable(name, there)


@pytest.mark.parametrize(
    ("source", "there"),
    [
        ("import sklearn.svm", ("joblib", "numpy", "scipy", "sklearn", "threadpoolctl")),
        ("import scipy, json", ("numpy", "scipy")),
        ("import some_thing", ("some_thing",)),
        ("", ()),
    ],
)
def test_what_a_package_cannot_do_without_is_there_with_it(
    source: str, there: tuple[str, ...]
) -> None:
    assert available({"experiment.py": source}) == there


def test_packages_of_packages_are_there() -> None:
    assert {"torch", "PIL", "numpy", "sympy"} <= set(available({"a.py": "import torchvision"}))
