"""``gpu-cache-hints``: which loads the L2 cache should keep, and which it should let go (T2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd, prod

from xdsl.context import Context
from xdsl.dialects import affine, arith, scf
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.affine.expressions import Floor, NotAffine, linear_of
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType, GlobalType, element_bytes
from polyc.rewriting.driver import rewrite

PUTS_OUT = 20 << 20
"""Bytes of a tensor whose lines, if all are brought, put out of the L2 cache (40 or 50 MB) what
is stored beside."""


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


class HintMaps(RewritePattern):
    """Tell the L2 cache to let go first of what a map reads of a large tensor in steps.

    Memory brings neighbours of what is read in steps along, which nobody reads: of a tensor that
    is larger than ``PUTS_OUT`` they put out of the cache what the kernel has stored, and the next
    one reads.  So the copy of every second pixel of every second row of 32 x 256 x 56 x 56 took
    20.4 us for 22.8 (f16, H100), and with the product that reads it 37.0 for 40.8; of 12.8 MB, and
    without steps, nothing was gained.

    Legality: the map reads one tensor, of known sizes, at sums of multiples of the tile's axes and
    of all coordinates of the CTA's tile, in which steps leave out half of the tensor at least, and
    stands in no other loop: then nothing is read twice.  A hint that the author wrote is kept.
    Exact: a hint changes no value.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.MapOp, rewriter: PatternRewriter) -> None:
        if op.cache is not None or positions(op):
            return
        reads = [
            (value.type, access)
            for value, access in zip(op.inputs, op.input_maps, strict=True)
            if isinstance(value.type, GlobalType)
        ]
        if len(reads) != 1 or not is_stepped(*reads[0]):
            return
        whole, found = tile_coordinates(op), set[SSAValue]()
        (_, access), sizes = reads[0], space_sizes(op)
        used = {atom for e in access.results for atom, _ in linear_of(e).terms}
        for place, start in enumerate(op.origin):
            if ("s", place) in used:
                found |= depends_on([start])
        if not whole or not whole <= found or any(is_shared(v, whole) for v in found):
            return
        if all(("d", axis) in used for axis, size in enumerate(sizes) if size > 1):
            op.cache = StringAttr("evict_first")
            rewriter.notify_op_modified(op)


def space_sizes(op: tile.MapOp) -> tuple[int, ...]:
    """The sizes of the tile that a map covers."""
    assert isinstance(op.space.type, FragmentType)
    return op.space.type.sizes


def is_stepped(kind: GlobalType, access: AffineMap) -> bool:
    """Whether a map reads a tensor larger than ``PUTS_OUT`` at sums of multiples, and by its steps
    half of it at most."""
    sizes = [dim.constant() for dim in kind.dims]
    if prod(size or 0 for size in sizes) * element_bytes(kind.element_type) < PUTS_OUT:
        return False
    steps = 1
    for expr in access.results:
        try:
            terms = linear_of(expr).terms
        except NotAffine:
            return False
        if any(isinstance(atom, Floor) for atom, _ in terms):
            return False
        steps *= gcd(*(factor for _, factor in terms)) or 1
    return steps > 1


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
    """Give TMA loads, and maps that read in steps, their L2 hints."""

    name = "gpu-cache-hints"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [HintLoads(), HintMaps()])
