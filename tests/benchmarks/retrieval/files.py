"""Papers as a bulk file: the way by which a library takes them in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from hpcscientist.records.literature import Paper


def write_openalex(papers: Iterable[Paper], path: Path) -> None:
    """Write papers whose ids are "openalex:W…" as JSON Lines of OpenAlex's works."""
    with path.open("w", encoding="utf-8") as file:
        for paper in papers:
            inverted: dict[str, list[int]] = {}
            for place, word in enumerate(paper.abstract.split()):
                inverted.setdefault(word, []).append(place)
            work = {
                "id": f"https://openalex.org/{paper.paper_id.partition(':')[2]}",
                "title": paper.title,
                "abstract_inverted_index": inverted,
                "publication_year": paper.year,
                "cited_by_count": paper.citations,
                "authorships": [{"author": {"display_name": name}} for name in paper.authors],
            }
            file.write(json.dumps(work, ensure_ascii=False) + "\n")
