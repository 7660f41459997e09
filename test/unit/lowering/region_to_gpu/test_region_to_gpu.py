"""``region-to-gpu``: tiles as the plan says, epilogues function by function, and every refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from polyc.dialects.common.diagnostic import place_of
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import ErfcOp, FmodOp, SharedTileOp
from polyc.dialects.gpu.kernel import KernelOp as GpuKernelOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.dialects.tiny import BINARY_FUNCTIONS, COMPARISONS, UNARY_FUNCTIONS
from polyc.passes.pipeline import build
from polyc.playback import functions
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.evaluate import Event, Machine
from polyc.test.support.gpu_text import assert_refused, find, only, parsed, printed, run
from polyc.tools.play import play
from polyc.tools.registry import make_context

PASS = "region-to-gpu"
MN = "!region.val<[m: M, n: N], f32>"
MNK = "!region.val<[m: M, k: K, n: N], f32>"


def region(
    epilogue: str = "",
    out: str = "%acc",
    a: str = "[M, K]",
    b: str = "[K, N]",
    more: str = "",
    result: str = "f32",
) -> str:
    """A contraction of A and B, an epilogue from %acc to ``out``, and one more tensor %x [M, N]."""

    def side(name: str, shape: str) -> str:
        kind = f"!region.memref<{shape}, f16, align 16>"
        labels = ", ".join(f"{s.lower()}: {s}" for s in shape[1:-1].split(", "))
        val = f"!region.val<[{labels}], f16>"
        wide, order = val.replace("f16", "f32"), "mkn"
        dims = ", ".join(str(order.index(s.lower())) for s in shape[1:-1].split(", "))
        return f"""
  %{name} = region.read %{name.upper()} affine_map<(i, j)[s0, s1, s2] -> (i, j)> : {kind} -> {val}
  %{name}f = region.cast %{name} : {val} -> {wide}
  %{name}e = region.broadcast_in_dim %{name}f dims [{dims}] : {wide} -> {MNK}"""

    return f"""
region.kernel @gemm iters [m: M, n: N]
    ins(%A: !region.memref<{a}, f16, align 16>, %B: !region.memref<{b}, f16, align 16>,
        %X: !region.memref<[M, N], f32, align 16>, %v: !region.memref<[N], f32, align 16>{more})
    outs(C: !region.memref<[M, N], {result}, align 16> gmem) {{{side("a", a)}{side("b", b)}
  %t = region.binary mul %ae, %be : {MNK}
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : {MNK} -> {MN}
  {epilogue}
  region.yield {out} : !region.val<[m: M, n: N], {result}>
}}
"""


READ_X = (
    "%x = region.read %X affine_map<(i, j)[s0, s1, s2] -> (i, j)> : "
    f"!region.memref<[M, N], f32, align 16> -> {MN}"
)


def planned(text: str, arch: str = "sm_80") -> ModuleOp:
    """The region and its schedules of one kernel each; test_partial_sums has those of two."""
    module = parsed(text)
    build("plan-select", arch).apply(make_context(), module)
    for plan in find(module, ScheduleOp):
        if plan.stores_sums:
            plan.detach()
            plan.erase()
    return module


def scheduled(text: str, arch: str = "sm_80") -> str:
    """The region and its schedules as text."""
    return printed(planned(text, arch))


def persistent() -> str:
    """The region and its schedules for sm_90a, from tma_small on, the first for any sizes."""
    module = planned(region(), "sm_90a")
    for plan in find(module, ScheduleOp):
        if plan.variant.data.startswith(("tma_", "padded_")) and plan.variant.data != "tma_small":
            plan.detach()
            plan.erase()
    return printed(module)


def lowered(text: str, arch: str = "sm_80") -> ModuleOp:
    module = run(planned(text, arch), PASS)
    assert not find(module, KernelOp)
    return module


# Tiles ---------------------------------------------------------------------------------------

STORED = {
    "nn": ("[M, K]", "[K, N]", ((0, 2), (2, 1))),
    "nt": ("[M, K]", "[N, K]", ((0, 2), (1, 2))),
    "tn": ("[K, M]", "[K, N]", ((2, 0), (2, 1))),
    "tt": ("[K, M]", "[N, K]", ((2, 0), (1, 2))),
}
"""How A and B are stored, and of which sizes of the tile (m, n, k) their tiles are."""

TILES = [(256, 128, 64), *[(128, 128, 64)] * 2, *[(128, 128, 32)] * 2]


@pytest.mark.parametrize(("a", "b", "axes"), STORED.values(), ids=STORED)
def test_lower_region_takes_operands_as_they_are_stored(
    a: str, b: str, axes: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    module = lowered(region(a=a, b=b))
    own = [k for k in find(module, GpuKernelOp) if find(k, tile.ContractOp)]
    for kernel, sizes in zip(own, TILES, strict=True):
        kinds = [op.tile.type for op in find(kernel, SharedTileOp)]
        wanted = [tuple(sizes[axis] for axis in side) for side in axes]
        assert [getattr(kind, "sizes", None) for kind in kinds] == wanted
        contract = only(kernel, tile.ContractOp)
        assert contract.lhs_k_major == (a == "[M, K]") and contract.rhs_k_major == (b == "[N, K]")
        assert contract.sizes == sizes
        copies = find(kernel, tile.CopyOp)
        named = [[i.name_hint for i in copy.indices] for copy in copies]
        assert named == [[f"{s.lower()}0" for s in shape[1:-1].split(", ")] for shape in (a, b)]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_lower_region_makes_a_kernel_a_schedule(arch: str) -> None:
    """Kernels and launches in the schedules' order; the last launch has no condition."""
    module = run(persistent() if arch == "sm_90a" else scheduled(region(), arch), PASS)
    top = only(module, gpu.ModuleOp)
    variants = {
        "sm_80": ["cp_async16_large", "cp_async16", "padded", "cp_async4", "scalar"],
        "sm_90a": ["tma_small", "tma", "padded", "cp_async", "scalar"],
    }[arch]
    assert top.arch.data == arch
    launches = [op for op in top.dispatch().launches() if op.fills is None]
    named = [k.sym_name.data for k in top.kernels()]
    copies = ["gemm_padded_A", "gemm_padded_B"]
    assert [name for name in named if name not in copies] == [f"gemm_{v}" for v in variants]
    assert [x.kernel.root_reference.data for x in launches] == [f"gemm_{v}" for v in variants]
    assert not launches[-1].when.data and launches[0].when.data
    own = [k for k in top.kernels() if k.sym_name.data not in copies]
    for kernel, launch in zip(own, launches, strict=True):
        if launch.persistent is not None:
            rows, columns = only(kernel, tile.TileLoopOp).tile.data
        else:
            rows, columns = only(kernel, tile.TileCoordinatesOp).tile_sizes
        assert (launch.persistent is not None) == (arch == "sm_90a" and launch in launches[:3])
        for m, n in ((1, 1), (rows, columns), (rows + 1, 3 * columns - 1)):
            sizes = {"M": m, "N": n, "K": 7}
            grid = [dim.evaluate(sizes) for dim in launch.grid.data]
            assert grid == [-(-m // rows), -(-n // columns) * kernel.cluster_size]


def test_lower_region_keeps_places() -> None:
    """Every op made from the region says where in the text its source stands."""
    module = lowered(region(f"{READ_X}\n  %y = region.binary add %acc, %x : {MN}", "%y"))
    for op in module.walk():
        place = place_of(op.location)
        assert place is not None and place.file == "t.mlir" and place.line, op.name
    add = next(op for op in module.walk() if isinstance(op, arith.AddfOp))
    source = region(f"{READ_X}\n  %y = region.binary add %acc, %x : {MN}", "%y").splitlines()
    place = place_of(add.location)
    assert place is not None and "region.binary add" in source[place.line - 1]


def test_lower_region_asks_for_pointers_as_wide_as_the_plans_vectors() -> None:
    """Per tensor: vectorize elements of its own type, 16 bytes at most (A, B, X, v, C)."""
    variants = only(lowered(region()), gpu.DispatchOp).variants()
    assert [list(x.alignments) for x in variants] == [
        [16, 16, 16, 16, 16],
        [16, 16, 16, 16, 16],
        [2, 2, 4, 4, 4],
        [4, 4, 8, 8, 8],
        [2, 2, 4, 4, 4],
    ]


# Epilogues -------------------------------------------------------------------------------------

MATH: dict[type[Operation], Callable[..., Any]] = {
    math.AbsFOp: np.abs,
    math.AcosOp: functions.acos,
    math.AcoshOp: functions.acosh,
    math.AsinOp: functions.asin,
    math.AsinhOp: functions.asinh,
    math.AtanOp: functions.atan,
    math.Atan2Op: functions.atan2,
    math.AtanhOp: functions.atanh,
    math.CbrtOp: functions.cbrt,
    math.CeilOp: np.ceil,
    math.CosOp: functions.cos,
    math.CoshOp: functions.cosh,
    math.ErfOp: functions.erf,
    math.Exp2Op: functions.exp2,
    math.ExpM1Op: functions.expm1,
    math.FloorOp: np.floor,
    math.Log10Op: functions.log10,
    math.Log1pOp: functions.log1p,
    math.Log2Op: functions.log2,
    math.RoundEvenOp: np.rint,
    math.SinOp: functions.sin,
    math.SinhOp: functions.sinh,
    math.TanOp: functions.tan,
    math.TruncOp: np.trunc,
    ErfcOp: functions.erfc,
    FmodOp: np.fmod,
    math.ExpOp: np.exp,
    math.LogOp: np.log,
    math.PowFOp: np.power,
    math.RsqrtOp: functions.UNARY["rsqrt"],
    math.SqrtOp: np.sqrt,
    math.TanhOp: np.tanh,
    arith.NegfOp: np.negative,
    arith.SubfOp: np.subtract,
    arith.DivfOp: np.divide,
    arith.MinimumfOp: np.minimum,
}
ORDERED = {
    "oeq": np.equal,
    "olt": np.less,
    "ole": np.less_equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
    "une": np.not_equal,
}
PREDICATES = [
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
]

SPECIAL = np.array(
    [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 88.0, -88.0, 3e38, 1e-40],
    np.float32,
)
X, Y = (v.ravel() for v in np.meshgrid(SPECIAL, SPECIAL))


def body(module: ModuleOp, acc: Any, x: Any, v: Any = None) -> Any:
    """What the first kernel's map yields for these accumulators and elements of X and v."""
    op = find(module, tile.MapOp)[0]

    def compare(event: Event) -> list[Any]:
        assert isinstance(event.op, arith.CmpfOp)
        name = PREDICATES[event.op.predicate.value.data]
        return [ORDERED[name](*event.operands)]

    machine = Machine(
        threads=acc.size,
        handlers={
            **{kind: lambda e, f=f: [f(*e.operands)] for kind, f in MATH.items()},
            arith.CmpfOp: compare,
        },
    )
    names = ["acc", *(t.name_hint for t in op.inputs)]
    for arg, name in zip(op.body.block.args, names, strict=True):
        machine.set(arg, {"acc": acc, "X": x, "v": x if v is None else v}[str(name)])
    for outside in find(module, arith.ConstantOp):
        machine.run([outside])
    with np.errstate(all="ignore"):
        machine.run(op.body.block.ops)
    end = op.body.block.last_op
    assert isinstance(end, tile.YieldOp)
    return machine.get(end.values[0])


def assert_same(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6, equal_nan=True)
    zero = expected == 0
    assert (np.signbit(found[zero]) == np.signbit(expected[zero])).all()


def chosen(made: Sequence[str]) -> str:
    """An epilogue that computes ``made`` of %acc and %x, and takes the one whose number v has."""
    flags = MN.replace("f32", "i1")
    lines = [
        f"%w = region.read %v affine_map<(i)[s0, s1, s2] -> (i)> : "
        f"!region.memref<[N], f32, align 16> -> {VECTOR}",
        f"%which = region.broadcast_in_dim %w dims [1] : {VECTOR} -> {MN}",
        READ_X,
    ]
    last = "%acc"
    for i, op in enumerate(made):
        lines += [
            f"%made{i} = {op} : {MN}",
            f"%k{i} = region.constant {i}.0 : !region.val<[], f32>",
            f"%n{i} = region.broadcast_in_dim %k{i} dims [] : !region.val<[], f32> -> {MN}",
            f"%is{i} = region.compare eq %which, %n{i} : {MN}, {MN} -> {flags}",
            f"%so{i} = region.select %is{i}, %made{i}, {last} : {flags}, {MN}, {MN} -> {MN}",
        ]
        last = f"%so{i}"
    return region("\n  ".join(lines), last)


def test_the_unary_functions_in_an_epilogue() -> None:
    module = lowered(chosen([f"region.unary {fn} %acc" for fn in UNARY_FUNCTIONS]))
    for number, fn in enumerate(UNARY_FUNCTIONS):
        which = np.full(SPECIAL.shape, number, np.float32)
        assert_same(body(module, SPECIAL, SPECIAL, which), functions.unary(fn, SPECIAL))


def test_the_binary_functions_in_an_epilogue() -> None:
    module = lowered(chosen([f"region.binary {fn} %acc, %x" for fn in BINARY_FUNCTIONS]))
    for number, fn in enumerate(BINARY_FUNCTIONS):
        which = np.full(X.shape, number, np.float32)
        assert_same(body(module, X, Y, which), functions.binary(fn, X, Y))


@pytest.mark.parametrize("fn", COMPARISONS)
def test_a_comparison_and_a_selection_in_an_epilogue(fn: str) -> None:
    flags = MN.replace("f32", "i1")
    epilogue = (
        f"{READ_X}\n  %p = region.compare {fn} %acc, %x : {MN}, {MN} -> {flags}\n"
        f"  %y = region.select %p, %acc, %x : {flags}, {MN}, {MN} -> {MN}"
    )
    module = lowered(region(epilogue, "%y"))
    expected = np.where(functions.compare(fn, X, Y), X, Y)
    assert_same(body(module, X, Y), expected)


def test_a_cast_rounds_and_the_rest_stays_f32() -> None:
    half = MN.replace("f32", "f16")
    epilogue = (
        f"{READ_X}\n  %h = region.cast %acc : {MN} -> {half}\n"
        f"  %w = region.cast %h : {half} -> {MN}\n  %y = region.binary add %w, %x : {MN}"
    )
    module = lowered(region(epilogue, "%y"))
    with np.errstate(all="ignore"):
        expected = X.astype(np.float16).astype(np.float32) + Y
    assert_same(body(module, X, Y), expected)


def test_the_output_is_rounded_to_its_type() -> None:
    half = MN.replace("f32", "f16")
    module = lowered(region(f"%h = region.cast %acc : {MN} -> {half}", "%h", result="f16"))
    with np.errstate(all="ignore"):
        assert_same(body(module, SPECIAL, SPECIAL), SPECIAL.astype(np.float16))


VECTOR = "!region.val<[n: N], f32>"


def test_a_vector_is_read_at_its_column() -> None:
    read = "(i)[s0, s1, s2] -> (i)"
    epilogue = (
        f"%w = region.read %v affine_map<{read}> : !region.memref<[N], f32, align 16> -> {VECTOR}\n"
        f"  %we = region.broadcast_in_dim %w dims [1] : {VECTOR} -> {MN}\n"
        f"  %y = region.binary add %acc, %we : {MN}"
    )
    op = find(lowered(region(epilogue, "%y")), tile.MapOp)[0]
    assert [str(m) for m in op.input_maps] == ["(d0, d1)[s0, s1] -> ((d1 + s1))"]
    assert [str(m) for m in op.output_maps] == ["(d0, d1)[s0, s1] -> ((d0 + s0), (d1 + s1))"]


def test_a_tensor_that_two_values_read_is_read_twice_at_its_places() -> None:
    again = READ_X.replace("%x =", "%z =")
    epilogue = f"{READ_X}\n  {again}\n  %y = region.binary mul %x, %z : {MN}\n"
    epilogue += f"  %w = region.binary add %acc, %y : {MN}"
    op = find(lowered(region(epilogue, "%w")), tile.MapOp)[0]
    assert [t.name_hint for t in op.inputs] == ["X", "X"]


# Epilogues that read elsewhere ---------------------------------------------------------------

GUARDED = READ_X.replace(
    "-> (i, j)>", "-> (i, j)> where affine_set<(i, j)[s0, s1, s2] : (i >= 1)> else 0.0"
)
SHIFTED = (
    "%x = region.read %W affine_map<(i, j)[s0, s1, s2] -> (i + s0, j)> : "
    f"!region.memref<[2*M, N], f32, align 16> -> {MN}"
)
READ_HERE = GUARDED.replace("(i >= 1)", "(i - j >= 0, s1 - 8 * j + i >= 0)").replace("0.0", "-2.5")
READ_BEFORE = GUARDED.replace("-> (i, j)> where", "-> (i - 1, j)> where").replace("0.0", "7.0")
SEEN = "%x = region.inside affine_set<(i, j)[s0, s1, s2] : (i - 2 * j + s2 >= 0)> : "
INSIDE = f"""{SEEN}{MN.replace("f32", "i1")}
  %y = region.constant 3.0 : !region.val<[], f32>
  %z = region.broadcast_in_dim %y dims [] : !region.val<[], f32> -> {MN}"""
SIZE = f"""%d = region.dim M * K + N : !region.val<[], f32>
  %x = region.broadcast_in_dim %d dims [] : !region.val<[], f32> -> {MN}"""


@pytest.mark.parametrize(
    "before",
    [GUARDED, READ_HERE, READ_BEFORE, SHIFTED, SIZE],
    ids=["guard", "guard of symbols", "before the tensor", "shifted by a size", "size"],
)
def test_an_epilogue_has_what_it_reads_under_a_guard_or_by_a_size(before: str) -> None:
    assert_same_values(f"{before}\n  %y = region.binary add %acc, %x : {MN}", "%y")


def test_an_epilogue_asks_where_its_point_is() -> None:
    condition = MN.replace("f32", "i1")
    chosen = f"%w = region.select %x, %acc, %z : {condition}, {MN}, {MN} -> {MN}"
    assert_same_values(f"{INSIDE}\n  {chosen}", "%w")


def assert_same_values(epilogue: str, out: str) -> None:
    """The tiles of every variant give what the region gives, on sizes with tails."""
    text = region(epilogue, out, more=", %W: !region.memref<[2*M, N], f32, align 16>")
    rng = np.random.default_rng(0)
    for sizes in ({"M": 136, "N": 48, "K": 40}, {"M": 5, "N": 131, "K": 7}):
        m, n, k = (sizes[name] for name in "MNK")
        shapes = ((m, k), (k, n), (m, n), (n,), (2 * m, n))
        kinds = (np.float16, np.float16, np.float32, np.float32, np.float32)
        inputs = [rng.standard_normal(s).astype(t) for s, t in zip(shapes, kinds, strict=True)]
        wanted = meant(parsed(text), inputs, sizes)
        assert_agree(played(lowered(text), inputs, sizes), wanted)


def played(module: ModuleOp, inputs: list[Any], sizes: dict[str, int]) -> list[Any]:
    found = play(module, "gemm", inputs, sizes)
    assert found is not None
    return list(found)


# Refusals ------------------------------------------------------------------------------------


def test_a_region_without_a_plan_is_refused() -> None:
    message = "region @gemm has no plan.schedule; run plan-select first"
    assert_refused(region(), "NoPlan", message, "region.kernel", PASS)


def test_schedules_for_two_architectures_are_refused() -> None:
    text = scheduled(region())
    first, _, rest = text.partition('arch = "sm_80"')
    text = first + 'arch = "sm_80"' + rest.replace('arch = "sm_80"', 'arch = "sm_90a"', 1)
    message = "the schedules of @gemm are for sm_80 and sm_90a; lower one architecture at a time"
    assert_refused(text, "UnsupportedPlan", message, 'variant "cp_async16" ', PASS)


def test_a_plan_for_another_reduction_is_refused() -> None:
    text = scheduled(region()).replace('tensorize = "acc"', 'tensorize = "other"', 1)
    text = text.replace('"from" = "acc"', '"from" = "other"', 1)
    message = "the plan tensorizes 'other' and the region reduces 'acc'"
    assert_refused(text, "UnsupportedPlan", message, "plan.schedule", PASS)


def test_a_condition_over_a_stranger_is_refused() -> None:
    text = scheduled(region()).replace("when (", "when (Q mod 2 == 0, ", 1)
    message = (
        "the assumption Q mod 2 == 0 names Q, which is not among the symbols "
        "M, K, N of region @gemm"
    )
    assert_refused(text, "BadPlan", message, "plan.schedule", PASS)


NOT_BUILT = {
    "cluster": ("cluster = [1, 1]", "cluster = [1, 2]", "[1, 2] and persistent false"),
}


@pytest.mark.parametrize(("said", "asked", "there"), NOT_BUILT.values(), ids=NOT_BUILT)
def test_a_choice_that_is_not_built_is_refused(said: str, asked: str, there: str) -> None:
    text = persistent().replace(said, asked, 1)
    message = (
        f"plan 'tma_small' asks for a {said.split()[0]} that region-to-gpu does not build yet; "
        f"use {there}"
    )
    assert_refused(text, "UnsupportedPlan", message, "plan.schedule", PASS)


def test_a_cluster_shares_what_has_no_rows() -> None:
    text = persistent().replace("cluster = [1, 1]", "cluster = [2, 1]", 1)
    text = text.replace("multicast = false", "multicast = true", 1)
    module = only(run(text, PASS), gpu.ModuleOp)
    kernel, launch = module.kernels()[0], module.dispatch().launches()[0]
    assert kernel.cluster_size == 2
    copies = [c for c in find(kernel, tile.CopyOp) if c.is_load]
    assert [c.multicast is not None for c in copies] == [False, True]
    assert str(launch.grid.data[0]) == "2 * ((M + 255) floordiv 256)"


def test_a_cluster_of_another_kernel_is_refused() -> None:
    first, own, rest = persistent().partition('"cp_async"')
    text = first + own + rest.replace("cluster = [1, 1]", "cluster = [2, 1]", 1)
    message = (
        "plan 'cp_async' asks for a cluster that region-to-gpu does not build yet; use [1, 1], or "
        "a kernel that loads by tma"
    )
    assert_refused(text, "UnsupportedPlan", message, 'variant "cp_async"', PASS)


def test_a_persistent_kernel_of_mma_sync_is_refused() -> None:
    text = scheduled(region(), "sm_80").replace("persistent = false", "persistent = true", 1)
    message = (
        "plan 'cp_async16_large' asks for a persistent that region-to-gpu does not build yet; use "
        "false"
    )
    assert_refused(text, "UnsupportedPlan", message, "plan.schedule", PASS)


def test_a_persistent_kernel_stores_by_tma() -> None:
    """Parts of 128 columns of the fragment go to one shared tile, and from there to the tensor."""
    half = MN.replace("f32", "f16")
    text = region(f"%y = region.cast %acc : {MN} -> {half}", "%y", result="f16")
    found = only(lowered(text, "sm_90a"), gpu.ModuleOp).kernels()
    kernel = next(k for k in found if k.sym_name.data.endswith("_tma"))
    loop = only(kernel, tile.TileLoopOp)
    copies = find(loop, tile.CopyOp)
    windows = [c.window.data for c in copies if c.window is not None]
    assert windows == [(0, 0), (0, 128)]
    stores = [c for c in copies if c.is_store]
    assert [c.loader.data for c in stores if c.loader] == ["tma", "tma"]
    assert {c.source for c in stores} == {c.target for c in copies if c.window is not None}
    assert not find(loop, SharedTileOp) and find(kernel, SharedTileOp)


def test_an_output_of_f32_is_stored_by_threads() -> None:
    found = only(lowered(region(), "sm_90a"), gpu.ModuleOp).kernels()
    kernel = next(k for k in found if k.sym_name.data.endswith("_tma"))
    assert find(kernel, tile.TileLoopOp)
    assert not [c for c in find(kernel, tile.CopyOp) if c.is_store]


def test_lower_region_leaves_a_module_without_regions_alone() -> None:
    text = 'gpu.module @m arch "sm_80" symbols [] {\n}\n'
    assert printed(run(text, PASS)) == printed(run(text))
