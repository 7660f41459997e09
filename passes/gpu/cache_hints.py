"""``gpu-cache-hints``: which loads the L2 cache should keep, and which it should let go (T2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import affine, arith, scf
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.affine.expressions import Floor, linear_of
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.rewriting.driver import rewrite


class HintLoads(RewritePattern):
    """Tell the L2 cache of a TMA load whose tile one CTA reads once, or every CTA reads.

    A load whose place depends on all coordinates of the CTA's tile is nobody else's:
    ``evict_first``.  One whose place depends on none is everybody's: ``evict_last``.  Between the
    two, as for the operands of a matrix product, the raster decides, and nothing is said.  Nor is
    anything of a place that comes from a quotient or remainder of the block's number, which
    blocks may share, or of one in which a coordinate only says where a walk along an axis begins,
    as a tile of queries says which keys it sees: others walk there too.  A hint that the author
    wrote is kept.  Exact: a hint changes no value.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        if not op.is_load or op.loader is None or op.loader.data != "tma":
            return
        if op.cache is not None or op.im2col is not None:
            return
        whole = tile_coordinates(op)
        sources = depends_on(op.indices)
        used = sources & whole
        if not whole or (used and used != whole):
            return
        if used and any(is_shared(value, whole) for value in sources):
            return
        walked = positions(op)
        fixed = [place for place in op.indices if not depends_on([place]) & walked]
        if used and depends_on(fixed) & whole != whole:
            return
        op.cache = StringAttr("evict_first" if used else "evict_last")
        rewriter.notify_op_modified(op)


def tile_coordinates(op: Operation) -> set[SSAValue]:
    """The values that tell the tile of the op's CTA from those of others.

    That is the coordinates of the loop over tiles around it, or else of the
    ``gpu.tile_coordinates`` of its kernel, or else the block's number.
    """
    kernel = op.parent_op()
    while kernel is not None and not isinstance(kernel, tile.TileLoopOp):
        if kernel.name == "gpu.kernel":
            break
        kernel = kernel.parent_op()
    if isinstance(kernel, tile.TileLoopOp):
        return set(kernel.coordinates)
    if kernel is None:
        return set()
    inner = list(kernel.walk())
    for kind in (tile.TileCoordinatesOp, hw.BlockIdOp):
        found: set[SSAValue] = {v for o in inner if isinstance(o, kind) for v in o.results}
        if found:
            return found
    return set()


def positions(op: Operation) -> set[SSAValue]:
    """The positions and iterations of the loops around an op, but for the loop over tiles."""
    found: set[SSAValue] = set()
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, tile.PipelineOp | scf.ForOp):
            found.update(parent.body.block.args)
        parent = parent.parent_op()
    return found


def depends_on(values: Iterable[SSAValue]) -> set[SSAValue]:
    """Every value that these are computed from, themselves included."""
    seen: set[SSAValue] = set()
    work = list(values)
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        if not isinstance(value.owner, Block):
            work.extend(value.owner.operands)
    return seen


def is_shared(value: SSAValue, whole: set[SSAValue]) -> bool:
    """Whether a value is a quotient or a remainder of the block's number, if that is ``whole``."""
    op = value.owner
    if not any(isinstance(v.owner, hw.BlockIdOp) for v in whole) or not depends_on([value]) & whole:
        return False
    match op:
        case arith.DivUIOp() | arith.DivSIOp() | arith.RemUIOp() | arith.RemSIOp():
            return True
        case affine.ApplyOp():
            terms = linear_of(op.map.data.results[0]).terms
            return any(isinstance(atom, Floor) for atom, _ in terms)
        case _:
            return False


@dataclass(frozen=True)
class GpuCacheHints(ModulePass):
    """Give TMA loads their L2 hints."""

    name = "gpu-cache-hints"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [HintLoads()])
