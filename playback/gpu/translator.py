"""How a kernel becomes the text of a Python function: names, lines, and the table of ops.

``simulates`` puts a function into the table: it takes the translator and one op, and writes the
op's lines.  In the text ``w`` is the ``Warp``, whose parts ops with an effect call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.hardware import vector_length
from polyc.dialects.gpu.kernel import KernelOp
from polyc.playback.gpu import arithmetic
from polyc.playback.gpu.kernel import BarrierArray, Tile

OpT = TypeVar("OpT", bound=Operation)
Translate = Callable[["Translator", Any], None]

TRANSLATORS: dict[type[Operation], Translate] = {}
"""Op class to the function that translates it."""

TRACKED: set[type[Operation]] = set()
"""Op classes that use registers asynchronously, so that every access of these is checked."""


def simulates(
    *kinds: type[OpT],
) -> Callable[[Callable[[Translator, OpT], None]], Callable[[Translator, OpT], None]]:
    """Decorator: this function translates ops of the classes ``kinds``."""

    def enter(function: Callable[[Translator, OpT], None]) -> Callable[[Translator, OpT], None]:
        TRANSLATORS.update(dict.fromkeys(kinds, function))
        return function

    return enter


def width_of(kind: Attribute) -> tuple[int, bool]:
    """The elements of a value, and whether it is a vector of them."""
    return vector_length(kind), isinstance(kind, VectorType)


class Translator:
    """The text of one kernel on its way."""

    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.depth = 1
        self.mask = "None"
        self.names: dict[SSAValue, str] = {}
        self.objects: dict[str, Any] = {
            "np": np,
            "split": arithmetic.split,
            "merge": arithmetic.merge,
            "choose": arithmetic.choose,
            "w32": arithmetic.w32,
            "pack": arithmetic.pack,
        }
        self.ops: list[Operation] = []
        self.tiles: list[Tile] = []
        self.barriers: list[BarrierArray] = []
        self.fresh_names = 0
        # What the machine must know, as translators find it.
        self.granule = 16
        self.copies = self.bulk = self.wgmma = False
        self.stored: set[SSAValue] = set()

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, prefix: str = "t") -> str:
        self.fresh_names += 1
        return f"{prefix}{self.fresh_names}"

    def name(self, value: SSAValue) -> str:
        """The variable of ``value``."""
        found = self.names.get(value)
        if found is None:
            found = self.names[value] = f"v{len(self.names)}"
        return found

    def values(self, values: Sequence[SSAValue]) -> str:
        return "".join(f"{self.name(v)}, " for v in values)

    def predicate(self, value: SSAValue | None) -> str:
        """The variable of an op's predicate, which may have none."""
        return "None" if value is None else self.name(value)

    def define(self, value: SSAValue, text: str) -> None:
        self.line(f"{self.name(value)} = {text}")

    def object(self, value: Any, prefix: str = "o") -> str:
        """A variable that holds ``value``, known when the text is made."""
        name = self.fresh(prefix)
        self.objects[name] = value
        return name

    def accesses_shared(self, size: int) -> None:
        """An op accesses ``size`` bytes of shared memory at once."""
        self.granule = min(self.granule, size)

    def stores(self, tensor: SSAValue) -> None:
        """An op writes the tensor, or the tensor of the map."""
        self.stored.add(tensor)

    def number(self, op: Operation) -> int:
        """The op's number in findings."""
        self.ops.append(op)
        return len(self.ops) - 1

    def block(self, block: Block) -> None:
        """The ops of a block; a terminator is its parent's business."""
        count = sum(1 for op in block.ops if not isinstance(op, arith.ConstantOp))
        self.line(f"w.core.count({count}, {self.mask})")
        for op in block.ops:
            translator = TRANSLATORS.get(type(op))
            if translator is None:
                raise PolycError(
                    "NotSimulated",
                    f"the simulator has no {op.name}; it runs kernels at the hardware level of "
                    "the gpu dialect, after the whole gpu pipeline",
                    op,
                )
            translator(self, op)
