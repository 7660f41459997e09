"""``region-invert-divisors``: a product with the inverse is the quotient, at the ends of f32 too."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16

from polyc.bench.any_axes import Problem, text_of
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import BinaryOp, KernelOp, SelectOp, UnaryOp
from polyc.lowering.index_to_region import IndexToRegion
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.playback import tile
from polyc.playback.agreement import tolerance_check
from polyc.playback.reference import reference
from polyc.rewriting.driver import verify
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.planes import PLANES
from polyc.test.support.root import ROOT
from polyc.test.support.row_programs import graph
from polyc.tools.registry import make_context


def dividing(fn: str, kind: str = "f32", stored: str = "bf16") -> str:
    """Rows divided by a reduction of others, of type ``kind``."""
    body = [
        f"%s = frontend.reduce {fn} %S axes [1] keepdims : T<[M, N], {kind}> -> T<[M, 1], {kind}>",
        f"%q = frontend.elementwise div %X, %s : (T<[M, N], f32>, T<[M, 1], {kind}>) -> T<[M, N], f32>",
    ]
    result = "%q"
    if stored != "f32":
        body.append(f"%y = frontend.cast %q : T<[M, N], f32> -> T<[M, N], {stored}>")
        result = "%y"
    given = f"%X: T<[M, N], f32>, %S: T<[M, N], {kind}>"
    return graph(given, f"Y: T<[M, N], {stored}>", body, f"{result} : T<[M, N], {stored}>")


def module_of(text: str, last: str = "region-invert-divisors") -> ModuleOp:
    module = parsed(text)
    for name in ABOVE_GPU[: ABOVE_GPU.index(last) + 1]:
        whole = name == "index-to-region"
        step = IndexToRegion(fuse="legal") if whole else build(name, "sm_90a")
        step.apply(make_context(), module)
    verify(module)
    return module


def counts(text: str) -> tuple[int, int, int]:
    """Divisions, inverses and choices, outside of chunks, in the forms that kernels are built of, each of them."""
    module = module_of(text)
    kernels = [k for k in module.walk() if isinstance(k, KernelOp)]
    found = {
        (
            sum(isinstance(op, BinaryOp) and op.fn.data == "div" for op in ops),
            sum(isinstance(op, UnaryOp) and op.fn.data == "reciprocal" for op in ops),
            sum(isinstance(op, SelectOp) for op in ops),
        )
        for ops in ([*kernel.body.block.ops] for kernel in kernels)
    }
    (one,) = found
    return one


def test_a_softmax_is_multiplied_by_one_inverse() -> None:
    text = (ROOT / "examples" / "softmax.mlir").read_text()
    assert counts(text) == (0, 1, 0)


@pytest.mark.parametrize(
    ("text", "scaled"),
    [(dividing("max"), 1), (dividing("max", "f16"), 0), (dividing("sum", "f16"), 1)],
)
def test_a_divisor_that_may_be_tiny_is_scaled(text: str, scaled: int) -> None:
    assert counts(text) == (0, 1, scaled)


def test_a_mean_and_other_kernels_keep_their_divisions() -> None:
    """What a row's sum is divided by is a size; a softmax over an outer axis is of loops."""
    module = module_of(PLANES)
    assert {plan.pattern for plan in find(module, ScheduleOp)} == {"loops"}
    assert any(op.fn.data == "div" for op in find(module, BinaryOp))
    mean = graph(
        "%X: T<[M, N], f32>",
        "Y: T<[M], f32>",
        ["%y = frontend.reduce mean %X axes [1] : T<[M, N], f32> -> T<[M], f32>"],
        "%y : T<[M], f32>",
    )
    assert counts(mean)[0] == 1


def test_loops_invert_what_a_vector_has_one_of() -> None:
    """A number of each channel, where pixels lie innermost."""
    module = parsed(text_of(Problem("frobenius", (64, 256, 4096), (0, 2), "f16")))
    for name in ABOVE_GPU[: ABOVE_GPU.index("region-invert-divisors") + 1]:
        build(name, "sm_90a").apply(make_context(), module)
    *_, last = find(module, KernelOp)
    names = [op.fn.data for op in last.walk() if isinstance(op, BinaryOp | UnaryOp)]
    assert names.count("reciprocal") == 1 and "div" not in names


def test_a_quotient_that_is_stored_as_it_is_keeps_its_division() -> None:
    """1 is what a number over itself is, to the last bit."""
    assert counts(dividing("max", stored="f32")) == (1, 0, 0)


ENDS = (0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-149, -(2.0**-140), 2.0**-126, 3.0e38, 1.0, -7.0)


@pytest.mark.parametrize("seed", [0, 1])
def test_every_pair_of_numbers_divides_as_it_did(seed: int) -> None:
    """Every numerator over every divisor: NaN, infinities, zeros, subnormals and what overflows."""
    text = dividing("max")
    tiles = only(module_of(text, "region-to-gpu"), gpu.ModuleOp)
    bits = np.random.default_rng(seed).integers(0, 1 << 32, 11, np.uint32)
    values: Any = np.concatenate([bits.view(np.float32), np.array(ENDS, np.float32)])
    inputs = [np.tile(values, (len(values), 1)), np.tile(values[:, None], (1, len(values)))]
    sizes = {"M": len(values), "N": len(values)}
    with np.errstate(all="ignore"):
        (wanted,) = reference(only(parsed(text), GraphOp), inputs, sizes)
        (found,) = tile.run(tiles, inputs, sizes, "rows_any")
        exact = inputs[0] / inputs[1]
    assert tolerance_check(np.asarray(found), wanted, bf16) is None
    zero = (exact == 0) & (inputs[0] == 0)
    assert np.array_equal(np.signbit(found[zero].astype(np.float32)), np.signbit(exact[zero]))
