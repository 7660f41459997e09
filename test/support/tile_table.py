"""docs/tutorials/tile-kernels.md: what each kernel of examples/tile uses, as its test holds it.

    python -m polyc.test.support.tile_table

writes the table anew from what the compiler says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.loops import is_unrolled
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.runtime import nvrtc
from polyc.runtime.nvrtc import CompileResult
from polyc.test.support.root import ROOT
from polyc.test.support.tile_cases import CASES, lowered

DOC = ROOT / "docs" / "tutorials" / "tile-kernels.md"

HEADER = """# The kernels of examples/tile

What each kernel uses, for `f16` and for every other element type that its test names. Registers
are those of a thread as ptxas gives them, before `setmaxnreg` moves any, rounded up to eights as
the hardware allocates them: an upper bound, since the compiler chooses. Shared bytes are a CTA's
dynamic ones. `wgmma` and `mma` count the instructions in the code with its unrolled loops written
out; a loop over k or over tiles counts once. No kernel spills or has a stack frame, and ptxas
neither ignores a `setmaxnreg` nor serialises a `wgmma`.

`test/unit/tile/test_examples.py` holds the table; `python -m
polyc.test.support.tile_table` writes it.

"""


@dataclass(frozen=True)
class Row:
    """One kernel of one file."""

    file: str
    element: str
    kernel: str
    arch: str
    threads: int
    cluster: int
    registers: int
    shared: int
    wgmma: int
    mma: int

    def line(self) -> str:
        return "| " + " | ".join(str(getattr(self, f.name)) for f in fields(self)) + " |"

    def exact(self) -> tuple[object, ...]:
        """All but the registers."""
        return tuple(getattr(self, f.name) for f in fields(self) if f.name != "registers")


def times(op: Operation) -> int:
    """How often the unrolled loops around ``op`` run it."""
    found = 1
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp) and is_unrolled(parent):
            lower, upper, step = (_constant(v.owner) for v in (parent.lb, parent.ub, parent.step))
            if lower is not None and upper is not None and step is not None:
                found *= max(0, -(-(upper - lower) // step))
        parent = parent.parent_op()
    return found


def _constant(op: object) -> int | None:
    """The integer that an op makes, if it is a constant."""
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return int(str(op.value).split()[0])
    return None


def count(kernel: KernelOp, kind: type[Operation]) -> int:
    return sum(times(op) for op in kernel.walk() if isinstance(op, kind))


@cache
def compiled(name: str, element: str) -> CompileResult:
    module = lowered(name, element)
    return nvrtc.compile_cuda(cuda_source(module), module.arch.data, name=f"{name}.cu")


def rows(name: str, element: str) -> list[Row]:
    """What the kernels of a file use, from the compiler."""
    module, result = lowered(name, element), compiled(name, element)
    found: list[Row] = []
    for kernel in module.kernels():
        symbol = kernel.sym_name.data
        shared = kernel.shared_bytes
        found.append(
            Row(
                name,
                element,
                symbol,
                module.arch.data,
                kernel.threads.value.data,
                kernel.cluster_size,
                -(-result.kernels[symbol].registers // 8) * 8,
                0 if shared is None else shared.value.data,
                count(kernel, hw.WgmmaOp) + count(kernel, hw.WgmmaRegistersOp),
                count(kernel, hw.MmaSyncOp),
            )
        )
    return found


def stated(path: Path = DOC) -> list[Row]:
    """The rows of the document."""
    found: list[Row] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == len(fields(Row)) and cells[4].isdigit():
            numbers = [int(cell) for cell in cells[4:]]
            found.append(Row(cells[0], cells[1], cells[2], cells[3], *numbers))
    return found


def table(every: Sequence[Row]) -> str:
    names = [f.name for f in fields(Row)]
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    return "\n".join([*lines, *(row.line() for row in every)]) + "\n"


def main() -> None:
    every = [
        row
        for case in CASES.values()
        for element in case.elements
        for row in rows(case.name, element)
    ]
    DOC.write_text(HEADER + table(every), encoding="utf-8")
    print(f"wrote {len(every)} rows")


if __name__ == "__main__":
    main()
