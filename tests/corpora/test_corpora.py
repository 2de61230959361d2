"""Every case of every corpus is read as it should be."""

from __future__ import annotations

import corpus_kit
import pytest

_ALL = [
    pytest.param(case, id=f"{name}-{case.name}")
    for name in corpus_kit.names()
    for case in corpus_kit.cases(name)
]


@pytest.mark.parametrize("case", _ALL)
def test_a_case_is_read_as_it_should_be(case: corpus_kit.Case) -> None:
    assert case.read() == case.expected
