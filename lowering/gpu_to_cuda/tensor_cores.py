"""The printer: ldmatrix, stmatrix, mma.sync and wgmma (PTX ISA 9.7.15 and 9.7.16)."""

from __future__ import annotations

from functools import cache

from xdsl.ir import SSAValue

from polyc.dialects.gpu import hardware as hw
from polyc.lowering.gpu_to_cuda.asm import ADDRESS, DeviceFunction, asm, define, device_function
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, prints


def _mma(element: str) -> DeviceFunction:
    return device_function(
        f"void mma_m16n8k16_{element}(float* d, const u32* a, const u32* b)",
        asm(
            f"mma.sync.aligned.m16n8k16.row.col.f32.{element}.{element}.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};",
            ", ".join(f'"+f"(d[{i}])' for i in range(4)),
            ", ".join([f'"r"(a[{i}])' for i in range(4)] + [f'"r"(b[{i}])' for i in range(2)]),
            memory=False,
        ),
    )


define(
    *(
        device_function(
            f"void ldmatrix_x4{suffix}(u32* r, u32 address)",
            asm(
                f"ldmatrix.sync.aligned.m8n8.x4{word}.shared.b16 {{%0, %1, %2, %3}}, [%4];",
                ", ".join(f'"=r"(r[{i}])' for i in range(4)),
                ADDRESS,
            ),
        )
        for suffix, word in (("", ""), ("_transposed", ".trans"))
    ),
    *(
        device_function(
            f"void stmatrix_x4{suffix}(u32 address, const u32* r)",
            asm(
                f"stmatrix.sync.aligned.m8n8.x4{word}.shared.b16 [%0], {{%1, %2, %3, %4}};",
                ins=", ".join([ADDRESS, *(f'"r"(r[{i}])' for i in range(4))]),
            ),
        )
        for suffix, word in (("", ""), ("_transposed", ".trans"))
    ),
    *(_mma(element) for element in ("f16", "bf16")),
    # 14 bits each of start address, leading and stride byte offset, in units of 16 bytes.
    device_function(
        "i64 wgmma_descriptor(u32 address, u32 leading, u32 stride, u32 swizzle)",
        "u32 low = (address & 0x3ffff) >> 4 | leading >> 4 << 16;\n"
        "u32 high = stride >> 4 | swizzle << 30;\n"
        "return (i64)((u64)high << 32 | low);",
    ),
    device_function("void wgmma_fence()", asm("wgmma.fence.sync.aligned;")),
    device_function("void wgmma_commit()", asm("wgmma.commit_group.sync.aligned;")),
    device_function(
        "void wgmma_wait()",
        asm("wgmma.wait_group.sync.aligned %0;", ins='"n"(pending)'),
        "int pending",
    ),
    # Accesses of these registers stay on their side of this line.
    device_function(
        "void register_fence(float (&r)[count])",
        "#pragma unroll\nfor (int i = 0; i < count; ++i)\n"
        '  asm volatile("" : "+f"(r[i]) : : "memory");',
        "int count",
    ),
)


@cache
def wgmma(
    n: int, element: str, transpose_a: bool, transpose_b: bool, clear: bool = False
) -> DeviceFunction:
    """``d += a · b`` for m64nNk16; ``d`` is N/2 registers, a and b are descriptors.

    With ``clear`` it is ``d = a · b``.  f32 is m64nNk8 of TF32, whose operands lie along k alone.
    """
    count = n // 2
    places, outs = _accumulator(count)
    depth, element = (8, "tf32") if element == "f32" else (16, element)
    turned = f", {int(transpose_a)}, {int(transpose_b)}" if depth == 16 else ""
    code = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k{depth}.f32.{element}.{element}\n{{{places}}},\n"
        f"%{count}, %{count + 1}, {int(not clear)}, 1, 1{turned};"
    )
    suffix = ("_ta" if transpose_a else "") + ("_tb" if transpose_b else "")
    suffix += "_clear" if clear else ""
    return device_function(
        f"void wgmma_m64n{n}k{depth}_{element}{suffix}(float (&d)[{count}], i64 a, i64 b)",
        asm(code, outs, '"l"(a), "l"(b)', memory=False),
    )


def _accumulator(count: int) -> tuple[str, str]:
    """The registers of ``d`` in an instruction's text, and as operands of an asm statement."""
    rows = [range(i, min(i + 8, count)) for i in range(0, count, 8)]
    places = ",\n".join(", ".join(f"%{i}" for i in row) for row in rows)
    outs = ",\n      ".join(", ".join(f'"+f"(d[{i}])' for i in row) for row in rows)
    return places, outs


@cache
def wgmma_registers(n: int, element: str, transpose_b: bool, clear: bool) -> DeviceFunction:
    """``wgmma`` with a in four registers of pairs, of f32 of one number of TF32 each."""
    count = n // 2
    places, outs = _accumulator(count)
    a = ", ".join(f"%{count + i}" for i in range(4))
    wide = element == "f32"
    depth, kind = (8, "tf32") if wide else (16, element)
    turned = "" if wide else f", {int(transpose_b)}"
    code = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k{depth}.f32.{kind}.{kind}\n{{{places}}},\n"
        f"{{{a}}}, %{count + 4}, {int(not clear)}, 1, 1{turned};"
    )
    suffix = ("_tb" if transpose_b else "") + ("_clear" if clear else "")
    held, word = ("float", "__float_as_uint(a{})") if wide else ("u32", "a{}")
    words = [f'"r"({word.format(i)})' for i in range(4)]
    return device_function(
        f"void wgmma_m64n{n}k{depth}_{kind}_registers{suffix}(float (&d)[{count}], "
        f"{', '.join(f'{held} a{i}' for i in range(4))}, i64 b)",
        asm(code, outs, ", ".join([*words, '"l"(b)']), memory=False),
    )


_SWIZZLE = {0: 0, 128: 1, 64: 2, 32: 3}
"""Bits 62 and 63 of a matrix descriptor (PTX ISA 9.7.16.5.1)."""


def _registers(w: KernelWriter, array: SSAValue, offset: SSAValue) -> str:
    start = w.text(offset)
    return w.text(array) if start == "0" else f"{w.text(array)} + {start}"


@prints(hw.LdmatrixOp)
def _ldmatrix(w: KernelWriter, op: hw.LdmatrixOp) -> None:
    name = "ldmatrix_x4" if op.transpose is None else "ldmatrix_x4_transposed"
    w.run(name, _registers(w, op.registers, op.offset), w.text(op.address))


@prints(hw.StmatrixOp)
def _stmatrix(w: KernelWriter, op: hw.StmatrixOp) -> None:
    name = "stmatrix_x4" if op.transpose is None else "stmatrix_x4_transposed"
    w.run(name, w.text(op.address), _registers(w, op.registers, op.offset))


@prints(hw.MmaSyncOp)
def _mma_sync(w: KernelWriter, op: hw.MmaSyncOp) -> None:
    w.run(
        f"mma_m16n8k16_{op.element}",
        _registers(w, op.acc, op.acc_offset),
        _registers(w, op.a, op.a_offset),
        _registers(w, op.b, op.b_offset),
    )


@prints(hw.WgmmaDescriptorOp, "descriptor")
def _wgmma_descriptor(w: KernelWriter, op: hw.WgmmaDescriptorOp) -> None:
    numbers = (op.leading.value.data, op.stride.value.data, _SWIZZLE[op.swizzle.value.data])
    w.define(op.result, w.call("wgmma_descriptor", w.text(op.address), *map(str, numbers)))


@prints(hw.WgmmaOp)
def _wgmma(w: KernelWriter, op: hw.WgmmaOp) -> None:
    function = wgmma(
        op.n.value.data,
        str(op.element),
        op.transpose_a is not None,
        op.transpose_b is not None,
        op.clear is not None,
    )
    a, b = (
        f"{w.text(d)} + {offset.value.data >> 4}" if offset.value.data else w.text(d)
        for d, offset in ((op.a, op.a_offset), (op.b, op.b_offset))
    )
    w.run(function, w.text(op.acc), a, b)


@prints(hw.WgmmaRegistersOp)
def _wgmma_registers(w: KernelWriter, op: hw.WgmmaRegistersOp) -> None:
    function = wgmma_registers(
        op.n.value.data, str(op.element), op.transpose_b is not None, op.clear is not None
    )
    first, offset = op.a_register.value.data, op.b_offset.value.data
    b = f"{w.text(op.b)} + {offset >> 4}" if offset else w.text(op.b)
    a = [f"{w.text(op.a)}[{first + i}]" for i in range(4)]
    w.run(function, w.text(op.acc), *a, b)


@prints(hw.RegisterFenceOp)
def _register_fence(w: KernelWriter, op: hw.RegisterFenceOp) -> None:
    w.run("register_fence", w.text(op.registers))


@prints(hw.WgmmaFenceOp)
def _wgmma_fence(w: KernelWriter, op: hw.WgmmaFenceOp) -> None:
    w.run("wgmma_fence")


@prints(hw.WgmmaCommitOp)
def _wgmma_commit(w: KernelWriter, op: hw.WgmmaCommitOp) -> None:
    w.run("wgmma_commit")


@prints(hw.WgmmaWaitOp)
def _wgmma_wait(w: KernelWriter, op: hw.WgmmaWaitOp) -> None:
    w.run("wgmma_wait", template=str(op.pending.value.data))
