"""Imports an instance of Scientist-Bench (AI-Researcher): references, and an instruction at level
1.

It has neither code nor data nor a metric, so it builds on a recipe: one of those shipped for its
four domains, or the user's own. The target paper is never shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hpcscientist.errors import RecipeError
from hpcscientist.files.text import one_line, printable
from hpcscientist.importers.draft import RecipeDraft, base_on, slug
from hpcscientist.importers.request import Format, ImportRequest
from hpcscientist.importers.source import TaskFiles, json_document
from hpcscientist.recipe.load import available, find

_INSTRUCTION, _WISHES, _REFERENCES = "instruction.txt", "wishlist.txt", "library/wishes.bib"
_MOST_INSTRUCTION = 20_000  # characters
_DOMAINS: Mapping[str, tuple[str, ...]] = {  # patterns of a domain, and its recipes, best first
    r"\bvq\b|quantiz|codebook": ("vq",),
    r"\bgnn\b|graph|node classification": ("graph",),
    r"recommend": ("recommender",),
    r"diffu|flow.?matching|denois": ("image-diffusion", "diffusion2d"),
}
_WITHHELD = ("target", "authors", "abstract", "url", "year", "venue", "citations")


def read(request: ImportRequest, draft: RecipeDraft) -> None:
    """Fill in the recipe of an instance."""
    source = request.source
    instance = _instance(source)
    tasks = [str(instance.get(f"task{level}") or "").strip() for level in (1, 2)]
    base = request.recipe or _domain(
        draft, source, f"{instance.get('field')} {instance.get('instance_id')}"
    )
    if base is not None:
        base_on(draft, find(base))
        draft.adapted("reference, data, scorer", f"the instance has none: those of recipe {base!r}")
    titles = _references(draft, instance, request.level)
    given = tasks[0] if request.level == 1 else ""
    command = "hpcsci launch --recipe {recipe} --model MODEL"
    if request.level == 1 and not given:
        draft.refuse("task1", "is empty, and at level 1 it is the instruction; give --level 2")
    if given:
        draft.put(_INSTRUCTION, given[:_MOST_INSTRUCTION] + "\n")
        draft.maps("task1", f"{_INSTRUCTION}, for --instruction (level 1)")
        command += f' --instruction "$(cat {{recipe}}/{_INSTRUCTION})"'
    else:
        draft.lost("task1", "is the instruction, which level 2 goes without")
    if tasks[1] and "topic" in draft.document:
        topic = draft.document["topic"]
        topic["description"] = f"{topic['description'].rstrip()}\n\n{tasks[1]}\n"
        draft.adapted("task2", "added to the topic's description: the problem, and no method")
    withheld = [key for key in _WITHHELD if instance.get(key)]
    draft.lost(", ".join(withheld) or "target", "what is to be matched is shown to nobody")
    if titles:
        fetch = 'hpcsci library fetch "$title" --library LIBRARY --from openalex --limit 1'
        draft.commands += [
            "hpcsci library build {recipe}/library --out LIBRARY",
            f"while read -r title; do {fetch}; done < {{recipe}}/{_WISHES}",
        ]
        command += " --library LIBRARY"
    draft.commands.append(command)


def _instance(source: TaskFiles) -> Mapping[str, Any]:
    names = [name for name in source.sizes if name.endswith(".json")]
    if len(names) != 1:
        raise RecipeError(f"{source.path}: has {len(names)} JSON files; give the instance itself")
    found = json_document(source, names[0])
    if not isinstance(found, dict) or not isinstance(found.get("source_papers"), list):
        raise RecipeError("is no instance: it has no list source_papers", source.path / names[0])
    return found


def _domain(draft: RecipeDraft, source: TaskFiles, text: str) -> str | None:
    """Return the recipe of an instance's domain, judged by its folder's name and its own fields."""
    known = {folder.name for folder in available()}
    for words in (source.path.absolute().parent.name, text):
        hits = [names for pattern, names in _DOMAINS.items() if re.search(pattern, words.lower())]
        if len(hits) == 1:
            there = [name for name in hits[0] if name in known]
            if there:
                return there[0]
    names = ", ".join(sorted(known))
    draft.refuse("recipe", f"its domain does not show: give --recipe NAME, of {names}")
    return None


def _references(draft: RecipeDraft, instance: Mapping[str, Any], level: int) -> Sequence[str]:
    """Add the references that a library should hold; return their titles in order of rank."""
    papers = [each for each in instance["source_papers"] if isinstance(each, dict)]
    papers.sort(key=lambda each: each["rank"] if isinstance(each.get("rank"), int) else len(papers))
    entries: dict[str, str] = {}
    for paper in papers:
        title = one_line(printable(str(paper.get("reference") or "")), 300)
        # A title must not end a BibTeX entry or a shell string.
        title = re.sub(r'[{}\\%"$`]', "", title).strip()
        if title:
            usage = re.sub(r"[{}\\%]", "", one_line(printable(str(paper.get("usage") or ""))))
            entries.setdefault(title, usage)
    lacking = len(instance["source_papers"]) - len(entries)
    if lacking:
        draft.lost(f"{lacking} of source_papers", "have no title of their own")
    if not entries:
        draft.lost("source_papers", "there are none: there is the recipe's library alone")
        return []
    lines = ["% References of the instance. What they are used for is the instance's words.", ""]
    for number, (title, usage) in enumerate(entries.items(), start=1):
        note = f",\n  abstract = {{Used by the target: {usage}}}" if usage else ""
        shown = note if level == 1 else ""  # at level 2 it would reveal the method
        lines += [f"@misc{{{slug(title)[:40]}{number},\n  title = {{{title}}}{shown}\n}}", ""]
    draft.put(_REFERENCES, "\n".join(lines))
    draft.put(_WISHES, "".join(f"{title}\n" for title in entries))
    draft.adapted(
        f"{len(entries)} source_papers",
        f"titles in {_WISHES}, to be fetched, and {_REFERENCES}, which a library is built of",
    )
    return list(entries)


FORMAT = Format(
    name="scientist-bench",
    says="an instance of Scientist-Bench (JSON), built on --recipe or on the one of its domain",
    read=read,
    options=frozenset({"recipe", "level"}),
)
