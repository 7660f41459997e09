"""``gpu-linearize-access``: offsets are NumPy's row-major ones, of 64 bits, or found in 32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, i64

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp
from polyc.test.support.evaluate import Machine
from polyc.test.support.gpu_text import body_of, find, kernel, only, run, unchanged

SYMBOLS = "%M: index = symbol M, %K: index = symbol K, %N: index = symbol N"
PASS = "gpu-linearize-access"

LOAD = """
    %x = gpu.load_global %T[{at}] : {kind} -> f32
    gpu.store_shared %x, %a : f32"""
STORE = """
    %x = arith.constant 1.0 : f32
    gpu.store_global %x, %T[{at}] : f32, {kind}"""
CP_ASYNC = """
    gpu.cp_async %a, %T[{at}] bytes 4 : {kind}"""
ATOMIC = """
    %x = arith.constant 1.0 : f32
    gpu.atomic_global "add" %x, %T[{at}] : f32, {kind}"""
EXCHANGE = """
    %x = gpu.exchange_global %a, %O[{at}] : {ints}"""
ACCESSES = {
    "linearize_load": LOAD,
    "linearize_store": STORE,
    "linearize_cp_async": CP_ASYNC,
    "linearize_atomic": ATOMIC,
    "linearize_exchange": EXCHANGE,
    "linearize_exchange_add": EXCHANGE.replace("global %a", "global add %a"),
}


def program(access: str, shape: str, rank: int) -> str:
    names = [f"%i{d}" for d in range(rank)]
    kind = f"!gpu.global<[{shape}], f32>"
    ints = kind.replace("f32", "i32")
    at = f"{', '.join(names)} : {', '.join(['index'] * rank)}"
    args = "".join(f", {name}: index = symbol M" for name in names)
    return kernel(
        "    %a = arith.constant 0 : i32" + access.format(at=at, kind=kind, ints=ints),
        f"%T: {kind} = tensor 0, {SYMBOLS}{args}, %O: {ints} = tensor 0",
    )


def offset(access: str, shape: str, sizes: Sequence[int], at: Sequence[int]) -> int:
    """The one offset that the access has after the pass."""
    module = run(program(access, shape, len(at)), PASS)
    machine = Machine(
        handlers=dict.fromkeys(
            (hw.LoadGlobalOp, hw.ExchangeGlobalOp), lambda event: [np.zeros(1, np.float32)]
        )
    )
    args = only(module, KernelOp).body.block.args
    for arg, value in zip(args[1:-1], [*sizes, *at], strict=True):
        machine.set(arg, value)
    machine.run(body_of(module))
    (event,) = (e for e in machine.events if not isinstance(e.op, hw.StoreSharedOp))
    assert isinstance(
        event.op,
        hw.LoadGlobalOp | hw.StoreGlobalOp | hw.CpAsyncOp | hw.AtomicGlobalOp | hw.ExchangeGlobalOp,
    )
    (index,) = event.op.indices
    assert index.type == i64
    return int(event[index][0])


@pytest.mark.parametrize("access", ACCESSES.values(), ids=ACCESSES)
@given(data=st.data())
def test_the_offset_is_numpys(access: str, data: st.DataObject) -> None:
    m, k, n = (data.draw(st.integers(1, 9)) for _ in range(3))
    shape, sizes = data.draw(
        st.sampled_from(
            [
                ("M", (m,)),
                ("M, N", (m, n)),
                ("M, K, N", (m, k, n)),
                ("N, 5, M", (n, 5, m)),
                ("2*M, N + 3, K", (2 * m, n + 3, k)),
                ("M, K*N", (m, k * n)),
                ("M, (N + 3) floordiv 4", (m, (n + 3) // 4)),
            ]
        )
    )
    at = [data.draw(st.integers(0, size - 1)) for size in sizes]
    assert offset(access, shape, (m, k, n), at) == np.ravel_multi_index(at, sizes)


@pytest.mark.parametrize("access", ACCESSES.values(), ids=ACCESSES)
def test_products_are_64_bits_wide(access: str) -> None:
    """More than 2^31 elements, with coordinates of 32 bits; the machine checks both widths."""
    m, n = 60_000, 70_001
    assert offset(access, "M, N", (m, 1, n), (m - 1, n - 1)) == m * n - 1 > 2**31
    big = 2**31 - 1
    assert offset(access, "M, K, N", (2, big, big), (1, 2**30, 5)) == (big + 2**30) * big + 5


@given(data=st.data())
def test_offsets_of_known_small_tensors_are_found_in_32_bits(data: st.DataObject) -> None:
    """And are NumPy's; a tensor of as many elements as ``SMALL`` has products of 64 bits."""
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    at = [data.draw(st.integers(0, size - 1)) for size in sizes]
    shape = ", ".join(map(str, sizes))
    for access in ACCESSES.values():
        if access is not CP_ASYNC:
            found = offset(access, shape, (1, 1, 1), at)
            assert found == np.ravel_multi_index(at, sizes)
    module = run(program(LOAD, "32767, 32768", 2), PASS)
    assert [op.result.type for op in find(module, arith.MuliOp)] == [IndexType()]
    for large in ("32768, 32768", "M, 8"):
        module = run(program(LOAD, large, 2), PASS)
        assert [op.result.type for op in find(module, arith.MuliOp)] == [i64]
    assert offset(LOAD, "2, 1073741824", (1, 1, 1), (1, 5)) == 2**30 + 5


def test_a_scalar_is_at_offset_0() -> None:
    kind = "!gpu.global<[], f32>"
    text = kernel(f"    %x = gpu.load_global %T[ : ] : {kind} -> f32", f"%T: {kind} = tensor 0")
    load = only(run(text, PASS), hw.LoadGlobalOp)
    assert [i.type for i in load.indices] == [i64]


def test_a_linear_access_and_its_predicate_are_left_alone() -> None:
    kind = "!gpu.global<[M, N], f32>"
    unchanged(
        kernel(
            f"""
    %a = arith.constant 0 : i32
    %x = gpu.load_global %T[%o : i64] if %p : {kind} -> f32
    gpu.store_global %x, %T[%o : i64] if %p : f32, {kind}
    gpu.cp_async %a, %T[%o : i64] bytes 4 if %p : {kind}""",
            f"%T: {kind} = tensor 0, %o: i64 = symbol M, %p: i1 = symbol K",
        ),
        PASS,
    )


def test_the_predicate_is_kept() -> None:
    kind = "!gpu.global<[M, N], f32>"
    text = kernel(
        f"    gpu.store_global %x, %T[%M, %N : index, index] if %p : f32, {kind}",
        f"%T: {kind} = tensor 0, {SYMBOLS}, %x: f32 = symbol M, %p: i1 = symbol M",
    )
    module = run(text, PASS)
    store = only(module, hw.StoreGlobalOp)
    assert store.predicate is only(module, KernelOp).body.block.args[-1]


def in_loop(
    row: str, unroll: str = "{unroll}", where: str = "inside", access: str = CP_ASYNC
) -> str:
    """Four accesses of a loop, at a row that is an affine map of %M and the loop's %r."""
    kind = "!gpu.global<[M, N], f32>"
    apply = f"%row = affine.apply affine_map<{row}> (%M, %K)"
    if where == "inside":
        apply = apply.replace("%K)", "%r)")
    return kernel(
        f"""
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %four = arith.constant 4 : index
    %a = arith.constant 0 : i32
    {apply if where == "outside" else ""}
    scf.for %r = %zero to %four step %one {{
      {apply if where == "inside" else ""}
      {access.format(at="%row, %K : index, index", kind=kind)}
    }} {unroll}""",
        f"%T: {kind} = tensor 0, {SYMBOLS}",
    )


def products(text: str) -> int:
    return len(find(run(text, PASS), arith.MuliOp))


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 50), st.integers(0, 7))
def test_a_row_that_a_loop_moves_is_split_exactly(m: int, k: int, n: int, shift: int) -> None:
    text = in_loop(f"(m, r) -> (m * 3 + r * 2 + {shift} + m + r)")
    module = run(text, PASS)
    machine = Machine()
    for arg, value in zip(only(module, KernelOp).body.block.args[1:], (m, k, n), strict=True):
        machine.set(arg, value)
    machine.run(body_of(module))
    found = [int(e[e.op.indices[0]][0]) for e in machine.events if isinstance(e.op, hw.CpAsyncOp)]
    assert found == [(4 * m + 3 * r + shift) * n + k for r in range(4)]


def test_where_a_row_is_split() -> None:
    """Two products where an unrolled loop adds to what it leaves alone, else one."""
    both = "(m, r) -> (m + r * 8)"
    assert products(in_loop(both)) == 2
    assert products(in_loop(both, access=STORE)) == 1
    assert products(in_loop(both, unroll="")) == 1
    assert products(in_loop(both, where="outside")) == 1
    assert products(in_loop("(m, r) -> (r * 8 + r)")) == 1
    assert products(in_loop("(m, r) -> (m + 8)")) == 1
    assert products(in_loop("(m, r) -> ((m + r) mod 8)")) == 1
