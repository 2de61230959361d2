"""Makes the README's two pictures, of the terminal and the report, from the quickstart's campaign.

    .venv/bin/hpcsci launch --ideas 16 --run-dir scratch/digits
    export $(tests/browser_environment FOLDER)
    .venv/bin/python tests/readme_pictures.py scratch/digits .pictures

Writes .pictures/terminal.svg and .pictures/report.png. Run it in the root of a clone: the pictures
show the campaign's folder as it is given.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from browser_kit import DRIVER, why_no_browser
from rich.console import Console
from rich.text import Text

from hpcscientist.cli.main import run
from hpcscientist.files.rundir import RunPaths
from hpcscientist.report.table import headline, table
from hpcscientist.views import campaign

COLUMNS = 120
# rich's template without its web fonts, which a browser would fetch from another host.
SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def terminal(paths: RunPaths, folder: str) -> str:
    """Return the terminal output of `hpcsci results` as SVG."""
    view, shown = campaign.read(paths, folder), io.StringIO()
    last = headline(view.rows, view.next_command)
    os.environ["FORCE_COLOR"], os.environ["COLORTERM"] = "1", "truecolor"
    table(view.rows, shown, COLUMNS)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ hpcsci results {folder}", style="bold"))
    console.print(Text.from_ansi(shown.getvalue().rstrip()), soft_wrap=True)
    console.print(Text(last))
    return console.export_svg(title="hpcsci results", code_format=SVG)


def main(folder: str, out: Path) -> None:
    """Write both pictures. Exits if there is no browser."""
    if lacking := why_no_browser():
        sys.exit(lacking)
    out.mkdir(parents=True, exist_ok=True)
    paths = RunPaths(Path(folder).absolute())
    (out / "terminal.svg").write_text(terminal(paths, folder), encoding="utf-8")
    with tempfile.TemporaryDirectory() as place:
        page = Path(place, "report.html")
        if code := run(["report", folder, "--out", str(page)]):
            sys.exit(code)
        modules = str(Path(os.environ["HPCTEST_BROWSER"]) / "node_modules")
        command = ["node", str(DRIVER), str(page), "--walk", "--shot", str(out / "report.png")]
        done = subprocess.run(
            command, env=os.environ | {"NODE_PATH": modules}, stdout=subprocess.PIPE, check=True
        )
        if problems := json.loads(done.stdout)["problems"]:
            sys.exit(f"the report has problems: {problems}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
