"""The HTML report: one file that asks nobody for anything.

Its own styles and script are told to the browser by their hashes, and nothing else is let run: a
title, a log or a diff that is HTML shows as text. Data lie in blocks that no browser executes.
Why it draws by itself: README.md of this folder.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice
from time import gmtime, strftime
from typing import Any, Final

from hpcscientist.files.text import printable
from hpcscientist.report.data import PACK, as_json, data
from hpcscientist.report.words import best_words, duration, worked
from hpcscientist.results.export import plain
from hpcscientist.views.campaign import CampaignView
from hpcscientist.views.cards import Card
from hpcscientist.views.manuscripts import ManuscriptView
from hpcscientist.views.papers import PaperUse
from hpcscientist.views.provenance import Source

VIEWS: Final = (
    ("best", "Which idea is best, and is it real?", "Best so far"),
    ("ideas", "What was tried, and what came of it?", "Ideas"),
    ("effects", "How large are the effects, and do they hold?", "Effects"),
    ("lineage", "Where did ideas come from, and where did their code fail?", "Lineage"),
    ("failures", "What failed, and what did it cost?", "Failures"),
    ("time", "When did trials wait, and where did they run?", "Queue and nodes"),
    ("cost", "Where did tokens and hours go?", "Costs"),
    ("arms", "Does the model beat a plain search at equal cost?", "Model and search"),
    ("sources", "Where do the numbers come from?", "Sources"),
)
_ROWS_WITHOUT_SCRIPT: Final = 200


def page(
    view: CampaignView,
    cards: Iterable[Card],
    papers: Sequence[PaperUse],
    sources: Sequence[Source],
    manuscripts: Sequence[ManuscriptView] = (),
) -> Iterator[str]:
    """Yield a campaign's page, part by part: what is seen first comes first."""
    title = f"{view.state.campaign_id}: {view.recipe.topic.title}"
    yield head(title, "report.js")
    yield _header(view)
    yield main(VIEWS)
    yield _without_script(view)
    notes = [*view.summary.notes, view.summary.missing.warning]
    yield notes_list([note for note in notes if note])
    yield "</main></div>\n"
    yield json_block("results", [plain(row) for row in view.rows])
    yield json_block("campaign", data(view, papers, sources, manuscripts))
    left, number = iter(cards), 0
    while pack := list(islice(left, PACK)):
        yield packed_block(f"cards-{number}", pack)
        number += 1
    yield tail("report.js")


def head(title: str, script: str) -> str:
    """Return the beginning of a page that runs one of our scripts and nothing else."""
    styles = _asset("report.css")
    policy = (
        f"default-src 'none'; style-src '{_hash(styles)}'; script-src '{_hash(_script(script))}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{html.escape(printable(title))}</title>\n"
        f'<link rel="icon" href="data:,">\n<style>{styles}</style>\n</head>\n<body>\n'
        '<a class="skip" href="#main">To the content</a>\n<div class="page">\n'
    )


def main(views: Sequence[tuple[str, str, str]]) -> str:
    """Return the list of views and a section for each, with its question as its title."""
    entries = "".join(f'<li><a href="#{i}">{html.escape(name)}</a></li>' for i, _, name in views)
    sections = "".join(
        f'<section class="view" id="{i}" aria-labelledby="{i}-title"><h2 id="{i}-title">'
        f'{html.escape(question)}</h2><p class="answer"></p><div class="content"></div></section>\n'
        for i, question, _ in views
    )
    return (
        f'<nav class="views" aria-label="Questions"><ol>{entries}</ol></nav>\n'
        f'<main id="main">\n{sections}'
    )


def tail(script: str) -> str:
    """Return the end of a page."""
    return f"<script>{_script(script)}</script>\n</body>\n</html>\n"


def json_block(name: str, value: Any) -> str:
    """Return a block of data. No text in it can end it: there is no `<` in it."""
    text = _dumped(value)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{name}">{text}</script>\n'


def packed_block(name: str, value: Any) -> str:
    """Return a block of data that is unpacked when it is looked at: gzip, as base64."""
    text = _dumped(value)
    packed = gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)
    inside = base64.b64encode(packed).decode()
    return f'<script type="application/octet-stream" id="{name}">{inside}</script>\n'


def _dumped(value: Any) -> str:
    whole = as_json(value)
    return json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def figures_list(figures: Sequence[tuple[str, str]]) -> str:
    """Return named figures."""
    return (
        '<dl class="figures">'
        + "".join(
            f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>"
            for name, value in figures
        )
        + "</dl>"
    )


def notes_list(notes: Sequence[str]) -> str:
    """Return what a reader must know to trust the numbers; "" for nothing."""
    if not notes:
        return ""
    entries = "".join(f"<li>{html.escape(printable(note))}</li>" for note in notes)
    return (
        '<section class="view" aria-labelledby="notes-title"><h2 id="notes-title">'
        f'What should a reader know?</h2><ul class="notes">{entries}</ul></section>'
    )


def topline(
    title: str,
    under: str,
    lead: str,
    figures: Sequence[tuple[str, str]],
    command: str = "",
) -> str:
    """Return a page's header: its title, what is below it, the answer in a sentence, figures, and
    the command that goes on from there.
    """
    following = f'<p class="next">Next: <code>{html.escape(printable(command))}</code></p>'
    return (
        f'<header class="top"><div class="titles"><h1>{html.escape(printable(title))}</h1>'
        '<button type="button" id="theme">light or dark</button></div>'
        f'<p class="soft">{html.escape(printable(under))}</p>'
        f'<p class="lead">{html.escape(printable(lead))}</p>{following if command else ""}'
        f"{figures_list(figures)}</header>\n"
    )


def stamp(seconds: float) -> str:
    """Return a time of day, in UTC: whoever reads it may be anywhere."""
    return strftime("%Y-%m-%d %H:%M UTC", gmtime(seconds))


def _header(view: CampaignView) -> str:
    timeline, spent = view.timeline, view.spending
    until = view.read_at if view.is_driven else (timeline.last or 0.0)
    lasted = duration(until - timeline.first) if timeline.first else "nothing yet"
    counts = view.status["ideas"]
    ended = counts["rejected"] + counts["scored"] + counts["failed"]
    trials = view.status["trials"]
    under = [
        view.state.campaign_id,
        str(view.status["state"]),
        f"model {view.config.model_name}",
        f"seen {stamp(view.read_at)}",
    ]
    lead = best_words(view.rows)
    found = spent.found
    shown = [
        ("ideas ended", f"{ended:,} of {view.config.settings.ideas:,}"),
        ("improved", f"{found.improvements:,}"),
        ("confirmed", "–" if found.confirmed is None else f"{found.confirmed:,}"),
        ("trials", f"{trials['scored'] + trials['failed']:,}"),
        *([("running now", f"{trials['running']:,}")] if view.is_driven else []),
        (f"{view.best.unit[:3]} time", worked(spent.gpu_hours or spent.cpu_hours)),
        ("tokens", f"{spent.tokens:,}"),
        ("elapsed", lasted),
    ]
    lead = f"{lead[:1].upper()}{lead[1:]}."
    title, about = view.recipe.topic.title, " · ".join(under)
    return topline(title, about, lead, shown, view.next_command)


def _without_script(view: CampaignView) -> str:
    """The rows as a bare table, for viewers that run no script."""
    cells = "".join(
        "<tr>"
        + "".join(
            f"<td>{html.escape(str(cell))}</td>"
            for cell in (
                row.idea_id,
                printable(row.title)[:200],
                row.finding or row.status,
                "" if row.delta is None else f"{row.delta:+.3g}",
            )
        )
        + "</tr>"
        for row in view.rows[:_ROWS_WITHOUT_SCRIPT]
    )
    return (
        "<noscript><p>This viewer runs no script: here are the first rows of "
        "<code>hpcsci results</code>. Open the file in a browser for all views.</p><table>"
        f"<tr><th>idea</th><th>title</th><th>outcome</th><th>difference</th></tr>{cells}"
        "</table></noscript>\n"
    )


@cache
def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


@cache
def _script(name: str) -> str:
    return f'"use strict";\n(() => {{\n{_asset("base.js")}\n{_asset(name)}\n}})();\n'


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
