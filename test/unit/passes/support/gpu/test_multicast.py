"""Multicast copies: each CTA of a cluster loads its share of a tile and sends it to all."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr

from polyc.dialects.gpu import hardware as hw
from polyc.test.support.gpu_text import assert_refused, find, kernel, run

PASS = "gpu-lower-tile-ops"
TENSOR = "!gpu.global<[K, N], f16, align 16>"


def copied(tile: str, cluster: int, multicast: str = "multicast") -> str:
    """One copy of a tile of B, on an mbarrier."""
    text = kernel(
        f"""
    %zero = arith.constant 0 : index
    %b = gpu.shared_tile : !gpu.shared<{tile}>
    %full = gpu.mbarrier : !gpu.mbarrier<1>
    gpu.copy %B[%K, %N] to %b loader "tma" {multicast} signal %full : !gpu.mbarrier<1> at %zero
        : {TENSOR}, !gpu.shared<{tile}>""",
        f"%B: {TENSOR} = tensor 0, %K: index = symbol K, %N: index = symbol N",
    )
    return text.replace("threads 128", f"threads 128 cluster {cluster}") if cluster > 1 else text


def test_each_cta_loads_its_share_of_the_panels() -> None:
    """Of 4 panels among 2 CTAs each loads 2, and names both in the mask."""
    module = run(copied("[64, 256], f16, swizzle 128", 2), PASS)
    loads = find(module, hw.TmaLoadOp)
    assert len(loads) == 2
    for load in loads:
        owner = load.mask.owner if load.mask is not None else None
        assert isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr)
        assert owner.value.value.data == 3
    assert len(find(module, hw.ClusterRankOp)) == 1


def test_other_copies_are_the_ctas_own() -> None:
    loads = find(run(copied("[64, 256], f16, swizzle 128", 2, ""), PASS), hw.TmaLoadOp)
    assert [load.mask for load in loads] == [None] * 4


def test_a_tile_that_does_not_split_is_refused() -> None:
    tile = "[12, 64], f16, swizzle 128"
    message = (
        "1 panels of !gpu.shared<[12, 64], f16, swizzle 128> do not split among the 2 CTAs of a "
        "cluster; give the kernel a cluster of 2 or more and the tile as many panels of its "
        "swizzle's span, or a multiple"
    )
    assert_refused(copied(tile, 2), "BadMulticast", message, "gpu.copy", PASS)


def test_a_multicast_needs_a_cluster() -> None:
    message = (
        "4 panels of !gpu.shared<[64, 256], f16, swizzle 128> do not split among the 1 CTAs of a "
        "cluster; give the kernel a cluster of 2 or more and the tile as many panels of its "
        "swizzle's span, or a multiple"
    )
    text = copied("[64, 256], f16, swizzle 128", 1)
    assert_refused(text, "BadMulticast", message, "gpu.copy", PASS)
