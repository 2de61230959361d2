"""Ideas whose code only sets knobs, which the control arm searches, are told apart and counted."""

from __future__ import annotations

import io
import json
from pathlib import Path

from bench_campaign import CampaignBench, ScriptedAuthor, ScriptedProposer, scored

from hpcscientist.bench.model.measure import read
from hpcscientist.cli.main import run
from hpcscientist.history import journal
from hpcscientist.history.state import fold
from hpcscientist.history.status import status
from hpcscientist.judgement.summary import read_rows
from hpcscientist.recipe.knobs import set_constants
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.authoring import Brief, Draft, GaveUp
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.report.table import table

SUMMARIES = ("a larger setting", "other code and that setting", "nothing but a remark")


class Sets(ScriptedAuthor):
    """Sets a knob for the first two ideas, and changes something else for the second."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        self.knob = recipe.spec.knobs[0].name

    async def write(self, brief: Brief) -> Draft | GaveUp:
        draft = await super().write(brief)
        assert isinstance(draft, Draft)
        code = draft.files[self._entry]
        if brief.idea.number < 3:
            code = set_constants(code, {self.knob: 7})
        if brief.idea.number == 2:
            code += "\nSOMETHING = 1\n"
        return Draft(files={**draft.files, self._entry: code}, note="")


async def campaign(folder: Path) -> CampaignBench:
    bench = CampaignBench(folder, ideas=3, confirm=False)
    await bench.drive(lambda _: scored(0.5), ScriptedProposer(*SUMMARIES), Sets(bench.recipe))
    return bench


async def test_what_only_sets_a_knob_is_marked_and_counted(tmp_path: Path) -> None:
    bench = await campaign(tmp_path)
    summary = read_rows(bench.paths)
    marks = {row.idea_id: row.only_knobs for row in summary.rows}
    assert marks == {
        BASELINE_ID: None, "idea-0001": True, "idea-0002": False, "idea-0003": False,
    }  # fmt: skip
    assert summary.knob_settings == 1
    assert status(bench.paths)["ideas"]["knob_settings"] == 1
    shown = io.StringIO()
    table(summary.rows, shown, verbose=True)
    assert "only knobs" in shown.getvalue()
    assert read(bench.paths).knob_settings == 1


async def test_the_control_arm_s_ideas_are_settings_by_their_nature(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2, confirm=False)
    await bench.search(lambda _: scored(0.5))
    assert status(bench.paths)["ideas"]["knob_settings"] == 0
    assert {row.only_knobs for row in read_rows(bench.paths).rows} == {None}
    assert read(bench.paths).knob_settings == 2


async def test_a_journal_without_the_field_is_read(tmp_path: Path) -> None:
    bench = await campaign(tmp_path)
    lines = [line.event for line in journal.read_lines(bench.paths.journal)]
    written = [event for event in lines if event.type == "attempt_written"]
    assert [event.only_knobs for event in written] == [{bench.recipe.spec.knobs[0].name: 7}, {}, {}]
    earlier = []
    for event in lines:
        fields = json.loads(event.model_dump_json())
        fields.pop("only_knobs", None)
        earlier.append(type(event).model_validate_json(json.dumps(fields)))
    state = fold(earlier)
    assert state.count_knob_settings() == 0
    assert {idea.only_sets_knobs for idea in state.ideas.values()} == {None}


async def test_results_say_how_many_there_were(tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    bench = await campaign(tmp_path)
    assert run(["results", str(bench.paths.root), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["only_knobs"] for row in rows] == [None, True, False, False]
