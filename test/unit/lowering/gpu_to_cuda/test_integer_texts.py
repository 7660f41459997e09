"""What the simulator does not see, as it reads ops and no text: C++ makes an f32 of any integer.

A kernel of integers has no f32 at all, so that none may be in what NVRTC makes of its text.
"""

from __future__ import annotations

import pytest

from polyc.dialects.gpu.module import ModuleOp
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.runtime.nvrtc import compile_cuda
from polyc.test.support.gpu_text import only
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

ROWS = "!frontend.tensor<[M, N], i32>"
COLUMN, PLACES = "!frontend.tensor<[M, 1], i32>", "!frontend.tensor<[N], i64>"
PROGRAMS = {
    # What combines two numbers is the same op along either axis.
    **{
        f"{fn}{axis}": f"%y = frontend.scan {fn} %x axis {axis} : {ROWS}"
        for fn, axis in (("prod", 0), ("max", 1), ("min", 0))
    },
    "last0": f"%y = frontend.scan sum %x axis 0 reverse exclusive : {ROWS}",
    "last1": f"%y = frontend.scan sum %x axis 1 reverse exclusive : {ROWS}",
    "sorted": f"%y, %p = frontend.sort %x axis 1 : ({ROWS}) -> ({ROWS}, {ROWS})",
    "added": f"%y = frontend.scatter add %x, %i, %u axis 1 : ({ROWS}, {PLACES}, {ROWS}) -> {ROWS}",
    "picked": f"%y = frontend.gather %x, %i axis 1 clamp : ({ROWS}, {PLACES}) -> {ROWS}",
    "reduced": f"""%z = frontend.reduce max %x axes [1] keepdims : {ROWS} -> {COLUMN}
  %y = frontend.elementwise mul %x, %z : ({ROWS}, {COLUMN}) -> {ROWS}""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_of_integers_have_no_f32(name: str) -> None:
    text = f"""frontend.graph @f(%x: {ROWS}, %u: {ROWS}, %i: {PLACES}) -> (Y: {ROWS}) {{
  {PROGRAMS[name]}
  frontend.output %y : {ROWS}
}}"""
    assert ".f32" not in ptx(text)


def ptx(text: str) -> str:
    """What NVRTC makes of all kernels of a program."""
    context = make_context()
    module = parse_text(context, text, "f.mlir")
    Compilation(context, module, "sm_90a").run("gpu")
    finish(module)
    return compile_cuda(cuda_source(only(module, ModuleOp)), "sm_90a", "ptx").image.decode()
