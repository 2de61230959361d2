from __future__ import annotations

import pytest

from hpcscientist.models.serving.fitting.memory import memory_by_name, parse_gres, parse_memory


@pytest.mark.parametrize(
    ("name", "gib", "is_sure"),
    [
        ("a100", 39, False),
        ("A100-80", 76, True),
        ("nvidia_a100-sxm4-80gb", 76, True),
        ("NVIDIA A100-SXM4-40GB", 38, True),
        ("nvidia_a100_3g.20gb", 19, True),
        ("h100", 79, False),
        ("NVIDIA H100 80GB HBM3", 76, True),
        ("nvidia_h200", 139, True),
        ("gh200", 92, False),
        ("h20", 93, False),
        ("l40s", 44, True),
        ("l4", 21, True),
        ("rtx_a6000", 47, True),
        ("rtxa6000", 47, True),
        ("nvidia_rtx_6000_ada_generation", 47, True),
        ("rtx3090", 23, True),
        ("geforce_rtx_2080_ti", 10, True),
        ("tesla_v100-pcie-32gb", 30, True),
        ("v100", 15, False),
        ("Tesla T4", 14, True),
    ],
)
def test_memory_by_the_names_sites_use(name: str, gib: int, is_sure: bool) -> None:
    found = memory_by_name(name)
    assert found is not None
    assert (found.mb // 1024, found.is_sure) == (gib, is_sure)


@pytest.mark.parametrize("name", ["", "gpu", "tesla", "shard", "gtx1080", "mi300x", "a1000"])
def test_unknown_names_are_unknown(name: str) -> None:
    assert memory_by_name(name) is None


@pytest.mark.parametrize(
    ("gres", "found"),
    [
        ("gpu:a100:4(S:0-1)", (("a100", 4),)),
        ("gpu:4", (("", 4),)),
        ("gpu", (("", 1),)),
        ("gpu:a100_3g.20gb:2,gpu:h100:1", (("a100_3g.20gb", 2), ("h100", 1))),
        ("gpu:nvidia_h100_80gb_hbm3:8(S:0,1)", (("nvidia_h100_80gb_hbm3", 8),)),
        ("", ()),
    ],
)
def test_slurm_words_for_a_nodes_gpus(gres: str, found: tuple[tuple[str, int], ...]) -> None:
    assert parse_gres(gres) == found


def test_drivers_own_list_of_memory() -> None:
    assert parse_memory("81559\n 81559 \n[N/A]\n") == (81559, 81559)
    assert parse_memory("") == ()
