"""Models' folders, whole and in every way not."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest
from checkpoint_kit import CONFIG, FIRST, POINTER, SECOND, write_json, write_model, write_shard

from hpcscientist.errors import WeightsError
from hpcscientist.models.serving.checking.shape import LayerCache, read_shape
from hpcscientist.models.serving.checking.tensors import resolve
from hpcscientist.models.serving.checking.weights import chat_template, check, require_whole

SHARD = "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def refused(folder: Path) -> str:
    with pytest.raises(WeightsError) as caught:
        check(folder)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(str(folder))
    return said


def test_whole_model_is_measured(model: Path) -> None:
    found = check(model)
    assert (found.folder, found.architecture) == (str(model), "LlamaForCausalLM")
    assert (found.layers, found.hidden, found.heads) == (2, 64, 4)
    assert found.caches == (LayerCache(heads=2, size=32),) * 2
    assert (found.vocab, found.context, found.dtype) == (128, 2048, "bfloat16")
    numbers = 2 * (128 * 64 + 8 * 4)
    assert (found.weight_bytes, found.floats, found.other_bytes) == (2 * numbers, numbers, 0)
    assert found.outside_floats == 2 * 128 * 64
    assert chat_template(model) is not None
    assert found.remarks == ()


def test_a_template_that_knows_thinking(model: Path) -> None:
    assert not check(model).thinks
    (model / "chat_template.jinja").write_text("{{ messages }}<think>\n\n</think>")
    assert check(model).thinks


def test_one_file_without_an_index(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    for path in (*folder.glob("model-*"), folder / INDEX):
        path.unlink()
    write_shard(folder / "model.safetensors", {**FIRST, **SECOND}, "F32")
    assert check(folder).weight_bytes == 4 * 2 * (128 * 64 + 8 * 4)


def test_text_part_of_a_model_of_several_kinds(model: Path) -> None:
    write_json(
        model / "config.json",
        {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": CONFIG},
    )
    found = check(model)
    assert (found.architecture, found.layers) == ("Gemma3ForConditionalGeneration", 2)


@pytest.mark.parametrize(
    ("said", "heads", "head_dim"),
    [({}, (8, 4), 256), ({"num_attention_heads": 16, "num_key_value_heads": 8}, (16, 8), 256)],
)
def test_what_gemma_3_leaves_unsaid_is_known(
    said: dict[str, int], heads: tuple[int, int], head_dim: int
) -> None:
    """As the models of 4 and 12 billion parameters are published."""
    sizes = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    scaled = {"rope_scaling": {"factor": 8.0, "rope_type": "linear"}}
    text = {"model_type": "gemma3_text"} | sizes | scaled | said
    whole = {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3"}
    shape, lacks = read_shape(whole | {"text_config": text})
    assert not lacks
    assert shape is not None
    assert (shape.heads, shape.caches[-1].heads) == heads
    assert (shape.caches[-1].size, shape.vocab) == (2 * head_dim, 262_208)
    assert shape.context == 131_072


def test_missing_shard_is_named(model: Path) -> None:
    (model / SHARD).unlink()
    assert re.search(rf"\b1 of 2 .*\({SHARD}\)", refused(model))


def test_numbered_shard_is_missed_without_an_index(model: Path) -> None:
    (model / INDEX).unlink()
    assert check(model).layers == 2
    (model / SHARD).unlink()
    assert re.search(rf"\b1 of 2 .*\({SHARD}\)", refused(model))


@pytest.mark.parametrize("kept", [0, 3, 40, -1])
def test_truncated_shard_is_found(model: Path, kept: int) -> None:
    path = model / SHARD
    path.write_bytes(path.read_bytes()[:kept])
    assert f"{SHARD} is cut" in refused(model)


def test_shard_with_more_than_its_header_says(model: Path) -> None:
    path = model / SHARD
    path.write_bytes(path.read_bytes() + b"\0")
    assert f"{SHARD} is longer" in refused(model)


def test_pointer_in_a_shards_place(model: Path) -> None:
    (model / SHARD).write_text(POINTER)
    (model / "tokenizer.json").write_text(POINTER)
    said = refused(model)
    assert re.search(rf"\b{SHARD} [^;]*\bgit-LFS\b[^;]*`git lfs pull`", said)
    assert re.search(r"\btokenizer\.json [^;]*\bgit-LFS\b[^;]*`git lfs pull`", said)


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"nonsense",
        b'{"a": 1}',
        b'{"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 8]}}',
        b'{"a": {"dtype": "BF16", "shape": [2], "data_offsets": [4, 8]}}',
        b'{"a": {"dtype": "BF16", "shape": ["x"], "data_offsets": [0, 8]}}',
    ],
)
def test_header_that_makes_no_sense(model: Path, header: bytes) -> None:
    (model / SHARD).write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    assert SHARD in refused(model)


def test_header_of_absurd_length(model: Path) -> None:
    (model / SHARD).write_bytes(struct.pack("<Q", 2**63) + bytes(8))
    assert f"{SHARD} is no" in refused(model)


def test_index_names_a_tensor_its_file_lacks(model: Path) -> None:
    write_shard(model / SHARD, {"lm_head.weight": (128, 64)})
    assert "their index (model.layers.1.w)" in refused(model)


def test_index_may_not_lead_out_of_the_folder(model: Path) -> None:
    write_json(model / INDEX, {"weight_map": {"a": "../other.safetensors"}})
    assert f"{INDEX} maps no" in refused(model)


def test_pickles_alone_are_refused_with_the_reason(model: Path) -> None:
    for path in (*model.glob("*.safetensors"), model / INDEX):
        path.unlink()
    (model / "pytorch_model.bin").write_bytes(b"x")
    said = refused(model)
    assert "pytorch_model.bin" in said
    assert "execute code" in said


def test_adapter_alone_is_no_model(tmp_path: Path) -> None:
    said = {"peft_type": "LORA", "base_model_name_or_path": "lab/Base-8B"}
    for name in ("adapter", "adapter-with-config"):
        folder = write_model(tmp_path / name)
        for path in (*folder.glob("model-*"), folder / INDEX):
            path.unlink()
        write_json(folder / "adapter_config.json", said)
        write_shard(folder / "adapter_model.safetensors", FIRST, "F32")
    (tmp_path / "adapter" / "config.json").unlink()
    assert "only an adapter of lab/Base-8B: merge it" in refused(tmp_path / "adapter")
    assert "only an adapter of lab/Base-8B: merge it" in refused(tmp_path / "adapter-with-config")


@pytest.mark.parametrize("below", ["snapshots/1a2b", "checkpoint-500"])
def test_folder_of_folders_says_which_to_give(tmp_path: Path, below: str) -> None:
    write_model(tmp_path / "cache" / below)
    said = refused(tmp_path / "cache")
    assert said.endswith(f"give one of {tmp_path / 'cache' / below}")
    assert "tokenizer" not in said


def test_quantization_that_modelopt_writes_beside_config_json(model: Path) -> None:
    inner = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
    write_json(model / "hf_quant_config.json", {"producer": {}, "quantization": inner})
    found = check(model)
    assert (found.quantization, found.kv_bits) == ("modelopt", 8)


def test_pickles_beside_safetensors_are_remarked(model: Path) -> None:
    (model / "pytorch_model.bin").write_bytes(b"x")
    assert "pytorch_model.bin" in check(model).remarks[0]


def test_everything_is_listed_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    said = refused(folder)
    for what in ("config.json is missing", "*.safetensors", "tokenizer_config", "chat template"):
        assert what in said
    assert "tokenizer: none of tokenizer.json" in said


def test_config_that_lacks_numbers_names_them(model: Path) -> None:
    write_json(model / "config.json", {"hidden_size": True})
    said = refused(model)
    for what in ("no architecture", "num_hidden_layers", "hidden_size", "vocab_size"):
        assert what in said


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "[1]", "null"])
def test_config_that_cannot_be_read(model: Path, text: str) -> None:
    (model / "config.json").write_text(text)
    assert "config.json is " in refused(model)


def test_template_is_missing(model: Path) -> None:
    write_json(model / "tokenizer_config.json", {})
    assert "into chat_template.jinja" in refused(model)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chat_template.jinja", "{% generation %}{{ a }}{% endgeneration %}{% break %}"),
        ("chat_template.json", json.dumps({"chat_template": "{{ a }}"})),
        (
            "tokenizer_config.json",
            json.dumps({"chat_template": [{"name": "default", "template": "{{ a }}"}]}),
        ),
    ],
)
def test_template_may_lie_in_several_places(model: Path, name: str, text: str) -> None:
    write_json(model / "tokenizer_config.json", {})
    (model / name).write_text(text)
    check(model)
    assert chat_template(model) is not None


def test_template_that_is_cut_off(model: Path) -> None:
    (model / "chat_template.jinja").write_text("a\n{% for m in messages %}")
    assert "chat template: line 2" in refused(model)


@pytest.mark.parametrize(
    "files",
    [{"tokenizer.model": "\n\x0e"}, {"vocab.json": '{"a": 0}', "merges.txt": "#version: 0.2\n"}],
)
def test_other_tokenizers(model: Path, files: dict[str, str]) -> None:
    (model / "tokenizer.json").unlink()
    for name, text in files.items():
        (model / name).write_text(text)
    assert check(model).vocab == 128


def test_half_of_a_tokenizer(model: Path) -> None:
    (model / "tokenizer.json").unlink()
    (model / "vocab.json").write_text("{}")
    assert "vocab.json with merges.txt" in refused(model)


def test_quantization_and_long_context_are_noted(tmp_path: Path) -> None:
    folder = write_model(
        tmp_path / "q",
        quantization_config={"quant_method": "gptq", "group_size": 64},
        rope_scaling={"rope_type": "linear", "factor": 4.0},
        layer_types=["linear_attention", "full_attention"],
        head_dim=128,
    )
    found = check(folder)
    assert (found.quantization, found.quantization_block) == ("gptq", 64)
    assert found.context == 8192
    assert found.caches == (LayerCache(state=4 * 128 * 128), LayerCache(heads=2, size=256))


def test_experts_have_a_width_of_their_own(tmp_path: Path) -> None:
    assert check(write_model(tmp_path / "dense")).expert_inner == 0
    assert check(write_model(tmp_path / "moe", moe_intermediate_size=16)).expert_inner == 16


def test_groups_of_compressed_tensors_are_blocks(tmp_path: Path) -> None:
    groups = {"group_0": {"weights": {"num_bits": 4, "group_size": 32}}, "group_1": None}
    said = {"quant_method": "compressed-tensors", "config_groups": groups}
    found = check(write_model(tmp_path / "c", quantization_config=said))
    assert (found.quantization, found.quantization_block) == ("compressed-tensors", 32)
    groups["group_0"] = {"weights": {"block_structure": [128, 64], "group_size": None}}
    assert check(write_model(tmp_path / "d", quantization_config=said)).quantization_block == 128


def test_context_that_a_model_was_made_for(tmp_path: Path) -> None:
    """Command R says less elsewhere; it is vLLM's choice, too."""
    said = {"max_position_embeddings": 8192, "model_max_length": 131_072}
    assert check(write_model(tmp_path / "r", **said)).context == 131_072


def test_rank_without_a_latent_cache(tmp_path: Path) -> None:
    """MiniCPM 3 has a cache of whole heads, which are of two parts."""
    parts = {"kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32}
    found = check(write_model(tmp_path / "m", model_type="minicpm3", **parts))
    assert found.caches[0] == LayerCache(heads=2, size=192)


def test_mistral_s_own_tokenizer_alone_says_what_to_add(model: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (model / name).unlink()
    (model / "tekken.json").write_text('{"vocab": []}')
    assert "tekken.json alone" in refused(model)
    assert "small files" not in refused(model)


def test_latent_attention_is_measured(tmp_path: Path) -> None:
    found = check(write_model(tmp_path / "l", kv_lora_rank=512, qk_rope_head_dim=64))
    assert found.caches[0] == LayerCache(heads=1, size=576)


def test_what_the_engine_reads_is_believed(model: Path) -> None:
    """It knows defaults, layers and heads of families that are not known here."""
    config = {"architectures": ["NewForCausalLM"], "text_config": {"depth": 4}}
    write_json(model / "config.json", config)
    assert "says no num_hidden_layers" in refused(model)
    require_whole(model)
    engine = {"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": [2, 2, 1, 1]}
    more = {"head_dim": [64] * 4, "hidden_size": 512, "vocab_size": 1000, "layer_types": None}
    found = check(model, engine | more)
    assert [kept.heads for kept in found.caches] == [2, 2, 1, 1]
    assert {kept.size for kept in found.caches} == {128}


def test_what_is_lacking_in_config_json_is_all_named(model: Path) -> None:
    write_json(model / "config.json", {"model_type": "new", "num_hidden_layers": 2})
    said = refused(model)
    for lack in ("no architecture", "hidden_size", "num_attention_heads", "vocab_size"):
        assert lack in said
    (model / SHARD).unlink()
    with pytest.raises(WeightsError, match=rf"\b1 of 2 .*\({SHARD}\)"):
        require_whole(model)


def test_folder_is_found_from_where_one_stands(model: Path) -> None:
    assert resolve("model", {}, model.parent) == model
    assert resolve(str(model), {}, Path("/")) == model


def snapshot(cache: Path, commit: str) -> Path:
    return write_model(cache / "models--org--name" / "snapshots" / commit)


@pytest.mark.parametrize(
    "variables",
    [{"HF_HUB_CACHE": "{}/hub"}, {"HF_HOME": "{}"}, {"XDG_CACHE_HOME": "{}/x"}],
)
def test_name_of_the_hub_is_found_in_the_cache(tmp_path: Path, variables: dict[str, str]) -> None:
    cache = tmp_path / ("x/huggingface/hub" if "XDG_CACHE_HOME" in variables else "hub")
    environ = {key: value.format(tmp_path) for key, value in variables.items()}
    snapshot(cache, "bbb")
    wanted = snapshot(cache, "aaa")
    refs = cache / "models--org--name" / "refs"
    refs.mkdir()
    (refs / "main").write_text("aaa")
    assert resolve("org/name", environ, tmp_path) == wanted
    assert check(wanted).layers == 2


def test_link_to_a_blob_that_never_came(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, "aaa")
    (folder / SHARD).unlink()
    (folder / SHARD).symlink_to("../../blobs/0")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to("../../blobs/1")
    said = refused(folder)
    assert SHARD in said
    assert "tokenizer: none of" in said


def test_name_that_is_nowhere_says_how_to_bring_it(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"`hf download org/name --local-dir name`"):
        resolve("org/name", {"HF_HOME": str(tmp_path)}, tmp_path)


@pytest.mark.parametrize("name", ["/no/where", "./a/b", "../a", "a/b/c"])
def test_path_that_is_nowhere_is_no_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(WeightsError, match=r"^/\S+: [^,]*\bfolder;"):
        resolve(name, {}, tmp_path)


def test_file_is_no_folder(model: Path) -> None:
    with pytest.raises(WeightsError, match=r"/config\.json .*\bfile: "):
        resolve("config.json", {}, model)
