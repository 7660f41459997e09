"""``gpu-hoist-invariants``: what a loop computes anew each time, computed once before it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.traits import IsolatedFromAbove, Pure
from xdsl.transforms.loop_invariant_code_motion import move_loop_invariant_code


class HoistInvariants(RewritePattern):
    """Move pure ops that use nothing of a loop in front of it (upstream's motion).

    The CUDA compiler does this too, except across a shuffle: ``gpu.warp_uniform`` in a loop
    would keep all address arithmetic of the warp there.  Exact: the ops are pure.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        before = op.prev_op
        move_loop_invariant_code(op)
        if op.prev_op is not before:
            rewriter.notify_op_modified(op)


Key: TypeAlias = tuple[object, ...]
"""What makes two pure ops equal: their kind, operands, attributes and result types."""


def merge_equal(block: Block, known: dict[Key, Operation]) -> None:
    """Replace each pure op by an equal one before it, also one in a block around.

    ``known`` has those of the blocks around.  Exact: a pure op's results depend on its operands
    and attributes alone.
    """
    known = dict(known)
    for op in list(block.ops):
        if not op.regions and op.results and _is_pure(type(op)):
            key = (
                type(op),
                tuple(op.operands),
                tuple(op.properties.items()),
                tuple(op.attributes.items()),
                tuple(op.result_types),
            )
            before = known.setdefault(key, op)
            if before is not op:
                for old, new in zip(op.results, before.results, strict=True):
                    old.replace_all_uses_with(new)
                op.detach()
                op.erase()
            continue
        inner = {} if op.has_trait(IsolatedFromAbove) else known
        for region in op.regions:
            for nested in region.blocks:
                merge_equal(nested, inner)


@cache
def _is_pure(kind: type[Operation]) -> bool:
    """Whether ops of a kind have no effects."""
    return kind.has_trait(Pure)


def drop_unused(module: Operation) -> None:
    """Erase the pure ops that nothing uses, users before what they used."""
    for op in list(module.walk(reverse=True)):
        used = not op.results or any(result.uses for result in op.results)
        if not used and not op.regions and _is_pure(type(op)):
            op.detach()
            op.erase()


@dataclass(frozen=True)
class GpuHoistInvariants(ModulePass):
    """Hoist loop invariants, inner loops first, merge equal pure ops and drop unused ones."""

    name = "gpu-hoist-invariants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(
            HoistInvariants(), apply_recursively=False, walk_regions_first=True
        ).rewrite_module(op)
        for region in op.regions:
            for block in region.blocks:
                merge_equal(block, {})
        drop_unused(op)
