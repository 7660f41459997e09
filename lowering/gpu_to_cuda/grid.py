"""The printer: signals and posts between the CTAs of a grid."""

from __future__ import annotations

from functools import cache
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from polyc.dialects.gpu import hardware as hw
from polyc.lowering.gpu_to_cuda.accesses import pointer_to
from polyc.lowering.gpu_to_cuda.asm import DeviceFunction, asm, define, device_function
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, prints

define(
    device_function(
        "void signal_global(void* pointer)",
        asm("red.release.gpu.global.add.u32 [%0], 1;", ins='"l"(pointer)'),
    ),
    device_function(
        "void wait_global(const void* pointer, int count)",
        "int seen;\ndo {\n"
        + asm("ld.acquire.gpu.global.s32 %0, [%1];", '"=r"(seen)', '"l"(pointer)')
        + "\n} while (seen < count);",
    ),
)


SLEEP = 40
"""Nanoseconds that a thread leaves a word alone that is not there yet."""

_POSTED = "0x100000000"
"""A word whose number, 0, is there."""


_BITS = {
    "u32": ("value", "(u32)w{}"),
    "float": ("__float_as_uint(value)", "__uint_as_float((u32)w{})"),
}
"""By the word of a type, the bits of a number and the number of a word: C++ would make an f32 of
any integer without a sound, so that a type that is not here has no post."""


@cache
def _post(word: str) -> DeviceFunction:
    bits, _ = _BITS[word]
    return device_function(
        f"void post_{word}(i64* pointer, {word} value)",
        f"u64 word = {_POSTED}ull | {bits};\n"
        + asm("st.relaxed.gpu.global.b64 [%0], %1;", ins='"l"(pointer), "l"(word)'),
    )


def _read(k: int) -> str:
    """Word ``k`` as it is now; one that is not asked for is there."""
    return asm(
        f"{{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b64 %0, {_POSTED};\n"
        "@p ld.relaxed.gpu.global.b64 %0, [%1];\n}",
        f'"=l"(w{k})',
        f'"l"(p{k}), "r"((u32)valid{k})',
    )


@cache
def _await_posts(word: str, count: int) -> DeviceFunction:
    """All words are asked for before the first is waited for."""
    places = "".join(f", const i64* p{k}, bool valid{k}" for k in range(count))
    lines = [f"u64 w{k};\n{_read(k)}" for k in range(count)]
    for k in range(count):
        number = _BITS[word][1].format(k)
        again = f"__nanosleep({SLEEP});\n{_read(k)}"
        lines.append(f"while (!(w{k} >> 32)) {{\n{again}\n}}\nr[{k}] = {number};")
    return device_function(f"void await_posts_{word}_{count}({word}* r{places})", "\n".join(lines))


@prints(hw.SignalGlobalOp)
def _signal_global(w: KernelWriter, op: hw.SignalGlobalOp) -> None:
    w.run("signal_global", pointer_to(w, op, op.counters, op.indices))


@prints(hw.WaitGlobalOp)
def _wait_global(w: KernelWriter, op: hw.WaitGlobalOp) -> None:
    w.run("wait_global", pointer_to(w, op, op.counters, op.indices), w.text(op.count))


@prints(hw.PostGlobalOp)
def _post_global(w: KernelWriter, op: hw.PostGlobalOp) -> None:
    function = _post(w.type(op.value.type, op).name)
    call = w.call(function, pointer_to(w, op, op.words, op.indices), w.text(op.value))
    w.line(f"{call};" if op.predicate is None else f"if ({w.text(op.predicate)}) {call};")


@prints(hw.AwaitPostsGlobalOp)
def _await_posts_global(w: KernelWriter, op: hw.AwaitPostsGlobalOp) -> None:
    kind = cast("MemRefType[Attribute]", op.registers.type)
    start, words = w.text(op.offset), list[str]()
    for place, predicate in zip(op.places, op.predicates, strict=True):
        words += [pointer_to(w, op, op.words, place), w.text(predicate)]
    where = w.text(op.registers) if start == "0" else f"{w.text(op.registers)} + {start}"
    w.run(_await_posts(w.type(kind.element_type, op).name, len(op.predicates)), where, *words)
