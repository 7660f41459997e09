"""``gpu-plan-shared-memory``: no two places overlap, all are aligned, and they fit."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.types import (
    SharedType,
)
from polyc.dialects.gpu.waiting import MBarrierType
from polyc.test.support.gpu_text import assert_refused, find, kernel, only, run, unchanged
from polyc.test.support.turns import examples

PASS = "gpu-plan-shared-memory"

TILES = st.tuples(
    st.sampled_from([1, 3, 4, 8, 16, 24]),
    st.sampled_from([0, 32, 64, 128]),
    st.integers(1, 2),
    st.integers(1, 3),
    st.sampled_from(["f16", "f32"]),
).filter(lambda t: t[0] % 8 == 0 or t[1] == 0 or t[2] == t[3] == 1)
"""Rows, swizzle, panels, ring and element; what is swizzled and repeats has 8 rows or 16, …"""


def tile_text(rows: int, span: int, panels: int, ring: int, element: str) -> str:
    columns = panels * (span or 36) // {"f16": 2, "f32": 4}[element]
    depth = f", ring {ring}" if ring > 1 else ""
    return f"!gpu.shared<[{rows}, {columns}], {element}, swizzle {span}{depth}>"


@settings(max_examples=examples(60))
@given(tiles=st.lists(TILES, max_size=5), barriers=st.lists(st.integers(1, 8), max_size=3))
def test_place_shared(tiles: list[tuple[int, int, int, int, str]], barriers: list[int]) -> None:
    lines = [f"%b{i} = gpu.mbarrier : !gpu.mbarrier<{n}>" for i, n in enumerate(barriers)]
    lines += [f"%t{i} = gpu.shared_tile : {tile_text(*t)}" for i, t in enumerate(tiles)]
    module = run(kernel("\n".join(f"    {line}" for line in lines), arch="sm_90a"), PASS)
    taken: list[tuple[int, int]] = []
    for op in [*find(module, hw.SharedTileOp), *find(module, hw.MBarrierOp)]:
        assert op.offset is not None
        start = op.offset.value.data
        kind = op.results[0].type
        if isinstance(kind, SharedType):
            assert start % {0: 16, 32: 256, 64: 512, 128: 1024}[kind.swizzle_bytes or 0] == 0
            taken.append((start, start + kind.bytes))
        else:
            assert isinstance(kind, MBarrierType) and start % 8 == 0
            taken.append((start, start + 8 * kind.count.data))
    taken.sort()
    assert all(end <= start for (_, end), (start, _) in pairwise(taken))
    total = only(module, KernelOp).shared_bytes
    assert total is not None and total.value.data == max((end for _, end in taken), default=0)


def test_place_shared_keeps_a_kernel_that_is_placed() -> None:
    text = kernel("    %t = gpu.shared_tile at 512 : !gpu.shared<[8, 8], f16, swizzle 0>")
    unchanged(text.replace("threads 128", "threads 128 shared_bytes 640"), PASS)


def big(stages: int) -> str:
    return (
        f"    %t = gpu.shared_tile : !gpu.shared<[128, 64], f16, swizzle 128, ring {stages}>\n"
        + ("    %b = gpu.mbarrier : !gpu.mbarrier<4>")
    )


def test_place_shared_fills_a_block_to_the_last_byte() -> None:
    """163 KiB on sm_80 and 227 KiB on sm_90a, no byte more."""
    for arch, limit in (("sm_80", 163 * 1024), ("sm_90a", 227 * 1024)):
        body = f"    %t = gpu.shared_tile : !gpu.shared<[{limit // 32}, 16], f16, swizzle 32>"
        module = run(kernel(body, arch=arch), PASS)
        total = only(module, KernelOp).shared_bytes
        assert total is not None and total.value.data == limit


def test_place_shared_refuses_what_does_not_fit() -> None:
    text = kernel(big(14), arch="sm_80", threads=128)
    message = (
        "kernel @k needs 229376 + 32 = 229408 bytes of shared memory and sm_80 has 166912 a "
        "block; use fewer stages or a smaller tile"
    )
    assert_refused(text, "ResourceExceeded", message, "gpu.kernel", PASS)
    run(kernel(big(14), arch="sm_90a"), PASS)
