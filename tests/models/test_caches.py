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
from hpcscientist.models.serving.order import ServedModel

MODEL = ServedModel(
    name="m",
    folder="/nowhere",
    replicas=1,
    workers=1,
    within_node=True,
    bundle={},
    engine={"max_model_len": 2048},
    variables={},
)


def compiled(folder: Path, *names: str) -> Path:
    for name in names:
        file = folder / "vllm" / "torch_compile_cache" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"of {name}")
    return folder


def listed(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in found}


def test_what_was_compiled_is_there_at_the_next_start(tmp_path: Path) -> None:
    kept = caches.archive(MODEL, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    assert caches.unpack(kept, first) == 0
    compiled(first, "a", "b")
    (first / "cache").mkdir()
    (first / "cache" / "other").write_text("no compiled code")
    caches.keep(kept, first, 0)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert caches.unpack(kept, second) == 2
    assert listed(second) == listed(compiled(third, "a", "b"))
    written = kept.stat().st_ino
    caches.keep(kept, second, 2)  # nothing is new
    assert kept.stat().st_ino == written
    compiled(second, "c")
    caches.keep(kept, second, 2)
    assert caches.unpack(kept, tmp_path / "fourth") == 3
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


def test_what_another_model_or_engine_compiled_is_not_taken(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    other = MODEL.model_copy(update={"engine": {"max_model_len": 4096}})
    named = MODEL.model_copy(update={"name": "n", "replicas": 3, "variables": {"A": "b"}})
    paths = [caches.archive(model, environment) for model in (MODEL, other, named)]
    assert paths[0] != paths[1]
    assert paths[0] == paths[2]


@pytest.mark.parametrize("damaged", ["cut", "others", "folder"])
def test_an_archive_that_cannot_be_trusted_is_left_alone(tmp_path: Path, damaged: str) -> None:
    kept = caches.archive(MODEL, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    caches.keep(kept, compiled(tmp_path / "first", "a"), 0)
    if damaged == "cut":
        kept.write_bytes(kept.read_bytes()[:-10])
    else:
        (kept if damaged == "others" else kept.parent).chmod(0o777)
    assert caches.unpack(kept, tmp_path / "second") == 0
    assert not (tmp_path / "second").exists()


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "hpcscientist").write_text("no folder")
    kept = caches.archive(MODEL, {"XDG_CACHE_HOME": str(tmp_path)})
    caches.keep(kept, compiled(tmp_path / "first", "a"), 0)
    assert caches.unpack(kept, tmp_path / "second") == 0


def test_archives_used_last_are_kept(tmp_path: Path) -> None:
    engines = [{"max_model_len": tokens} for tokens in range(1, caches._ARCHIVES + 3)]
    models = [MODEL.model_copy(update={"engine": engine}) for engine in engines]
    paths = [caches.archive(model, {"XDG_CACHE_HOME": str(tmp_path)}) for model in models]
    folder = compiled(tmp_path / "first", "a")
    for number, path in enumerate(paths[:-1]):
        caches.keep(path, folder, 0)
        os.utime(path, (number, number))
    caches.unpack(paths[1], tmp_path / "second")  # used again
    caches.keep(paths[-1], folder, 0)
    assert {path.name for path in paths[-1].parent.iterdir()} == {
        path.name for path in (paths[1], *paths[3:])
    }


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
