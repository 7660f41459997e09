"""Whatever function stands between two products, it is part of one of them."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f16, f32

from polyc.cost.time import times_of
from polyc.dialects.frontend.elementwise import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from polyc.test.support.gpu_text import parsed
from polyc.test.support.sketch import Sketch
from polyc.tools.load import load
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

TEXT = """frontend.graph @mlp(%x: !frontend.tensor<[T, 1024], {e}>,
    %up: !frontend.tensor<[4096, 1024], {e}>, %bias: !frontend.tensor<[4096], {e}>,
    %down: !frontend.tensor<[1024, 4096], {e}>, %other: !frontend.tensor<[{other}], {e}>)
    -> (y: !frontend.tensor<[T, 1024], {e}>) {{
  %0 = frontend.gemm %x, %up {{acc = f32, transpose_b}} : (!frontend.tensor<[T, 1024], {e}>,
      !frontend.tensor<[4096, 1024], {e}>) -> !frontend.tensor<[T, 4096], {e}>
  %1 = frontend.elementwise add %0, %bias : (!frontend.tensor<[T, 4096], {e}>,
      !frontend.tensor<[4096], {e}>) -> !frontend.tensor<[T, 4096], {e}>
  %2 = frontend.elementwise {step} -> !frontend.tensor<[T, 4096], {e}>
  %3 = frontend.gemm %2, %down {{acc = f32, transpose_b}} : (!frontend.tensor<[T, 4096], {e}>,
      !frontend.tensor<[1024, 4096], {e}>) -> !frontend.tensor<[T, 1024], {e}>
  frontend.output %3 : !frontend.tensor<[T, 1024], {e}>
}}
"""

WIDE = "!frontend.tensor<[T, 4096], {e}>"


def kernels(step: str, other: str, element: str) -> list[str]:
    """The variants that run for 2048 rows of a product, ``step`` and a product."""
    text = TEXT.format(step=step, other=other, e=element)
    job = Compilation(make_context(), parsed(text), "sm_90a")
    return [time.variant for time in times_of(job.run("plan").module, {"T": 2048})]


@pytest.mark.turns(4)
@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("function", UNARY_FUNCTIONS)
def test_functions_of_one_operand_stand_behind_the_first(function: str, element: str) -> None:
    wide = WIDE.format(e=element)
    found = kernels(f"{function} %1 : ({wide})", "1", element)
    assert len(found) == 2 and all(name.startswith("tma") for name in found)


@pytest.mark.turns(4)
@pytest.mark.parametrize("other", ["", "4096", "T, 1", "T, 4096"])
@pytest.mark.parametrize("function", BINARY_FUNCTIONS)
def test_those_of_two_have_any_other_tensor(function: str, other: str) -> None:
    """A number, one of each column, one of each row, and as many as there are."""
    step = f"{function} %1, %other : ({WIDE.format(e='f16')}, !frontend.tensor<[{other}], f16>)"
    found = kernels(step, other, "f16")
    assert len(found) == 2 and all(name.startswith("tma") for name in found)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(6272, 1024, 256), (25088, 512, 256)])
def test_a_scale_a_bias_and_a_residual_spill_nothing(rows: int, columns: int, depth: int) -> None:
    """Of few steps, whose loop the compiler unrolled: 48 bytes of a thread of three consumers."""
    s = Sketch("g", f16)
    y = s.gemm(s.input("x", rows, depth), s.input("w", columns, depth), turned=True, element=f32)
    y = s.fn("mul", y, s.cast(s.input("a", columns), f32))
    y = s.fn("add", y, s.input("b", columns, element=f32))
    y = s.fn("relu", s.fn("add", y, s.cast(s.input("r", rows, columns), f32)))
    made = load(str(s.done(y=s.cast(y, f16))), "sm_90a")
    assert not any(info.spill_bytes for info in made.kernels.values())
