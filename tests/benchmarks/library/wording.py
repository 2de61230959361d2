"""What generated papers say: words drawn from a seed, in sentences like those of real papers."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NOUNS: Final = _split(
    "model network encoder classifier gradient estimator benchmark dataset objective kernel "
    "representation transformer policy regularizer baseline distribution optimizer embedding "
    "architecture retrieval annotation coefficient difficulty configuration affinity reflection"
)
_ADJECTIVES: Final = _split(
    "robust sparse adaptive hierarchical stochastic efficient contrastive calibrated invariant "
    "state-of-the-art low-rank finite significant difficult influential simplified off-diagonal"
)
_VERBS: Final = _split(
    "improves reduces approximates outperforms stabilizes regularizes simplifies redefines "
    "specifies reflects conflates amplifies identifies influences constrains generalizes"
)
_LINKS: Final = ("because", "although", "while", "whereas", "so that", "which means that")
_ENDS: Final = (
    "under distribution shift",
    "in the low-data regime",
    "with a fixed budget",
    "on held-out data",
    "across all five seeds",
    "for every architecture we tried",
    "as the field defines it [3]",
    "(see Section 2)",
)
_FIRST: Final = _split("Anna Boris Chiara David Elif Fatima Georg Hanna Ivan Júlia Karim Lena")
_FAMILY: Final = _split("Meyer Rossi García Nguyen Okafor Sørensen Dvořák Kim Tanaka Öztürk")
_JOURNALS: Final = (
    "Journal of Machine Learning Research",
    "Transactions on Pattern Analysis",
    "Proceedings of the Conference on Learning",
)
_HEADINGS: Final = (
    "Related Work",
    "Method",
    "Theory",
    "Experimental Setup",
    "Results",
    "Ablations",
)
# As TeX has them: "_" sets the next character below the line, "^" above it.
_FORMULAS: Final = (
    "L(θ) = ∑_i λ_i f(x_i) + β w^2",
    "p(y | x) = exp(s(x, y)) / Z(x)",
    "θ_t = θ_k − η ∇L(θ_k)",
    "I(X, Y) ≤ H(X) + ε σ^2",
    "α_i = softmax(q k_i / √d)",
    "F(μ, σ) ≈ ∫g(z) φ(z) dz",
)
TITLES: Final = (
    "Über die Größe kausaler Schätzer: eine Einführung",
    "Apprentissage régularisé des modèles épars et profonds",
    "Обучение устойчивых представлений без учителя",
    "Dağıtık öğrenme için uyarlanabilir yöntemler",
    "Aprendizaje automático en años de señales débiles",
)


@dataclass(frozen=True, slots=True)
class Displayed:
    """A displayed formula in TeX's marks, with its number and the sentences around it."""

    marked: str
    number: str
    before: str
    after: str

    @property
    def text(self) -> str:
        """The formula as it is printed."""
        return f"{self.marked.replace('_', '').replace('^', '')} {self.number}"


@dataclass(frozen=True, slots=True)
class Part:
    """A section: paragraphs and formulas in their order, and the captions of its figures."""

    heading: str
    flow: tuple[str | Displayed, ...]
    captions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All that it says, captions last."""
        told = [
            f"{x.before}\n\n{x.text}\n\n{x.after}" if isinstance(x, Displayed) else x
            for x in self.flow
        ]
        return "\n\n".join([*told, *self.captions])


@dataclass(frozen=True, slots=True)
class Wording:
    """A whole paper in words."""

    title: str
    authors: tuple[str, ...]
    year: int
    doi: str
    abstract: str
    parts: tuple[Part, ...]
    references: tuple[str, ...]


def word_paper(seed: int, title: str = "", parts: int = 8) -> Wording:
    """Draw a paper from a seed; the same seed gives the same paper.

    Of 8 sections, it has some nine pages in two columns with 3,800 characters each.
    """
    draw = random.Random(seed)
    noun, other = draw.sample(_NOUNS, 2)
    title = (
        title or f"{_adjective(draw).capitalize()} {noun} {draw.choice(_VERBS)} the {other} {seed}"
    )
    authors = tuple(
        f"{first} {draw.choice(_FAMILY)}" for first in draw.sample(_FIRST, draw.randint(1, 4))
    )
    names = ("Introduction", *draw.sample(_HEADINGS, parts - 2), "Conclusion")
    return Wording(
        title=title,
        authors=authors,
        year=draw.randint(1995, 2025),
        doi=f"10.5555/hpc.{seed:06d}",
        abstract=_paragraph(draw, 6),
        parts=tuple(_part(draw, name, number) for number, name in enumerate(names, 1)),
        references=tuple(_reference(draw) for _ in range(draw.randint(20, 45))),
    )


def _part(draw: random.Random, heading: str, number: int) -> Part:
    flow: list[str | Displayed] = [_paragraph(draw) for _ in range(draw.randint(2, 5))]
    if heading not in ("Introduction", "Conclusion"):
        for at in range(draw.randint(1, 3)):
            flow.insert(1 + at, _displayed(draw, f"({number}.{at + 1})"))
    captions = (f"Figure {number}: {_sentence(draw)}",) if number % 2 == 0 else ()
    return Part(heading, tuple(flow), captions)


def _displayed(draw: random.Random, number: str) -> Displayed:
    noun = draw.choice(_NOUNS)
    before = f"{_sentence(draw)} The {noun} is defined as"
    return Displayed(draw.choice(_FORMULAS), number, before, f"where the {noun} {_rest(draw)}.")


def _paragraph(draw: random.Random, sentences: int = 0) -> str:
    return " ".join(_sentence(draw) for _ in range(sentences or draw.randint(4, 9)))


def _sentence(draw: random.Random) -> str:
    start = (
        f"{draw.choice(('The', 'Our', 'Each', 'This'))} {_adjective(draw)} {draw.choice(_NOUNS)}"
    )
    more = (
        f" {draw.choice(_LINKS)} the {draw.choice(_NOUNS)} {_rest(draw)}"
        if draw.random() < 0.5
        else ""
    )
    return f"{start} {_rest(draw)}{more}."


def _rest(draw: random.Random) -> str:
    what = f"the {_adjective(draw)} {draw.choice(_NOUNS)} {draw.choice(_ENDS)}"
    return f"{draw.choice(_VERBS)} {what}"


def _adjective(draw: random.Random) -> str:
    return draw.choice(_ADJECTIVES)


def _reference(draw: random.Random) -> str:
    names = " and ".join(f"{draw.choice(_FIRST)[0]}. {draw.choice(_FAMILY)}" for _ in range(2))
    title = f"{_adjective(draw).capitalize()} {draw.choice(_NOUNS)} for {draw.choice(_NOUNS)}"
    place = f"{draw.choice(_JOURNALS)}, {draw.randint(1, 60)}:{draw.randint(1, 900)}"
    return f"{names}. {title}. {place}, {draw.randint(1990, 2024)}."
