"""The pattern that lowers ``gpu.copy`` of planes: pixels of a tap, read where they lie (S9.3).

An image ``[N, C, H, W]`` has a plane for each channel.  A tile ``[channels, pixels]`` has what a
tap of the filter reads for neighbouring pixels of the output, which are neighbours in a row of the
tile as well: so threads load them along the planes, and nothing is turned on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.cost.products import words_in_flight
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.gpu.tile.copy import CP_ASYNC_LEAST
from polyc.dialects.gpu.types import (
    GlobalType,
    element_bytes,
    vector_of,
)
from polyc.dialects.gpu.waiting import MBarrierType
from polyc.passes.support.gpu.im2col import OUTSIDE, divided, invariant_place, operands_of, tap_of
from polyc.passes.support.gpu.pipeline_parts import with_needs
from polyc.passes.support.gpu.scope import leader, scope_barrier, scope_of, thread_in_scope
from polyc.passes.support.gpu.symbols import enclosing_kernel, size_value
from polyc.passes.support.gpu.tile_copies import CHUNK_BYTES
from polyc.rewriting.emit import Emit, affine_dim, clone_into

RELEASED = 2
"""Slots of a ring that consumers have: that which they read, and that before, which they release
later."""

LEAST = 2
"""Pixels that a thread stores at once at least: a word of shared memory."""


class LowerPlanes(RewritePattern):
    """The threads of the scope load pixels, neighbours neighbouring ones, and store them.

    A thread stays at its pixels: where they lie in a plane is computed before the loops that do not
    change the tile.  It goes through the channels by as many rows as the threads have at once.

    Where no window reaches beyond what the step to the next one passes, nor beyond the image,
    pixels of a row are read together with what lies between them, as wide as rows of the tensor are
    aligned for; a tap has one of each step.  Others are read one by one, where they are in the
    image, and are zero elsewhere.

    Without a tap the rows are points of whole windows, whose place each thread knows of its own:
    which plane and which tap.  Pixels are read one by one then.

    A load that signals ends with a fence, behind which wgmma sees the tile, and a barrier of the
    threads, of which one arrives.  What cp.async brings is waited for some iterations later, as
    many as the ring has slots beside the two that consumers read; the last ones behind the loop.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        if op.im2col is None or op.planes is None:
            return
        source, target, geometry = operands_of(op)
        depth, pixels = target.sizes
        threads = scope_of(op).threads
        whole = not op.tap
        width = 1 if whole else self.width(source, geometry, pixels)
        brought = op.loader is not None and op.loader.data == "cp_async"
        size = width * element_bytes(source.element_type)
        if brought and (size < CP_ASYNC_LEAST or geometry.steps[1] > 1):
            raise PolycError(
                "UnsupportedCopy",
                f"cp.async brings {CP_ASYNC_LEAST} bytes or more that follow each other, and "
                f"pixels of {source} do not by {geometry}; use the loader register",
                op,
            )
        together = width if brought else max(width, LEAST)
        across = pixels // together
        if across > threads or pixels % together:
            raise PolycError(
                "UnsupportedCopy",
                f"{threads} threads load {together} pixels each, and a row of {target} has more; "
                "make the tile narrower",
                op,
            )
        rows = min(depth, 1 << (threads // across).bit_length() - 1)
        early, emit = Emit(), Emit()
        kernel = enclosing_kernel(op)
        channels, *extents = (size_value(early, d, kernel) for d in source.dims[1:])
        outputs = [size_value(early, d, kernel) for d in geometry.output_dims(*source.dims[2:])]
        thread = thread_in_scope(early, op)
        row = early.apply(affine_dim(0) // across, [thread], hint="row")
        column = early.apply(affine_dim(0) % across * together, [thread], hint="column")
        image, channel, p, q = op.indices
        plane = wide(early, early.value(arith.MuliOp(extents[0], extents[1])))
        first = early.value(arith.MuliOp(image, channels))
        if not whole:
            first = early.apply(affine_dim(0) + affine_dim(1), [first, row])
        base = early.value(arith.MuliOp(wide(early, first), plane))
        begins = early.value(arith.MuliOp(p, outputs[1]))
        begins = early.apply(
            sum((affine_dim(i) for i in (1, 2)), affine_dim(0)), [begins, q, column]
        )
        ends: list[tuple[SSAValue, SSAValue, SSAValue]] = []
        for e in range(0, together, width):
            number = early.apply(affine_dim(0) + e, [begins])
            line, at = divided(early, number, outputs[1])
            there = early.compare("slt", line, outputs[0])
            (step_h, step_w), (pad_h, pad_w) = geometry.steps, geometry.pads
            height = early.apply(affine_dim(0) * step_h - pad_h, [line])
            height = early.value(arith.SelectOp(there, height, early.index(OUTSIDE)))
            over = early.apply(affine_dim(0) * step_w - pad_w, [at])
            offset = early.value(arith.AddiOp(early.value(arith.MuliOp(height, extents[1])), over))
            ends.append((height, over, offset))

        def read_at(
            then: Emit, plane_at: SSAValue, down: SSAValue, right: SSAValue
        ) -> list[tuple[SSAValue, SSAValue]]:
            """Where the pixels that a tap reads of a plane lie, and whether they are inside."""
            line_of_tap = then.value(arith.MuliOp(down, extents[1]))
            tap = then.value(arith.AddiOp(line_of_tap, right))
            ahead = then.value(arith.MuliOp(wide(then, plane_at), plane))
            here = then.value(arith.AddiOp(base, ahead))
            found: list[tuple[SSAValue, SSAValue]] = []
            for height, over, offset in ends:
                inside: SSAValue | None = None
                sides = zip((height, over), (down, right), extents, strict=True)
                for place, further, extent in sides:
                    moved = then.apply(affine_dim(0) + affine_dim(1), [place, further])
                    inside = then.both(inside, then.compare("ult", moved, extent))
                assert inside is not None
                # What is read together begins at the window's first pixel, whichever the tap is.
                there = then.value(arith.AddiOp(offset, tap if width == 1 else line_of_tap))
                found.append((then.value(arith.AddiOp(here, wide(then, there))), inside))
            return found

        right: SSAValue | None = None
        places: list[tuple[SSAValue, SSAValue]] = []
        if not whole:
            down, right = tap_of(emit, op, geometry)
            places = read_at(emit, channel, down, right)
        count = source.dims[1].constant()
        sure = count is not None and count % depth == 0
        slot = op.slot or emit.index(0)
        step = geometry.steps[1]
        span = 1 if width == 1 else width * step
        kind = source.element_type if span == 1 else vector_of(source.element_type, span)
        taps: dict[int, SSAValue] = {}
        if right is not None:
            further = self.taps(geometry, span)
            taps = {d: emit.compare("eq", right, emit.index(d)) for d in further}

        def pixels_of(then: Emit, number: int) -> list[tuple[SSAValue, SSAValue]]:
            """Where the pixels of a channel lie, and whether they do."""
            found: list[tuple[SSAValue, SSAValue]] = []
            if whole:
                return self.of_windows(
                    then, geometry, channels, (channel, row, number * rows), read_at
                )
            for place, inside in places:
                if number:
                    planes = then.value(arith.ConstantOp(IntegerAttr(number * rows, i64)))
                    behind = then.value(arith.MuliOp(plane, planes))
                    place = then.value(arith.AddiOp(place, behind))
                guard = inside
                if not sure:
                    at = then.apply(affine_dim(0) + affine_dim(1) + number * rows, [channel, row])
                    guard = then.both(inside, then.compare("slt", at, channels))
                found.append((place, guard))
            return found

        def load(then: Emit, number: int) -> SSAValue:
            """The pixels of one channel."""
            taken: list[SSAValue] = []
            for place, guard in pixels_of(then, number):
                value = then.value(hw.LoadGlobalOp(op.source, [place], kind, guard))
                if span > width:
                    value = self.picked(then, value, width, step, taps)
                taken.append(value)
            return taken[0] if len(taken) == 1 else then.value(hw.PackOp(taken))

        def address_of(then: Emit, number: int) -> SSAValue:
            high = then.apply(affine_dim(0) + number * rows, [row])
            return then.value(tile.ElementAddressOp(op.target, slot, high, column))

        def move(then: Emit) -> None:
            passes = range(depth // rows)
            for number in passes if brought else ():
                address = address_of(then, number)
                ((place, guard),) = pixels_of(then, number)
                then.op(hw.CpAsyncOp(address, op.source, [place], size, guard))
            ahead = words_in_flight(width, step if width > 1 else 1)
            for start in () if brought else passes[::ahead]:
                some = passes[start : start + ahead]
                for number, value in [(number, load(then, number)) for number in some]:
                    then.op(hw.StoreSharedOp(value, address_of(then, number)))

        if across * rows < threads:
            emit.when(emit.compare("slt", thread, emit.index(across * rows)), move)
        else:
            move(emit)
        if op.signal is not None:
            number = op.signal_index
            assert number is not None
            if brought:
                self.arrive_later(emit, op, number, rewriter)
            else:
                self.arrive(emit, op, number)
        rewriter.insert(early.ops, InsertPoint.before(invariant_place(op, [image, p, q])))
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def of_windows(
        emit: Emit,
        geometry: Im2colAttr,
        channels: SSAValue,
        number: tuple[SSAValue, SSAValue, int],
        read_at: Callable[[Emit, SSAValue, SSAValue, SSAValue], list[tuple[SSAValue, SSAValue]]],
    ) -> list[tuple[SSAValue, SSAValue]]:
        """Where the pixels of a point of windows lie, and whether they do: ``number`` are the first
        point of the tile, the thread's own among these, and how much further it is."""
        first, own, more = number
        (rows, columns), (down, right) = geometry.taps, geometry.dilations
        point = affine_dim(0) + affine_dim(1) + more
        each = rows * columns

        def part(expr: AffineExpr) -> SSAValue:
            return emit.apply(expr, [first, own])

        plane = part(point // each)
        places = (part(point % each // columns * down), part(point % columns * right))
        there = emit.compare("slt", plane, channels)
        return [(at, emit.both(there, inside)) for at, inside in read_at(emit, plane, *places)]

    @staticmethod
    def width(source: GlobalType, geometry: Im2colAttr, pixels: int) -> int:
        """Pixels of a row that are read together, with what lies between them: 1 where none are."""
        _, across = geometry.output_dims(*source.dims[2:])
        count, step = across.constant(), geometry.steps[1]
        if not geometry.is_apart or count is None:
            return 1
        size = element_bytes(source.element_type)
        found = min(CHUNK_BYTES, max(source.align.data, size)) // size // step
        while found > 1 and (pixels % found or count % found):
            found //= 2
        return max(1, found)

    @staticmethod
    def taps(geometry: Im2colAttr, span: int) -> list[int]:
        """How far taps of a row are behind the first one, where several are read at once."""
        return [] if span == 1 else [t * geometry.dilations[1] for t in range(1, geometry.taps[1])]

    @staticmethod
    def picked(
        emit: Emit, value: SSAValue, width: int, step: int, taps: Mapping[int, SSAValue]
    ) -> SSAValue:
        """What a tap reads of each step of a vector; ``taps`` say whether it is so far behind the
        first one."""
        found: list[SSAValue] = []
        for number in range(width):
            one = emit.value(hw.UnpackOp(value, number * step))
            for further, there in taps.items():
                other = emit.value(hw.UnpackOp(value, number * step + further))
                one = emit.value(arith.SelectOp(there, other, one))
            found.append(one)
        return found[0] if width == 1 else emit.value(hw.PackOp(found))

    @staticmethod
    def arrive(emit: Emit, op: tile.CopyOp, slot: SSAValue) -> None:
        """Say that all of a slot's tile is there."""
        assert op.signal is not None
        emit.op(hw.FenceProxyAsyncOp())
        scope_barrier(emit, op)
        arrival = hw.MBarrierArriveOp(op.signal, slot)
        alone = leader(emit, op)
        if alone is None:
            emit.op(arrival)
        else:
            emit.when(alone, lambda then: then.ops.append(arrival))

    def arrive_later(
        self, emit: Emit, op: tile.CopyOp, slot: SSAValue, rewriter: PatternRewriter
    ) -> None:
        """The same of the slot that was filled some iterations before, and behind the loop of those
        that are left; at once where nothing may be on its way beside."""
        loop = op.parent_op()
        assert op.signal is not None and isinstance(op.signal.type, MBarrierType)
        emit.op(hw.CpAsyncCommitOp())
        late = op.signal.type.count.data - RELEASED
        if not isinstance(loop, scf.ForOp) or late < 1:
            emit.op(hw.CpAsyncWaitOp(0))
            self.arrive(emit, op, slot)
            return
        i = loop.body.block.args[0]
        body = list(loop.body.block.ops)
        owner = slot.owner
        needs = with_needs(body, [owner]) if isinstance(owner, Operation) and owner in body else []

        def at(then: Emit, iteration: SSAValue) -> SSAValue:
            """The slot of an iteration."""
            values: dict[SSAValue, SSAValue] = {i: iteration}
            clone_into(needs, values, then)
            return values.get(slot, slot)

        first = emit.apply(affine_dim(0) - late, [i], hint="first")

        def earlier(then: Emit) -> None:
            then.op(hw.CpAsyncWaitOp(late))
            self.arrive(then, op, at(then, first))

        emit.when(emit.compare("sge", first, loop.lb), earlier)
        after = Emit()
        for left in range(late - 1, -1, -1):
            last = after.apply(affine_dim(0) - (left + 1), [loop.ub], hint="last")

            def rest(then: Emit, last: SSAValue = last, left: int = left) -> None:
                then.op(hw.CpAsyncWaitOp(left))
                self.arrive(then, op, at(then, last))

            after.when(after.compare("sge", last, loop.lb), rest)
        rewriter.insert(after.ops, InsertPoint.after(loop))


def wide(emit: Emit, value: SSAValue) -> SSAValue:
    """An index in 64 bits."""
    return emit.value(arith.IndexCastOp(value, i64))
