"""The pattern that lowers ``gpu.scan``: in threads, between lanes, and between warps (T2).

A line's elements lie in vectors, a thread one after another, and these runs of all its threads one
after another: steps.  A thread combines its vector of each step, and lanes exchange what they have
by shuffles.  Where a line lies in several warps, each leaves what it has of a step in shared
memory, and all read that and scan it in turn.  Then each thread goes through its vectors with what
is before them.  Every step has an order that the layout fixes, so that runs repeat to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, memref
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import SharedType
from polyc.passes.support.gpu.combine import combine, element_of, neutral
from polyc.passes.support.gpu.scope import in_loop, scope_barrier, scope_of, thread_in_scope
from polyc.passes.support.gpu.spread import Spread
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.passes.support.gpu.tile_contracts import registers_of
from polyc.passes.support.gpu.tile_fragments import spread_of, wide
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit, affine_dim

LANES = 32
"""Threads of a warp."""

UNROLLED = 8
"""Parts of lines that a thread takes one after another without a loop."""


@dataclass(frozen=True)
class Line:
    """How the elements of a line lie with threads.

    ``across`` neighbouring threads have a vector each of a step; ``steps`` are the registers of a
    thread's vectors, in the order of the line.
    """

    across: int
    steps: tuple[tuple[int, ...], ...]

    @property
    def warps(self) -> int:
        """Warps that have a line together, or 1."""
        return max(1, self.across // LANES)

    @property
    def parts(self) -> int:
        """What warps leave in shared memory of a line."""
        return self.warps * len(self.steps)

    @property
    def meets(self) -> bool:
        """Whether warps have a line together."""
        return self.warps > 1

    @staticmethod
    def of(source: Spread, axis: int) -> Line:
        """Raises ValueError where a layout is none of these."""
        offsets: dict[int, int] = {}
        for register, place in enumerate(source.registers):
            offsets.setdefault(place[axis], register)
        order = sorted(offsets)
        vector = next((n for n, at in enumerate(order) if at != n), len(order))
        count, left = divmod(len(order), vector)
        stride = order[vector] if count > 1 else 0
        if left or order != [k * stride + e for k in range(count) for e in range(vector)]:
            raise ValueError("a thread's elements are no vectors that lie equally far apart")
        across = stride // vector if count > 1 else _run(source, axis, vector)
        threads = len(source.threads)
        whole = across & (across - 1) == 0 if across < LANES else across % LANES == 0
        if across < 1 or threads % across or not whole:
            raise ValueError(f"{across} threads have a line, which are no lanes or whole warps")
        for thread, place in enumerate(source.threads):
            first = source.threads[thread - thread % across]
            own = tuple(0 if i == axis else at for i, at in enumerate(place))
            if place[axis] != thread % across * vector or own != tuple(
                0 if i == axis else at for i, at in enumerate(first)
            ):
                raise ValueError("neighbouring threads do not have neighbouring vectors")
        steps = tuple(tuple(offsets[k * stride + e] for e in range(vector)) for k in range(count))
        found = Line(across, steps)
        if found.warps > 1 and found.parts > LANES:
            raise ValueError(
                f"{found.warps} warps have {len(steps)} vectors a thread of a line, and a warp "
                f"scans {LANES} parts of one"
            )
        return found


def _run(source: Spread, axis: int, vector: int) -> int:
    """How many threads, from the first on, have one vector after another of a line."""
    count = 1
    while count < len(source.threads) and source.threads[count][axis] == count * vector:
        count += 1
    return count


@dataclass(frozen=True)
class Stack:
    """How the elements of lines lie that a thread has several of, side by side.

    Each of ``deep`` threads has as many neighbouring elements of a line: ``runs`` are their
    registers, those of a line together.  ``width`` threads are side by side, with other lines.
    """

    deep: int
    width: int
    runs: tuple[tuple[int, ...], ...]

    @property
    def parts(self) -> int:
        """What threads leave in shared memory of a line."""
        return self.deep

    @property
    def meets(self) -> bool:
        """Whether threads have a line together."""
        return self.deep > 1

    @staticmethod
    def of(source: Spread, axis: int) -> Stack:
        """Raises ValueError where a layout is none of these."""
        lines: dict[tuple[int, ...], dict[int, int]] = {}
        for register, place in enumerate(source.registers):
            other = (*place[:axis], *place[axis + 1 :])
            lines.setdefault(other, {})[place[axis]] = register
        runs = tuple(tuple(line[at] for at in sorted(line)) for line in lines.values())
        size = len(runs[0])
        if any(sorted(line) != list(range(size)) for line in lines.values()):
            raise ValueError("a thread's elements of a line are not neighbours")
        threads = source.threads
        width = next((n for n, at in enumerate(threads) if at[axis]), len(threads))
        if width and (len(threads) % width or width & (width - 1)):
            raise ValueError(f"{width} threads that are side by side are no power of two")
        for number, place in enumerate(threads):
            first = threads[number % max(1, width)]
            there = tuple(0 if i == axis else at for i, at in enumerate(place))
            if not width or place[axis] != number // width * size or there != first:
                raise ValueError("threads with parts of a line do not follow each other")
        return Stack(len(threads) // width, width, runs)


def line_of(op: tile.ScanOp) -> Line | Stack:
    """How an op's lines lie.  Raises PolycError ``LayoutConflict`` where none lowers them."""
    layout, source = spread_of(op.fragment, op)
    several = any(at for p in source.registers for i, at in enumerate(p) if i != op.axis)
    why: list[str] = []
    for kind in (Stack,) if several else (Line, Stack):
        try:
            return kind.of(source, op.axis)
        except ValueError as error:
            why.append(str(error))
    raise PolycError("LayoutConflict", f"gpu.scan along axis {op.axis} of {layout}: {why[0]}", op)


class LowerScan(RewritePattern):
    """Scan a thread's vectors, the lanes of a warp and the warps of a line; or a thread's run of
    each of its lines, and the threads that have runs of one.

    Legality: neighbouring threads have neighbouring vectors of one line, and each thread elements
    of one; or runs of several, where threads that are side by side have others
    (``LayoutConflict``).  The threads of the op's scope meet where a line lies in several
    warps; a scratch area that a loop uses again is guarded by a barrier.  Exact for max, min and
    integers; a sum or product has the layout's order.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ScanOp, rewriter: PatternRewriter) -> None:
        emit, line = Emit(), line_of(op)
        lowering = _Lowering(emit, op, line) if isinstance(line, Line) else _Stacked(emit, op, line)
        lowering.run()
        for new in emit.ops:
            located(new, op)
        rewriter.replace(op, emit.ops, [])


class _Scanning:
    """One op on its way; values are in the order in which the scan goes, also of a reverse one."""

    def __init__(self, emit: Emit, op: tile.ScanOp) -> None:
        self.emit, self.op = emit, op
        self.kind, self.element = op.kind.data, element_of(op)
        self.registers = registers_of(emit, op.fragment)
        self.nothing = neutral(emit, self.kind, self.element)
        self.thread = thread_in_scope(emit, op)

    def load(self, register: int) -> SSAValue:
        return self.emit.value(memref.LoadOp.get(self.registers, [self.emit.index(register)]))

    def store(self, register: int, value: SSAValue) -> None:
        self.emit.op(memref.StoreOp.get(value, self.registers, [self.emit.index(register)]))

    def through(
        self, registers: Sequence[int], values: Sequence[SSAValue], start: SSAValue
    ) -> None:
        """Let each of a thread's neighbours be what it is with all before it."""
        for register, value in zip(registers, values, strict=True):
            after = combine(self.emit, self.kind, start, value)
            self.store(register, start if self.op.is_exclusive else after)
            start = after


class _Lowering(_Scanning):
    """One whose threads have elements of one line."""

    def __init__(self, emit: Emit, op: tile.ScanOp, line: Line) -> None:
        super().__init__(emit, op)
        self.line = line
        self.lane = emit.apply(affine_dim(0) % LANES, [self.thread], hint="lane")
        steps = [tuple(reversed(step)) if op.is_reverse else step for step in line.steps]
        self.steps = steps[::-1] if op.is_reverse else steps

    def run(self) -> None:
        emit, kind = self.emit, self.kind
        values = [[self.load(r) for r in step] for step in self.steps]
        width = min(self.line.across, LANES)
        place = emit.apply(affine_dim(0) % width, [self.lane])
        if self.op.is_reverse:
            place = emit.apply(affine_dim(0) * -1 + (width - 1), [place])
        own: list[SSAValue] = []
        for step in values:
            total = step[0]
            for value in step[1:]:
                total = combine(emit, kind, total, value)
            own.append(total)
        ends = [self.lanes(total, place, width, self.op.is_reverse) for total in own]
        before = [self.shifted(end, place, self.op.is_reverse) for end in ends]
        so_far = self.carry()
        if self.line.warps > 1:
            firsts, total = self.warps(ends)
            before = [combine(emit, kind, f, b) for f, b in zip(firsts, before, strict=True)]
            starts = [b if so_far is None else combine(emit, kind, so_far, b) for b in before]
            so_far = total if so_far is None else combine(emit, kind, so_far, total)
        else:
            starts: list[SSAValue] = []
            last = emit.apply(affine_dim(0) - affine_dim(0) % width, [self.lane])
            if not self.op.is_reverse:
                last = emit.apply(affine_dim(0) + (width - 1), [last])
            for end, b in zip(ends, before, strict=True):
                starts.append(b if so_far is None else combine(emit, kind, so_far, b))
                total = end if width == 1 else emit.value(hw.ShuffleOp("index", end, last))
                so_far = total if so_far is None else combine(emit, kind, so_far, total)
        for step, found, start in zip(self.steps, values, starts, strict=True):
            self.through(step, found, start)
        if self.op.carry is not None and so_far is not None:
            where = registers_of(emit, self.op.carry)
            emit.op(memref.StoreOp.get(so_far, where, [emit.index(0)]))

    def carry(self) -> SSAValue | None:
        """What the thread's line begins with; None for nothing."""
        op = self.op
        if op.carry is None:
            return None
        _, source = spread_of(op.fragment, op)
        _, held = spread_of(op.carry, op)
        lines = [tuple(0 if i == op.axis else at for i, at in enumerate(p)) for p in source.threads]
        if len(held.registers) != 1 or list(held.threads) != lines:
            raise PolycError(
                "LayoutConflict",
                f"the carry of this scan lies in {op.carry.type}, and each thread wants that of "
                "its own line; leave its layout open",
                op,
            )
        where = registers_of(self.emit, op.carry)
        return self.emit.value(memref.LoadOp.get(where, [self.emit.index(0)]))

    # Lanes

    def lanes(self, value: SSAValue, place: SSAValue, width: int, reverse: bool) -> SSAValue:
        """What each lane has with all before it, of ``width`` neighbours."""
        emit, distance = self.emit, 1
        while distance < width:
            way = "down" if reverse else "up"
            other = emit.value(hw.ShuffleOp(way, value, emit.index(distance)))
            there = emit.compare("sge", place, emit.index(distance))
            joined = combine(emit, self.kind, other, value)
            value = emit.value(arith.SelectOp(there, joined, value))
            distance *= 2
        return value

    def shifted(self, value: SSAValue, place: SSAValue, reverse: bool) -> SSAValue:
        """What the lane before each one has, and nothing in the first."""
        emit = self.emit
        way = "down" if reverse else "up"
        other = emit.value(hw.ShuffleOp(way, value, emit.index(1)))
        first = emit.compare("eq", place, emit.index(0))
        return emit.value(arith.SelectOp(first, self.nothing, other))

    # Warps

    def warps(self, ends: Sequence[SSAValue]) -> tuple[list[SSAValue], SSAValue]:
        """What a line has before the warp of each step, and in all: by way of shared memory."""
        emit, line, op = self.emit, self.line, self.op
        threads = scope_of(op).threads
        scope = scope_of(op)
        lines = threads // line.across
        instances = 1
        if scope.number is not None:
            instances = enclosing_kernel(op).threads.value.data // threads
        area = SharedType.of([lines * instances, line.parts], self.element, 0)
        scratch = emit.value(hw.SharedTileOp(area), "parts")
        zero = emit.index(0)
        row = emit.apply(affine_dim(0) // line.across, [self.thread], hint="line")
        if scope.number is not None:
            row = emit.apply(affine_dim(0) + affine_dim(1) * lines, [row, scope.number])
        warp = emit.apply(affine_dim(0) // LANES % line.warps, [self.thread], hint="warp")
        if op.is_reverse:
            warp = emit.apply(affine_dim(0) * -1 + (line.warps - 1), [warp])
        if in_loop(op):
            scope_barrier(emit, op)

        def address(inner: Emit, part: SSAValue) -> SSAValue:
            return inner.value(tile.ElementAddressOp(scratch, zero, row, part))

        def leave(inner: Emit) -> None:
            for number, end in enumerate(ends):
                part = inner.apply(affine_dim(0) + number * line.warps, [warp])
                inner.op(hw.StoreSharedOp(end, address(inner, part)))

        last = emit.index(0 if op.is_reverse else LANES - 1)
        emit.when(emit.compare("eq", self.lane, last), leave)
        scope_barrier(emit, op)
        part = emit.apply(affine_dim(0) % line.parts, [self.lane])
        value = emit.value(hw.LoadSharedOp(address(emit, part), self.element))
        whole = 1 << (line.parts - 1).bit_length()
        value = self.lanes(value, self.lane, whole, False)
        before = self.shifted(value, self.lane, False)
        firsts: list[SSAValue] = []
        for number in range(len(ends)):
            there = emit.apply(affine_dim(0) + number * line.warps, [warp])
            firsts.append(emit.value(hw.ShuffleOp("index", before, there)))
        total = emit.value(hw.ShuffleOp("index", value, emit.index(line.parts - 1)))
        return firsts, total


class _Stacked(_Scanning):
    """One whose threads have runs of several lines."""

    def __init__(self, emit: Emit, op: tile.ScanOp, stack: Stack) -> None:
        super().__init__(emit, op)
        self.stack = stack
        self.runs = [run[::-1] if op.is_reverse else run for run in stack.runs]

    def run(self) -> None:
        emit, kind, op = self.emit, self.kind, self.op
        values = [[self.load(r) for r in run] for run in self.runs]
        totals: list[SSAValue] = []
        for run in values:
            total = run[0]
            for value in run[1:]:
                total = combine(emit, kind, total, value)
            totals.append(total)
        before = [self.nothing] * len(totals)
        if self.stack.meets:
            before, totals = self.threads(totals)
        places = self.carried()
        if places is not None:
            assert op.carry is not None
            where = registers_of(emit, op.carry)
            at = [emit.index(place) for place in places]
            so_far = [emit.value(memref.LoadOp.get(where, [one])) for one in at]
            before = [combine(emit, kind, a, b) for a, b in zip(so_far, before, strict=True)]
            for carry, total, one in zip(so_far, totals, at, strict=True):
                whole = combine(emit, kind, carry, total)
                emit.op(memref.StoreOp.get(whole, where, [one]))
        for run, found, start in zip(self.runs, values, before, strict=True):
            self.through(run, found, start)

    def carried(self) -> tuple[int, ...] | None:
        """The register of the carry that has what each of the thread's lines begins with."""
        op = self.op
        if op.carry is None:
            return None
        _, source = spread_of(op.fragment, op)
        _, held = spread_of(op.carry, op)
        rank = source.rank
        by = tuple(affine_dim(i) if i != op.axis else affine_dim(i) * 0 for i in range(rank))
        try:
            found = source.held(AffineMap(rank, 0, by), held)
        except ValueError as error:
            raise PolycError(
                "LayoutConflict",
                f"the carry of this scan lies in {op.carry.type}: {error}; leave its layout open",
                op,
            ) from None
        return tuple(found[run[0]] for run in self.stack.runs)

    def threads(self, totals: Sequence[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
        """What each line has before the thread, and in all: by way of shared memory."""
        emit, stack, op = self.emit, self.stack, self.op
        scope, count = scope_of(op), len(totals)
        instances = 1
        if scope.number is not None:
            instances = enclosing_kernel(op).threads.value.data // scope.threads
        lines = stack.width * count
        area = SharedType.of([stack.deep * instances, lines], self.element, 0)
        scratch = emit.value(hw.SharedTileOp(area), "parts")
        zero = emit.index(0)
        own = emit.apply(affine_dim(0) // stack.width, [self.thread], hint="part")
        column = emit.apply(affine_dim(0) % stack.width * count, [self.thread], hint="lines")
        base = zero
        if scope.number is not None:
            base = emit.apply(affine_dim(0) * stack.deep, [scope.number])
        if in_loop(op):
            scope_barrier(emit, op)
        step = max(n for n in (1, 2, 4) if count % n == 0)

        def address(inner: Emit, part: SSAValue, first: int) -> SSAValue:
            row = inner.value(arith.AddiOp(base, part))
            at = inner.apply(affine_dim(0) + first, [column])
            return inner.value(tile.ElementAddressOp(scratch, zero, row, at))

        for first in range(0, count, step):
            some = totals[first : first + step]
            value = some[0] if step == 1 else emit.value(hw.PackOp(some))
            emit.op(hw.StoreSharedOp(value, address(emit, own, first)))
        scope_barrier(emit, op)
        whole = emit.registers(count, self.element, "whole")
        before = emit.registers(count, self.element, "before")
        for line in range(count):
            for one in (whole, before):
                emit.op(memref.StoreOp.get(self.nothing, one, [emit.index(line)]))

        def take(inner: Emit, number: SSAValue) -> None:
            part = number
            if op.is_reverse:
                part = inner.apply(affine_dim(0) * -1 + (stack.deep - 1), [number])
            earlier = inner.compare("sgt" if op.is_reverse else "slt", part, own)
            for first in range(0, count, step):
                kind = wide(self.element, step)
                value = inner.value(hw.LoadSharedOp(address(inner, part, first), kind))
                for lane in range(step):
                    one = value if step == 1 else inner.value(hw.UnpackOp(value, lane))
                    at = [inner.index(first + lane)]
                    so_far = inner.value(memref.LoadOp.get(whole, at))
                    joined = combine(inner, self.kind, so_far, one)
                    inner.op(memref.StoreOp.get(joined, whole, at))
                    old = inner.value(memref.LoadOp.get(before, at))
                    chosen = inner.value(arith.SelectOp(earlier, joined, old))
                    inner.op(memref.StoreOp.get(chosen, before, at))

        emit.loop(stack.deep, take, unroll=stack.deep <= UNROLLED, hint="part")
        at = [[emit.index(line)] for line in range(count)]
        return (
            [emit.value(memref.LoadOp.get(before, one)) for one in at],
            [emit.value(memref.LoadOp.get(whole, one)) for one in at],
        )
