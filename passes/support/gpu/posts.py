"""Patterns that lower posts between the CTAs of a grid to each thread's words (T2)."""

from __future__ import annotations

from xdsl.dialects import arith, memref
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType
from polyc.passes.support.gpu.combine import neutral
from polyc.passes.support.gpu.grid_signals import check_cooperative
from polyc.passes.support.gpu.scope import scope_of, thread_in_scope
from polyc.passes.support.gpu.tile_contracts import registers_of
from polyc.passes.support.gpu.tile_fragments import (
    element_of,
    first_holders,
    spread_of,
    when_needed,
)
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit

AT_ONCE = 4
"""Words that a thread asks for before it waits for the first."""


class LowerPost(RewritePattern):
    """Each element by the first thread that holds it."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.PostOp, rewriter: PatternRewriter) -> None:
        layout, spread = spread_of(op.fragment, op)
        emit = Emit()
        registers = registers_of(emit, op.fragment)
        thread = thread_in_scope(emit, op)

        def post(inner: Emit) -> None:
            for number in range(layout.registers.data):
                r = inner.index(number)
                place = element_of(inner, layout, thread, r)
                at = [_added(inner, a, b) for a, b in zip(op.indices, place, strict=True)]
                value = inner.value(memref.LoadOp.get(registers, [r]))
                inner.op(hw.PostGlobalOp(value, op.words, at))

        when_needed(emit, first_holders(emit, spread, op), post)
        _replace(op, emit, rewriter)


class LowerAwaitPosts(RewritePattern):
    """Each thread waits for the words of its own elements.

    Legality: every launch of the kernel is ``cooperative`` (``NotCooperative``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.AwaitPostsOp, rewriter: PatternRewriter) -> None:
        check_cooperative(op)
        kind = op.fragment.type
        assert isinstance(kind, FragmentType)
        layout, _ = spread_of(op.fragment, op)
        emit = Emit()
        registers = registers_of(emit, op.fragment)
        thread = thread_in_scope(emit, op)
        holds: SSAValue | None = None
        if layout.threads.data < scope_of(op).threads:
            holds = emit.compare("slt", thread, emit.index(layout.threads.data))
        nothing = neutral(emit, op.kind.data, kind.element_type)
        count = layout.registers.data
        for start in range(0, count, AT_ONCE):
            indices, wanted = list[SSAValue](), list[SSAValue]()
            for number in range(start, min(count, start + AT_ONCE)):
                place = element_of(emit, layout, thread, emit.index(number))
                indices += [_added(emit, a, b) for a, b in zip(op.indices, place, strict=True)]
                before = emit.compare("slt", place[op.axis], op.count)
                wanted.append(before if holds is None else emit.both(holds, before))
            first = emit.index(start)
            emit.op(hw.AwaitPostsGlobalOp(op.words, indices, wanted, registers, first))
            for number, there in enumerate(wanted, start):
                at = [emit.index(number)]
                taken = emit.value(memref.LoadOp.get(registers, at))
                value = emit.value(arith.SelectOp(there, taken, nothing))
                emit.op(memref.StoreOp.get(value, registers, at))
        _replace(op, emit, rewriter)


def _added(emit: Emit, a: SSAValue, b: SSAValue) -> SSAValue:
    return emit.value(arith.AddiOp(a, b))


def _replace(op: tile.PostOp | tile.AwaitPostsOp, emit: Emit, rewriter: PatternRewriter) -> None:
    for new in emit.ops:
        located(new, op)
    rewriter.replace(op, emit.ops, [])
