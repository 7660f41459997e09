"""An exponential in a row is the device's own where what is stored is coarser by far."""

from __future__ import annotations

import pytest
from xdsl.dialects import math

from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.scalars import is_approximate
from polyc.dialects.region import UnaryOp
from polyc.lowering.region_to_gpu.row_point import is_short
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.row_programs import graph
from polyc.tools.registry import make_context


def program(stored: str, below: bool = True) -> str:
    """Exponentials of rows, of numbers below the row's maximum or of numbers as they are."""
    body = [
        "%m = frontend.reduce max %X axes [1] keepdims : T<[M, N], f32> -> T<[M, 1], f32>",
        "%d = frontend.elementwise sub %X, %m : (T<[M, N], f32>, T<[M, 1], f32>) -> T<[M, N], f32>",
        f"%e = frontend.elementwise exp {'%d' if below else '%X'} : T<[M, N], f32>",
    ]
    if not below:
        body.append(
            "%p = frontend.elementwise mul %e, %m : (T<[M, N], f32>, T<[M, 1], f32>)"
            " -> T<[M, N], f32>"
        )
    result = "%e" if below else "%p"
    if stored != "f32":
        body.append(f"%y = frontend.cast {result} : T<[M, N], f32> -> T<[M, N], {stored}>")
        result = "%y"
    kind = f"T<[M, N], {stored}>"
    return graph("%X: T<[M, N], f32>", f"Y: {kind}", body, f"{result} : {kind}")


@pytest.mark.parametrize(
    ("stored", "below", "short"),
    [("f16", True, True), ("bf16", True, True), ("f32", True, False), ("f16", False, False)],
)
def test_an_exponential_of_a_difference_is_short(stored: str, below: bool, short: bool) -> None:
    """A difference is rounded; a number from memory is not, and f32 shows its exponential."""
    module = parsed(program(stored, below))
    border = ABOVE_GPU.index("plan-select")
    for name in ABOVE_GPU[:border]:
        build(name, "sm_90a").apply(make_context(), module)
    (power,) = [op for op in find(module, UnaryOp) if op.fn.data == "exp"]
    assert is_short(power) == short
    for name in ABOVE_GPU[border:]:
        build(name, "sm_90a").apply(make_context(), module)
    kernels = only(module, gpu.ModuleOp)
    powers = find(kernels, math.Exp2Op)
    assert bool(powers) == short and all(is_approximate(op) for op in powers)
    assert bool(find(kernels, math.ExpOp)) != short
