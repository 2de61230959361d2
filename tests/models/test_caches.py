"""Where vLLM's processes keep what they compile, asked of vLLM itself."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpcscientist.models.serving.nodes import caches

# A worker that Ray has started imports, takes its replica's variables over, and goes on.
ASK = """
import json, os, sys
import vllm.v1.worker.worker_base
for name, value in json.loads(sys.argv[1]).items():
    os.environ.setdefault(name, value)
from vllm.plugins import load_general_plugins
load_general_plugins()
from vllm import envs
print(envs.VLLM_CACHE_ROOT)
"""


@pytest.mark.serving
def test_vllm_keeps_nothing_outside_of_its_node_s_folder(tmp_path: Path) -> None:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("NOT TESTED: vLLM is not installed; tests/serving_environment")
    node, another = tmp_path / "node", tmp_path / "another"
    node.mkdir()
    for given, kept in ((another, node), (node / "r-1", node / "r-1")):
        own = caches.variables(node)
        environment = {name: value for name, value in os.environ.items() if name not in own}
        environment |= {caches.FOLDER: str(node), "TMPDIR": str(node)}
        done = subprocess.run(
            [sys.executable, "-c", ASK, json.dumps(caches.variables(given))],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert Path(done.stdout.splitlines()[-1]).is_relative_to(kept)
    assert not another.exists()
