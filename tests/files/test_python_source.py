from __future__ import annotations

import ast
import gc
import sys
import threading

import pytest
from newer_python import BROKEN, NEWER

from hpcscientist.files.python_source import fault, is_newer, readable_part, syntax_tree

SOURCE = "\n".join(f"def f{i}(a):\n    return [x + {i} for x in a if x > {i}]\n" for i in range(60))


def test_threads_parse_side_by_side() -> None:
    """A callback of the collector lets other threads in; CPython then mixes their depths up."""
    interval, found = sys.getswitchinterval(), []

    def collected(phase: str, info: dict[str, int]) -> None:
        sum(range(50))

    def work() -> None:
        found.extend(len(syntax_tree(SOURCE).body) for _ in range(15))

    gc.callbacks.append(collected)
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        gc.callbacks.remove(collected)
    assert found == [60] * 60


def test_trees_that_python_makes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes tracebacks with `ast.parse`, which no lock of ours holds up."""
    parse, failing = ast.parse, [SystemError("AST constructor recursion depth mismatch")] * 3

    def meeting_another(source: str, name: str) -> ast.Module:
        if failing:
            raise failing.pop()
        return parse(source, name)

    monkeypatch.setattr(ast, "parse", meeting_another)
    assert len(syntax_tree(SOURCE).body) == 60
    failing.extend([SystemError("always")] * 100)
    with pytest.raises(SystemError):
        syntax_tree(SOURCE)


def test_dubious_sources_warn_nobody_and_broken_ones_raise() -> None:
    assert syntax_tree(b"x = '\\d'").body  # warnings are errors here
    with pytest.raises(SyntaxError):
        syntax_tree("x =")
    with pytest.raises((ValueError, SyntaxError)):
        syntax_tree("x = 1\0")


@pytest.mark.parametrize("source", NEWER)
def test_code_for_a_newer_python_is_told_from_broken_code(source: str) -> None:
    assert fault(source) is None or is_newer(source)
    assert fault(f"{source}\nx = = 1") is not None
    assert not is_newer(f"{source}\nx = = 1")


@pytest.mark.parametrize("source", BROKEN)
def test_broken_code_is_for_no_python(source: str) -> None:
    assert fault(source) is not None
    assert not is_newer(source)


@pytest.mark.parametrize("source", ["x = 1", "print(f'{x!r:>{w}}')", 'x = f"""{\n3\n}"""'])
def test_old_code_is_not_for_a_newer_python(source: str) -> None:
    assert not is_newer(source)


def test_what_can_be_read_keeps_its_place() -> None:
    source = f"RATE = 1\n{NEWER[1]}\nSTEPS = 'ä'\n"
    tree = syntax_tree(readable_part(source))
    found = [(n.lineno, n.end_col_offset) for n in tree.body if isinstance(n, ast.Assign)]
    assert found == [(1, 8), (4, 12)]
