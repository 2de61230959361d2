"""Names in prose: files, packages and data as models list them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.models.prompting.naming import data, files, packages
from hpcscientist.recipe.packages import importable


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("`reference/experiment.py` (the train function)", ("experiment.py",)),
        ("./src/net.py and data.py", ("src/net.py", "data.py")),
        ("none", ()),
        ("only the training script", ()),
        ("version 2.0, e.g. np.random.default_rng", ()),
        ("", ()),
    ],
)
def test_files_in_prose(text: str, found: tuple[str, ...]) -> None:
    assert files([text], {"experiment.py": ""}) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("numpy>=1.26", ("numpy",)),
        ("import torch.nn as nn", ("torch",)),
        ("from sklearn.svm import SVC", ("sklearn",)),
        ("scikit-learn[alldeps]", ("scikit-learn",)),
        ("`jax` (for gradients)", ("jax",)),
        ("None", ()),
        ("no extra packages", ()),
        ("nothing beyond numpy", ()),
        ("N/A", ()),
        ("-", ()),
        ("whatever is there already", ()),
        ("numbers", ("numbers",)),
        ("notebook", ("notebook",)),
        ("empty", ()),
        ("existing", ()),
        ("[]", ()),
        ("torch (already provided)", ("torch",)),
    ],
)
def test_packages_in_prose(text: str, found: tuple[str, ...]) -> None:
    assert packages([text]) == found


def test_data_in_prose_and_data_that_the_reference_reads() -> None:
    reference = {"experiment.py": 'np.load(folder / "images.npy")'}
    named = ["None.", "no additional data", "", "train/images.npy", "images.npy, extra.npy", "SVHN"]
    assert data(named, reference) == ("images.npy, extra.npy", "SVHN")


@pytest.mark.parametrize(
    "text",
    [
        *("ImageNet (not provided)", "the existing CIFAR-100 data, to be downloaded"),
        *("not given: MNIST", "labels that aren't included", "extra images like the existing ones"),
        *("sixty thousand larger images of handwritten digits", "emptyset-1k", "Nanjing traffic"),
    ],
)
def test_data_that_are_missing_by_what_is_said_of_them(text: str) -> None:
    assert data([text], {"experiment.py": ""}) == (text,)


_TEXTS = st.lists(
    st.one_of(
        st.text(max_size=30), st.sampled_from(["none", "numpy", "torch", "a.py", "import x"])
    ),
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(_TEXTS)
def test_names_are_short_and_each_is_named_once(texts: list[str]) -> None:
    for found in (files(texts, {"a.py"}), packages(texts), data(texts, {})):
        assert len(set(found)) == len(found)
        assert all(0 < len(name) <= 200 and "\n" not in name for name in found)
    assert all(importable(name, packages(texts)) for name in packages(texts))
