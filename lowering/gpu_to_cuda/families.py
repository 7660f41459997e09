"""The printer's device functions that come one for each type or shape: accesses, atomics, wgmma.

Sources: PTX ISA sections 9.7.9 (data movement), 9.7.16 (wgmma).
"""

from __future__ import annotations

from functools import cache

from polyc.lowering.gpu_to_cuda.asm import DeviceFunction, asm, device_function
from polyc.lowering.gpu_to_cuda.types import CType

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
def load(space: str, t: CType, predicated: bool = False) -> DeviceFunction:
    """Load a value from ``global``, ``global.nc`` (read-only data), ``shared`` or ``cluster``.

    With ``predicated`` a false predicate reads nothing and gives zero.
    """
    letter, kind = _REGISTERS[t.word]
    suffix, places = _vector(t, 0)
    shared = space in ("shared", "cluster")
    code = f"ld.{_SPACES.get(space, space)}{suffix} {places}, [%{t.words}];"
    ins = '"r"(address)' if shared else '"l"(pointer)'
    if predicated:
        width = "b" + kind.lstrip("ubf") if kind != "u8" else "b32"
        zeros = "".join(f"mov.{width} %{i}, 0;\n" for i in range(t.words))
        code = f"{{\n.reg .pred p;\nsetp.ne.b32 p, %{t.words + 1}, 0;\n{zeros}@p {code}\n}}"
        ins += ', "r"((u32)valid)'
    pure = space == "global.nc"
    name = f"load_{space.replace('.', '_')}_{_short(t)}{'_if' if predicated else ''}"
    argument = "u32 address" if shared else "const void* pointer"
    local, result = ("u32", _BYTES[t.word]) if t.word in _BYTES else (t.name, "r")
    outs = ", ".join(f'"={letter}"({part})' for part in t.parts("r"))
    return device_function(
        f"{t.name} {name}({argument}{', bool valid' if predicated else ''})",
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


@cache
def reduction(space: str, function: str, element: str) -> DeviceFunction:
    """Atomic update without a result in ``space``: ``global`` or ``shared`` (PTX ``red``)."""
    word, letter, kind = {
        ("f32", "add"): ("float", "f", "f32"),
        ("i32", "add"): ("u32", "r", "u32"),
        ("i32", "max"): ("u32", "r", "s32"),
        ("i32", "min"): ("u32", "r", "s32"),
    }[element, function]
    shared = space == "shared"
    place = '"r"(address)' if shared else '"l"(pointer)'
    return device_function(
        f"void reduce_{space}_{function}_{element}"
        f"({'u32 address' if shared else 'void* pointer'}, {word} value)",
        asm(
            f"red.relaxed.{'cta' if shared else 'gpu'}.{space}.{function}.{kind} [%0], %1;",
            ins=f'{place}, "{letter}"(value)',
        ),
    )


@cache
def wgmma(
    n: int, element: str, transpose_a: bool, transpose_b: bool, clear: bool = False
) -> DeviceFunction:
    """``d += a · b`` for m64nNk16; ``d`` is N/2 registers, a and b are descriptors.

    With ``clear`` it is ``d = a · b``.
    """
    count = n // 2
    places, outs = _accumulator(count)
    code = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{element}.{element}\n{{{places}}},\n"
        f"%{count}, %{count + 1}, {int(not clear)}, 1, 1, {int(transpose_a)}, {int(transpose_b)};"
    )
    suffix = ("_ta" if transpose_a else "") + ("_tb" if transpose_b else "")
    suffix += "_clear" if clear else ""
    return device_function(
        f"void wgmma_m64n{n}k16_{element}{suffix}(float (&d)[{count}], i64 a, i64 b)",
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
    """``wgmma`` with a in four registers of pairs."""
    count = n // 2
    places, outs = _accumulator(count)
    a = ", ".join(f"%{count + i}" for i in range(4))
    code = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{element}.{element}\n{{{places}}},\n"
        f"{{{a}}}, %{count + 4}, {int(not clear)}, 1, 1, {int(transpose_b)};"
    )
    suffix = ("_tb" if transpose_b else "") + ("_clear" if clear else "")
    return device_function(
        f"void wgmma_m64n{n}k16_{element}_registers{suffix}(float (&d)[{count}], "
        "u32 a0, u32 a1, u32 a2, u32 a3, i64 b)",
        asm(code, outs, ", ".join([*(f'"r"(a{i})' for i in range(4)), '"l"(b)']), memory=False),
    )


PREFIXES = (
    "load_global_",
    "load_shared_",
    "store_global_",
    "store_shared_",
    "reduce_",
    "wgmma_m64n",
    "load_cluster_",
    "store_cluster_",
)
"""How the names of the functions made on demand begin."""
