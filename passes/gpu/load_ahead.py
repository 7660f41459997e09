"""``gpu-load-ahead``: what an epilogue reads is on its way before its functions begin.

A loop over an accumulator reads a bias or a residual, and computes functions of the sums.  Many of
these branch, as a division does for what is not normal, and the assembler moves no load across a
branch: each turn waits for memory once more.  Here the loads of several turns come first, into
registers of their own, and the functions behind them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith, math, memref, scf, vector
from xdsl.dialects.builtin import ModuleOp, VectorType, bf16, f16, f32, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.hardware.checks import scalar_type, vector_length
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.types import element_bytes, vector_of
from polyc.passes.support.gpu.registers import WORD, room_of, turns
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.effects import is_movable
from polyc.rewriting.emit import Emit, affine_dim, clone_into
from polyc.rewriting.equal_ops import drop_unused

MOST = 32
"""Registers of what is on its way, at most: so many loads take little longer than one."""

BRANCHING = (
    *(arith.DivfOp, math.PowFOp, math.Atan2Op, hw.FmodOp),
    *(math.SinOp, math.CosOp, math.TanOp),
    *(math.AcoshOp, math.AsinhOp, math.AtanhOp),
)
"""Functions that take a long way for some numbers: the others are straight on, and the assembler
brings loads of many turns ahead of these by itself."""

HELD = (f32, f16, bf16, i32)
"""The types of what is held: alone, or words of vectors of these."""

_WRITES = (hw.StoreGlobalOp, hw.AtomicGlobalOp, hw.ExchangeGlobalOp)
_WAITS = (hw.WaitGlobalOp, hw.PostGlobalOp, hw.AwaitPostsGlobalOp)


class LoadAhead(RewritePattern):
    """An unrolled loop that loads and computes functions → loops that load turns, and compute them.

    Turns are taken together, as many as registers are left for, and their number divides that of
    the loop.

    Legality, exact: the loop goes from 0 by a constant step to a constant bound, and holds no other
    loop or branch.  What moves are loads of tensors that the kernel does not write, whose places
    pure ops give of the loop's variable and of what is there before the loop; they are predicated
    as before.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        over = turns(op)
        body = [inner for inner in op.body.block.ops if not isinstance(inner, scf.YieldOp)]
        if over is None or not any(isinstance(inner, BRANCHING) for inner in body):
            return
        kept = _written(enclosing_kernel(op))
        slices = {
            inner: needed
            for inner in body
            if isinstance(inner, hw.LoadGlobalOp)
            and inner.tensor not in kept
            and _words_of(inner.result.type)
            and (needed := _slice(inner, op.body.block)) is not None
        }
        if not slices:
            return
        words = sum(_words_of(load.result.type) for load in slices)
        room = min(MOST, room_of(enclosing_kernel(op), body))
        many = len(over)
        together = next((n for n in range(many, 1, -1) if many % n == 0 and n * words <= room), 1)
        if together == 1:
            return
        emit = Emit()
        needed = {one for every in slices.values() for one in every}
        _Ahead(op, body, list(slices), needed, together, over.step).build(emit, many)
        for one in emit.ops:
            located(one, op)
        rewriter.replace(op, emit.ops, [])


@dataclass(frozen=True)
class _Ahead:
    """A loop whose ``loads`` of ``together`` turns come first, by the ops that are ``needed`` for
    where they lie; the loop's variable goes by ``step``."""

    op: scf.ForOp
    body: Sequence[Operation]
    loads: Sequence[hw.LoadGlobalOp]
    needed: Collection[Operation]
    together: int
    step: int

    def build(self, emit: Emit, many: int) -> None:
        """The loops in the place of the one of ``many`` turns."""
        if self.together == many:
            self.some(emit, None)
            return
        span = self.together * self.step
        emit.loop(many * self.step, self.some, step=span, unroll=True, hint="part")

    def some(self, emit: Emit, start: SSAValue | None) -> None:
        """The loads of some turns, and then what is computed of them."""
        held = {load: self.held(emit, load) for load in self.loads}
        variable = self.op.body.block.args[0]

        def at(inner: Emit, turn: SSAValue) -> dict[SSAValue, SSAValue]:
            if start is None:
                return {variable: turn}
            return {variable: inner.apply(affine_dim(0) + affine_dim(1), [start, turn], hint="r")}

        def load(inner: Emit, turn: SSAValue) -> None:
            values = at(inner, turn)
            clone_into([one for one in self.body if one in self.needed], values, inner)
            for one in self.loads:
                clone_into([one], values, inner)
                parts = _parts(inner, values[one.result])
                for number, part in enumerate(parts):
                    place = self.place(inner, turn, len(parts), number)
                    inner.op(memref.StoreOp.get(part, held[one], [place]))

        def compute(inner: Emit, turn: SSAValue) -> None:
            values = at(inner, turn)
            for op in self.body:
                if not isinstance(op, hw.LoadGlobalOp) or op not in held:
                    clone_into([op], values, inner)
                    continue
                count = len(_kinds(op.result.type))
                places = (self.place(inner, turn, count, number) for number in range(count))
                parts = [inner.value(memref.LoadOp.get(held[op], [place])) for place in places]
                values[op.result] = _joined(inner, parts, op.result.type)

        for body in (load, compute):
            emit.loop(self.together * self.step, body, step=self.step, unroll=True, hint="turn")

    def held(self, emit: Emit, load: hw.LoadGlobalOp) -> SSAValue:
        """The registers of what a load brings."""
        kinds = _kinds(load.result.type)
        return emit.registers(self.together * len(kinds), kinds[0], "ahead")

    def place(self, emit: Emit, turn: SSAValue, count: int, number: int) -> SSAValue:
        """The register of one of a turn's ``count`` parts."""
        return emit.apply(affine_dim(0) // self.step * count + number, [turn])


def _written(kernel: KernelOp) -> Collection[SSAValue]:
    """The tensors that a kernel writes; all where its blocks wait for what others write."""
    found = set[SSAValue]()
    for op in kernel.walk():
        if isinstance(op, _WAITS):
            return kernel.body.block.args
        if isinstance(op, _WRITES):
            found.add(op.tensor)
    return found


def _slice(op: Operation, body: Block) -> set[Operation] | None:
    """The ops of a loop's body that say where one reads; None where some are not pure."""
    found, left = set[Operation](), list(op.operands)
    while left:
        owner = left.pop().owner
        if isinstance(owner, Block) or owner.parent_block() is not body or owner in found:
            continue
        if not is_movable(type(owner)):
            return None
        found.add(owner)
        left += owner.operands
    return found


def _kinds(kind: Attribute) -> Sequence[Attribute]:
    """The types of the registers that hold a value: a number, or words of a vector's."""
    count, scalar = vector_length(kind), scalar_type(kind)
    if count == 1:
        return [kind]
    return [f32 if scalar == f32 else i32] * (count * element_bytes(scalar) // WORD)


def _words_of(kind: Attribute) -> int:
    """How many registers a value fills; 0 of those that are not held."""
    if scalar_type(kind) not in HELD:
        return 0
    size = vector_length(kind) * element_bytes(scalar_type(kind))
    return 1 if vector_length(kind) == 1 else 0 if size % WORD else size // WORD


def _parts(emit: Emit, value: SSAValue) -> list[SSAValue]:
    """A value in registers."""
    kinds = _kinds(value.type)
    if kinds == [value.type]:
        return [value]
    words = _seen_as(emit, value, vector_of(kinds[0], len(kinds)))
    return [emit.value(hw.UnpackOp(words, number)) for number in range(len(kinds))]


def _joined(emit: Emit, parts: Sequence[SSAValue], kind: Attribute) -> SSAValue:
    """The value that registers hold."""
    if _kinds(kind) == [kind]:
        return parts[0]
    assert isinstance(kind, VectorType)
    return _seen_as(emit, emit.value(hw.PackOp(parts)), cast("VectorType[Attribute]", kind))


def _seen_as(emit: Emit, value: SSAValue, kind: VectorType[Attribute]) -> SSAValue:
    """The bits of a vector under another type of the same size; itself where it has that type."""
    return value if value.type == kind else emit.value(vector.BitcastOp(value, kind))


@dataclass(frozen=True)
class GpuLoadAhead(ModulePass):
    """Have what loops over registers read on its way before they compute."""

    name = "gpu-load-ahead"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LoadAhead()], inner_first=True)
        drop_unused(op.body)  # Where loads lie, which loops that compute no longer ask.
