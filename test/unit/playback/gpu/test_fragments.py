"""Layouts of the tensor cores, against the formulas of the PTX ISA written out index by index."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.playback.gpu import fragments
from polyc.playback.gpu.storage import GlobalTensor, TensorMap, swizzled


def test_mma_fragments() -> None:
    random = np.random.default_rng(0)
    a = random.standard_normal((16, 16)).astype(np.float16)
    b = random.standard_normal((16, 8)).astype(np.float16)
    a_registers = np.zeros((4, 32, 2), np.float16)
    b_registers = np.zeros((2, 32, 2), np.float16)
    for lane in range(32):
        group, inside = divmod(lane, 4)
        for i in range(8):
            row = group + (8 if i % 4 >= 2 else 0)
            column = inside * 2 + (i & 1) + (8 if i >= 4 else 0)
            a_registers[i // 2, lane, i % 2] = a[row, column]
        for i in range(4):
            row = inside * 2 + (i & 1) + (8 if i >= 2 else 0)
            b_registers[i // 2, lane, i % 2] = b[row, group]
    half = np.dtype(np.float16)
    np.testing.assert_array_equal(fragments.mma_a(a_registers.view(np.int32)[..., 0], half), a)
    np.testing.assert_array_equal(fragments.mma_b(b_registers.view(np.int32)[..., 0], half), b)
    start = random.standard_normal((4, 32)).astype(np.float32)
    product = random.standard_normal((16, 8)).astype(np.float32)
    total = fragments.mma_accumulate(start, product)
    for lane in range(32):
        group, inside = divmod(lane, 4)
        for i in range(4):
            row, column = group + (8 if i >= 2 else 0), inside * 2 + (i & 1)
            assert total[i, lane] == start[i, lane] + product[row, column]


@pytest.mark.parametrize("transpose", [False, True])
def test_ldmatrix_fragments(transpose: bool) -> None:
    blocks = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    rows = blocks.reshape(32, 8).view(np.uint8)
    registers = fragments.ldmatrix_fragments(rows, transpose)
    for block in range(4):
        for lane in range(32):
            r, c = lane // 4, 2 * (lane % 4)
            pair = [
                blocks[block, c + e, r] if transpose else blocks[block, r, c + e] for e in (0, 1)
            ]
            assert registers[block, lane] == int(pair[0]) | int(pair[1]) << 16


@pytest.mark.parametrize("n", [8, 64, 256])
def test_wgmma_accumulator(n: int) -> None:
    tile = np.arange(64 * n, dtype=np.float32).reshape(64, n)
    parts = fragments.accumulator_layout(tile)
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        for i in range(n // 2):
            row = 16 * warp + lane // 4 + 8 * (i // 2 % 2)
            column = 8 * (i // 4) + 2 * (lane % 4) + i % 2
            assert parts[warp, i, lane] == tile[row, column]


@given(
    st.integers(0, (1 << 18) - 1).map(lambda x: x & ~15),
    st.integers(0, (1 << 14) - 1),
    st.integers(0, (1 << 14) - 1),
    st.sampled_from([0, 32, 64, 128]),
)
def test_descriptors_round_trip(start: int, leading: int, stride: int, span: int) -> None:
    bits = fragments.encode_descriptor(start, 16 * leading, 16 * stride, span)
    assert 0 <= bits < 1 << 64
    found = fragments.decode_descriptor(bits)
    assert (found.start, found.leading, found.stride) == (start, 16 * leading, 16 * stride)
    assert (found.span, found.base_offset) == (span, 0)


@pytest.mark.parametrize("span", [32, 64, 128])
@pytest.mark.parametrize("major", [False, True])
def test_an_operand_is_read_where_tma_puts_it(span: int, major: bool) -> None:
    """A tile written by a TMA box with a swizzle comes back through a descriptor with it."""
    columns = span // 2
    rows = 16 if major else 64
    tile = np.random.default_rng(1).standard_normal((rows, columns)).astype(np.float16)
    tensor = GlobalTensor("t", tile, 0, "input")
    data, _, _ = TensorMap(tensor, (rows, columns), span).box_at([0, 0])
    shared = np.zeros(rows * span, np.uint8).reshape(-1, 16)
    shared[swizzled(1024 + 16 * np.arange(len(shared)), span) - 1024 >> 4] = data.reshape(-1, 16)
    steps = [0] if major else range(columns // 16)
    for step in steps:
        size = columns if major else 64
        bits = fragments.encode_descriptor(1024 + 32 * step, 16, 8 * span, span)
        descriptor = fragments.decode_descriptor(bits)
        assert fragments.descriptor_fault(descriptor) is None
        places = fragments.operand_addresses(descriptor, size, major) - 1024
        found = fragments.operand(shared[places >> 4], size, major, np.dtype(np.float16))
        wanted = tile.T if major else tile[:, 16 * step : 16 * step + 16]
        np.testing.assert_array_equal(found, wanted.astype(np.float32))


def test_a_descriptor_inside_a_swizzle_pattern_is_a_fault() -> None:
    for start, span, wrong in ((1024, 128, False), (1056, 128, False), (1152, 128, True)):
        bits = fragments.encode_descriptor(start, 16, 1024, span)
        fault = fragments.descriptor_fault(fragments.decode_descriptor(bits))
        assert (fault is not None) == wrong
