"""``gpu-lower-shared-layout``: addresses against the hardware's swizzle, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import bf16, f16, f32
from xdsl.ir import Attribute

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.types import SharedType, element_bytes
from polyc.passes.gpu.layout_inference import widest_swizzle
from polyc.test.support.evaluate import Machine
from polyc.test.support.gpu_text import assert_refused, body_of, find, kernel, only, run
from polyc.test.support.simulate import place
from polyc.test.support.turns import examples

Ints = NDArray[Any]
ARGS = "%s: index = symbol M, %r: index = symbol K, %c: index = symbol N"


def program(kind: SharedType | str) -> str:
    return kernel(
        f"""
    %zero = arith.constant 0 : i32
    %tile = gpu.shared_tile : {kind}
    %address = gpu.element_address %tile[%s][%r, %c] : {kind}
    gpu.store_shared %zero, %address : i32""",
        ARGS,
    )


def addresses(kind: SharedType, slot: Ints, row: Ints, column: Ints, base: int = 0) -> Ints:
    """What the lowered arithmetic gives, in bytes."""
    module = run(program(kind), "gpu-lower-shared-layout")
    assert not find(module, tile.ElementAddressOp)
    machine = Machine(threads=row.size)
    args = only(module, KernelOp).body.block.args
    for arg, value in zip(args, (slot, row, column), strict=True):
        machine.set(arg, value)
    machine.set(only(module, hw.SharedTileOp).tile, base)
    machine.run(body_of(module))
    (event,) = machine.events
    assert isinstance(event.op, hw.StoreSharedOp)
    return event[event.op.address]


def everywhere(kind: SharedType) -> tuple[Ints, Ints, Ints]:
    rows, columns = kind.sizes
    s, r, c = np.meshgrid(
        np.arange(kind.ring.data), np.arange(rows), np.arange(columns), indexing="ij"
    )
    return s.ravel(), r.ravel(), c.ravel()


def check(kind: SharedType, base: int) -> None:
    slot, row, column = everywhere(kind)
    found = addresses(kind, slot, row, column, base)
    expected = place(kind, slot, row, column, base)
    assert (found == expected).all()
    # Every element has bytes of its own, and they fill the ring.
    size = element_bytes(kind.element_type)
    assert sorted(found) == list(range(base, base + kind.bytes, size))
    # A 16-byte chunk stays together: vectors of one chunk may be moved at once.
    chunk = 16 // size
    if kind.sizes[1] % chunk == 0:
        grouped = found.reshape(-1, chunk)
        assert (grouped == grouped[:, :1] + size * np.arange(chunk)).all()
        assert (grouped[:, 0] % 16 == 0).all()


@settings(max_examples=examples(60))
@given(
    rows=st.integers(1, 8).map(lambda r: 8 * r),
    panels=st.integers(1, 3),
    span=st.sampled_from([0, 32, 64, 128]),
    element=st.sampled_from([f16, bf16, f32]),
    ring=st.integers(1, 4),
    base=st.integers(0, 3).map(lambda b: 1024 * b),
)
def test_lower_element_address_is_the_hardwares_swizzle(
    rows: int, panels: int, span: int, element: Attribute, ring: int, base: int
) -> None:
    columns = panels * (span or 48) // element_bytes(element)
    check(SharedType.of([rows, columns], element, span, ring), base)


@pytest.mark.parametrize("shape", [(128, 32), (32, 128), (128, 64), (64, 256), (16, 16), (64, 48)])
def test_the_tiles_of_the_compilers_own_plans(shape: tuple[int, int]) -> None:
    kind = SharedType.of(shape, f16)
    check(SharedType.of(shape, f16, widest_swizzle(kind), 3), 0)


@pytest.mark.parametrize("columns", [16, 32, 48, 64, 96, 128, 256])
@pytest.mark.parametrize("rows", [16, 128])
def test_ldmatrix_reads_without_bank_conflicts(rows: int, columns: int) -> None:
    """The eight 16-byte rows of a block, in eight groups of four banks: one pass, not eight."""
    kind = SharedType.of([rows, columns], f16)
    kind = SharedType.of([rows, columns], f16, widest_swizzle(kind))
    slot, row, column = everywhere(kind)
    found = addresses(kind, slot, row, column).reshape(rows, columns)
    blocks = found[:, ::8].reshape(rows // 8, 8, columns // 8)
    banks = blocks // 16 % 8
    assert (np.sort(banks, axis=1) == np.arange(8)[None, :, None]).all()


def test_rows_without_a_swizzle_do_conflict() -> None:
    """What the test above would see: 128-byte rows put a column of chunks in one bank group."""
    kind = SharedType.of([8, 64], f16, 0)
    slot, row, column = everywhere(kind)
    banks = addresses(kind, slot, row, column).reshape(8, 64)[:, 0] // 16 % 8
    assert set(banks) == {0}


def test_lower_element_address_needs_a_layout() -> None:
    assert_refused(
        program("!gpu.shared<[16, 64], f16>"),
        "NoLayout",
        "!gpu.shared<[16, 64], f16> has no layout; run gpu-layout-inference",
        "gpu.element_address",
        "gpu-lower-shared-layout",
    )
