"""``gpu-lower-tile-ops``: every pattern, run on NumPy with the instructions' own layouts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp, f16, f32
from xdsl.ir import Operation

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.types import SharedType, TensorMapType, vector_of
from polyc.passes.gpu.layout_inference import widest_swizzle
from polyc.passes.support.gpu.layouts import mma_sync_accumulator, wgmma_accumulator
from polyc.test.support.gpu_text import assert_refused, find, kernel, only, printed, refusal, run
from polyc.test.support.simulate import Simulator
from polyc.test.support.turns import examples

Array = NDArray[Any]
TILE_OPS = (tile.CopyOp, tile.ContractOp, tile.FillOp, tile.MapOp, tile.FragmentOp)
LOWER = (
    "gpu-lower-tile-ops",
    "gpu-legalize-access",
    "gpu-linearize-access",
    "gpu-lower-shared-layout",
    "gpu-plan-shared-memory",
)
SYMBOLS = "%M: index = symbol M, %K: index = symbol K, %N: index = symbol N"


def lowered(text: str, *before: str) -> ModuleOp:
    """The module at the hardware level; nothing of the tile level is left after the pass."""
    module = run(text, *before, LOWER[0])
    assert not [op for kind in TILE_OPS for op in find(module, kind)]
    assert not find(module, UnrealizedConversionCastOp)
    return run(module, *LOWER[1:])


def small(shape: tuple[int, ...], seed: int = 0) -> Array:
    """Small integers, of which products and sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float16)


# Copies ----------------------------------------------------------------------------------


def copy_text(
    kind: SharedType, loader: str, threads: int, align: int, slot: int = 0, source: str = "%A"
) -> str:
    """A copy by the loader; a TMA copy by thread 0 alone."""
    tensor = f"!gpu.global<[M, K], f16{f', align {align}' if align else ''}>"
    signal = " signal %full : !gpu.mbarrier<1> at %slot" if loader == "tma" else ""
    copy = f'gpu.copy {source}[%r, %c] to %tile slot %slot loader "{loader}"{signal}'
    copy += f" : {tensor}, {kind}"
    return kernel(
        f"""
    %full = gpu.mbarrier : !gpu.mbarrier<1>
    %slot = arith.constant {slot} : index
    %tile = gpu.shared_tile : {kind}
    %thread = gpu.thread_id
    %zero = arith.constant 0 : index
    %first = arith.cmpi eq, %thread, %zero : index
    {f"scf.if %first {{ {copy} }}" if loader == "tma" else copy}""",
        f"%A: {tensor} = tensor 0, {SYMBOLS}, %r: index = symbol R, %c: index = symbol C",
        threads=threads,
    )


def check_copy(
    module: ModuleOp, kind: SharedType, shape: tuple[int, int], origin: tuple[int, int], slot: int
) -> Simulator:
    source = np.arange(1, shape[0] * shape[1] + 1).astype(np.float16).reshape(shape)
    symbols = {"M": shape[0], "K": shape[1], "N": 0, "R": origin[0], "C": origin[1]}
    simulator = Simulator(only(module, KernelOp), [source], symbols)
    simulator.run()
    rows, columns = kind.sizes
    expected = np.zeros(kind.sizes, np.float16)
    inside = source[origin[0] : origin[0] + rows, origin[1] : origin[1] + columns]
    expected[: inside.shape[0], : inside.shape[1]] = inside
    found = simulator.read(simulator.tile(kind, slot=slot), 1)[..., 0]
    assert (found == expected).all()
    return simulator


def moved(simulator: Simulator, kind: type[Operation]) -> int:
    """How many times a thread ran an op of this kind."""
    return sum(int(e.active.sum()) for e in simulator.machine.events if isinstance(e.op, kind))


COPIES = {
    "rows": st.sampled_from([8, 16, 24, 64]),
    "columns": st.sampled_from([16, 32, 48, 64, 128]),
    "swizzle": st.booleans(),
    "threads": st.sampled_from([32, 96, 128, 256]),
    "shape": st.tuples(st.integers(1, 40), st.integers(1, 20)),
    "origin": st.tuples(st.integers(0, 3), st.integers(0, 3)),
    "slot": st.integers(0, 2),
}


def tile_kind(rows: int, columns: int, swizzle: bool) -> SharedType:
    kind = SharedType.of([rows, columns], f16)
    return SharedType.of([rows, columns], f16, widest_swizzle(kind) if swizzle else 0, 3)


@settings(max_examples=examples(40))
@given(**COPIES, align=st.sampled_from([4, 8, 16, 32]))
def test_lower_cp_async_copy(
    rows: int,
    columns: int,
    swizzle: bool,
    threads: int,
    shape: tuple[int, int],
    origin: tuple[int, int],
    slot: int,
    align: int,
) -> None:
    """Each chunk once, as wide as rows are aligned and 16 bytes at most; zeros outside."""
    kind = tile_kind(rows, columns, swizzle)
    elements = min(align, 16) // 2
    module = lowered(copy_text(kind, "cp_async", threads, align))
    assert {op.bytes.value.data for op in find(module, hw.CpAsyncOp)} == {2 * elements}
    row_length = -(-shape[1] // elements) * elements
    at = (origin[0] * rows, origin[1] * elements)
    module = lowered(copy_text(kind, "cp_async", threads, align, slot))
    simulator = check_copy(module, kind, (shape[0], row_length), at, slot)
    assert moved(simulator, hw.CpAsyncOp) == rows * columns // elements


@settings(max_examples=examples(40))
@given(**COPIES)
def test_lower_register_copy(
    rows: int,
    columns: int,
    swizzle: bool,
    threads: int,
    shape: tuple[int, int],
    origin: tuple[int, int],
    slot: int,
) -> None:
    """Rows of any length and place, element by element; stored 16 bytes at once."""
    kind = tile_kind(rows, columns, swizzle)
    module = lowered(copy_text(kind, "register", threads, 0, slot))
    simulator = check_copy(module, kind, shape, origin, slot)
    assert moved(simulator, hw.StoreSharedOp) == rows * columns // 8
    assert moved(simulator, hw.LoadGlobalOp) == rows * columns


@settings(max_examples=examples(40))
@given(
    loader=st.sampled_from(["cp_async", "register"]),
    runs=st.integers(2, 8),
    run=st.sampled_from([1, 2, 4, 16, 24]),
    columns=st.sampled_from([16, 48, 64, 128]),
    threads=st.sampled_from([32, 96, 128]),
    row=st.integers(0, 2),
    data=st.data(),
)
def test_lower_copy_in_pages(
    loader: str, runs: int, run: int, columns: int, threads: int, row: int, data: st.DataObject
) -> None:
    """Each run of rows where its page is, whatever threads copy it; zeros where there is none."""
    pages = data.draw(st.lists(st.integers(-2, 6), min_size=runs, max_size=runs))
    kind = tile_kind(runs * run, columns, runs * run % 8 == 0)
    tensor = "!gpu.global<[M, K, N], f16, align 16>"
    first, *more = (f"%p{i}" for i in range(runs))
    copy = f"""gpu.copy %A[{first}, %r, %c] to %tile slot %slot pages [{", ".join(more)}] across 0
        loader "{loader}" : {tensor}, {kind}"""
    places = "\n".join(f"%p{i} = arith.constant {page} : index" for i, page in enumerate(pages))
    module = lowered(
        kernel(
            f"""
    %slot = arith.constant 1 : index
    {places}
    %tile = gpu.shared_tile : {kind}
    {copy}""",
            f"%A: {tensor} = tensor 0, {SYMBOLS}, %r: index = symbol R, %c: index = symbol C",
            threads=threads,
        )
    )
    shape = (5, run + 1, columns + 8)
    source = np.arange(1, np.prod(shape) + 1).astype(np.float16).reshape(shape)
    symbols = {"M": shape[0], "K": shape[1], "N": shape[2], "R": row, "C": 8}
    simulator = Simulator(only(module, KernelOp), [source], symbols)
    simulator.run()
    expected = np.zeros((runs, run, columns), np.float16)
    for target, page in zip(expected, pages, strict=True):
        if 0 <= page < shape[0]:
            inside = source[page, row : row + run, 8:]
            target[: inside.shape[0]] = inside
    found = simulator.read(simulator.tile(kind, slot=1), 1)[..., 0]
    assert (found == expected.reshape(kind.sizes)).all()


@settings(max_examples=examples(40))
@given(
    rows=st.sampled_from([8, 64, 128, 256]),
    columns=st.sampled_from([16, 32, 48, 64, 96, 128, 256]),
    shape=st.tuples(st.integers(1, 140), st.integers(1, 20).map(lambda c: 8 * c)),
    origin=st.tuples(st.integers(0, 70), st.integers(0, 70)),
    slot=st.integers(0, 1),
)
def test_lower_tma_copy(
    rows: int, columns: int, shape: tuple[int, int], origin: tuple[int, int], slot: int
) -> None:
    """A box a panel, all of them the tile; the map argument's box is one panel."""
    kind = tile_kind(rows, columns, True)
    module = lowered(copy_text(kind, "tma", 32, 16, slot))
    check_copy(module, kind, shape, origin, slot)
    k = only(module, KernelOp)
    panel = TensorMapType.of([rows, kind.panel_columns], f16, kind.swizzle_bytes or 0)
    maps = [a for a in k.body.block.args if isinstance(a.type, TensorMapType)]
    assert [a.type for a in maps] == [panel] and maps[0].name_hint == "A_map"
    assert k.bindings.data[maps[0].index].text() == "tensor_map 0"
    assert len(find(module, hw.TmaLoadOp)) == columns // kind.panel_columns


def test_lower_tma_copy_asks_for_a_map_once() -> None:
    """Two copies of one tensor with one box share the argument; another box has its own."""
    kind = "!gpu.shared<[16, 64], f16, swizzle 128>"
    tensor = "!gpu.global<[M, K], f16, align 16>"
    copy = 'gpu.copy %A[%M, %K] to {} loader "tma" signal %full : !gpu.mbarrier<1> at %i : {}, {}'
    text = kernel(
        f"""
    %full = gpu.mbarrier : !gpu.mbarrier<1>
    %i = arith.constant 0 : index
    %one = gpu.shared_tile : {kind}
    %two = gpu.shared_tile : {kind}
    %other = gpu.shared_tile : {kind.replace("16", "8", 1)}
    {copy.format("%one", tensor, kind)}
    {copy.format("%two", tensor, kind)}
    {copy.format("%other", tensor, kind.replace("16", "8", 1))}""",
        f"%A: {tensor} = tensor 0, {SYMBOLS}",
    )
    arguments = only(run(text, LOWER[0]), KernelOp).body.block.args[4:]
    assert [str(a.type) for a in arguments] == [
        "!gpu.tensor_map<[16, 64], f16, swizzle 128>",
        "!gpu.tensor_map<[8, 64], f16, swizzle 128>",
    ]


@pytest.mark.parametrize("loader", ["cp_async", "register", "tma"])
def test_a_copy_by_another_loader_or_by_none_is_left_alone(loader: str) -> None:
    """Each pattern takes its own loader; a copy without one has not been planned yet."""
    text = copy_text(SharedType.of([16, 64], f16, 128), loader, 128, 16)
    open_text = text.replace(f' loader "{loader}"', "")
    assert len(find(run(open_text, LOWER[0]), tile.CopyOp)) == 1


COPY_REFUSALS = {
    "no layout": (
        "cp_async",
        {"kind": SharedType.of([16, 64], f16)},
        "NoLayout",
        "!gpu.shared<[16, 64], f16> has no layout; run gpu-layout-inference",
    ),
    "a row that is no whole chunks": (
        "cp_async",
        {"kind": SharedType.of([16, 12], f16, 0)},
        "UnsupportedCopy",
        "cp_async moves 8 elements at once and rows of !gpu.shared<[16, 12], f16, swizzle 0> have "
        "12; make rows a multiple of 8",
    ),
    "a row that is shorter than a chunk": (
        "register",
        {"kind": SharedType.of([16, 4], f16, 0)},
        "UnsupportedCopy",
        "register moves 8 elements at once and rows of !gpu.shared<[16, 4], f16, swizzle 0> have "
        "4; make rows a multiple of 8",
    ),
    "a box that is too high": (
        "tma",
        {"kind": SharedType.of([264, 64], f16, 128)},
        "InvalidIR",
        "TMA box sizes are 1 to 256, not [264, 64]",
    ),
}


@pytest.mark.parametrize(
    ("loader", "given", "kind", "message"), COPY_REFUSALS.values(), ids=COPY_REFUSALS
)
def test_a_copy_that_is_refused(
    loader: str, given: dict[str, Any], kind: str, message: str
) -> None:
    text = copy_text(loader=loader, threads=128, align=16, **given)
    assert_refused(text, kind, message, "gpu.copy", LOWER[0])


def test_a_copy_of_three_axes_is_refused() -> None:
    tensor, shared = "!gpu.global<[M, K, N], f16, align 16>", "!gpu.shared<[2, 16, 64], f16>"
    text = kernel(
        f"""
    %tile = gpu.shared_tile : {shared}
    gpu.copy %A[%M, %K, %N] to %tile loader "cp_async" : {tensor}, {shared}""",
        f"%A: {tensor} = tensor 0, {SYMBOLS}",
    )
    message = f"a copied tile has two axes, not {shared}"
    assert_refused(text, "UnsupportedCopy", message, "gpu.copy", LOWER[0])


def test_f32_rows_without_a_stated_alignment_are_copied_by_4_bytes() -> None:
    text = copy_text(SharedType.of([16, 16], f16, 0), "cp_async", 64, 0).replace("f16", "f32")
    (copy,) = find(lowered(text), hw.CpAsyncOp)
    assert copy.bytes.value.data == 4


def test_a_tma_copy_signals_an_mbarrier() -> None:
    text = copy_text(SharedType.of([16, 64], f16, 128), "tma", 32, 16)
    text = text.replace(" signal %full : !gpu.mbarrier<1> at %slot", "")
    message = "a TMA copy signals an mbarrier; none is given"
    assert_refused(text, "NoBarrier", message, "gpu.copy", LOWER[0])


def test_a_tma_copy_reads_an_argument_that_is_a_tensor() -> None:
    text = copy_text(SharedType.of([16, 64], f16, 128), "tma", 32, 16)
    unbound = text.replace("= tensor 0", "= symbol M")
    message = "this argument is not bound to a tensor"
    assert_refused(unbound, "BadTmaSource", message, "gpu.copy", LOWER[0])
    tensor = "!gpu.global<[M, K], f16, align 16>"
    cast = f'%B = "builtin.unrealized_conversion_cast"(%A) : ({tensor}) -> {tensor}'
    computed = text.replace("    %slot", f"    {cast}\n    %slot", 1).replace(
        "gpu.copy %A", "gpu.copy %B"
    )
    message = "TMA copies from a tensor argument of the kernel"
    assert_refused(computed, "BadTmaSource", message, "gpu.copy", LOWER[0])


# Contracts -------------------------------------------------------------------------------


HERE = "affine_map<(i, j)[r, c] -> (r + i, c + j)>"


def contract_text(
    lhs: SharedType, rhs: SharedType, mma: str, warp_tile: tuple[int, int], flags: str
) -> tuple[str, int, int]:
    """One contract of two tiles, its accumulator mapped to C; with m and n."""
    m = lhs.sizes[1] if flags[0] == "t" else lhs.sizes[0]
    n = rhs.sizes[0] if flags[1] == "t" else rhs.sizes[1]
    lhs_map = "(m, n, k) -> (k, m)" if flags[0] == "t" else "(m, n, k) -> (m, k)"
    rhs_map = "(m, n, k) -> (n, k)" if flags[1] == "t" else "(m, n, k) -> (k, n)"
    acc, out = f"!gpu.fragment<[{m}, {n}], f32>", f"!gpu.global<[{m}, {n}], f32>"
    warp = f"<{warp_tile[0]}, {warp_tile[1]}>"
    wgmma = mma == "wgmma"
    threads = 2 * m if wgmma else 32 * (m // warp_tile[0]) * (n // warp_tile[1])
    text = kernel(
        f"""
    %slot = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %o = arith.constant 0 : index
    %a = gpu.shared_tile : {lhs}
    %b = gpu.shared_tile : {rhs}
    %acc = gpu.fragment : {acc}
    gpu.fill %zero, %acc : {acc}
    gpu.contract %a slot %slot affine_map<{lhs_map}>, %b slot %slot affine_map<{rhs_map}>
      into %acc mma "{mma}" warp_tile {warp} : {lhs}, {rhs}, {acc}
    gpu.map %acc : {acc} origin [%o, %o] ins() outs(%C : {out} {HERE}) {{
    ^bb0(%x : f32):
      gpu.yield %x : f32
    }}""",
        f"%C: {out} = tensor 0",
        threads=threads,
    )
    return text, m, n


def check_contract(
    sizes: tuple[int, int, int],
    mma: str,
    warp_tile: tuple[int, int],
    flags: str,
    swizzle: int | None = None,
) -> ModuleOp:
    """Run a contract on both operands' tiles; C is their product."""
    m, n, k = sizes
    element = f32 if mma == "fma" else f16
    lhs = SharedType.of([k, m] if flags[0] == "t" else [m, k], element, swizzle, 2)
    rhs = SharedType.of([n, k] if flags[1] == "t" else [k, n], element, swizzle, 2)
    text, _, _ = contract_text(lhs, rhs, mma, warp_tile, flags)
    module = lowered(text, "gpu-layout-inference")
    out = np.full((m, n), np.nan, np.float32)
    simulator = Simulator(only(module, KernelOp), [out], {})
    a, b = (
        small(kind.sizes, seed).astype(np.float32 if mma == "fma" else np.float16)
        for seed, kind in enumerate((lhs, rhs), 1)
    )
    for op, values in zip(find(module, hw.SharedTileOp), (a, b), strict=True):
        kind = op.tile.type
        assert isinstance(kind, SharedType) and op.offset is not None
        places = simulator.tile(kind, op.offset.value.data, slot=1)
        simulator.write(places, values[..., None])
    simulator.run()
    a, b = (x.astype(np.float32) for x in (a, b))
    product = (a.T if flags[0] == "t" else a) @ (b.T if flags[1] == "t" else b)
    assert (out == product).all()
    assert simulator.written[0].tolist() == [1] * (m * n)
    return module


FLAGS = pytest.mark.parametrize("flags", ["nn", "nt", "tn", "tt"])


@FLAGS
@pytest.mark.parametrize(
    ("sizes", "warp_tile"),
    [
        ((16, 16, 16), (16, 16)),
        ((32, 64, 32), (16, 32)),
        ((64, 48, 48), (32, 16)),
        ((128, 128, 32), (64, 64)),
        ((64, 256, 64), (64, 64)),
    ],
)
def test_lower_mma_sync_contract(
    sizes: tuple[int, int, int], warp_tile: tuple[int, int], flags: str
) -> None:
    module = check_contract(sizes, "mma.sync", warp_tile, flags)
    assert not find(module, hw.WgmmaOp)
    loads = find(module, hw.LdmatrixOp)
    assert [op.transpose is not None for op in loads] == [flags[0] == "t", flags[1] == "n"]


@FLAGS
@pytest.mark.parametrize(
    "sizes", [(64, 16, 16), (64, 64, 64), (128, 256, 64), (128, 48, 32), (192, 128, 96)]
)
def test_lower_wgmma_contract(sizes: tuple[int, int, int], flags: str) -> None:
    _, n, k = sizes
    module = check_contract(sizes, "wgmma", (64, n), flags)
    assert len(find(module, hw.WgmmaOp)) == k // 16 and not find(module, hw.MmaSyncOp)


@FLAGS
@pytest.mark.parametrize(
    ("sizes", "warp_tile"),
    [
        ((32, 32, 8), (32, 16)),
        ((16, 64, 8), (16, 32)),
        ((8, 64, 4), (8, 64)),
        ((4, 128, 4), (4, 128)),
        ((32, 32, 64), (16, 32)),
    ],
)
def test_lower_fma_contract(
    sizes: tuple[int, int, int], warp_tile: tuple[int, int], flags: str
) -> None:
    """Threads load 16 bytes at once, whichever axis is contiguous, and multiply by themselves."""
    module = check_contract(sizes, "fma", warp_tile, flags)
    assert not find(module, hw.MmaSyncOp) and not find(module, hw.LdmatrixOp)
    kinds = {op.result.type for op in find(module, hw.LoadSharedOp)}
    assert kinds == {vector_of(f32, 4)}


@pytest.mark.parametrize(
    ("sizes", "rows"),
    [((32, 64, 16), 32), ((32, 96, 64), 16), ((16, 64, 64), 8), ((4, 128, 128), 4)],
)
def test_lower_fma_contract_of_a_fragment(sizes: tuple[int, int, int], rows: int) -> None:
    """Of each k the lane that holds the left operand hands it to those with other columns."""
    m, n, k = sizes
    left, right = f"!gpu.fragment<[{m}, {k}], f32>", SharedType.of([k, n], f32)
    acc, out = f"!gpu.fragment<[{m}, {n}], f32>", f"!gpu.global<[{m}, {n}], f32>"
    text = kernel(
        f"""
    %zero = arith.constant 0.0 : f32
    %o = arith.constant 0 : index
    %b = gpu.shared_tile : {right}
    %a = gpu.fragment : {left}
    %acc = gpu.fragment : {acc}
    gpu.fill %zero, %acc : {acc}
    gpu.map %a : {left} origin [%o, %o] ins(%A : !gpu.global<[{m}, {k}], f32> {HERE})
        outs(%a : {left} affine_map<(i, j)[r, c] -> (i, j)>) {{
    ^bb0(%old : f32, %x : f32):
      gpu.yield %x : f32
    }}
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
      into %acc mma "fma" warp_tile <{rows}, {n}> : {left}, {right}, {acc}
    gpu.map %acc : {acc} origin [%o, %o] ins() outs(%C : {out} {HERE}) {{
    ^bb0(%x : f32):
      gpu.yield %x : f32
    }}""",
        f"%A: !gpu.global<[{m}, {k}], f32> = tensor 0, %C: {out} = tensor 1",
        threads=32 * (m // rows),
    )
    module = lowered(text, "gpu-layout-inference")
    a = small((m, k), 1).astype(np.float32)
    out_array = np.full((m, n), np.nan, np.float32)
    simulator = Simulator(only(module, KernelOp), [a, out_array], {})
    b = small((k, n), 2).astype(np.float32)
    (op,) = find(module, hw.SharedTileOp)
    assert isinstance(op.tile.type, SharedType) and op.offset is not None
    places = simulator.tile(op.tile.type, op.offset.value.data, slot=0)
    simulator.write(places, b[..., None])
    simulator.run()
    assert (out_array == a @ b).all()
    assert len(find(module, hw.ShuffleOp)) > 0


@FLAGS
@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_contracts_take_an_authors_swizzle(swizzle: int, flags: str) -> None:
    """Narrow panels: 64 rows of an m-major tile are several of them."""
    check_contract((128, 64, 64), "wgmma", (64, 64), flags, swizzle)
    check_contract((64, 64, 64), "mma.sync", (32, 32), flags, swizzle)


def test_both_contracts_leave_the_other_kind_alone() -> None:
    kinds = SharedType.of([64, 64], f16, 128), SharedType.of([64, 64], f16, 128)
    for mma, warp, other in (
        ("wgmma", (64, 64), hw.MmaSyncOp),
        ("mma.sync", (32, 32), hw.WgmmaOp),
    ):
        text, _, _ = contract_text(*kinds, mma, warp, "nn")
        assert not find(run(text, "gpu-layout-inference", LOWER[0]), other)


def test_wgmma_of_more_than_256_columns_is_refused() -> None:
    text, _, _ = contract_text(
        SharedType.of([64, 64], f16), SharedType.of([64, 272], f16), "wgmma", (64, 272), "nn"
    )
    message = "wgmma's N is 8 to 256 in steps of 8, not 272"
    assert_refused(text, "InvalidIR", message, "gpu.contract", "gpu-layout-inference", LOWER[0])


# Fills, maps and fragments ---------------------------------------------------------------

LAYOUTS = {
    "wgmma": (64, 24, wgmma_accumulator(64, 24, (64, 24))),
    "mma.sync": (32, 64, mma_sync_accumulator(32, 64, (16, 32))),
}
BY_LAYOUT = pytest.mark.parametrize(("m", "n", "layout"), LAYOUTS.values(), ids=LAYOUTS)

EPILOGUE = f"""
    %one = arith.constant 1.5 : f32
    %space = gpu.fragment : {{space}}
    %copy = gpu.fragment : {{copy}}
    gpu.fill %one, %space : {{space}}
    gpu.map %space : {{space}} origin [%r, %c]
      ins(%bias : !gpu.global<[N], f16> affine_map<(i, j)[r, c] -> (c + j)>,
          %A : !gpu.global<[M, N], f32> {HERE})
      outs(%copy : {{copy}} affine_map<(i, j)[r, c] -> (i, j)>) {{{{
    ^bb0(%x : f32, %b : f16, %y : f32):
      %w = arith.extf %b : f16 to f32
      %z = arith.addf %x, %w : f32
      %s = arith.mulf %z, %y : f32
      gpu.yield %s : f32
    }}}}
    gpu.map %copy : {{copy}} origin [%r, %c] ins()
      outs(%C : !gpu.global<[M, N], f32> {HERE},
           %T : !gpu.global<[N, M], f32> affine_map<(i, j)[r, c] -> (c + j, r + i)>) {{{{
    ^bb0(%x : f32):
      %z = arith.addf %x, %x : f32
      gpu.yield %x, %z : f32, f32
    }}}}"""
ARGS = (
    "%A: !gpu.global<[M, N], f32> = tensor 0, %bias: !gpu.global<[N], f16> = tensor 1, "
    "%C: !gpu.global<[M, N], f32> = tensor 2, %T: !gpu.global<[N, M], f32> = tensor 3, "
    f"{SYMBOLS}, %r: index = symbol R, %c: index = symbol C"
)


@BY_LAYOUT
def test_lower_map_and_lower_fill(m: int, n: int, layout: Any) -> None:
    """Through a fragment to two tensors, one transposed; tails are neither read nor written."""
    space = f"!gpu.fragment<[{m}, {n}], f32, {layout}>"
    text = kernel(EPILOGUE.format(space=space, copy=space), ARGS, threads=layout.threads.data)
    rows, columns, r, c = m + 11, n + 13, 32, 24
    a = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    bias = np.arange(columns).astype(np.float16)
    out, transposed = np.zeros_like(a), np.zeros(a.shape[::-1], np.float32)
    module = lowered(text)
    symbols = {"M": rows, "N": columns, "K": 0, "R": r, "C": c}
    simulator = Simulator(only(module, KernelOp), [a, bias, out, transposed], symbols).run()
    expected = np.zeros_like(a)
    at = np.s_[r : r + m, c : c + n]
    expected[at] = ((bias.astype(np.float32) + np.float32(1.5)) * a)[at]
    assert (out == expected).all() and (transposed == 2 * expected.T).all()
    written = np.zeros(a.shape, np.int64)
    written[at] = 1
    assert (simulator.written[2].reshape(a.shape) == written).all()


@BY_LAYOUT
def test_lower_fragment_is_the_registers_of_one_thread(m: int, n: int, layout: Any) -> None:
    space = f"!gpu.fragment<[{m}, {n}], f32, {layout}>"
    text = kernel(EPILOGUE.format(space=space, copy=space), ARGS, threads=layout.threads.data)
    allocations = find(run(text, LOWER[0]), memref.AllocaOp)
    assert [a.memref.name_hint for a in allocations] == ["space", "copy"]
    kind = f"memref<{m * n // layout.threads.data}xf32, #gpu<space register>>"
    assert [str(a.memref.type) for a in allocations] == [kind, kind]


def test_a_fragment_whose_elements_no_map_asks_for_has_no_registers() -> None:
    layout = "#gpu.fragment_layout<threads 32, registers 1, affine_map<(t, r) -> (t)>>"
    space, out = f"!gpu.fragment<[32], f32, {layout}>", "!gpu.global<[M], f32>"
    text = kernel(
        f"""
    %one = arith.constant 1.0 : f32
    %f = gpu.fragment : {space}
    gpu.map %f : {space} origin [] ins() outs(%C : {out} affine_map<(i) -> (i)>) {{
    ^bb0(%x: f32):
      gpu.yield %one : f32
    }}""",
        f"%C: {out} = tensor 0, %M: index = symbol M",
        threads=32,
    )
    module = run(text, LOWER[0])
    assert not find(module, memref.AllocaOp) and not find(module, memref.LoadOp)
    assert len(find(module, hw.StoreGlobalOp)) == 1


OPEN = "!gpu.fragment<[16, 16], f32>"
NO_LAYOUT = {
    "lower_fill": (
        f"%f = gpu.fragment : {OPEN}\n    gpu.fill %x, %f : {OPEN}",
        "gpu.fill",
        f"{OPEN} has no layout; run gpu-layout-inference",
    ),
    "lower_map": (
        f"%f = gpu.fragment : {OPEN}\n    gpu.map %f : {OPEN} origin [%M, %M] ins() outs() {{\n"
        "    ^bb0(%e : f32):\n      gpu.yield\n    }",
        "gpu.map",
        f"{OPEN} has no layout; run gpu-layout-inference",
    ),
    "lower_fragment": (
        f"%f = gpu.fragment : {OPEN}",
        "gpu.fragment",
        f"{OPEN} has no layout; use it in a contract or annotate it",
    ),
}


@pytest.mark.parametrize(("body", "marker", "message"), NO_LAYOUT.values(), ids=NO_LAYOUT)
def test_an_open_layout_is_refused(body: str, marker: str, message: str) -> None:
    text = kernel(f"    {body}", f"%x: f32 = symbol M, {SYMBOLS}")
    error = refusal(text, LOWER[0])
    assert (error.kind, error.message) == ("NoLayout", message)
    line = next(i for i, line in enumerate(text.splitlines(), 1) if f" {marker} " in line)
    assert error.place is not None and error.place.line == line


def test_a_contract_of_an_open_accumulator_is_refused() -> None:
    kinds = SharedType.of([64, 64], f16, 128), SharedType.of([64, 64], f16, 128)
    text, _, _ = contract_text(*kinds, "mma.sync", (32, 32), "nn")
    text = re.sub(r"    gpu.fill.*\n", "", text)
    message = "!gpu.fragment<[64, 64], f32> has no layout; run gpu-layout-inference"
    assert_refused(text, "NoLayout", message, "gpu.contract", LOWER[0])


def test_a_fragment_that_something_else_uses_is_refused() -> None:
    m, n, layout = LAYOUTS["wgmma"]
    space = f"!gpu.fragment<[{m}, {n}], f32, {layout}>"
    text = kernel(
        f"    %f = gpu.fragment : {space}\n    scf.if %p {{\n"
        f'      %x = "arith.select"(%p, %f, %f) : (i1, {space}, {space}) -> {space}\n    }}',
        "%p: i1 = symbol M",
    )
    message = "arith.select still uses a fragment"
    assert_refused(text, "NotLowered", message, "arith.select", LOWER[0])


def test_tile_ops_outside_what_is_lowered_stay() -> None:
    """Roles, rings and pipelines belong to other passes."""
    text = kernel("    %ring = gpu.ring consumers 2 : !gpu.ring<4>\n    gpu.await pending 0")
    assert printed(run(text, LOWER[0])) == printed(run(text))
