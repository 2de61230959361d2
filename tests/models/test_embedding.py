"""Embeddings by a real model, and what is said where there is none."""

from __future__ import annotations

import builtins
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_kit import OTHER, REWORDED, ROTATED, model_folder

from hpcscientist.errors import ModelError
from hpcscientist.models.embedding.keywords import KeywordEmbedder
from hpcscientist.models.embedding.sentences import SentenceEmbedder, hash_model

OFFLINE = """
import os, socket, sys

class Refused(socket.socket):
    def __new__(cls, *_, **__):
        raise AssertionError("a socket was opened")

def refuse(*_, **__):
    raise AssertionError("a name was looked up")

socket.socket = Refused
socket.create_connection = socket.getaddrinfo = refuse
for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ.pop(name, None)
from pathlib import Path
from hpcscientist.models.embedding.sentences import SentenceEmbedder
embedder = SentenceEmbedder(Path(sys.argv[1]))
assert os.environ["HF_HUB_OFFLINE"] == os.environ["TRANSFORMERS_OFFLINE"] == "1"
sys.stdout.write(embedder.embed([sys.argv[2]])[0].tobytes().hex())
"""


@pytest.fixture(scope="module")
def embedder() -> SentenceEmbedder:
    return SentenceEmbedder(model_folder())


@pytest.mark.serving
def test_meaning_counts_and_not_words(embedder: SentenceEmbedder) -> None:
    rows = embedder.embed([ROTATED, REWORDED, OTHER])
    assert rows[0] @ rows[1] > 0.8
    assert rows[0] @ rows[2] < 0.5
    words = KeywordEmbedder().embed([ROTATED, REWORDED])
    assert (words @ words.T).toarray()[0, 1] < 0.5


@pytest.mark.serving
def test_another_process_opens_no_socket_and_gives_the_same(
    embedder: SentenceEmbedder, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(model_folder()), ROTATED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    other = np.frombuffer(bytes.fromhex(done.stdout), dtype=np.float32)
    assert other == pytest.approx(embedder.embed([ROTATED])[0], abs=1e-5)
    assert done.stderr == ""


@pytest.mark.serving
def test_a_name_says_what_is_in_use(embedder: SentenceEmbedder) -> None:
    import torch  # noqa: PLC0415 (not everywhere)

    assert embedder.name == f"sentence-transformers {model_folder().name}"
    assert embedder.device == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.serving
def test_a_gpu_without_room_is_left_for_the_cpu(embedder: SentenceEmbedder) -> None:
    import torch  # noqa: PLC0415 (not everywhere)

    own: Any = SentenceEmbedder(model_folder())
    full = own._device = "cpu:0"  # a device as real as a GPU, and there everywhere

    def refuse(*_: object) -> None:
        if own.device == full:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    own._model.register_forward_pre_hook(refuse)
    rows = own.embed([ROTATED])
    assert own.device == "cpu"
    assert rows == pytest.approx(embedder.embed([ROTATED]), abs=1e-5)


@pytest.mark.serving
def test_a_damaged_model_is_named(tmp_path: Path) -> None:
    folder = shutil.copytree(model_folder(), tmp_path / "cut")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match=r"/cut: .*opened: .*; copy "):
        SentenceEmbedder(folder)


@pytest.mark.serving
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    folder = shutil.copytree(model_folder(), tmp_path / "nan")
    from safetensors.numpy import load_file, save_file  # noqa: PLC0415 (not everywhere)

    weights = folder / "model.safetensors"
    tensors = {name: tensor * np.float32("nan") for name, tensor in load_file(weights).items()}
    save_file(tensors, weights, {"format": "pt"})
    with pytest.raises(ModelError, match=r"/nan: .*no numbers; .*weights"):
        SentenceEmbedder(folder)


@pytest.mark.parametrize(("made", "what"), [(False, "no folder"), (True, r"modules\.json")])
def test_a_folder_that_is_none_of_a_model(tmp_path: Path, made: bool, what: str) -> None:
    folder = tmp_path / "model"
    if made:
        folder.mkdir()
    with pytest.raises(ModelError, match=rf"/model: .*\b{what}; .*embedding\.model"):
        SentenceEmbedder(folder)


@pytest.mark.parametrize("lacking", ["torch", "sentence_transformers"])
def test_a_missing_library_is_named_with_its_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    (tmp_path / "modules.json").write_text("[]")
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == lacking:
            raise ModuleNotFoundError(f"No module named {lacking!r}")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModelError, match=r"pip install 'hpcscientist\[embedding\]'"):
        SentenceEmbedder(tmp_path)


def test_the_hash_is_of_what_is_read(tmp_path: Path) -> None:
    folder, blobs = tmp_path / "model", tmp_path / "blobs"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "modules.json").write_text("[]")
    blobs.write_text("weights")
    (folder / "model.safetensors").symlink_to(blobs)  # as in a hub's cache
    before = hash_model(folder)
    (folder / "onnx").mkdir()
    for unread in ("README.md", ".gitattributes", "pytorch_model.bin", "onnx/model.onnx"):
        (folder / unread).write_text("anything")
    assert hash_model(folder) == before
    (folder / "1_Pooling" / "config.json").write_text("{}")
    pooled = hash_model(folder)
    assert pooled != before
    blobs.write_text("other weights")
    assert hash_model(folder) != pooled
    (folder / "model.safetensors").unlink()
    without = hash_model(folder)
    (folder / "pytorch_model.bin").write_text("something else")  # read, where it is alone
    assert hash_model(folder) != without
