"""Programs drawn at random fail, and what Python holds of it is compared with what is read."""

from __future__ import annotations

import linecache
import traceback
from pathlib import PurePosixPath
from types import TracebackType

from benchmarks.tracebacks import Case, Place, cases
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.authoring.tracebacks.log import MAX_FRAMES, frames

FOLDER = PurePosixPath("/scratch/trials/t-1/code")
HEAD = "import contextlib\n\nprint = lambda *_: None\n"

# How a function calls the next one; `{}` is the call.
CALLS = (
    "return {}",
    "value = [{} for _ in range(1)] if depth < 0 else {}\n    return value",
    "return next(iter([lambda: {}]))()",
    "return list(({} for _ in range(2)))",
    "with contextlib.suppress(StopIteration):\n        return {}",
    "try:\n        return {}\n    except ValueError as e:\n        raise KeyError(depth) from e",
    "try:\n        return {}\n    except KeyError:\n        raise ValueError('während')",
    "try:\n        return {}\n    finally:\n        print(depth)",
    "return (\n        depth\n        + {}\n    )",
    "return {} if depth > 3 else f{index}(depth + 1)",
    "class Inner:\n        value = {}\n    return Inner",
)
ENDS = (
    "raise ValueError('no')",
    "raise ValueError",
    "raise ValueError('first\\nTraceback: second\\n  third')",
    "raise ExceptionGroup('both', [ValueError(1), KeyError(2)])",
    "return [][depth]",
    "return int('ü')",
    "assert depth < 0, 'depth: '",
)


@st.composite
def programs(draw: st.DrawFn) -> dict[str, str]:
    """Draw sources: `f0` calls `f1`, which stands in some other file, and so on; the last fails."""
    names = ["experiment.py", "model/layers.py", "layers.py", "utils.py"]
    length = draw(st.integers(1, 8))
    placed = [draw(st.sampled_from(names)) for _ in range(length)]
    files = dict.fromkeys(["experiment.py", *placed], HEAD)
    for index, name in enumerate(placed):
        if index + 1 < length:
            body = draw(st.sampled_from(CALLS)).replace("{index}", str(index))
            body = body.replace("{}", f"f{index + 1}(depth + 1)")
        else:
            body = draw(st.sampled_from(ENDS))
        files[name] += f"\n\ndef f{index}(depth):\n    {body}\n"
    files["experiment.py"] += "\n\nf0(0)\n"
    return files


def failure(files: dict[str, str]) -> Exception:
    """Run a program in one namespace and return how it failed."""
    space: dict[str, object] = {}
    try:
        for name in reversed(files):  # the experiment, which comes first, runs last
            exec(compile(files[name], str(FOLDER / name), "exec"), space)
    except (LookupError, ValueError, AssertionError, ExceptionGroup) as error:
        return error
    raise RuntimeError("it did not fail")


def held(error: BaseException, files: dict[str, str]) -> list[Place]:
    """Return what Python holds of a failure, in the order in which frames are promised."""
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None:
        chain.append(at)
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    found: dict[Place, None] = {}
    for one in chain:
        found.update(dict.fromkeys(walked(one.__traceback__, files)))
    return list(found)


def walked(at: TracebackType | None, files: dict[str, str]) -> list[Place]:
    places = []
    while at is not None:
        path = PurePosixPath(at.tb_frame.f_code.co_filename)
        name = str(path.relative_to(FOLDER)) if path.is_relative_to(FOLDER) else ""
        if name in files:
            places.append((name, at.tb_lineno, at.tb_frame.f_code.co_name))
        at = at.tb_next
    return places


@given(programs(), st.booleans())
def test_what_is_read_is_what_python_holds(files: dict[str, str], sources: bool) -> None:
    error = failure(files)
    shown = held(error, files)
    for name, text in files.items():  # no such files exist; without sources names must do
        lines = text.splitlines(keepends=True) if sources else []
        linecache.cache[str(FOLDER / name)] = (len(text), None, lines, str(FOLDER / name))
    log = "".join(traceback.format_exception(error))
    linecache.clearcache()
    assert sources == ("f0(0)\n" in log)
    found = [(frame.file, frame.line, frame.function) for frame in frames(log, files)]
    assert len(shown) <= MAX_FRAMES
    assert found == shown, log


STORED = [case for case in cases() if case.log]


@given(st.sampled_from(STORED), st.integers(0, 5000))
def test_a_log_cut_off_anywhere_tells_nothing_else(case: Case, cut: int) -> None:
    for frame in frames(case.log[min(cut, len(case.log)) :], case.files):
        assert (frame.file, frame.line, frame.function) in case.frames
