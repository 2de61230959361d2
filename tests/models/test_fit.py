"""Layouts: what holds, what is preferred, what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.config.settings import ServingSettings
from hpcscientist.errors import ServingError
from hpcscientist.models.serving.checking.shape import LayerCache
from hpcscientist.models.serving.checking.weights import Checkpoint
from hpcscientist.models.serving.fitting import memory
from hpcscientist.models.serving.fitting.fit import Layout, Machine, lay_out
from hpcscientist.models.serving.fitting.layout import LEAST, divides, requests_at_once, uncut
from hpcscientist.models.serving.fitting.memory import KvCache
from hpcscientist.models.serving.fitting.shares import Demand, doubt, lay_out_all

MIB, GIB = 2**20, 2**30
DEFAULT = ServingSettings()


WHOLE = LayerCache(heads=8, size=256)  # a layer of Llama 3


def checkpoint(billions: float = 8.0, layers: int = 32, **given: object) -> Checkpoint:
    """Return a model of Llama 3's shape."""
    floats = int(billions * 1e9)
    said: dict[str, object] = {
        "architecture": "LlamaForCausalLM",
        "hidden": 4096,
        "inner": 14336,
        "heads": 32,
        "caches": (WHOLE,) * layers,
        "vocab": 128_256,
        "dtype": "bfloat16",
        "context": 131_072,
        "quantization": "",
        "quantization_block": 0,
        "folder": "/models/m",
        "weight_bytes": 2 * floats,
        "floats": floats,
        "other_bytes": 0,
        "outside_floats": min(floats, 2 * 128_256 * 4096),
        "outside_bytes": 0,
    }
    return Checkpoint.model_validate(said | given)


LARGE: dict[str, Any] = {"layers": 80, "hidden": 8192, "inner": 28672, "heads": 64}


def machine(nodes: int = 1, gpus: int = 4, gpu_gb: float = 80, memory_gb: int = 512) -> Machine:
    return Machine(
        nodes=nodes,
        gpus=gpus,
        gpu_memory_mb=int(gpu_gb * 1024),
        cpus=32,
        memory_mb=memory_gb * 1024,
    )


def test_small_model_has_a_replica_on_each_gpu() -> None:
    layout = lay_out(checkpoint(), machine(nodes=2), DEFAULT)
    assert (layout.replicas, layout.tensor_parallel, layout.pipeline_parallel) == (8, 1, 1)
    assert layout.context == 131_072


def test_large_model_takes_gpus_of_one_node() -> None:
    layout = lay_out(checkpoint(70, **LARGE), machine(nodes=2, gpus=4), DEFAULT)
    assert (layout.replicas, layout.tensor_parallel, layout.pipeline_parallel) == (2, 4, 1)
    assert "4 GPUs of" in " ".join(layout.why)


def test_larger_than_a_node_becomes_a_pipeline_over_nodes() -> None:
    layout = lay_out(checkpoint(70, **LARGE), machine(nodes=4, gpus=2), DEFAULT)
    assert (layout.replicas, layout.tensor_parallel, layout.pipeline_parallel) == (2, 2, 2)
    assert layout.gpus_per_replica == 4


def test_too_large_says_how_much_is_lacking_and_which_nodes_would_do() -> None:
    with pytest.raises(ServingError) as caught:
        lay_out(checkpoint(70, **LARGE), machine(nodes=1, gpus=2, gpu_gb=64), DEFAULT)
    said = str(caught.value)
    assert "lacks" in said
    assert "GiB" in said
    assert "--nodes 2" in said


def test_context_is_shortened_to_what_memory_holds_and_says_so() -> None:
    layout = lay_out(checkpoint(), machine(gpus=1, gpu_gb=24), DEFAULT)
    assert 4096 <= layout.context < 131_072
    assert layout.context == layout.kv_tokens
    assert "shortened from 131072" in " ".join(layout.why)


def test_context_that_is_asked_for_is_held_or_refused() -> None:
    asked = ServingSettings(context=65_536)
    layout = lay_out(checkpoint(), machine(gpus=2, gpu_gb=24), asked)
    assert (layout.context, layout.gpus_per_replica) == (65_536, 2)
    with pytest.raises(ServingError, match=r"smaller serving\.context"):
        lay_out(checkpoint(), machine(gpus=1, gpu_gb=24), asked)
    with pytest.raises(ServingError, match=r"serving\.context 200000 .*\b131072 tokens"):
        lay_out(checkpoint(), machine(), ServingSettings(context=200_000))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (ServingSettings(tensor_parallel=3), r"serving\.tensor_parallel 3 .*\b32 heads"),
        (ServingSettings(tensor_parallel=8), r"serving\.tensor_parallel 8 .*\b4 GPUs"),
        (ServingSettings(pipeline_parallel=5), "fewer, or 0"),
        (ServingSettings(replicas=5), "at most 4 fit"),
        (ServingSettings(replicas=3, tensor_parallel=2), "at most 2 fit"),
    ],
)
def test_what_cannot_be_done_as_set_is_refused(settings: ServingSettings, said: str) -> None:
    with pytest.raises(ServingError, match=said):
        lay_out(checkpoint(), machine(), settings)


def test_what_is_set_is_kept() -> None:
    settings = ServingSettings(replicas=1, tensor_parallel=2, pipeline_parallel=2, dtype="float16")
    layout = lay_out(checkpoint(), machine(), settings)
    assert (layout.replicas, layout.tensor_parallel, layout.pipeline_parallel) == (1, 2, 2)
    assert layout.dtype == "float16"


def test_float32_takes_twice_the_weights() -> None:
    half = memory.weight_bytes(checkpoint(), 1, 1, memory.number_bytes(DEFAULT))
    wide = ServingSettings(dtype="float32")
    assert memory.weight_bytes(checkpoint(), 1, 1, memory.number_bytes(wide)) == 2 * half
    assert a_token(checkpoint(), settings=wide) == 2 * a_token(checkpoint())


def a_token(model: Checkpoint, tensor: int = 1, settings: ServingSettings = DEFAULT) -> int:
    return KvCache.of(model, tensor, 1, settings).request_bytes(1)


def test_published_kv_sizes() -> None:
    # Llama 3 8B: 128 KiB a token; DeepSeek V2: 576 numbers a token and layer, on every GPU.
    assert a_token(checkpoint()) == 128 * 1024
    assert a_token(checkpoint(), 8) == 16 * 1024
    assert a_token(checkpoint(), 16) == 16 * 1024
    latent = checkpoint(caches=(LayerCache(heads=1, size=576),) * 60)
    assert a_token(latent, 8) == 576 * 60 * 2
    eight = ServingSettings(engine={"kv_cache_dtype": "fp8"})
    assert a_token(checkpoint(), settings=eight) == 64 * 1024
    assert a_token(checkpoint(kv_bits=8)) == 64 * 1024
    whole = ServingSettings(engine={"kv_cache_dtype": "bfloat16"})
    assert a_token(checkpoint(kv_bits=8), settings=whole) == 128 * 1024


def test_only_layers_with_keys_and_values_take_a_cache() -> None:
    """A Llama Nemotron of 49 billion parameters on two H100: 31 of 80 layers have no attention."""
    shape = LARGE | {"caches": (WHOLE,) * 42 + (LayerCache(),) * 31 + (WHOLE,) * 7}
    del shape["layers"]
    layout = lay_out(checkpoint(49.9, **shape), machine(gpus=2, gpu_gb=79.6), DEFAULT)
    every = lay_out(checkpoint(49.9, **LARGE), machine(gpus=2, gpu_gb=79.6), DEFAULT)
    # By 49 layers of 4096 bytes a token, of which each GPU has half, in place of 80.
    assert layout.tensor_parallel == every.tensor_parallel == 2
    assert layout.kv_tokens == pytest.approx(every.kv_tokens * 80 / 49, abs=80)


def test_layers_that_see_a_window_let_the_rest_go() -> None:
    """Of a request, vLLM holds a window and what is under way (`SlidingWindowSpec`)."""
    near = LayerCache(heads=8, size=256, window=1024)
    model = checkpoint(caches=(near, near, near, WHOLE) * 8)
    cache = KvCache.of(model, 1, 1, DEFAULT)
    layer, seen = 8 * 256 * 2, 1024 + 2 * 16_384
    assert cache.request_bytes(1000) == 32 * layer * 1000
    assert cache.request_bytes(131_072) == 8 * layer * 131_072 + 24 * layer * seen
    room = cache.request_bytes(131_072)
    assert cache.tokens(room) == 131_072
    assert cache.tokens(room - 1) == 131_071
    assert cache.tokens(2 * room) == 2 * 131_072
    few = ServingSettings(engine={"max_num_batched_tokens": 2048})
    held = KvCache.of(model, 1, 1, few).request_bytes(131_072)
    assert held == 8 * layer * 131_072 + 24 * layer * (1024 + 2 * 2048)
    # A prompt is one batch of the CPU engine.
    assert KvCache.of(model, 1, 1, DEFAULT, frees_windows=False).request_bytes(131_072) == (
        32 * layer * 131_072
    )


def test_blocks_of_the_engine_are_of_one_size() -> None:
    """62 layers of Gemma 3 27B: 52 see a window, in six groups of ten of which the last has two."""
    near = LayerCache(heads=16, size=256, window=1024)
    shape = (near, near, near, near, near, WHOLE.model_copy(update={"heads": 16})) * 10 + (
        near,
    ) * 2
    layer = 16 * 256 * 2
    assert KvCache.of(checkpoint(caches=shape), 1, 1, DEFAULT).request_bytes(1000) == (
        (10 + 60) * layer * 1000
    )


def test_states_take_what_they_take_however_long_a_request_is() -> None:
    """A Mamba has nothing else; beside attention a state is a page of the cache, too."""
    state = LayerCache(state=5120 * 25)
    alone = KvCache.of(checkpoint(caches=(state,) * 64, heads=0, context=0), 1, 1, DEFAULT)
    assert alone.request_bytes(1) == alone.request_bytes(10**6) == 64 * 5120 * 25 * 4
    assert alone.tokens(3 * alone.request_bytes(1)) == 3 * 32_768
    assert alone.tokens(alone.request_bytes(1) - 1) == 0
    hybrid = KvCache.of(checkpoint(caches=((state,) * 7 + (WHOLE,)) * 4), 1, 1, DEFAULT)
    block = 128 * 8 * 256 * 2  # of tokens: a state is one, and that is a page
    assert block - 20_000 < 5120 * 25 * 4 < block
    fixed = (28 * 3 + 4) * block
    assert hybrid.request_bytes(1000) == fixed + 4 * 8 * 256 * 2 * 1000
    layout = lay_out(checkpoint(caches=(state,) * 64, heads=0, context=0), machine(gpus=1), DEFAULT)
    assert layout.context == 32_768


def test_the_fullest_stage_of_a_pipeline_counts() -> None:
    model = checkpoint(caches=(LayerCache(),) * 8 + (WHOLE,) * 8 + (LayerCache(),) * 16)
    assert KvCache.of(model, 1, 4, DEFAULT).request_bytes(1) == 8 * 8 * 256 * 2
    assert KvCache.of(model, 1, 8, DEFAULT).request_bytes(1) == 4 * 8 * 256 * 2


def test_kv_heads_of_every_layer_are_cut_evenly() -> None:
    uneven = checkpoint(
        heads=12, inner=1200, caches=(LayerCache(heads=3, size=128), LayerCache(heads=4, size=128))
    )
    assert divides(uneven, 1, DEFAULT)
    assert not divides(uneven, 2, DEFAULT)
    assert divides(uneven, 12, DEFAULT)


def test_blocks_of_a_quantization_are_not_cut() -> None:
    model = checkpoint(inner=1536, quantization="fp8", quantization_block=128)
    assert divides(model, 4, DEFAULT)
    assert not divides(model, 8, DEFAULT)


def test_experts_are_not_cut_through_blocks() -> None:
    # Qwen3 Coder 480B, FP8: vLLM ends where a GPU's part of an expert is no whole blocks of 128.
    model = checkpoint(
        480.0, inner=8192, expert_inner=2560, quantization="fp8", quantization_block=128, heads=96
    )
    assert divides(model, 4, DEFAULT)
    assert not divides(model, 8, DEFAULT)
    assert divides(model, 8, ServingSettings(engine={"enable_expert_parallel": True}))
    assert "blocks of 128" in uncut(model, 8)


def test_unknown_gpu_memory_is_said() -> None:
    with pytest.raises(ServingError, match=r"memory .*`nvidia-smi`"):
        lay_out(checkpoint(), machine(gpu_gb=0), DEFAULT)


def test_cpu_engine_has_a_replica_a_node() -> None:
    layout = lay_out(checkpoint(0.1), machine(nodes=2, gpus=0, memory_gb=16), DEFAULT)
    assert (layout.replicas, layout.tensor_parallel, layout.gpus_per_replica) == (2, 1, 0)
    assert layout.kv_cache_mb == 4096
    assert layout.context == layout.kv_tokens == 4 * GIB // (128 * 1024) - 128


def test_cpu_engine_keeps_to_the_nodes_memory() -> None:
    tiny = checkpoint(0.1, caches=(LayerCache(heads=1, size=128),) * 32)
    layout = lay_out(tiny, machine(gpus=0, memory_gb=4), DEFAULT)
    assert layout.kv_cache_mb < 1024
    assert "memory ends" in " ".join(layout.why)
    with pytest.raises(ServingError, match="memory lacks"):
        lay_out(checkpoint(), machine(gpus=0, memory_gb=16), DEFAULT)
    with pytest.raises(ServingError, match=r"kv_cache_gb 0\.01 lacks"):
        lay_out(tiny, machine(gpus=0), ServingSettings(kv_cache_gb=0.01))


def test_cpu_engine_may_have_several_workers_on_a_node() -> None:
    model = checkpoint(0.1)
    one = lay_out(model, machine(nodes=2, gpus=0, memory_gb=32), DEFAULT)
    layout = lay_out(
        model, machine(nodes=2, gpus=0, memory_gb=32), ServingSettings(tensor_parallel=2)
    )
    assert (layout.replicas, layout.tensor_parallel, layout.gpus_per_replica) == (2, 2, 0)
    assert layout.kv_cache_mb == one.kv_cache_mb // 2  # each worker has half of the heads
    assert layout.kv_tokens == one.kv_tokens
    assert 0 < layout.memory_mb - one.memory_mb <= 1024 + 1
    assert re.search(r"\b2 workers [^(]*\(serving\.tensor_parallel\)", " ".join(layout.why))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (ServingSettings(pipeline_parallel=2), "leave serving.pipeline_parallel at 0"),
        (ServingSettings(tensor_parallel=3), r"serving\.tensor_parallel 3 .*\b32 heads"),
        (ServingSettings(tensor_parallel=16), r"serving\.tensor_parallel 16 .*\bcore .*\b8;"),
    ],
)
def test_cpu_engine_s_workers_are_of_one_node(settings: ServingSettings, said: str) -> None:
    with pytest.raises(ServingError, match=said):
        small = machine(nodes=2, gpus=0).model_copy(update={"cpus": 8})
        lay_out(checkpoint(0.1), small, settings)


def test_memory_that_is_not_known_is_not_checked() -> None:
    assert lay_out(checkpoint(), machine(gpus=0, memory_gb=0), DEFAULT).kv_cache_mb == 4096


def test_models_share_gpus_by_their_work() -> None:
    demands = {
        "code": Demand(checkpoint=checkpoint(), share=3.0),
        "review": Demand(checkpoint=checkpoint(), share=1.0),
    }
    layouts = lay_out_all(demands, machine(nodes=2), DEFAULT)
    assert {name: layout.replicas for name, layout in layouts.items()} == {"code": 6, "review": 2}
    assert "shared by 2 models" in " ".join(layouts["code"].why)


def test_large_and_small_model_share_a_node() -> None:
    demands = {
        "small": Demand(checkpoint=checkpoint()),
        "large": Demand(checkpoint=checkpoint(70, **LARGE)),
    }
    layouts = lay_out_all(demands, machine(nodes=1, gpus=8), DEFAULT)
    used = {name: x.replicas * x.gpus_per_replica for name, x in layouts.items()}
    assert used == {"small": 4, "large": 4}
    with pytest.raises(ServingError, match=r"^2 models .*--nodes"):
        lay_out_all(demands, machine(nodes=1, gpus=2), DEFAULT)


def test_a_model_that_would_have_all_of_a_node_leaves_room_for_another() -> None:
    demands = {
        "small": Demand(checkpoint=checkpoint()),
        "large": Demand(checkpoint=checkpoint(70, **LARGE)),
    }
    node = machine(nodes=1, gpus=4)
    assert lay_out(demands["large"].checkpoint, node, DEFAULT).gpus_per_replica == 4
    layouts = lay_out_all(demands, node, DEFAULT)
    assert {name: layout.gpus_per_replica for name, layout in layouts.items()} == {
        "small": 1,
        "large": 3,
    }


def test_models_that_fit_together_alone_by_less_context_have_less() -> None:
    """Of two GPUs each would have both, for the context that it then holds."""
    shape = {"layers": 64, "hidden": 5120, "heads": 40, "inner": 27648}
    demands = {name: Demand(checkpoint=checkpoint(33, **shape)) for name in "ab"}
    where = machine(nodes=1, gpus=2, gpu_gb=80)
    alone = lay_out(demands["a"].checkpoint, where, DEFAULT)
    assert alone.tensor_parallel == 2
    layouts = lay_out_all(demands, where, DEFAULT)
    for layout in layouts.values():
        assert (layout.replicas, layout.gpus_per_replica) == (1, 1)
        assert LEAST <= layout.context < alone.context
    for settings in (ServingSettings(tensor_parallel=2), ServingSettings(context=32_768)):
        with pytest.raises(ServingError, match=r"^2 models .*--nodes"):
            lay_out_all(demands, where, settings)


@pytest.mark.parametrize(("nodes", "gpus", "models"), [(2, 1, 2), (3, 1, 3), (2, 2, 4)])
def test_nor_does_a_model_take_all_of_several_nodes(nodes: int, gpus: int, models: int) -> None:
    shape = {"layers": 64, "hidden": 5120, "heads": 40, "inner": 27648}
    demands = {name: Demand(checkpoint=checkpoint(33, **shape)) for name in "abcd"[:models]}
    layouts = lay_out_all(demands, machine(nodes=nodes, gpus=gpus), DEFAULT)
    assert {layout.gpus_per_replica for layout in layouts.values()} == {1}


def test_cores_that_are_slow_with_short_numbers_have_long_ones() -> None:
    slow = machine(gpus=0, memory_gb=16).model_copy(update={"short_numbers": False})
    long = lay_out(checkpoint(0.1), slow, DEFAULT)
    assert long.dtype == "float32"
    assert (
        long.kv_tokens < lay_out(checkpoint(0.1), machine(gpus=0, memory_gb=16), DEFAULT).kv_tokens
    )
    assert lay_out(checkpoint(0.1), slow, ServingSettings(dtype="bfloat16")).dtype == "bfloat16"
    two = lay_out_all({name: Demand(checkpoint=checkpoint(0.1)) for name in "ab"}, slow, DEFAULT)
    assert {layout.dtype for layout in two.values()} == {"float32"}


def test_cores_of_which_nothing_is_known_leave_a_doubt() -> None:
    demands = {"m": Demand(checkpoint=checkpoint(1.0))}
    scarce, ample = machine(gpus=0, memory_gb=7), machine(gpus=0, memory_gb=16)
    assert lay_out_all(demands, scarce, DEFAULT)["m"].dtype == "auto"
    assert re.search(r"float32: /models/m .*\b1 nodes", doubt(demands, scarce, DEFAULT))
    assert doubt(demands, ample, DEFAULT) == ""
    assert doubt(demands, machine(gpus=1), DEFAULT) == ""
    assert doubt(demands, scarce, ServingSettings(dtype="bfloat16")) == ""
    known = scarce.model_copy(update={"short_numbers": True})
    assert doubt(demands, known, DEFAULT) == ""


def test_models_share_nodes_without_gpus() -> None:
    demands = {name: Demand(checkpoint=checkpoint(0.1)) for name in ("a", "b", "c")}
    layouts = lay_out_all(demands, machine(nodes=2, gpus=0, memory_gb=32), DEFAULT)
    assert sorted(layout.replicas for layout in layouts.values()) == [1, 1, 2]
    fixed = lay_out_all(demands, machine(nodes=3, gpus=0), ServingSettings(replicas=2))
    assert {layout.replicas for layout in fixed.values()} == {2}


machines = st.builds(
    machine,
    nodes=st.integers(1, 6),
    gpus=st.integers(1, 8),
    gpu_gb=st.floats(4, 200),
)
models = st.builds(
    lambda billions, heads, groups, layers, context: checkpoint(
        billions,
        heads=heads * groups,
        caches=(LayerCache(heads=heads, size=256),) * layers,
        context=context,
    ),
    billions=st.floats(1.2, 400),
    heads=st.sampled_from([1, 2, 4, 8, 12]),
    groups=st.sampled_from([1, 2, 3, 8]),
    layers=st.integers(1, 100),
    context=st.sampled_from([0, 2048, 8192, 40_960, 131_072]),
)
settings_given = st.builds(
    ServingSettings,
    replicas=st.sampled_from([0, 0, 0, 2]),
    tensor_parallel=st.sampled_from([0, 0, 0, 2]),
    memory_fraction=st.floats(0.5, 1.0),
    dtype=st.sampled_from(["auto", "float32"]),
)


def planned(model: Checkpoint, where: Machine, settings: ServingSettings) -> Layout | None:
    try:
        return lay_out(model, where, settings)
    except ServingError:
        return None


@given(models, machines, settings_given)
def test_layout_never_exceeds_what_is_there(
    model: Checkpoint, where: Machine, settings: ServingSettings
) -> None:
    layout = planned(model, where, settings)
    if layout is None:
        return
    tensor, pipeline = layout.tensor_parallel, layout.pipeline_parallel
    number = memory.number_bytes(settings)
    taken = (
        memory.weight_bytes(model, tensor, pipeline, number)
        + memory.work_bytes(model, tensor, number)
        + KvCache.of(model, tensor, pipeline, settings).a_token * layout.kv_tokens
    )
    assert taken <= where.gpu_memory_mb * MIB * settings.memory_fraction
    assert model.heads % tensor == 0
    assert tensor <= where.gpus
    assert pipeline <= model.layers
    assert layout.replicas * pipeline <= where.nodes * (where.gpus // tensor)
    assert layout.context <= layout.kv_tokens
    assert model.context == 0 or layout.context <= model.context


@given(models, machines, settings_given, st.floats(0, 100))
def test_more_memory_never_gives_fewer_replicas(
    model: Checkpoint, where: Machine, settings: ServingSettings, more_gb: float
) -> None:
    larger = where.model_copy(update={"gpu_memory_mb": where.gpu_memory_mb + int(more_gb * 1024)})
    layout, roomier = planned(model, where, settings), planned(model, larger, settings)
    if layout is not None:
        assert roomier is not None
        assert roomier.replicas >= layout.replicas


@given(
    st.dictionaries(st.sampled_from("abc"), st.tuples(models, st.floats(0.1, 10)), min_size=2),
    machines,
)
def test_shared_gpus_are_given_out_once(
    wanted: dict[str, tuple[Checkpoint, float]], where: Machine
) -> None:
    demands = {name: Demand(checkpoint=m, share=share) for name, (m, share) in wanted.items()}
    try:
        layouts = lay_out_all(demands, where, DEFAULT)
    except ServingError:
        return
    used = sum(layout.replicas * layout.gpus_per_replica for layout in layouts.values())
    assert used <= where.nodes * where.gpus
    assert set(layouts) == set(demands)


@pytest.mark.parametrize("gpus", [0, 1])
def test_thinking_that_replies_are_not_given_is_said(gpus: int) -> None:
    """An engine is to know how a model marks its thinking, or there is none."""

    def why(checkpoint: Checkpoint, settings: ServingSettings) -> str:
        return " ".join(lay_out(checkpoint, machine(gpus=gpus), settings).why)

    parser = ServingSettings(engine={"reasoning_parser": "qwen3"})
    assert "serving.engine.reasoning_parser" in why(checkpoint(thinks=True), DEFAULT)
    assert "reasoning_parser" not in why(checkpoint(thinks=True), parser)
    assert "reasoning_parser" not in why(checkpoint(), DEFAULT)


@pytest.mark.parametrize(
    ("gpus", "replicas", "tokens", "context", "engine", "requests"),
    [
        (1, 1, 2_000_000, 32_768, {}, 256),  # as many as the engine takes
        (1, 2, 2_000_000, 32_768, {"max_num_seqs": 64}, 128),
        (1, 1, 40_960, 32_768, {}, 10),  # as many as its KV cache holds
        (1, 1, 40_960, 1_024, {}, 40),
        (1, 1, 2_000, 2_000, {}, 1),
        (0, 2, 2_000_000, 32_768, {}, 32),
    ],
)
def test_requests_that_replicas_answer_at_once(
    gpus: int, replicas: int, tokens: int, context: int, engine: dict[str, int], requests: int
) -> None:
    layout = Layout(
        replicas=replicas,
        tensor_parallel=1,
        pipeline_parallel=1,
        context=context,
        gpus_per_replica=gpus,
        dtype="auto",
        kv_tokens=tokens,
    )
    settings = ServingSettings(engine=dict(engine))
    assert requests_at_once(layout, settings) == requests
