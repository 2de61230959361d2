from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import tracebacks
from benchmarks.command_line import run
from benchmarks.tracebacks import (
    PLAIN,
    READ,
    Case,
    Entry,
    Failed,
    Tally,
    cases,
    figures,
    plain,
    read,
    tally,
)

LOG = """Traceback (most recent call last):
  File "/s/code/experiment.py", line 3, in <module>
    f(2)
  File "/s/code/experiment.py", line 2, in f
    f(n)
  File "/s/code/experiment.py", line 2, in f
    f(n)
  File "/opt/library.py", line 1, in g
    g()
ValueError: seen in File "/s/code/experiment.py", line 1, in h
"""
FILES = {"experiment.py": "def f(n):\n    f(n)\nf(2)\n"}
LABELS = (("experiment.py", 3, "<module>"), ("experiment.py", 2, "f"))
AROUND: frozenset[Entry] = frozenset(
    [
        ("definitions", "experiment.py", "<module>", 3, 3),
        ("definitions", "experiment.py", "f", 1, 2),
        ("calls", "<module>", "f", "experiment.py", 3),
        ("calls", "f", "f", "experiment.py", 2),
        ("names", "f", "experiment.py", 1),
        ("names", "n", "experiment.py", 1),
    ]
)
CASE = Case(
    *("c", "stored", "recursion", FILES, LABELS, "ValueError"),
    folder="/s/code",
    log=LOG,
    structure=AROUND,
)


def test_the_corpus_is_what_it_should_be() -> None:
    found = cases()
    assert len(found) >= 60
    assert {case.how for case in found} == {"run", "stored"}
    kinds = {case.kind for case in found}
    assert kinds >= {
        "shapes", "imports", "dtypes", "nan", "off-by-one", "recursion", "library", "workers",
        "destructor", "no message", "non-ascii", "syntax", "deadline", "memory", "cuda",
    }  # fmt: skip
    for case in found:
        assert "experiment.py" in case.files
        assert bool(case.log) == (case.how == "stored") == bool(case.folder), case.name
        assert len(set(case.frames)) == len(case.frames), case.name
        for file, line, _ in case.frames:
            assert 1 <= line <= len(case.files[file].split("\n")), case.name


def test_the_corpus_is_small_enough_to_be_shipped() -> None:
    # What an installer compiles beside the sources is not shipped.
    found = (p for p in tracebacks.BROKEN.rglob("*") if "__pycache__" not in p.parts)
    files = [path for path in found if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 300_000
    assert all(str(path.relative_to(tracebacks.BROKEN)).isascii() for path in files)


def test_a_plain_expression_takes_all_that_looks_like_a_frame() -> None:
    outer, inner = LABELS
    assert plain(LOG, "/s/code", FILES) == [outer, inner, inner, ("experiment.py", 1, "h")]
    assert plain(LOG, "/elsewhere", FILES) == []
    assert read(LOG, FILES) == list(LABELS)


def test_counts() -> None:
    counts = tally([Failed(CASE, LOG, CASE.folder)])
    assert counts[READ] == Tally(2, 2, 2, 1, parts=[6, 6, 6])
    # Repeats count once; what stands around a line that no frame means is no part of it.
    assert counts[PLAIN] == Tally(3, 2, 2, 1, ["c"], parts=[7, 6, 6])
    assert counts[PLAIN].shares == {
        "precision": (2 / 3, "of 3 frames found"),
        "recall": (1.0, "of 2 frames"),
        "cases wholly right": (0.0, "of 1 cases"),
        "precision of structure": (6 / 7, "of 7 entries found"),
        "recall of structure": (1.0, "of 6 entries"),
    }
    assert Tally().shares["precision"][0] == 1.0


def test_figures_stand_beside_the_plain_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [case for case in cases() if case.name in {"raised-from", "syntax-in-the-program"}]
    monkeypatch.setattr(tracebacks, "cases", lambda: few)
    said: list[str] = []
    found = {figure.name: figure for figure in figures(runs=2, tell=said.append)}
    assert len(found) == 10
    mine, other = found[f"recall, {READ}"], found[f"recall, {PLAIN}"]
    assert (mine.value, mine.runs, mine.spread) == (1.0, 2, 0.0)
    assert other.value == 4 / 5  # a syntax error names no function
    assert other.ratio is other.compared_with is None
    assert mine.ratio == pytest.approx(5 / 4)
    assert mine.compared_with == f"{PLAIN} 0.800"
    assert mine.is_met
    assert said == ["running 2 broken experiments"] * 2


def test_the_command_prints_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tracebacks, "cases", lambda: [CASE])
    assert run(["tracebacks", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows][1] == f"precision, {READ}"
    assert rows[1]["value"] == 1.0


def test_names_beyond_ascii_are_made_when_a_case_runs(tmp_path: Path) -> None:
    (case,) = [case for case in cases() if case.name == "names-beyond-ascii"]
    failed = tracebacks.fail(case, tmp_path)
    assert "paket/näherung.py" in case.files
    assert (Path(failed.folder) / "schätzer.py").is_file()


def test_an_endless_case_is_ended_once_it_has_said_enough(tmp_path: Path) -> None:
    case = Case(
        "endless", "run", "deadline", until="go",
        files={"experiment.py": "print('go', flush=True)\nwhile True: pass\n"},
        frames=(), headline="go",
    )  # fmt: skip
    assert tracebacks.fail(case, tmp_path).log == "go\n"
