"""The printer: what it prints compiles, says what the IR says, and is the same every time."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from io import StringIO
from math import erf
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import affine, arith, math, memref, scf
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Block, Operation
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.hardware import HARDWARE_OPS
from polyc.lowering.gpu_to_cuda import cuda_source, kernel_text, print_cuda
from polyc.lowering.gpu_to_cuda.arithmetic import ERF_FAR, ERF_NEAR
from polyc.lowering.gpu_to_cuda.asm import DeviceFunction
from polyc.lowering.gpu_to_cuda.upstream import affine_text
from polyc.lowering.gpu_to_cuda.writer import (
    KEYWORDS,
    PRINTERS,
    KernelWriter,
    bfloat_bits,
    float_literal,
    half_bits,
    is_reserved,
    literal,
    prints,
)
from polyc.runtime.nvrtc import compile_cuda
from polyc.test.support.root import ROOT
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

TEXTS = ROOT / "test" / "filecheck" / "gpu" / "cuda"
FILES = sorted(p for p in TEXTS.glob("*.mlir") if p.stem != "invalid")


def gpu_module(text: str, name: str = "test.mlir") -> gpu.ModuleOp:
    module = parse_text(make_context(), text, name)
    (found,) = (op for op in module.ops if isinstance(op, gpu.ModuleOp))
    return found


def kernel(body: str, arguments: str = "") -> gpu.ModuleOp:
    return gpu_module(
        f'gpu.module @m arch "sm_80" symbols [M] {{\n  gpu.kernel @k({arguments}) threads 32 {{\n'
        f"{body}\n    gpu.return\n  }}\n}}"
    )


# What is printed ------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_text_compiles_clean(path: Path, arch: str) -> None:
    module = gpu_module(path.read_text(), str(path))
    if module.arch.data > arch:
        pytest.skip(f"{path.stem} is for {module.arch.data}")
    source = cuda_source(module)
    assert "#include" not in source
    result = compile_cuda(source, arch)
    assert result.warnings() == ()
    assert set(result.kernels) == {k.sym_name.data for k in module.kernels()}
    calls = "__noinline__" in source  # The long way of a sine has a frame.
    for name, info in result.kernels.items():
        assert info.spill_bytes == 0 and (calls or info.stack == 0), (name, info)


def test_texts_use_every_op() -> None:
    used: set[type[Operation]] = set()
    for path in FILES:
        used |= {type(op) for op in gpu_module(path.read_text()).walk()}
    assert set(PRINTERS) - used == set()


def test_every_hardware_op_has_a_printer() -> None:
    assert [op.name for op in HARDWARE_OPS if op not in PRINTERS] == []


def test_upstream_ops_have_a_printer() -> None:
    """What the passes of the gpu dialect make beside hardware ops."""
    made = (affine.ApplyOp, arith.ConstantOp, arith.SelectOp, math.ExpOp, memref.AllocaOp)
    for op in (*made, memref.LoadOp, memref.StoreOp, scf.ForOp, scf.IfOp, scf.YieldOp):
        assert op in PRINTERS


def test_same_bytes_in_every_process() -> None:
    code = (
        "import sys; from io import StringIO\n"
        "from polyc.lowering.gpu_to_cuda import print_cuda\n"
        "from polyc.tools.parsing import parse_text\n"
        "from polyc.tools.registry import make_context\n"
        "for path in sys.argv[1:]:\n"
        "    print_cuda(parse_text(make_context(), open(path).read(), path), sys.stdout)\n"
    )

    def run(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
        paths = [str(p) for p in FILES]
        command = [sys.executable, "-c", code, *paths]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return done.stdout

    first = run("1")
    assert first == run("2")
    assert first.count("__global__") == sum(len(gpu_module(p.read_text()).kernels()) for p in FILES)


def test_modules_share_one_prelude(ctx: Context) -> None:
    text = """gpu.module @{0} arch "sm_80" symbols [] {{
  gpu.kernel @{0}_kernel() threads 32 {{
    gpu.cp_async_commit
    gpu.return
  }}
}}"""
    module = parse_text(ctx, text.format("a") + text.format("b"), "two.mlir")
    out = StringIO()
    print_cuda(module, out)
    assert out.getvalue().count("void cp_async_commit()") == 1
    assert set(compile_cuda(out.getvalue(), "sm_80").kernels) == {"a_kernel", "b_kernel"}


def test_nothing_to_print_is_an_error() -> None:
    with pytest.raises(PolycError, match="NotLowered"):
        print_cuda(ModuleOp([]), StringIO())


def test_an_op_from_outside_can_be_printed() -> None:
    before = PRINTERS[arith.NegfOp]
    try:

        @prints(arith.NegfOp)
        def negate(w: KernelWriter, op: arith.NegfOp) -> None:
            w.define(op.result, f"0.0f - {w.text(op.operand)}")

        source = cuda_source(
            kernel(
                "    %y = arith.negf %x : f32\n    gpu.store_shared %y, %a : f32",
                "%x: f32 = symbol M, %a: i32 = symbol M",
            )
        )
        assert negate is PRINTERS[arith.NegfOp]
    finally:
        PRINTERS[arith.NegfOp] = before
    assert "float y = 0.0f - x;" in source


def test_dead_values_are_not_printed() -> None:
    source = cuda_source(
        kernel(
            """    %dead = arith.addi %i, %i : index
    %deader = arith.addi %dead, %i : index
    %loaded = gpu.load_global %A[%deader : index] : !gpu.global<[M], f32> -> f32
    gpu.barrier""",
            "%A: !gpu.global<[M], f32> = tensor 0, %i: index = symbol M",
        )
    )
    assert "dead" not in source and "load" not in source


def test_stored_tensors_are_neither_const_nor_nc() -> None:
    source = cuda_source(
        kernel(
            """    %x = gpu.load_global %A[%i : index] : !gpu.global<[M], f32> -> f32
    %y = gpu.load_global %B[%i : index] : !gpu.global<[M], f32> -> f32
    gpu.store_global %y, %A[%i : index] : f32, !gpu.global<[M], f32>
    gpu.store_global %x, %A[%i : index] : f32, !gpu.global<[M], f32>""",
            "%A: !gpu.global<[M], f32> = tensor 0, %B: !gpu.global<[M], f32> = tensor 1, "
            "%i: index = symbol M",
        )
    )
    assert "float* __restrict__ A, const float* __restrict__ B" in source.replace("\n    ", " ")
    assert "x = load_global_f32(A + i)" in source and "y = load_global_nc_f32(B + i)" in source


def test_printing_is_fast() -> None:
    lines = [
        f"    %v{i} = arith.addi %v{i - 1}, %i : index\n"
        f"    %w{i} = affine.apply affine_map<(d0)[s0] -> (d0 floordiv 4 + s0 * 2)>(%v{i})[%i]"
        for i in range(1, 300)
    ]
    body = "\n".join(["    %v0 = gpu.thread_id", *lines])
    module = kernel(
        f"{body}\n    %r = arith.index_cast %w299 : index to i32\n"
        "    gpu.store_shared %r, %a : i32\n"
        + "\n".join(
            f"    %x{i} = arith.index_cast %w{i} : index to i32\n"
            f"    gpu.store_shared %x{i}, %a : i32"
            for i in range(1, 20)
        ),
        "%i: index = symbol M, %a: i32 = symbol M",
    )
    ops = sum(1 for _ in module.walk())
    best = min(_timed(lambda: cuda_source(module)) for _ in range(5))
    assert best < 0.03 * ops / 600, f"{1e3 * best:.1f} ms for {ops} ops"


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


# Literals -------------------------------------------------------------------------------


def as_f32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_literals_are_exact(value: float) -> None:
    text = float_literal(value)
    assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]\d+)?f", text), text
    read = as_f32(float(text.removesuffix("f")))
    assert struct.pack("<f", read) == struct.pack("<f", value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0f"),
        (-0.0, "-0.0f"),
        (1.0, "1.0f"),
        (0.1, "0.1f"),
        (1e10, "1e+10f"),
        (16777216.0, "16777216.0f"),
        (3.4028234663852886e38, "3.4028235e+38f"),
        (float("inf"), "__uint_as_float(0x7f800000u)"),
        (float("-inf"), "__uint_as_float(0xff800000u)"),
        (1e300, "__uint_as_float(0x7f800000u)"),
        (float("nan"), "__uint_as_float(0x7fc00000u)"),
    ],
)
def test_float_literals(value: float, text: str) -> None:
    assert float_literal(value) == text


@given(st.floats(width=32, allow_nan=False))
def test_half_and_bfloat_bits_round_to_nearest_even(value: float) -> None:
    with np.errstate(over="ignore"):
        assert half_bits(value) == int(np.float32(value).astype(np.float16).view(np.uint16))
        bfloat = np.array(value, np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    assert bfloat_bits(value) == int(bfloat)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (-1, "int", "-1"),
        (-(1 << 31), "int", "(-2147483647 - 1)"),
        (-1, "u32", "(u32)-1"),
        (4000000000, "u32", "4000000000u"),
        (-1, "u8", "(u8)255"),
        (5, "i64", "5ll"),
        (-(1 << 63), "i64", "(-9223372036854775807ll - 1)"),
        (1, "bool", "true"),
        (0.5, "f16", "(f16)0x3800"),
        (1.0, "bf16", "(bf16)0x3f80"),
    ],
)
def test_literals(value: float, kind: str, text: str) -> None:
    assert literal(value, kind) == text


# Index arithmetic -----------------------------------------------------------------------

LEAVES = st.one_of(
    st.integers(-9, 9).map(AffineExpr.constant),
    st.integers(0, 1).map(AffineExpr.dimension),
    st.just(AffineExpr.symbol(0)),
)
DIVISORS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 32, 128])


def _combine(kind: str, a: AffineExpr, b: AffineExpr, factor: int, divisor: int) -> AffineExpr:
    match kind:
        case "add":
            return a + b
        case "sub":
            return a + b * -1
        case "mul":
            return a * factor
        case "floordiv":
            return a // divisor
        case "mod":
            return a % divisor
        case _:
            return a.ceil_div(divisor)


def _compound(inner: st.SearchStrategy[AffineExpr]) -> st.SearchStrategy[AffineExpr]:
    kinds = st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "ceildiv"])
    return st.builds(_combine, kinds, inner, inner, st.integers(-5, 5), DIVISORS)


def _c_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _floor_div(a: int, b: int) -> int:
    q = _c_quotient(a, b)
    r = a - q * b
    return q - (r != 0 and (r < 0) != (b < 0))


def _ceil_div(a: int, b: int) -> int:
    q = _c_quotient(a, b)
    r = a - q * b
    return q + (r != 0 and (r < 0) == (b < 0))


def _floor_mod(a: int, b: int) -> int:
    r = a - _c_quotient(a, b) * b
    return r + b if r != 0 and (r < 0) != (b < 0) else r


@given(
    st.recursive(LEAVES, _compound, max_leaves=8),
    st.integers(-1000, 1000),
    st.integers(-1000, 1000),
    st.integers(-1000, 1000),
)
def test_affine_text_is_exact_for_any_sign(expr: AffineExpr, i: int, j: int, n: int) -> None:
    """C's ``+ - * >> &`` read as Python's; the device functions are C's, transcribed."""
    text = affine_text(KernelWriter({}, {}), expr, ["i", "j"], ["n"])
    functions = {"floor_div": _floor_div, "ceil_div": _ceil_div, "floor_mod": _floor_mod}
    assert eval(text, {**functions, "i": i, "j": j, "n": n}) == expr.eval([i, j], [n]), text


@given(
    st.recursive(LEAVES, _compound, max_leaves=8),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.integers(0, 1000),
)
def test_affine_text_of_counts_is_exact(expr: AffineExpr, i: int, j: int, n: int) -> None:
    """What is never negative is divided as unsigned numbers, and only that."""
    text = affine_text(KernelWriter({}, {}), expr, ["i", "j"], ["n"], [True, True, True])
    functions = {"floor_div": _floor_div, "ceil_div": _ceil_div, "floor_mod": _floor_mod}

    def u32(value: int) -> int:
        assert value >= 0
        return value

    python = re.sub(r"(\d)u\)", r"\1)", text.replace("(int)((u32)", "(u32"))
    python = python.replace(" / ", " // ")
    known = {**functions, "u32": u32, "i": i, "j": j, "n": n}
    assert eval(python, known) == expr.eval([i, j], [n]), text


Floats = NDArray[np.float32]


def _divide(a: Floats, b: Floats, stand_in: float) -> Floats:
    quotient = np.where(a == 0, np.float32(stand_in), a) / b
    return np.where(a == 0, a * quotient, quotient)


def _apart(stand_in: float) -> int:
    """How many pairs of f32 ``divide`` gives other bits than ``/``; a GPU has one NaN."""
    steps = np.arange(0, 2**31, 2**21, dtype=np.uint32)  # four of each binade, 0, inf and NaN
    bits = np.concatenate([steps, steps + 1, steps[1:] - 1, steps + 0x2AAAA])
    values = np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32)
    near = [0.0, -0.0, 1.0, -1.0, 3.0, 2**-149, -(2**-149), 2**-126, np.inf, -np.inf, np.nan]
    numerators = np.array([*near, np.finfo(np.float32).max], np.float32)[:, None]
    with np.errstate(all="ignore"):
        wanted, found = numerators / values, _divide(numerators, values, stand_in)
    same = wanted.view(np.uint32) == found.view(np.uint32)
    return int((~same & ~(np.isnan(wanted) & np.isnan(found))).sum())


def test_a_quotient_of_zero_has_the_bits_of_the_division() -> None:
    """As the device function has it; a stand-in of 1 overflows over some denormals."""
    assert _apart(2**-30) == 0
    assert _apart(1.0) > 0


@pytest.mark.parametrize("divisor", [3, 6, 7, 9, 10, 49, 100, 311, 511, -12, 65535, 4194303])
def test_a_quotient_by_a_known_whole_number_is_the_nearest(divisor: int) -> None:
    """As the device function has it, of numbers of all sizes and of those near a middle; of two
    subnormal ones that are equally near it may be either."""
    draw = np.random.default_rng(abs(divisor))
    bits = draw.integers(0, 2**32, 400_000, np.uint32)
    middles = ((draw.integers(2**23, 2**24, 100_000) + 0.5) * divisor).astype(np.float32)
    tiny = np.arange(-3000, 3000).astype(np.float32) * np.float32(2**-149)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    a = np.concatenate([bits.view(np.float32), middles, np.nextafter(middles, 0), tiny, special])
    b = np.float32(divisor)
    with np.errstate(all="ignore"):
        inverse = np.float32(1) / b
        near = a * inverse
        rest = (a.astype(np.float64) - near.astype(np.float64) * b).astype(np.float32)
        moved = (near + rest.astype(np.float64) * inverse).astype(np.float32)
        found, wanted = np.where(np.abs(rest) > 0, moved, near), a / b
        exact = np.abs(a.astype(np.float64)) / abs(divisor) * 2.0**149
        halfway = exact % 1 == 0.5
    same = found.view(np.uint32) == wanted.view(np.uint32)
    same |= np.isnan(found) & np.isnan(wanted)
    tie = (np.abs(wanted) < 2.0**-126) & halfway
    assert (same | tie).all() and (divisor % 2 == 0 or not tie.any())
    off = np.abs(found[tie].astype(np.float64) - wanted[tie])
    assert (off <= 2.0**-149).all()


def _fused(a: Floats, b: Floats, c: float | Floats) -> Floats:
    """``fmaf``: what f64 adds to a product that it has whole is rounded once more, to f32."""
    return (a.astype(np.float64) * b.astype(np.float64) + c).astype(np.float32)


def _erf(x: Floats, off: float) -> Floats:
    """What the device function computes where ``ex2.approx`` is ``off`` by so much of itself."""

    def polynomial(of: Floats, factors: Sequence[float]) -> Floats:
        *rest, last = factors
        total = np.full_like(of, last)
        for factor in reversed(rest):
            total = _fused(total, of, factor)
        return total

    size = np.abs(x)
    near = _fused(polynomial(x * x, ERF_NEAR), x, x)
    power = np.exp2(polynomial(size, ERF_FAR).astype(np.float64)) * (1 + off)
    far = np.copysign(np.float32(1) - power.astype(np.float32), x)
    return np.where(size > 1, far, near)


@pytest.mark.parametrize("off", [-(2.0**-22), 0.0, 2.0**-22])
def test_erf_is_within_what_semantics_say(off: float) -> None:
    bits = np.arange(0, 0x7F800000, 4093, dtype=np.uint32)
    sides = [np.float32(1), np.nextafter(np.float32(1), np.float32(2))]
    x = np.concatenate([bits.view(np.float32), np.array(sides, np.float32)])
    with np.errstate(all="ignore"):
        found = _erf(x, off)
    wanted = np.array([erf(v) for v in x.tolist()])
    assert (np.abs(found - wanted) <= 2.3 * 2.0**-24 * wanted + 2.0**-149).all()
    with np.errstate(all="ignore"):
        assert (_erf(-x, off) == -found).all()


def test_erf_of_numbers_that_are_none() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    with np.errstate(all="ignore"):
        found = _erf(x, 0.0)
    assert np.array_equal(found, np.array([1, -1, np.nan, 0, -0.0]), equal_nan=True)
    assert np.signbit(found[4])


# Names ----------------------------------------------------------------------------------


RESERVED = [*sorted(KEYWORDS), "load_global_f16", "u32x4", "elect", "__x", "wgmma_m64n8k16_f16"]


@given(st.lists(st.one_of(st.text(max_size=6), st.sampled_from(RESERVED)), max_size=12))
def test_names_are_unique_and_fit_c(hints: list[str]) -> None:
    w = KernelWriter({}, {})
    names = [w.fresh(hint) for hint in hints]
    assert len(set(names)) == len(names)
    for name in names:
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and not is_reserved(name), name


def test_values_without_a_name_get_one() -> None:
    block = Block(arg_types=[IndexType(), IndexType()])
    w = KernelWriter({}, {})
    assert [w.name(a, "size") for a in block.args] == ["size", "size_1"]
    assert w.text(block.args[1]) == "size_1"


def test_kernel_text_collects_what_the_prelude_needs() -> None:
    module = kernel("    gpu.cp_async_commit\n    gpu.cp_async_wait 0")
    functions: dict[str, DeviceFunction] = {}
    text = kernel_text(module.kernels()[0], functions, {})
    assert list(functions) == ["cp_async_commit", "cp_async_wait"]
    assert text.endswith("  cp_async_commit();\n  cp_async_wait<0>();\n}\n")
