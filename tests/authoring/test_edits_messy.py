from __future__ import annotations

from collections import Counter

import messy_kit
import pytest

from hpcscientist.authoring.edits import Applied, EditError, apply_noted
from hpcscientist.records.authoring import Edit

CASES = messy_kit.cases()
LEAST = 0.95  # share of the edits that can be applied which are, exactly


def outcome(case: messy_kit.Case) -> str:
    files = {case.source: case.text, "other.py": "X = 1\n"}
    edit = Edit(file=case.source, search=case.search, replace=case.replace)
    result = apply_noted(files, [edit], [case.source])
    if isinstance(result, EditError):
        return "refused"
    assert result.files["other.py"] == files["other.py"]
    return "exact" if result.files[case.source] == case.right else "wrong"


def test_messy_edits_are_applied_exactly_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    table = Counter((case.kind, case.right is not None, outcome(case)) for case in CASES)
    total = {
        key: sum(n for k, n in table.items() if k[1:] == key) for key in {k[1:] for k in table}
    }
    fit = sum(n for (apt, _), n in total.items() if apt)
    rows = [
        f"{'kind':14} {'edits':>5} {'exact':>5} {'refused':>7} {'of them rightly':>15} {'wrong':>5}"
    ]
    for kind in [*sorted({kind for kind, _, _ in table}), "all"]:
        of = Counter[tuple[bool, str]]()
        for (name, apt, what), n in table.items():
            of[apt, what] += n if kind in (name, "all") else 0
        refused = of[True, "refused"] + of[False, "refused"]
        wrong = of[True, "wrong"] + of[False, "wrong"]
        rows.append(
            f"{kind:14} {of.total():5} {of[True, 'exact']:5} {refused:7} "
            f"{of[False, 'refused']:15} {wrong:5}"
        )
    with capsys.disabled():
        print("", *rows, sep="\n")
    assert len(CASES) >= 140
    assert total.get((True, "wrong"), 0) + total.get((False, "wrong"), 0) == 0
    assert total[True, "exact"] >= LEAST * fit


def test_cases_are_told_apart() -> None:
    seen = Counter((case.source, case.search, case.replace) for case in CASES)
    assert max(seen.values()) == 1
    assert {case.right is None for case in CASES} == {True, False}
    assert sum(case.right is not None for case in CASES) >= 80


def test_most_cases_need_more_than_a_plain_search() -> None:
    apt = [case for case in CASES if case.right is not None and case.search is not None]
    plain = sum(
        case.text.count(case.search) == 1
        and case.text.replace(case.search, case.replace) == case.right
        for case in apt
        if case.search is not None
    )
    assert plain < 0.1 * len(apt)


@pytest.mark.parametrize("case", [c for c in CASES if c.right is None], ids=lambda c: c.name)
def test_a_refusal_says_where_to_look(case: messy_kit.Case) -> None:
    edit = Edit(file=case.source, search=case.search, replace=case.replace)
    error = apply_noted({case.source: case.text}, [edit], [case.source])
    assert isinstance(error, EditError)
    assert "\n" not in error.reason
    assert error.near or case.search is None or "leaves" in error.reason or "line" in error.reason


@pytest.mark.parametrize("case", [c for c in CASES if c.right], ids=lambda c: c.name)
def test_nothing_beyond_the_noted_lines_changes(case: messy_kit.Case) -> None:
    edit = Edit(file=case.source, search=case.search, replace=case.replace)
    result = apply_noted({case.source: case.text}, [edit], [case.source])
    if not isinstance(result, Applied):
        return
    (note,) = result.notes
    before, after = case.text.split("\n"), result.files[case.source].split("\n")
    if note.matched == "whole file":
        return
    aside = len((case.search or "").split("\n"))  # comments beside the code that was found
    head, tail = max(0, note.first - 1 - aside), note.last + aside
    assert after[:head] == before[:head]
    assert tail >= len(before) or after[tail - len(before) :] == before[tail:]
