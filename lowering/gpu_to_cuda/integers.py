"""The printer: arithmetic and conversions of integers that ``arith`` lacks."""

from __future__ import annotations

from xdsl.dialects.builtin import i64

from polyc.dialects.gpu import hardware as hw
from polyc.lowering.gpu_to_cuda.asm import asm, define, device_function
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, prints

# By the squares of the base that the exponent's bits name.
define(
    *(
        device_function(
            f"{word} power_{word}({word} base, {word} exponent)",
            f"""
{word} found = 1;
while (exponent != 0) {{
  if (exponent & 1) found *= base;
  base *= base;
  exponent >>= 1;
}}
return found;
""",
        )
        for word in ("u32", "u64")
    )
)

# Beyond the type they clamp, and NaN gives 0; a conversion of C's leaves both open.
define(
    *(
        device_function(
            f"{word} cut_{kind}(float x)",
            f"{word} r;\n"
            + asm(f"cvt.rzi.{kind}.f32 %0, %1;", '"=r"(r)', '"f"(x)', volatile=False, memory=False)
            + "\nreturn r;",
        )
        for word, kind in (("int", "s32"), ("u32", "u32"))
    )
)


@prints(hw.CutOp, "whole")
def _cut(w: KernelWriter, op: hw.CutOp) -> None:
    call = w.call("cut_s32" if op.unsigned is None else "cut_u32", w.text(op.value))
    w.define(op.result, f"({w.type(op.result.type, op).name}){call}")


@prints(hw.PowerOp, "power")
def _power(w: KernelWriter, op: hw.PowerOp) -> None:
    word = "u64" if op.result.type == i64 else "u32"
    call = w.call(f"power_{word}", *(f"({word}){w.text(v)}" for v in op.operands))
    w.define(op.result, f"({w.type(op.result.type, op).name}){call}")
