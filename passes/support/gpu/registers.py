"""Registers of threads: how many there are, and where in an array of some a loop's turns are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from xdsl.dialects import affine, memref, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.loops import is_unrolled
from polyc.dialects.gpu.types import element_bytes, register_count
from polyc.passes.support.gpu.symbols import constant_of

LAUNCH = 255
"""Registers of a thread at most."""

OWN = 44
"""Registers of a thread for addresses, and for what a function has in hand."""

WORD = 4
"""Bytes of a register."""


def launch_registers(kernel: KernelOp) -> int:
    """Registers of a thread of a kernel when it is launched, for which code is made."""
    threads = kernel.threads.value.data * kernel.blocks_per_sm.value.data
    module = kernel.parent_op()
    assert isinstance(module, gpu.ModuleOp)
    return min(LAUNCH, ARCHS[module.arch.data].registers // threads // 8 * 8)


def most_registers(kernel: KernelOp) -> int:
    """Registers of a thread of a kernel: those of its launch, or of its richest role."""
    limit = launch_registers(kernel)
    budgets = (op for op in kernel.walk() if isinstance(op, hw.SetMaxRegistersOp))
    return max((limit, *(op.count.value.data for op in budgets)))


def room_of(kernel: KernelOp, ops: Iterable[Operation]) -> int:
    """Registers of a thread beside those that ``ops`` read and write."""
    accesses = list(ops)
    live = (
        {op.memref for op in accesses if isinstance(op, kind)}
        for kind in (memref.LoadOp, memref.StoreOp)
    )
    return most_registers(kernel) - OWN - max(sum(map(_size, arrays)) for arrays in live)


def _size(array: SSAValue) -> int:
    """Registers of an array."""
    count = register_count(array.type)
    element = cast("MemRefType[Attribute]", array.type).element_type
    return 0 if count is None else -(-count * element_bytes(element) // WORD)


def turns(op: scf.ForOp, by: int | None = None) -> range | None:
    """What the variable of an unrolled loop is in each turn: from 0 by a constant step, which is
    ``by`` where that is said, to a constant bound.  None of other loops, of those that carry
    values, and of those that hold others or conditions."""
    low, high, step = (constant_of(v) for v in (op.lb, op.ub, op.step))
    if not is_unrolled(op) or op.iter_args or low != 0 or high is None or not step:
        return None
    if by not in (None, step):
        return None
    return None if any(inner.regions for inner in op.body.block.ops) else range(0, high, step)


def places_of(index: SSAValue, variable: SSAValue, turns: range) -> list[int] | None:
    """An index in each turn of a loop; None where something else is part of it."""
    if index is variable:
        return list(turns)
    if (constant := constant_of(index)) is not None:
        return [constant] * len(turns)
    apply = index.owner
    if not isinstance(apply, affine.ApplyOp):
        return None
    rows = [places_of(value, variable, turns) for value in apply.mapOperands]
    known = [row for row in rows if row is not None]
    if len(known) < len(rows):
        return None
    map_, found = apply.map.data, list[int]()
    for turn in range(len(turns)):
        values = [row[turn] for row in known]
        found += map_.eval(values[: map_.num_dims], values[map_.num_dims :])
    return found
