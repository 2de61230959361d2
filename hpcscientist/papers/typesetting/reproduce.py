"""REPRODUCE.md: what to run to see a paper's results again, and what was recorded of them."""

from __future__ import annotations

from hpcscientist.papers.typesetting.assemble import PAPER, RUN
from hpcscientist.papers.typesetting.document import Document


def instructions(document: Document) -> str:
    """Return the reproducibility appendix of a paper, as Markdown."""
    lines = [
        "# How to run it again",
        "",
        f"{RUN} is the run directory of the campaign, {PAPER} this folder.",
        "",
    ]
    for purpose, command in document.appendix.commands:
        lines += [f"{purpose}:", "", "```sh", command, "```", ""]
    lines += ["| recorded | |", "| --- | --- |"]
    lines += [f"| {name} | `{value}` |" for name, value in document.appendix.records]
    lines += ["", "The PDF, made from `source/` by the same TeX, byte for byte:", "", "```sh"]
    settings = f"SOURCE_DATE_EPOCH={document.epoch} FORCE_SOURCE_DATE=1"
    run = "pdflatex -interaction=nonstopmode paper.tex"
    lines += [f"cd {PAPER}/source && export {settings} && {run} && {run} && {run}", "```", ""]
    return "\n".join(lines)
