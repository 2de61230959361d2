"""Keyword vectors: those that scikit-learn makes, without its start."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer

from hpcscientist.models.embedding.keywords import KeywordEmbedder, terms


@given(st.text(max_size=60))
def test_columns_are_those_of_scikit_learn(text: str) -> None:
    vectorizer = HashingVectorizer(
        analyzer=terms, n_features=2**20, norm=None, alternate_sign=False
    )
    row = vectorizer.transform([text])
    row.sum_duplicates()
    found = KeywordEmbedder().count(text)
    assert found.columns.tolist() == row.indices.tolist()
    assert found.counts.tolist() == row.data.tolist()
    assert found.square == int(np.square(row.data).sum())
    assert (found.columns.dtype, found.counts.dtype) == (np.int64, np.float64)


def test_to_count_imports_nothing_heavy() -> None:
    code = (
        "import sys; from hpcscientist.models.embedding.keywords import KeywordEmbedder;"
        "KeywordEmbedder().count('rotate the images');"
        "sys.exit('sklearn' in sys.modules or 'scipy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
