"""No number is typed, in whatever form; what only looks like one may be."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.papers.walls.numerals import foreign_letters, typed_numbers

NAMES = ("CIFAR-100", "WRN-28-10", "8x8", "idea-0001", "A layer of two halves")
TYPED = """\
0.93|.93|12,345|1e-5|2013|(2013)|50%|x2|2x|v2|1/3|½|⅔|x²|10⁻³|₂|Ⅳ|ⅷ|③|⑴|㊿|９８|𝟗|٣|३|৪|
one|two|Twelve|thirteen|forty-two|fortytwo|hundred|a hundred and five|thousands|millions|twenties|
a third|two thirds|two-thirds|half|halved|halving|halves|quarter|tenths|a fifth|
hundredth|
twice|thrice|double|doubled|triples|quadrupled|tenfold|ten-fold|twofold|two-layer|five-seed|
dozen|dozens|a couple|a pair of|a handful|majority|minority|most ideas|most of|most|mostly|
single|the second idea|the fifth|orders of magnitude|an order of magnitude|
several ideas|many trials|few of the seeds|numerous runs|a decade|
II|III|viii|iv|XIV|MMXX|phase IV|O.5|l0|I.5|lO|O.OO|
tw\u0131ce|f\u00edve|th1rd|fiv3|t w o|t-w-o|s e v e n|seven_teen|CIFAR-10|WRN-28|idea-0002|nil|
nought"""
FREE = """\
CIFAR-100|on CIFAR-100, and|WRN-28-10|8x8 images|idea-0001's|A layer of two halves|
one-sided|two-sided|one-hot|zero-padded|first-order|half-width|no one|one another|
the most promising idea|at most|First, we|second, we|CPU-seconds|seconds|someone|often|tension|
weight|freight|attention|scores|the score of it|paired|a third party|null hypothesis|
single machine|CI|ML|DC|I|V|mix|vivid|civil|scaffold|manifold|fold|CPU|GPU-hours|percent|
percentage points|
how many ideas|as many as|alone|none|tone|done|phone|many methods|several authors|further|onerous"""


def forms(text: str) -> list[str]:
    return [form.strip() for form in text.replace("\n", "").split("|") if form.strip()]


def found(text: str) -> list[str]:
    return [typed.found for typed in typed_numbers(text, NAMES, [])]


@pytest.mark.parametrize("form", forms(TYPED))
def test_typed(form: str) -> None:
    assert found(f"The gain was {form} there.")


@pytest.mark.parametrize("form", forms(FREE))
def test_free(form: str) -> None:
    at_start = form.startswith(("First", "second,"))
    assert found(f"{form} there." if at_start else f"Here {form} there.") == []


def test_a_year_is_typed_beside_a_citation_of_that_year() -> None:
    assert typed_numbers("Goyal et al. (2017) warm up", (), [2017]) == []
    assert typed_numbers("Goyal et al. (2018) warm up", (), [2017])
    assert typed_numbers("the 2017 of seeds 20170", (), [2017])


def test_values_are_told_for_the_nearest_fact() -> None:
    assert [t.value for t in typed_numbers("about 1,234.5 or twice -3e2", (), [])] == [
        1234.5,
        2.0,
        -300.0,
    ]


NUMERIC = [chr(c) for c in range(sys.maxunicode) if unicodedata.category(chr(c))[0] == "N"]


@given(st.sampled_from(NUMERIC), st.text("abc ,.(", max_size=6), st.text("xyz ,.)", max_size=6))
def test_every_numeric_character_is_found(numeral: str, before: str, after: str) -> None:
    assert typed_numbers(f"{before}{numeral}{after}", (), [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the b\u0430seline", ["b\u0430seline"]),  # a Cyrillic letter
        ("\u0417 seeds", ["\u0417"]),
        ("\u03b1 and \u03bcs", ["\u03bcs"]),
        ("na\u00efve Loshchil\u00f8v", []),
        ("x\u00b2 and \u00bd", []),  # numerals are another wall's
    ],
)
def test_letters_that_are_not_what_they_look_like(text: str, words: list[str]) -> None:
    assert foreign_letters(text) == words
