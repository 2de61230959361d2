"""Libraries with an index, made by real builds from small files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hpcscientist.literature.index.search import SearchableLibrary, open_library
from hpcscientist.literature.index.update import LibraryIndex
from hpcscientist.literature.library.build import BuildOptions, build
from hpcscientist.literature.library.indexing import BuildStep

LATEX = r"""
\documentclass{article}
\title{Margins of large classifiers}
\begin{document}
\maketitle
\begin{abstract}We bound the error of classifiers by their margins.\end{abstract}
\section{Losses}
The cross entropy compares a label with a predicted distribution.
\begin{equation} L = -\sum_i y_i \log p_i \end{equation}
The hinge loss asks for a margin.
\begin{equation} H = \max(0, 1 - y f(x)) \end{equation}
\section{Curvature}
The Hessian of a network has few large eigenvalues, as Lanczos iterations show.
\begin{equation} \alpha = \lambda_{\max}(\nabla^2 L) \end{equation}
\end{document}
"""
CODE = '''
class MultiHeadAttention:
    """Weighs all positions against each other."""

    def forward(self, query, key):
        return softmax(query @ key.T)


def cross_entropy_loss(logits, labels):
    """Negative log likelihood of the labels."""
    return -log_softmax(logits)[labels]


def load_config(path):
    return parse(path)
'''


def write_works(path: Path, texts: Sequence[tuple[str, str]], start: int = 0) -> Path:
    """Write papers with these titles and abstracts as works of OpenAlex, by different people."""
    with path.open("w") as file:
        for number, (title, abstract) in enumerate(texts, start=start):
            work = {
                "id": f"https://openalex.org/W{1000 + number}",
                "title": title,
                "abstract": abstract,
                "publication_year": 2020,
                "authorships": [{"author": {"display_name": f"Ada Author{number}"}}],
            }
            file.write(json.dumps(work) + "\n")
    return path


def write_sources(folder: Path) -> list[Path]:
    """Write an article with formulas and a repository."""
    (folder / "article").mkdir(parents=True)
    (folder / "article" / "main.tex").write_text(LATEX)
    (folder / "repo").mkdir()
    (folder / "repo" / "setup.py").write_text("")
    (folder / "repo" / "layers.py").write_text(CODE)
    return [folder / "article", folder / "repo"]


def made(
    inputs: Sequence[Path], out: Path, index: LibraryIndex | None = None, prune: bool = False
) -> SearchableLibrary:
    """Build a library in `out`, or bring it up to date, and open it."""
    build(inputs, out, jobs=1, index=index or LibraryIndex(), options=BuildOptions(prune=prune))
    return open_library(out)


def paper_id(number: int) -> str:
    return f"openalex:W{1000 + number}"


def ids(library: SearchableLibrary, query: str, limit: int = 10, by: str = "both") -> list[str]:
    return [hit.paper_id for hit in library.search(query, limit, by)]  # type: ignore[arg-type]


def quiet(step: BuildStep) -> None:
    pass
