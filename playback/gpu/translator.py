"""The text of one kernel on its way to Python, and the tables of its ops' translators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.kernel import KernelOp
from polyc.playback.gpu import arithmetic
from polyc.playback.gpu.kernel import BarrierArray, Tile

OpT = TypeVar("OpT", bound=Operation)


class Translator:
    """The text of one kernel on its way, by the translators of ``table``."""

    def __init__(self, kernel: KernelOp, table: Table) -> None:
        self.kernel = kernel
        self.table = table
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

    def define(self, value: SSAValue, text: str) -> None:
        self.line(f"{self.name(value)} = {text}")

    def object(self, value: Any, prefix: str = "o") -> str:
        """A variable that holds ``value``, known when the text is made."""
        name = self.fresh(prefix)
        self.objects[name] = value
        return name

    def number(self, op: Operation) -> int:
        """The op's number in findings."""
        self.ops.append(op)
        return len(self.ops) - 1

    def block(self, block: Block) -> None:
        """The ops of a block; a terminator is its parent's business."""
        count = sum(1 for op in block.ops if not isinstance(op, arith.ConstantOp))
        self.line(f"w.count({count}, {self.mask})")
        for op in block.ops:
            translator = self.table.get(type(op))
            if translator is None:
                raise PolycError(
                    "NotSimulated",
                    f"the simulator has no {op.name}; it runs kernels at the hardware level of "
                    "the gpu dialect, after the whole gpu pipeline",
                    op,
                )
            translator(self, op)


class Table(dict[type[Operation], Callable[[Translator, Any], None]]):
    """How each op of one family is translated."""

    def simulates(
        self, *kinds: type[OpT]
    ) -> Callable[[Callable[[Translator, OpT], None]], Callable[[Translator, OpT], None]]:
        """Enter a function as the translator of ``kinds``."""

        def enter(
            function: Callable[[Translator, OpT], None],
        ) -> Callable[[Translator, OpT], None]:
            self.update(dict.fromkeys(kinds, function))
            return function

        return enter
