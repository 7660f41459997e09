"""A pattern that lowers the store of a shared tile to rows that begin anywhere (T2, S9.3).

Rows of odd length begin at odd elements, so that no two elements of a column of the tile lie alike
in memory.  Neighbouring threads store neighbouring pairs all the same: each row is cut at even
elements of the tensor, and what stands alone at its ends is stored by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import GlobalType, SharedType, element_bytes, vector_of
from polyc.passes.support.gpu.scope import scope_barrier, scope_of, thread_in_scope
from polyc.passes.support.gpu.symbols import enclosing_kernel, size_value
from polyc.rewriting.emit import Emit, affine_dim

PAIR = 2
"""Elements of 16 bits that are stored at once."""

SUM = affine_dim(0) + affine_dim(1)


class LowerLooseStore(RewritePattern):
    """Threads bring a tile's rows to the tensor by pairs of elements, wherever these begin.

    Of a row whose first element has the address of a pair, pair ``j`` is elements ``2j`` and
    ``2j + 1``; of another one ``2j - 1`` and ``2j``, and the first and the last element stand
    alone, as does one in front of the tensor's edge.

    Legality: elements have 16 bits, rows of the tensor are aligned to no more, and the tile has
    whole pairs, and columns that do not wrap.  Others are stored as wide as rows are aligned
    (``LowerRegisterStore``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        if not op.is_store or op.loader is None or op.loader.data != "register":
            return
        tensor, shared = op.target.type, op.source.type
        assert isinstance(tensor, GlobalType) and isinstance(shared, SharedType)
        size = element_bytes(tensor.element_type)
        if size != 2 or tensor.align.data >= PAIR * size or shared.swizzle_bytes is None:
            return
        if op.wraps is not None:
            return
        if len(shared.sizes) != 2 or shared.sizes[1] % PAIR:
            return
        emit = Emit()
        scope_barrier(emit, op)
        rows = _Rows(op, emit)
        rows.pairs(emit)
        rows.lasts(emit)
        rewriter.replace(op, emit.ops, [])


class _Rows:
    """The rows of a tile on their way to a tensor."""

    def __init__(self, op: tile.CopyOp, emit: Emit) -> None:
        assert isinstance(op.target.type, GlobalType) and isinstance(op.source.type, SharedType)
        self.op = op
        self.high, self.wide = op.tile_axes
        self.element = op.target.type.element_type
        self.height, self.width = op.source.type.sizes
        self.threads = scope_of(op).threads
        self.thread = thread_in_scope(emit, op)
        self.slot = op.source_slot or emit.index(0)
        kernel = enclosing_kernel(op)
        self.sizes = [size_value(emit, dim, kernel) for dim in op.target.type.dims]
        size = element_bytes(self.element)
        behind = emit.value(hw.AddressRemainderOp(op.target, PAIR * size))
        self.first = emit.apply(affine_dim(0) // size, [behind], hint="first")

    def at(self, emit: Emit, row: SSAValue) -> list[SSAValue]:
        """Where a row of the tile begins in the tensor."""
        place = list(self.op.indices)
        place[self.high] = emit.apply(SUM, [place[self.high], row])
        return place

    def is_odd(self, emit: Emit, place: Sequence[SSAValue]) -> SSAValue:
        """1 where a place in the tensor is an element behind the address of a pair, else 0."""
        odd = emit.apply(affine_dim(0) % 2, [place[0]])
        for size, index in zip(self.sizes[1:], place[1:], strict=True):
            rows = emit.value(arith.MuliOp(odd, emit.apply(affine_dim(0) % 2, [size])))
            odd = emit.apply(SUM % 2, [rows, index])
        return emit.apply(SUM % 2, [odd, self.first])

    def inside(self, emit: Emit, place: Sequence[SSAValue]) -> SSAValue | None:
        """Whether a row lies in the tensor; None where it has no other axis than its own."""
        found: SSAValue | None = None
        for axis, (index, size) in enumerate(zip(place, self.sizes, strict=True)):
            if axis != self.wide:
                found = emit.both(found, emit.compare("ult", index, size))
        return found

    def pairs(self, emit: Emit) -> None:
        """All that begin in the tile, each by a thread; and what stands alone but for the last."""
        across = self.width // PAIR
        down = self.threads // across
        first = odd = pair = None
        if self.threads % across == 0:
            # A thread stays in its column, and an even number of rows changes nothing of its pairs.
            first = emit.apply(affine_dim(0) // across, [self.thread], hint="first_row")
            pair = emit.apply(affine_dim(0) % across, [self.thread], hint="pair")
            if down % 2 == 0:
                odd = self.is_odd(emit, self.at(emit, first))
        count = self.height * across

        def body(inner: Emit, i: SSAValue) -> None:
            if first is not None and pair is not None:
                row, own = inner.apply(affine_dim(0) + affine_dim(1) * down, [first, i]), pair
            else:
                number = inner.apply(affine_dim(0) + affine_dim(1) * self.threads, [self.thread, i])
                row = inner.apply(affine_dim(0) // across, [number], hint="row")
                own = inner.apply(affine_dim(0) % across, [number], hint="pair")
            if count % self.threads == 0:
                self.pair(inner, row, own, odd)
                return
            there = inner.compare("slt", row, inner.index(self.height))
            inner.when(there, lambda then: self.pair(then, row, own, odd))

        emit.loop(-(-count // self.threads), body, unroll=True, hint="i")

    def pair(self, emit: Emit, row: SSAValue, pair: SSAValue, odd: SSAValue | None) -> None:
        """One pair, or the one of its elements that the tile and the tensor have."""
        place = self.at(emit, row)
        start, edge = place[self.wide], self.sizes[self.wide]
        if odd is None:
            odd = self.is_odd(emit, place)
        left = emit.apply(affine_dim(0) * PAIR - affine_dim(1), [pair, odd], hint="left")
        right = emit.apply(affine_dim(0) + 1, [left], hint="right")
        # In front of the tile there is no left one: the first element stands alone.
        own = emit.value(arith.MaxSIOp(left, emit.index(0)))
        values = [self.load(emit, row, column) for column in (own, right)]
        columns = [emit.apply(SUM, [start, column]) for column in (left, own, right)]
        inside = self.inside(emit, place)
        begins = emit.compare("sge", left, emit.index(0))
        both = emit.both(begins, emit.compare("ult", columns[2], edge))
        alone = emit.value(arith.XOrIOp(both, emit.compare("ult", columns[1], edge)))
        if inside is not None:
            both, alone = emit.both(inside, both), emit.both(inside, alone)
        place[self.wide] = columns[0]
        value = emit.value(hw.PackOp(values))
        assert value.type == vector_of(self.element, PAIR)
        aligned = PAIR * element_bytes(self.element)
        emit.op(hw.StoreGlobalOp(value, self.op.target, place, both, aligned))
        single = [*place]
        single[self.wide] = columns[1]
        emit.op(hw.StoreGlobalOp(values[0], self.op.target, single, alone))

    def lasts(self, emit: Emit) -> None:
        """The last element of each row that begins at an odd one, each by a thread."""
        last = emit.index(self.width - 1)

        def body(inner: Emit, i: SSAValue) -> None:
            row = inner.apply(affine_dim(0) + affine_dim(1) * self.threads, [self.thread, i])

            def store(then: Emit) -> None:
                place = self.at(then, row)
                odd = self.is_odd(then, place)
                own = then.both(self.inside(then, place), then.compare("ne", odd, then.index(0)))
                place[self.wide] = then.apply(SUM, [place[self.wide], last])
                edge = then.compare("ult", place[self.wide], self.sizes[self.wide])
                value = self.load(then, row, last)
                where = then.both(own, edge)
                then.op(hw.StoreGlobalOp(value, self.op.target, place, where))

            if self.height % self.threads == 0:
                store(inner)
            else:
                inner.when(inner.compare("slt", row, inner.index(self.height)), store)

        emit.loop(-(-self.height // self.threads), body, unroll=True, hint="i")

    def load(self, emit: Emit, row: SSAValue, column: SSAValue) -> SSAValue:
        """An element of the tile."""
        address = emit.value(tile.ElementAddressOp(self.op.source, self.slot, row, column))
        return emit.value(hw.LoadSharedOp(address, self.element))
