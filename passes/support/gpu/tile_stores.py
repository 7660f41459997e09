"""Patterns that lower the way out of a tile program: accumulators to shared memory by stmatrix, and
shared tiles to tensors by TMA (T2, S9.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    GlobalType,
    SharedType,
    TensorMapType,
    element_bytes,
    vector_of,
)
from polyc.passes.support.gpu.free_layouts import layout_of
from polyc.passes.support.gpu.scope import (
    WARPGROUP,
    WARPGROUPS_BARRIER,
    scope_barrier,
    scope_of,
    thread_in_scope,
)
from polyc.passes.support.gpu.spread import Spread
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.passes.support.gpu.tile_contracts import registers_of
from polyc.passes.support.gpu.tile_copies import check_wraps, tensor_map_argument, wrap
from polyc.rewriting.emit import Emit, affine_dim

WARP = 32

BLOCK = 4
"""Registers of an accumulator that are 16 rows of 8 columns in a warp."""


class LowerStmatrix(RewritePattern):
    """A fragment in an mma accumulator's layout goes to a shared tile by stmatrix.

    A warp stores two blocks of 16 x 8 at once: lane ``l`` gives the address of row ``l mod 16`` of
    block ``l floordiv 16``.  With the tile's swizzle the rows of a block lie in different banks.  A
    turned copy stores each 8 x 8 of them transposed.

    Legality: elements have 16 bits; in each warp a block of four registers is 16 x 8 as the
    instruction has it, and blocks come in pairs, one beside the other.  Other fragments are
    stored by each thread (``LowerSharedFragment``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        found = self.blocks(op)
        if found is None:
            return
        layout, shift, chosen = found
        emit = Emit()
        registers = registers_of(emit, op.source)
        thread = thread_in_scope(emit, op)
        slot = op.slot or emit.index(0)
        first = emit.apply(affine_dim(0) // WARP * WARP, [thread], hint="warp_thread")
        lane = emit.apply(affine_dim(0) % WARP, [thread], hint="lane")
        word = emit.registers(BLOCK, i32, "words")
        row, column = layout.map.data.results
        turned = op.transposes
        low = affine_dim(1)
        # Of a turned one lane l has column l mod 8 of its 8 x 8, which becomes a row.
        down = low // 8 % 2 * 8 if turned else low % 16
        right = low // 16 * 8 + low % 8 if turned else low // 16 * 8

        def store(inner: Emit, first_register: AffineExpr, at: Sequence[SSAValue]) -> None:
            """The two blocks from a register on, which ``at`` gives the dimensions of."""
            here = [affine_dim(0), first_register]
            starts = [e.replace_dims_and_symbols(here, []) for e in (row, column)]
            place = [
                inner.apply(starts[0] + down - shift[0], at),
                inner.apply(starts[1] + right - shift[1], at),
            ]
            place = place[::-1] if turned else place
            address = inner.value(tile.ElementAddressOp(op.target, slot, place[0], place[1]))
            for q in range(BLOCK):
                pair = [
                    inner.value(
                        memref.LoadOp.get(
                            registers, [inner.apply(first_register + (2 * q + i), at)]
                        )
                    )
                    for i in (0, 1)
                ]
                packed = inner.value(hw.PackOp(pair))
                bits = inner.value(vector.BitcastOp(packed, vector_of(i32, 1)))
                value = inner.value(hw.UnpackOp(bits, 0))
                inner.op(memref.StoreOp.get(value, word, [inner.index(q)]))
            inner.op(hw.StmatrixOp(word, inner.index(0), address, transpose=turned))

        step = chosen[1] - chosen[0] if len(chosen) > 1 else 0
        if step and chosen == list(range(chosen[0], chosen[-1] + 1, step)):
            every = affine_dim(2) * step + chosen[0]
            emit.loop(
                len(chosen),
                lambda inner, j: store(inner, every, [first, lane, j]),
                unroll=True,
                hint="blocks",
            )
        else:
            for r in chosen:
                store(emit, AffineExpr.constant(r), [first, lane])
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def blocks(
        op: tile.CopyOp,
    ) -> tuple[FragmentLayoutAttr, tuple[int, ...], list[int]] | None:
        """The fragment's layout, what its coordinates exceed the tile's by, and the first
        registers of the pairs of blocks; None where each thread stores for itself."""
        source, target = op.source.type, op.target.type
        if not isinstance(source, FragmentType) or not isinstance(target, SharedType):
            return None
        layout = layout_of(op.source)
        if layout is None or target.swizzle_bytes is None or len(target.sizes) != 2:
            return None
        if element_bytes(source.element_type) != 2 or target.panel_columns % 8:
            return None
        if scope_of(op).threads != layout.threads.data:
            return None
        try:
            spread = Spread.of(layout)
        except ValueError:
            return None
        window = (0, 0) if op.window is None else op.window.data
        sizes = target.sizes[::-1] if op.transposes else target.sizes
        partial = source.sizes != sizes and all(
            n >= m for n, m in zip(source.sizes, sizes, strict=True)
        )
        # Shared coordinates are the fragment's less the window's start, or plus it.
        shift = window if partial else (-window[0], -window[1])
        chosen = LowerStmatrix.pairs(spread, sizes, shift)
        return None if chosen is None else (layout, shift, chosen)

    @staticmethod
    def pairs(spread: Spread, sizes: tuple[int, ...], shift: tuple[int, ...]) -> list[int] | None:
        """The first registers of the pairs of blocks that are stored; None where not all fit."""
        if spread.rank != 2 or len(spread.registers) % (2 * BLOCK) or len(spread.threads) % WARP:
            return None
        for warp in range(0, len(spread.threads), WARP):
            row, column = spread.threads[warp]
            lanes = [(row + lane // 4, column + lane % 4 * 2) for lane in range(WARP)]
            if list(spread.threads[warp : warp + WARP]) != lanes:
                return None
        warps = spread.threads[::WARP]
        found: list[int] = []
        for r in range(0, len(spread.registers), 2 * BLOCK):
            row, column = spread.registers[r]
            block = [
                (row + dr, column + 8 * b + dc) for b in (0, 1) for dr in (0, 8) for dc in (0, 1)
            ]
            if list(spread.registers[r : r + 2 * BLOCK]) != block:
                return None
            inside = {
                y + row - shift[0] >= 0
                and y + row - shift[0] + 16 <= sizes[0]
                and x + column - shift[1] >= 0
                and x + column - shift[1] + 16 <= sizes[1]
                for y, x in warps
            }
            outside = {
                y + row - shift[0] + 16 <= 0
                or y + row - shift[0] >= sizes[0]
                or x + column - shift[1] + 16 <= 0
                or x + column - shift[1] >= sizes[1]
                for y, x in warps
            }
            if inside == {True}:
                found.append(r)
            elif outside != {True}:
                return None
        return found


@dataclass(frozen=True)
class Writers:
    """Who fills a shared tile that a TMA store reads, ``groups`` of threads that need not meet.

    Where each warpgroup fills rows of its own, it stores these alone as soon as it is done:
    ``groups`` warpgroups with ``rows`` rows each.  Otherwise all threads of the scope are one
    group.
    """

    groups: int
    rows: int

    @staticmethod
    def whole(op: tile.CopyOp) -> Writers:
        """All threads of the scope as one group."""
        assert isinstance(op.source.type, SharedType)
        return Writers(1, op.source.type.sizes[0])

    @staticmethod
    def of(op: tile.CopyOp) -> Writers:
        """The writers of the tile that a TMA store reads."""
        kind = op.source.type
        assert isinstance(kind, SharedType)
        rows = kind.sizes[0]
        whole = Writers.whole(op)
        scope = scope_of(op)
        count = scope.threads // WARPGROUP
        if scope.number is not None or count < 2 or rows % (8 * count) or len(kind.sizes) != 2:
            return whole
        for writer in writes(op.source):
            layout = layout_of(writer.source)
            if layout is None or scope_of(writer) != scope or not own_rows(writer, count, rows):
                return whole
        return Writers(count, rows // count)

    @staticmethod
    def planned(op: tile.CopyOp) -> Writers:
        """What ``gpu-store-waits`` found, while the fills were there; one group where it did not
        look."""
        kind = op.source.type
        assert isinstance(kind, SharedType)
        groups = 1 if op.store_groups is None else op.store_groups.value.data
        return Writers(groups, kind.sizes[0] // groups)

    def meet(self, emit: Emit, op: Operation) -> None:
        """The threads of each group meet."""
        if self.groups == 1:
            scope_barrier(emit, op)
            return
        thread = thread_in_scope(emit, op)
        group = emit.apply(affine_dim(0) // WARPGROUP, [thread], hint="group")
        emit.op(
            hw.NamedBarrierOp(WARPGROUPS_BARRIER, WARPGROUP, emit.value(hw.WarpUniformOp(group)))
        )

    def leads(self, emit: Emit, op: Operation) -> SSAValue | None:
        """Whether this thread stores for its group; None where it is alone."""
        if scope_of(op).threads == 1:
            return None
        thread = thread_in_scope(emit, op)
        if self.groups > 1:
            thread = emit.apply(affine_dim(0) % WARPGROUP, [thread])
        return emit.compare("eq", thread, emit.index(0))


def writes(shared: SSAValue) -> Iterator[tile.CopyOp]:
    """The copies of fragments into a shared tile."""
    for use in shared.uses:
        op = use.operation
        if isinstance(op, tile.CopyOp) and op.target is shared:
            yield op


def own_rows(writer: tile.CopyOp, groups: int, rows: int) -> bool:
    """Whether each warpgroup writes only its own ``rows / groups`` rows of the tile."""
    source, layout = writer.source.type, layout_of(writer.source)
    if not isinstance(source, FragmentType) or layout is None or source.sizes[0] != rows:
        return False
    if writer.transposes:
        return False
    if layout.threads.data != groups * WARPGROUP:
        return False
    try:
        spread = Spread.of(layout)
    except ValueError:
        return False
    share = rows // groups
    low = min(p[0] for p in spread.registers)
    high = max(p[0] for p in spread.registers)
    return all(
        (p[0] + low) // share == (p[0] + high) // share == t // WARPGROUP
        for t, p in enumerate(spread.threads)
    )


class LowerTmaStore(RewritePattern):
    """A shared tile goes to a tensor: one thread of each group stores its boxes.

    What the threads wrote is made visible to the async proxy by each of them, they meet, and then
    one stores a box a panel and closes the group of stores.  Tails are clipped by the copy engine.

    The columns of a panel that wraps lie in one point of the axis that they go on across: points of
    its last axis are known to be multiples of a panel's, and so is where the tile begins.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        if not op.is_store or op.loader is None or op.loader.data != "tma":
            return
        kind = op.source.type
        assert isinstance(kind, SharedType) and isinstance(op.target.type, GlobalType)
        if kind.swizzle_bytes is None:
            raise PolycError("NoLayout", f"{kind} has no layout; run gpu-layout-inference", op)
        if len(kind.sizes) != 2:
            raise PolycError("UnsupportedCopy", f"a stored tile has two axes, not {kind}", op)
        writers = Writers.planned(op)
        _, columns = kind.sizes
        width = kind.panel_columns
        if op.wraps is not None:
            check_wraps(op, width)
        across, along = op.tile_axes
        sizes = [1] * len(op.indices)
        sizes[across], sizes[along] = writers.rows, width
        box = TensorMapType.of(sizes, kind.element_type, kind.swizzle_bytes)
        map_arg = tensor_map_argument(enclosing_kernel(op), op.target, box, op)
        emit = Emit()
        emit.op(hw.FenceProxyAsyncOp())
        writers.meet(emit, op)
        slot = op.source_slot or emit.index(0)

        def store(then: Emit) -> None:
            base = then.value(hw.SharedAddressOp(op.source, slot))
            row = op.indices[across]
            if writers.groups > 1:
                thread = thread_in_scope(then, op)
                first = then.apply(affine_dim(0) // WARPGROUP * writers.rows, [thread])
                row = then.apply(affine_dim(0) + affine_dim(1), [row, first])
                size = width * element_bytes(kind.element_type)
                down = then.apply(affine_dim(0) * size, [first])
                base = then.value(arith.AddiOp(base, then.value(arith.IndexCastOp(down, i32))))
            for panel in range(columns // width):
                address, column = base, op.indices[along]
                if panel:
                    offset = then.int32(panel * kind.panel_bytes)
                    address = then.value(arith.AddiOp(base, offset))
                    column = then.apply(affine_dim(0) + panel * width, [column])
                place = list(op.indices)
                place[across], place[along] = row, column
                wrap(then, op, place)
                then.op(hw.TmaStoreOp(address, map_arg, place))
            then.op(hw.BulkCommitOp())

        leads = writers.leads(emit, op)
        if leads is None:
            store(emit)
        else:
            emit.when(leads, store)
        rewriter.replace(op, emit.ops, [])


STORE_PATTERNS: list[RewritePattern] = [LowerStmatrix(), LowerTmaStore()]
"""In the order in which they are tried, before those that copy fragments by each thread."""
