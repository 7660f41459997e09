"""Patterns that lower copies and atomics of fragments: each thread moves what it holds (T2).

Neighbouring registers that are neighbours in memory travel together, as wide as alignment allows
and at most 16 bytes.  Where several threads hold one element, the first of them writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, i1, i8
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    GlobalType,
    SharedType,
    element_bytes,
    vector_of,
)
from polyc.passes.support.gpu.free_layouts import ACCESS_BYTES, layout_of
from polyc.passes.support.gpu.scope import scope_of, thread_in_scope
from polyc.passes.support.gpu.spread import Spread
from polyc.passes.support.gpu.tile_contracts import registers_of
from polyc.passes.support.gpu.vectors import divisor
from polyc.rewriting.emit import Emit, affine_dim


def spread_of(fragment: SSAValue, op: Operation) -> tuple[FragmentLayoutAttr, Spread]:
    """A fragment's layout; raises PolycError ``NoLayout`` while it is open."""
    layout = layout_of(fragment)
    if layout is None:
        raise PolycError("NoLayout", f"{fragment.type} has no layout; run gpu-layout-inference", op)
    threads = scope_of(op).threads
    if layout.threads.data > threads:
        raise PolycError(
            "ThreadMismatch",
            f"{layout.threads.data} threads hold {fragment.type} and {threads} run this; launch "
            "more threads or annotate another layout",
            op,
        )
    try:
        return layout, Spread.of(layout)
    except ValueError as error:
        raise PolycError("LayoutConflict", f"in {layout}, {error}", op) from None


BYTES_AT_ONCE = 2
"""Conditions that are read of shared memory at once: a thread's neighbours in an accumulator."""


def most_at_once(element: Attribute) -> int:
    """Elements of the widest access: conditions, which lie in bytes of their own, go one by one."""
    return 1 if element == i1 else ACCESS_BYTES // element_bytes(element)


def vector_width(spread: Spread, limit: int) -> int:
    """How many registers from any multiple of it on are neighbours along the last axis, and start
    at a multiple of it; at most ``limit``."""
    last = spread.rank - 1
    for width in (8, 4, 2):
        if width > limit or spread.rank == 0 or len(spread.registers) % width:
            continue
        starts = spread.registers[::width]
        if any(p[last] % width for p in (*spread.threads, *starts)):
            continue
        if all(
            p == (*start[:last], start[last] + i)
            for i in range(1, width)
            for start, p in zip(starts, spread.registers[i::width], strict=True)
        ):
            return width
    return 1


def first_holders(emit: Emit, spread: Spread, op: Operation) -> SSAValue | None:
    """Whether this thread is the first that holds its elements; None where each is the only one."""
    thread = thread_in_scope(emit, op)
    predicate: SSAValue | None = None
    if len(spread.threads) < scope_of(op).threads:
        predicate = emit.compare("slt", thread, emit.index(len(spread.threads)))
    try:
        repeats = spread.first_holders()
    except ValueError as error:
        raise PolycError("LayoutConflict", f"of the threads of this layout, {error}", op) from None
    for digit in repeats:
        number = affine_dim(0) // digit.weight if digit.weight > 1 else affine_dim(0)
        if digit.weight * digit.count < len(spread.threads):
            number = number % digit.count
        number = emit.apply(number, [thread])
        predicate = emit.both(predicate, emit.compare("eq", number, emit.index(0)))
    return predicate


def when_needed(emit: Emit, condition: SSAValue | None, body: Callable[[Emit], None]) -> None:
    """``body`` under a condition, or as it is where there is none."""
    if condition is None:
        body(emit)
    else:
        emit.when(condition, body)


def wide(element: Attribute, width: int) -> Attribute:
    """The type of ``width`` elements in one access."""
    return vector_of(element, width) if width > 1 else element


def load_registers(emit: Emit, registers: SSAValue, r: SSAValue, width: int) -> SSAValue:
    """``width`` registers from ``r`` on, packed."""
    lanes = [
        emit.value(memref.LoadOp.get(registers, [emit.apply(affine_dim(0) + i, [r])]))
        for i in range(width)
    ]
    return lanes[0] if width == 1 else emit.value(hw.PackOp(lanes))


def store_registers(
    emit: Emit, value: SSAValue, registers: SSAValue, r: SSAValue, width: int
) -> None:
    """Unpack a value into ``width`` registers from ``r`` on."""
    for i in range(width):
        lane = value if width == 1 else emit.value(hw.UnpackOp(value, i))
        at = emit.apply(affine_dim(0) + i, [r])
        emit.op(memref.StoreOp.get(lane, registers, [at]))


def element_of(
    emit: Emit, layout: FragmentLayoutAttr, thread: SSAValue, r: SSAValue, start: Sequence[int] = ()
) -> list[SSAValue]:
    """The coordinates in the tile of register ``r``, less ``start``."""
    exprs = layout.map.data.results
    offsets = start or [0] * len(exprs)
    return [emit.apply(e - s if s else e, [thread, r]) for e, s in zip(exprs, offsets, strict=True)]


class _GlobalAccess(RewritePattern):
    """Between a tensor and registers: unrolled over vectors of registers."""

    @staticmethod
    def coordinates(
        emit: Emit,
        op: tile.CopyOp | tile.AtomicOp,
        axes: Sequence[int],
        element: Sequence[SSAValue],
    ) -> list[SSAValue]:
        at = list(op.indices)
        for axis, inside in zip(axes, element, strict=True):
            at[axis] = emit.apply(affine_dim(0) + affine_dim(1), [at[axis], inside])
        return at

    @staticmethod
    def width(op: tile.CopyOp, tensor: GlobalType, spread: Spread) -> int:
        """Elements of one access.

        The tensor's alignment holds for its base and for the length of a row, so rows hold whole
        vectors, and the guard of a vector's first element stands for all.
        """
        size, axes = element_bytes(tensor.element_type), op.tile_axes
        if not axes or axes[-1] != len(op.indices) - 1:
            return 1
        limit = min(most_at_once(tensor.element_type), max(tensor.align.data, size) // size)
        while limit > 1 and divisor(op.indices[-1]) % limit:
            limit //= 2
        return vector_width(spread, limit)


class LowerLoadFragment(_GlobalAccess):
    """Global to fragment: each thread loads the vectors that it holds; outside there are zeros."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        source, target = op.source.type, op.target.type
        if not isinstance(source, GlobalType) or not isinstance(target, FragmentType):
            return
        layout, spread = spread_of(op.target, op)
        width = self.width(op, source, spread)
        emit = Emit()
        registers = registers_of(emit, op.target)
        thread = thread_in_scope(emit, op)

        def body(inner: Emit, r: SSAValue) -> None:
            element = element_of(inner, layout, thread, r)
            at = self.coordinates(inner, op, op.tile_axes, element)
            load = hw.LoadGlobalOp(op.source, at, wide(source.element_type, width))
            store_registers(inner, inner.value(load), registers, r, width)

        emit.loop(layout.registers.data, body, step=width, unroll=True, hint="r")
        rewriter.replace(op, emit.ops, [])


class LowerStoreFragment(_GlobalAccess):
    """Fragment to global: each element is stored by the first thread that holds it."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        source, target = op.source.type, op.target.type
        if not isinstance(source, FragmentType) or not isinstance(target, GlobalType):
            return
        layout, spread = spread_of(op.source, op)
        width = self.width(op, target, spread)
        emit = Emit()
        registers = registers_of(emit, op.source)
        thread = thread_in_scope(emit, op)

        def body(inner: Emit, r: SSAValue) -> None:
            element = element_of(inner, layout, thread, r)
            at = self.coordinates(inner, op, op.tile_axes, element)
            value = load_registers(inner, registers, r, width)
            inner.op(hw.StoreGlobalOp(value, op.target, at))

        def loop(then: Emit) -> None:
            then.loop(layout.registers.data, body, step=width, unroll=True, hint="r")

        when_needed(emit, first_holders(emit, spread, op), loop)
        rewriter.replace(op, emit.ops, [])


class LowerAtomic(_GlobalAccess):
    """One atomic update an element, by the first thread that holds it."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.AtomicOp, rewriter: PatternRewriter) -> None:
        assert isinstance(op.fragment.type, FragmentType)
        layout, spread = spread_of(op.fragment, op)
        rank = len(op.indices)
        axes = range(rank - len(op.fragment.type.sizes), rank)
        emit = Emit()
        registers = registers_of(emit, op.fragment)
        thread = thread_in_scope(emit, op)

        def body(inner: Emit, r: SSAValue) -> None:
            at = self.coordinates(inner, op, axes, element_of(inner, layout, thread, r))
            value = inner.value(memref.LoadOp.get(registers, [r]))
            inner.op(hw.AtomicGlobalOp(op.kind.data, value, op.tensor, at))

        def loop(then: Emit) -> None:
            then.loop(layout.registers.data, body, unroll=True, hint="r")

        when_needed(emit, first_holders(emit, spread, op), loop)
        rewriter.replace(op, emit.ops, [])


class LowerSharedFragment(RewritePattern):
    """Between a shared tile and registers, by each thread; nothing orders threads here.

    With a window in the fragment the registers that lie in it move; those of one register number
    must do so in all threads or in none.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        ends = (op.source, op.target)
        fragment = next((v for v in ends if isinstance(v.type, FragmentType)), None)
        shared = next((v for v in ends if isinstance(v.type, SharedType)), None)
        if fragment is None or shared is None:
            return
        assert isinstance(fragment.type, FragmentType) and isinstance(shared.type, SharedType)
        kind = shared.type
        if kind.swizzle_bytes is None:
            raise PolycError("NoLayout", f"{kind} has no layout; run gpu-layout-inference", op)
        if not 1 <= len(kind.sizes) <= 2:
            raise PolycError(
                "UnsupportedCopy", f"a shared tile of one or two axes is copied, not {kind}", op
            )
        layout, spread = spread_of(fragment, op)
        sizes = kind.sizes[::-1] if op.transposes else kind.sizes
        start = [0] * len(sizes) if op.window is None else list(op.window.data)
        partial = fragment.type.sizes != sizes and all(
            n >= m for n, m in zip(fragment.type.sizes, sizes, strict=True)
        )
        # The shared coordinates are the fragment's less the window's start, or plus it.
        shift = start if partial else [-s for s in start]
        limit = most_at_once(kind.element_type)
        while kind.sizes[-1] % limit or start[-1] % limit:
            limit //= 2
        if kind.element_type == i1 and shared is op.source and not kind.sizes[-1] % 2:
            limit = BYTES_AT_ONCE if not start[-1] % BYTES_AT_ONCE else 1
        width = vector_width(spread, limit)
        line = None if op.line is None else op.line.value.data
        if line is not None:
            partial, width = False, 1
        if op.transposes:
            width = 1
        chosen = self.chosen(op, spread, sizes, shift, width) if partial else None
        emit = Emit()
        registers = registers_of(emit, fragment)
        thread = thread_in_scope(emit, op)
        loading = shared is op.source
        slot = (op.source_slot if loading else op.slot) or emit.index(0)

        def body(inner: Emit, r: SSAValue) -> None:
            element = element_of(inner, layout, thread, r, shift)
            if line is not None:
                element = self.in_line(inner, element, line, kind.sizes[-1])
            place = element[::-1] if op.transposes else element
            row = place[0] if len(place) == 2 else inner.index(0)
            address = inner.value(tile.ElementAddressOp(shared, slot, row, place[-1]))
            if loading:
                self.load(inner, address, kind.element_type, registers, r, width)
            else:
                value = load_registers(inner, registers, r, width)
                inner.op(hw.StoreSharedOp(value, address))

        def move(then: Emit) -> None:
            if chosen is None:
                then.loop(layout.registers.data, body, step=width, unroll=True, hint="r")
            else:
                for r in chosen:
                    body(then, then.index(r))

        if loading:
            move(emit)
        else:
            when_needed(emit, first_holders(emit, spread, op), move)
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def load(
        emit: Emit, address: SSAValue, element: Attribute, registers: SSAValue, r: SSAValue, n: int
    ) -> None:
        """Bring ``n`` neighbours to registers from ``r`` on; conditions as bytes, none of them 0
        that holds."""
        if element != i1 or n == 1:
            value = emit.value(hw.LoadSharedOp(address, wide(element, n)))
            store_registers(emit, value, registers, r, n)
            return
        found = emit.value(hw.LoadSharedOp(address, wide(i8, n)))
        zero = emit.value(arith.ConstantOp(IntegerAttr(0, i8)))
        for i in range(n):
            holds = emit.compare("ne", emit.value(hw.UnpackOp(found, i)), zero)
            at = emit.apply(affine_dim(0) + i, [r])
            emit.op(memref.StoreOp.get(holds, registers, [at]))

    @staticmethod
    def in_line(emit: Emit, element: Sequence[SSAValue], line: int, columns: int) -> list[SSAValue]:
        """Where the element of a line is in a tile, or the last one of that line."""
        number, place = element
        last = emit.value(arith.MinUIOp(place, emit.index(line - 1)))
        flat = emit.apply(affine_dim(0) * line + affine_dim(1), [number, last])
        if columns == line:
            return [number, last]
        return [
            emit.apply(affine_dim(0) // columns, [flat]),
            emit.apply(affine_dim(0) % columns, [flat]),
        ]

    @staticmethod
    def chosen(
        op: tile.CopyOp, spread: Spread, sizes: Sequence[int], start: Sequence[int], width: int
    ) -> list[int]:
        """The registers, by vectors, that lie in the window of the fragment."""
        found: list[int] = []
        for r in range(0, len(spread.registers), width):
            inside = {
                all(0 <= p - s < n for p, s, n in zip(spread.at(t, r), start, sizes, strict=True))
                for t in range(len(spread.threads))
            }
            if len(inside) > 1:
                raise PolycError(
                    "UnsupportedCopy",
                    f"register {r} of some threads lies in the window at {list(start)} and of "
                    "others does not; move the window or annotate another layout",
                    op,
                )
            if True in inside:
                found.append(r)
        return found


FRAGMENT_PATTERNS: list[RewritePattern] = [
    LowerLoadFragment(),
    LowerStoreFragment(),
    LowerAtomic(),
    LowerSharedFragment(),
]
"""One a direction."""
