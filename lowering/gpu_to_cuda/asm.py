"""Device functions of the printer, and the inline PTX in them.

A ``DeviceFunction`` is one small ``__device__ __forceinline__`` function around one instruction (or
around integer arithmetic that C spells badly), or a long one that is seldom called and stands in
the code once; the printer writes only those that a kernel uses.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceFunction:
    """A function of the prelude: its name, its whole text, and those that it calls."""

    name: str
    text: str
    calls: tuple[DeviceFunction, ...] = ()


def device_function(
    signature: str,
    body: str,
    template: str = "",
    calls: tuple[DeviceFunction, ...] = (),
    inline: bool = True,
) -> DeviceFunction:
    """A function of the prelude; one that is not ``inline`` is in the code once."""
    name = signature[: signature.index("(")].split()[-1].lstrip("*")
    head = f"template <{template}>\n" if template else ""
    lines = "\n".join(f"  {line}" for line in body.strip("\n").splitlines())
    way = "__forceinline__" if inline else "__noinline__"
    text = f"{head}__device__ {way} {signature} {{\n{lines}\n}}"
    return DeviceFunction(name, text, calls)


def asm(
    code: str, outs: str = "", ins: str = "", *, volatile: bool = True, memory: bool = True
) -> str:
    """An asm statement; ``code`` has an instruction a line."""
    lines = code.strip().splitlines()
    quoted = "\n    ".join(
        f'"{line.strip()}"' if i == len(lines) - 1 else f'"{line.strip()}\\n"'
        for i, line in enumerate(lines)
    )
    tail = f"\n    : {outs}" if outs else "\n    :"
    tail += f"\n    : {ins}" if ins else "\n    :"
    tail += '\n    : "memory"' if memory else ""
    if not (outs or ins or memory):
        tail = ""
    return f"asm{' volatile' if volatile else ''}({quoted}{tail});"


ADDRESS = '"r"(address)'
BARRIER = '"r"(barrier)'
"""Operands of an asm statement that many have."""

FUNCTIONS: dict[str, DeviceFunction] = {}
"""The functions that take no part of their text from a type, by name."""

PREFIXES = (
    "load_global_",
    "load_shared_",
    "store_global_",
    "store_shared_",
    "reduce_",
    "wgmma_m64n",
    "load_cluster_",
    "store_cluster_",
    "post_",
    "await_posts_",
)
"""How the names of the functions made on demand begin."""


def define(*functions: DeviceFunction) -> None:
    """Enter functions into the table."""
    FUNCTIONS.update({function.name: function for function in functions})


def at(base: str, index: str, size: int) -> str:
    """``base + index * size`` in bytes; a literal index is multiplied here."""
    if index.isdigit():
        return f"{base} + {int(index) * size}" if int(index) * size else base
    return f"{base} + {index} * {size}"
