"""Imports: own files, names in them, the standard library, packages."""

from __future__ import annotations

import pytest
from checks_kit import found, messages

THERE = "there is numpy, torch, the standard library and these files alone"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import scipy.stats", f"'scipy.stats' cannot be imported; {THERE}"),
        ("def f():\n    from jax import grad", f"'jax' cannot be imported; {THERE}"),
        ("import nunpy", f"'nunpy' cannot be imported; {THERE}; did you mean 'numpy'?"),
        ("import Torch", f"'Torch' cannot be imported; {THERE}; did you mean 'torch'?"),
        ("import helpers", f"'helpers' cannot be imported; {THERE}; did you mean 'helper'?"),
        ("import net.modle", "there is no module 'net.modle'; did you mean 'net.model'?"),
        ("from net import modle", None),  # a folder without __init__: nothing is certain
        ("from net.modle import Net", "there is no module 'net.modle'; did you mean 'net.model'?"),
        ("import model", f"'model' cannot be imported; {THERE}; did you mean 'net.model'?"),
        (
            "from helper import widht",
            "cannot import 'widht' from helper.py, which has no such name; did you mean 'width'?",
        ),
        ("import helper\nhelper.widht(2)", "helper.py has no 'widht'; did you mean 'width'?"),
        ("import net.model as m\nm.Nets", "net/model.py has no 'Nets'; did you mean 'Net'?"),
        (
            "from .helper import width",
            "the relative import .helper leads out of the code folder, which is no package; "
            "import the file by its name",
        ),
        ("if __name__ == '__main__':\n    import jax", f"'jax' cannot be imported; {THERE}"),
        ("try:\n    import jax\nfinally:\n    pass", f"'jax' cannot be imported; {THERE}"),
        (
            "try:\n    import jax\nexcept ImportError:\n    raise SystemExit('no jax')",
            f"'jax' cannot be imported; {THERE}",
        ),
    ],
)
def test_what_cannot_be_imported(source: str, message: str | None) -> None:
    files = {"helper": "def width(x): return x\n", "net__model": "class Net: pass\n"}
    assert messages(source, **files) == ([message] if message else [])


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np, torch.nn.functional as F, json, os.path, distutils",
        "from __future__ import annotations",
        "from helper import width, WIDTH, later, Late",
        "from helper import *",
        "import helper\nhelper.width, helper.WIDTH, helper.__name__, helper.later",
        "import helper\nif hasattr(helper, 'rate'):\n    helper.rate",
        "import helper\nhelper.rate = 3\nprint(helper.rate)",
        "import helper\nhelper = object()\nhelper.rate",
        "from net import model, blocks\nfrom net.model import Net\nimport net.model\nnet.model.Net",
        "from net import deep\nfrom net.deep.er import x\nimport net.deep",
        "try:\n    import jax\nexcept ImportError:\n    jax = None",
        "try:\n    import jax\nexcept ImportError as e:\n    print(e)\nelse:\n    import optax",
        "try:\n    import json\nexcept ImportError:\n    import simplejson as json",
        "try:\n    import jax\nexcept Exception:\n    pass",
        "import contextlib\nwith contextlib.suppress(ImportError):\n    import jax",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import jax",
        "import sys\nif sys.version_info < (3, 8):\n    import importlib_metadata",
        "PLOT = False\nif PLOT:\n    import matplotlib.pyplot as plt",
        "def f(plot):\n    if not plot:\n        return\n    import matplotlib",
        "import sys\nsys.path.insert(0, '/opt/more')\nimport somewhere_else",
        "import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), 'net'))\n"
        "import model, blocks",
        "import sys, types\nsys.modules['fake'] = types.ModuleType('fake')\nimport fake",
    ],
)
def test_what_can_be_imported_or_may_be(source: str) -> None:
    files = {
        "helper": """
            import json as later
            if later:
                WIDTH = 3
            else:
                def width(x): return x
            def make():
                global Late
                Late = 3
        """,
        "net__model": "from .blocks import Block\nfrom . import blocks\nclass Net: pass\n",
        "net__blocks": "Block = 3\n",
        "net__deep__init": "",
        "net__deep__er": "from ..blocks import Block\nfrom .. import model\nx = 1\n",
    }
    assert found(source, **files) == []


def test_a_path_beside_the_file_lets_nothing_else_in() -> None:
    source = (
        "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).parent))\n"
    )
    assert messages(source, "import jax") == [f"'jax' cannot be imported; {THERE}"]


def test_any_package_may_be_there_where_nobody_knows() -> None:
    source = "import jax\nimport helper.more\nfrom helper import no"
    assert messages(source, packages=None, helper="yes = 1") == [
        "there is no module 'helper.more'; did you mean 'helper'?",
        "cannot import 'no' from helper.py, which has no such name",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "from math import *",
        "def __getattr__(name): return name",
        "globals()['rate'] = 3",
        "exec('rate = 3')",
        "import sys\nsetattr(sys.modules[__name__], 'rate', 3)",
    ],
)
def test_a_file_may_have_names_that_nobody_can_read(text: str) -> None:
    assert found("from helper import rate\nimport helper\nhelper.rate", helper=text) == []


def test_relative_imports_within_folders() -> None:
    files = {"net__init": "", "net__a": "from .bb import x\nfrom .b import y\nfrom ..c import z\n"}
    assert found("import net.a", net__b="x = 1", c="z = 1", **files) == [
        ("net/a.py", 1, "there is no module .bb"),
        ("net/a.py", 2, "cannot import 'y' from net/b.py, which has no such name"),
        (
            "net/a.py",
            3,
            "the relative import ..c leads out of the code folder, which is no package; "
            "import the file by its name",
        ),
    ]


def test_own_files_named_as_what_the_library_has_are_left_alone() -> None:
    files = {"random": "x = 1", "abc": "import abc\nabc.ABC", "numpy": "z = 1"}
    assert found("from random import choice\nimport random\nrandom.y\n", **files) == []


def test_a_folder_does_not_hide_a_package() -> None:
    assert found("import torch.nn\nfrom torch.optim import Adam", torch__mine="") == []
