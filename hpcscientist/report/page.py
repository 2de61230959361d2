"""Writes the HTML report: one self-contained file that loads nothing from the network.

The Content-Security-Policy allows only our own style and script, by their hashes, so HTML in a
title, a log or a diff is shown as text. Data are in blocks that browsers do not execute. README.md
of this folder says why the page uses no charting library.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from time import gmtime, strftime
from typing import Any, Final

from hpcscientist.files.text import printable
from hpcscientist.launching.costs.spending import Spending
from hpcscientist.report.table import best_words, duration, worked
from hpcscientist.results.export import plain
from hpcscientist.views.campaign import CampaignView
from hpcscientist.views.cards import Card
from hpcscientist.views.papers import ManuscriptView, NumberSource, PaperUse
from hpcscientist.views.timeline import TrialSpan, lanes

# A campaign's view as JSON values, as the report's page reads them.
#
# Rows of `results` are embedded as `hpcsci results --format json` prints them. Large tables (ideas,
# trials) are stored by columns, and repeated names as indices into a list.

PACK: Final = 100  # cards that are compressed together


def data(
    view: CampaignView,
    papers: Sequence[PaperUse],
    found: Sequence[NumberSource],
    manuscripts: Sequence[ManuscriptView],
) -> dict[str, Any]:
    """Return the data that the page draws, without rows and cards, for `as_json`.

    Times are seconds since the launch.
    """
    zero = view.timeline.first or 0.0
    # The time axis of a running campaign ends now, that of any other at its last event.
    until = view.read_at if view.is_driven else (view.timeline.last or zero)
    trials, nodes = _trials(view.trials, zero)
    config = view.config
    return {
        "id": view.state.campaign_id,
        "pack": PACK,
        "unit": view.best.unit,
        "span": _rounded(until - zero),
        "version": config.package_version,
        "recipe_hash": config.recipe_hash,
        "data_hash": config.data_hash,
        "metric": {"name": view.metric.name, "direction": view.metric.direction.value},
        "rule": view.summary.rule,
        "only_search": config.model_spec == "search",
        "confirms": config.settings.loop.confirm,
        "figures": figures(view.spending),
        "best": view.best,
        "ideas": _ideas(view),
        "trials": trials,
        "nodes": nodes,
        "failures": view.failures,
        "tokens": view.tokens,
        "stages": view.stages,
        "waiting": view.waiting.model_dump() if view.waiting else None,
        "contest": _contest(view),
        "papers": papers,
        "sources": found,
        "manuscripts": manuscripts,
    }


def figures(spent: Spending) -> dict[str, Any]:
    """Return the total costs and the counts of findings."""
    return {
        "cpu_hours": spent.cpu_hours,
        "gpu_hours": spent.gpu_hours,
        "tokens": spent.tokens,
        "serving_gpu_hours": spent.serving_gpu_hours,
        "busy": spent.busy,
        "findings": spent.found.findings,
        "improvements": spent.found.improvements,
        "confirmed": spent.found.confirmed,
    }


def as_json(value: Any) -> Any:
    """Return view models as JSON values, with null for numbers that JSON cannot hold."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value):
        return {part.name: as_json(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {name: as_json(inner) for name, inner in value.items()}
    return [as_json(inner) for inner in value]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _contest(view: CampaignView) -> dict[str, Any] | None:
    if view.contest is None:
        return None
    return {
        "whole": view.contest.whole,
        "equal": view.contest.equal,
        "curves": view.contest.curves,
        "hours": view.contest.hours,
        "words": _sentence(view.contest.lines()[1]),
    }


def _ideas(view: CampaignView) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {
        "id": [idea.idea_id for idea in view.ideas],
        "number": [idea.number for idea in view.ideas],
        # An idea with a row has its title there.
        "title": ["" if idea.row else idea.title for idea in view.ideas],
        "arm": [idea.arm for idea in view.ideas],
        "parents": [list(idea.parent_ids) for idea in view.ideas],
        "tokens": [idea.tokens for idea in view.ideas],
        "cpu": [_rounded(idea.cpu_s) for idea in view.ideas],
        "gpu": [_rounded(idea.gpu_s) for idea in view.ideas],
        "attempts": [
            [[a.number, a.parent, a.kind, a.outcome, a.cause] for a in idea.attempts]
            for idea in view.ideas
        ],
    }
    return _packed(columns, {"arm"})


def _trials(
    trials: Sequence[TrialSpan], zero: float
) -> tuple[dict[str, Any], list[tuple[str, int]]]:
    """Return the trials, and each node's name with the most trials that ran there at once."""
    begun = [span for span in trials if span.started is not None]
    lane_of = dict(zip(map(id, begun), lanes(begun), strict=True))
    names = sorted({span.node for span in begun})
    places = {name: place for place, name in enumerate(names)}
    most = dict.fromkeys(names, 1)
    for span in begun:
        most[span.node] = max(most[span.node], lane_of[id(span)] + 1)

    def after(time: float | None) -> float | None:
        return None if time is None else _rounded(time - zero)

    columns: dict[str, list[Any]] = {
        "id": [span.trial_id + (f" run {span.run}" if span.run > 1 else "") for span in trials],
        "idea": [span.idea_id for span in trials],
        "stage": [span.stage.value for span in trials],
        "phase": [span.phase for span in trials],
        "cause": [span.cause for span in trials],
        "node": [places[span.node] if span.started is not None else None for span in trials],
        "lane": [lane_of.get(id(span), 0) for span in trials],
        "queued": [after(span.queued) for span in trials],
        "started": [after(span.started) for span in trials],
        "ended": [after(span.ended) for span in trials],
    }
    packed = _packed(columns, {"idea", "stage", "phase", "cause"})
    return packed, [(printable(name) or "not told yet", most[name]) for name in names]


def _packed(columns: dict[str, list[Any]], repeating: Iterable[str]) -> dict[str, Any]:
    values, names = [], []
    for name, column in columns.items():
        if name in repeating:
            known = list(dict.fromkeys(column))
            place = {text: at for at, text in enumerate(known)}
            values.append([place[text] for text in column])
            names.append(known)
        else:
            values.append(column)
            names.append([])
    return {"columns": list(columns), "values": values, "names": [n or None for n in names]}


def _rounded(seconds: float) -> float:
    return round(seconds, 2)


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
    sources: Sequence[NumberSource],
    manuscripts: Sequence[ManuscriptView] = (),
) -> Iterator[str]:
    """Yield a campaign's page in parts, the visible ones first."""
    title = f"{view.state.campaign_id}: {view.recipe.topic.title}"
    yield head(title, "report.js")
    yield _header(view)
    yield main(VIEWS)
    yield _without_script(view)
    notes = [*view.summary.notes, view.summary.front_line, view.summary.missing.warning]
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
    """Return the beginning of a page that may run one of our scripts and nothing else."""
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
    """Return the list of views and a section for each view, titled by its question."""
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
    """Return a block of JSON data. It contains no `<`, so no text can end the block."""
    text = _dumped(value)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{name}">{text}</script>\n'


def packed_block(name: str, value: Any) -> str:
    """Return a block of data as base64 of gzip, which the page unpacks on demand."""
    text = _dumped(value)
    packed = gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)
    inside = base64.b64encode(packed).decode()
    return f'<script type="application/octet-stream" id="{name}">{inside}</script>\n'


def _dumped(value: Any) -> str:
    whole = as_json(value)
    return json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def figures_list(figures: Sequence[tuple[str, str]]) -> str:
    """Return named figures as an HTML list."""
    return (
        '<dl class="figures">'
        + "".join(
            f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>"
            for name, value in figures
        )
        + "</dl>"
    )


def notes_list(notes: Sequence[str]) -> str:
    """Return the notes that a reader needs to trust the numbers as HTML; "" if there are none."""
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
    """Return a page's header: title, line below it, answer in a sentence, figures, next command."""
    following = f'<p class="next">Next: <code>{html.escape(printable(command))}</code></p>'
    return (
        f'<header class="top"><div class="titles"><h1>{html.escape(printable(title))}</h1>'
        '<button type="button" id="theme">light or dark</button></div>'
        f'<p class="soft">{html.escape(printable(under))}</p>'
        f'<p class="lead">{html.escape(printable(lead))}</p>{following if command else ""}'
        f"{figures_list(figures)}</header>\n"
    )


def stamp(seconds: float) -> str:
    """Return a date and time in UTC, as readers may be in any time zone."""
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
    """Return the first rows as a plain table, for viewers that run no scripts."""
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
