"""Programs that fail in ways tracebacks differ; each is really run by the tests."""

from __future__ import annotations

from dataclasses import dataclass, field

Place = tuple[str, int, str]  # file, line, function


@dataclass(frozen=True)
class Case:
    """A failing program. `places` are its own frames in order; `headline` starts its headline."""

    name: str
    files: dict[str, str]
    places: list[Place]
    headline: str
    arguments: tuple[str, ...] = field(default=("experiment.py",))


def _main(name: str, source: str, places: list[Place], headline: str) -> Case:
    return Case(name, {"experiment.py": source}, places, headline)


E = "experiment.py"

CASES = [
    _main(
        "module level",
        "x = 1\n\n1 / 0\n",
        [(E, 3, "<module>")],
        "ZeroDivisionError: division by zero",
    ),
    _main(
        "nested functions",
        "def inner(n):\n    return [][n]\n\ndef outer():\n    return inner(3)\n\nouter()\n",
        [(E, 7, "<module>"), (E, 5, "outer"), (E, 2, "inner")],
        "IndexError: list index out of range",
    ),
    Case(
        "two files",
        {
            E: "import sub.layers\n\nsub.layers.build({})\n",
            "sub/layers.py": "def build(shape):\n    return shape['width']\n",
        },
        [(E, 3, "<module>"), ("sub/layers.py", 2, "build")],
        "KeyError: 'width'",
    ),
    _main(
        "library frames between",
        "import json\n\njson.loads('{', object_hook=print)\n",
        [(E, 3, "<module>")],
        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)",
    ),
    _main(
        "raised from",
        "def load():\n    try:\n        return {}['a']\n    except KeyError as error:\n"
        "        raise ValueError('no such column') from error\n\nload()\n",
        [(E, 7, "<module>"), (E, 5, "load"), (E, 3, "load")],
        "ValueError: no such column",
    ),
    _main(
        "raised while handling",
        "try:\n    int('x')\nexcept ValueError:\n    undefined\n",
        [(E, 4, "<module>"), (E, 2, "<module>")],
        "NameError: name 'undefined' is not defined",
    ),
    _main(
        "syntax error in the program",
        "def f(:\n    pass\n",
        [(E, 1, "<module>")],
        "SyntaxError: invalid syntax",
    ),
    Case(
        "syntax error in an import",
        {E: "import broken\n", "broken.py": "x = (1,\ny = 2]\n"},
        [(E, 1, "<module>"), ("broken.py", 2, "<module>")],
        "SyntaxError: closing parenthesis ']' does not match opening parenthesis '(' on line 1",
    ),
    _main(
        "indentation error",
        "if True:\nx = 1\n",
        [(E, 2, "<module>")],
        "IndentationError: expected an indented block after 'if' statement on line 1",
    ),
    _main(
        "recursion",
        "def down(n):\n    return down(n + 1)\n\ndown(0)\n",
        [(E, 4, "<module>"), (E, 2, "down")],
        "RecursionError: maximum recursion depth exceeded",
    ),
    _main(
        "mutual recursion",
        "def a(n):\n    return b(n)\n\ndef b(n):\n    return a(n)\n\na(0)\n",
        [(E, 7, "<module>"), (E, 2, "a"), (E, 5, "b")],
        "RecursionError: maximum recursion depth exceeded",
    ),
    _main(
        "a class without the word in its name",
        "class Diverged(Exception):\n    pass\n\nraise Diverged\n",
        [(E, 4, "<module>")],
        "Diverged",
    ),
    _main("no message", "assert 1 == 2\n", [(E, 1, "<module>")], "AssertionError"),
    _main("interrupted", "raise KeyboardInterrupt\n", [(E, 1, "<module>")], "KeyboardInterrupt"),
    _main(
        "message of many lines",
        "raise RuntimeError('Error(s) in loading state:\\n\\tsize mismatch for weight\\nmore')\n",
        [(E, 1, "<module>")],
        "RuntimeError: Error(s) in loading state: size mismatch for weight",
    ),
    _main(
        "exception group",
        "def one():\n    raise ValueError('a')\n\ndef two():\n    raise KeyError('b')\n\n"
        "errors = []\nfor call in (one, two):\n    try:\n        call()\n"
        "    except Exception as error:\n        errors.append(error)\n"
        "raise ExceptionGroup('both', errors)\n",
        [(E, 10, "<module>"), (E, 5, "two"), (E, 2, "one"), (E, 13, "<module>")],
        "KeyError: 'b'",
    ),
    _main(
        "in a thread",
        "import threading\n\ndef work():\n    raise OSError('disk')\n\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
        "raise SystemExit(2)\n",
        [(E, 4, "work")],
        "OSError: disk",
    ),
    _main(
        "in a pool",
        "import multiprocessing\n\ndef work(n):\n    return 1 // n\n\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "        pool.map(work, [0])\n",
        [(E, 8, "<module>"), (E, 4, "work")],
        "ZeroDivisionError: integer division or modulo by zero",
    ),
    _main(
        "a destructor fails after the real error",
        "class Loose:\n    def __del__(self):\n        raise OSError('late')\n\n"
        "loose = Loose()\nraise ValueError('early')\n",
        [(E, 6, "<module>"), (E, 3, "__del__")],
        "ValueError: early",
    ),
    _main(
        "output after the traceback",
        "import atexit\nimport sys\n\n"
        "atexit.register(lambda: print('bye', file=sys.stderr))\nraise ValueError('x')\n",
        [(E, 5, "<module>")],
        "ValueError: x",
    ),
    _main(
        "a note",
        "error = ValueError('bad shape')\nerror.add_note('seen in layer 3')\nraise error\n",
        [(E, 3, "<module>")],
        "ValueError: bad shape",
    ),
    _main(
        "a statement of many lines",
        "x = None\ny = (\n    x\n    | 1\n)\n",
        [(E, 3, "<module>")],
        "TypeError: unsupported operand type(s) for |: 'NoneType' and 'int'",
    ),
    _main(
        "letters beyond ASCII",
        "größe = {}\nprint(größe['höhe'])\n",
        [(E, 2, "<module>")],
        "KeyError: 'höhe'",
    ),
    _main(
        "import of what is not there",
        "import no_such_package_anywhere\n",
        [(E, 1, "<module>")],
        "ModuleNotFoundError: No module named 'no_such_package_anywhere'",
    ),
    _main(
        "a crash of the interpreter",
        "import faulthandler\nimport os\nimport signal\n\nfaulthandler.enable()\n\n"
        "def crash():\n    os.kill(os.getpid(), signal.SIGABRT)\n\ncrash()\n",
        [(E, 10, "<module>"), (E, 8, "crash")],
        "Fatal Python error: Aborted",
    ),
    _main("no traceback", "import sys\n\nprint('stopping')\nsys.exit(1)\n", [], "stopping"),
    _main("an exit with a message", "import sys\n\nsys.exit('no data')\n", [], "no data"),
]
