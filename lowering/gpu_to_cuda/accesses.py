"""Loads and stores of one value, and where they go (PTX ISA 9.7.9)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f16, f32
from xdsl.ir import Operation, SSAValue

from polyc.dialects.gpu.types import element_bytes
from polyc.lowering.gpu_to_cuda.asm import DeviceFunction, asm, device_function
from polyc.lowering.gpu_to_cuda.types import CType
from polyc.lowering.gpu_to_cuda.writer import (
    KernelWriter,
    bfloat_bits,
    half_bits,
    not_lowered,
    single_bits,
)

_REGISTERS = {
    "bool": ("r", "u8"),
    "u8": ("r", "u8"),
    "u16": ("h", "b16"),
    "f16": ("h", "b16"),
    "bf16": ("h", "b16"),
    "u32": ("r", "b32"),
    "int": ("r", "b32"),
    "float": ("f", "f32"),
    "i64": ("l", "b64"),
}
"""Constraint letter and PTX type of a word in memory; a byte travels in a 32-bit register.

A condition is a byte, 0 or another number.
"""

_BYTES = {"bool": "r != 0", "u8": "(u8)r"}
"""A byte's value from its register."""


_FILLS = {"r": "r", "f": "r", "h": "h", "l": "l"}
"""The constraint letter of a word's bits, by that of the word."""

_FILL_TYPES = {"r": "u32", "f": "u32", "h": "u16", "l": "i64"}
"""Their type."""


def fill_word(fill: FloatAttr | IntegerAttr, t: CType) -> int:
    """The bits of a word whose elements are all a number."""
    if isinstance(fill, IntegerAttr):
        size = element_bytes(fill.type) * 8
        bits = fill.value.data & ((1 << size) - 1)
    elif fill.type == f32:
        size, bits = 32, single_bits(fill.value.data)
    else:
        size = 16
        bits = half_bits(fill.value.data) if fill.type == f16 else bfloat_bits(fill.value.data)
    return sum(bits << size * lane for lane in range(t.lanes))


def can_move(t: CType) -> bool:
    """Whether one instruction loads or stores a value of this type."""
    return t.word in _REGISTERS and t.words in (1, 2, 4) and t.bytes <= 16


def _vector(t: CType, first: int) -> tuple[str, str]:
    """The PTX suffix and operand list of the words of ``t`` from operand ``first``."""
    _, kind = _REGISTERS[t.word]
    places = [f"%{first + i}" for i in range(t.words)]
    if t.words == 1:
        return f".{kind}", places[0]
    return f".v{t.words}.{kind}", "{" + ", ".join(places) + "}"


_SPACES = {"cluster": "shared::cluster"}
"""PTX's words for spaces that are called otherwise here."""


@cache
def load(
    space: str, t: CType, predicated: bool = False, filled: bool = False, hint: str = ""
) -> DeviceFunction:
    """Load a value from ``global``, ``global.nc`` (read-only data), ``shared`` or ``cluster``.

    With ``predicated`` a false predicate reads nothing and gives zero, or with ``filled`` an
    argument's bits in each word.  A ``hint`` for the L2 cache is a policy of the whole access.
    """
    letter, kind = _REGISTERS[t.word]
    suffix, places = _vector(t, 0)
    shared = space in ("shared", "cluster")
    word, policy = (".L2::cache_hint", ", policy") if hint else ("", "")
    code = f"ld.{_SPACES.get(space, space)}{word}{suffix} {places}, [%{t.words}]{policy};"
    ins = '"r"(address)' if shared else '"l"(pointer)'
    if predicated:
        width = "b" + kind.lstrip("ubf") if kind != "u8" else "b32"
        other = f"%{t.words + 2}" if filled else "0"
        zeros = "".join(f"mov.{width} %{i}, {other};\n" for i in range(t.words))
        code = f"{{\n.reg .pred p;\nsetp.ne.b32 p, %{t.words + 1}, 0;\n{zeros}@p {code}\n}}"
        ins += ', "r"((u32)valid)'
        if filled:
            ins += f', "{_FILLS[letter]}"(fill)'
    if hint:
        made = f"createpolicy.fractional.L2::{hint}.b64 policy, 1.0;"
        code = f"{{\n.reg .b64 policy;\n{made}\n{code}\n}}"
    pure = space == "global.nc"
    name = f"load_{space.replace('.', '_')}_{_short(t)}{'_if' if predicated else ''}"
    name += ("_else" if filled else "") + (f"_{hint}" if hint else "")
    argument = "u32 address" if shared else "const void* pointer"
    local, result = ("u32", _BYTES[t.word]) if t.word in _BYTES else (t.name, "r")
    outs = ", ".join(f'"={letter}"({part})' for part in t.parts("r"))
    return device_function(
        f"{t.name} {name}({argument}{', bool valid' if predicated else ''}"
        f"{f', {_FILL_TYPES[letter]} fill' if filled else ''})",
        f"{local} r;\n{asm(code, outs, ins, volatile=not pure, memory=not pure)}\nreturn {result};",
    )


@cache
def store(space: str, t: CType) -> DeviceFunction:
    """Store a value to ``space``: ``global``, ``shared`` or ``cluster``."""
    letter, _ = _REGISTERS[t.word]
    suffix, places = _vector(t, 1)
    shared = space in ("shared", "cluster")
    values = [f"(u32){p}" if t.word in _BYTES else p for p in t.parts("value")]
    ins = ['"r"(address)' if shared else '"l"(pointer)']
    ins += [f'"{letter}"({v})' for v in values]
    return device_function(
        f"void store_{space}_{_short(t)}"
        f"({'u32 address' if shared else 'void* pointer'}, {t.name} value)",
        asm(f"st.{_SPACES.get(space, space)}{suffix} [%0], {places};", ins=", ".join(ins)),
    )


def _short(t: CType) -> str:
    return {"float": "f32", "int": "index", "bool": "i1"}.get(t.name, t.name)


def movable(w: KernelWriter, op: Operation, value: SSAValue) -> CType:
    """The C type of a value that one instruction moves; raises PolycError ``NotLowered``."""
    t = w.type(value.type, op)
    if not can_move(t):
        raise not_lowered(op, f"moves {value.type}", "one access is of 1, 2, 4, 8 or 16 bytes")
    return t


def pointer_to(
    w: KernelWriter, op: Operation, tensor: SSAValue, indices: Sequence[SSAValue]
) -> str:
    """The address of an element; several coordinates must have become one offset."""
    if not indices:
        return w.text(tensor)
    if len(indices) > 1:
        raise not_lowered(
            op,
            f"names {len(indices)} coordinates of a tensor",
            "run gpu-linearize-access first",
        )
    offset = w.text(indices[0])
    return w.text(tensor) if offset in ("0", "0ll") else f"{w.text(tensor)} + {offset}"
