"""Patterns that lower ``gpu.copy``: one a loader (S9.3)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.im2col import Im2colMapType
from polyc.dialects.gpu.types import (
    FragmentType,
    GlobalType,
    SharedType,
    TensorMapType,
    element_bytes,
    vector_of,
)
from polyc.dialects.gpu.waiting import MBarrierType
from polyc.passes.support.gpu.scope import (
    enclosing_role,
    leader,
    scope_barrier,
    scope_of,
    thread_in_scope,
)
from polyc.passes.support.gpu.symbols import bound_memory, enclosing_kernel
from polyc.rewriting.emit import Emit, affine_dim

CHUNK_BYTES = 16
"""What one thread moves at once where alignment allows: a swizzle permutes such chunks."""


def _types(op: tile.CopyOp) -> tuple[GlobalType, SharedType]:
    """The types of the tensor and of the tile."""
    tensor, shared = op.source.type, op.target.type
    if op.is_store:
        tensor, shared = shared, tensor
    assert isinstance(tensor, GlobalType) and isinstance(shared, SharedType)
    if len(shared.sizes) != 2:
        raise PolycError("UnsupportedCopy", f"a copied tile has two axes, not {shared}", op)
    if shared.swizzle_bytes is None:
        raise PolycError("NoLayout", f"{shared} has no layout; run gpu-layout-inference", op)
    return tensor, shared


def is_tf32_alone(shared: SSAValue) -> bool:
    """Whether contracts read a tile as TF32, from shared memory or by a fragment of it, and nothing
    else reads it."""
    readers = set(_readers(shared))
    for user in [*readers]:
        if isinstance(user, tile.CopyOp) and isinstance(user.target.type, FragmentType):
            readers.remove(user)
            readers.update(_readers(user.target))
    return bool(readers) and all(isinstance(r, tile.ContractOp) and r.is_tf32 for r in readers)


def _readers(value: SSAValue) -> Iterator[Operation]:
    """The ops that use a tile or a fragment, but for copies that fill it."""
    for use in value.uses:
        if not (isinstance(use.operation, tile.CopyOp) and use.operation.target is value):
            yield use.operation


def tensor_map_argument(
    kernel: gpu.KernelOp,
    source: SSAValue,
    kind: TensorMapType | Im2colMapType,
    op: tile.CopyOp,
) -> SSAValue:
    """The kernel's argument for a tensor map over ``source``; added when it is not there.

    Where tensor cores alone read what it loads, and take TF32 of it, it is rounded on its way: cut
    off, all sums of numbers of one sign are too small by a thousandth.
    """
    kind = kind.rounding() if op.is_load and is_tf32_alone(op.target) else kind
    if not isinstance(source, BlockArgument) or source.block is not kernel.body.block:
        raise PolycError("BadTmaSource", "TMA copies from a tensor argument of the kernel", op)
    binding = kernel.bindings.data[source.index]
    assert isinstance(source.type, GlobalType)
    memory = bound_memory(kernel, binding)
    viewed = memory is not None and memory.shape != source.type.shape
    binding = binding.as_tensor_map(source.type.dims if viewed else None)
    if binding is None:
        raise PolycError("BadTmaSource", "this argument is not bound to a tensor", op)
    for arg, bound in zip(kernel.body.block.args, kernel.bindings, strict=True):
        if bound == binding and arg.type == kind:
            return arg
    block = kernel.body.block
    new = block.insert_arg(kind, len(block.args))
    new.name_hint = f"{source.name_hint or f't{source.index}'}_map"
    kernel.properties["bindings"] = type(kernel.bindings)([*kernel.bindings.data, binding])
    return new


class LowerTmaCopy(RewritePattern):
    """One ``gpu.tma_load`` a panel of the tile, all on the copy's mbarrier.

    The box is a whole panel: as many rows as the tile, as many columns as the swizzle spans, and
    one of every axis that the tile does not run along.  Of a multicast copy each CTA of the cluster
    loads its share of the panels and sends it to all.  The first thread of a producer starts them,
    where others load beside it.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        if not op.is_load or op.loader is None or op.loader.data != "tma" or op.im2col is not None:
            return
        _, target = _types(op)
        if op.signal is None or not isinstance(op.signal.type, MBarrierType):
            raise PolycError("NoBarrier", "a TMA copy signals an mbarrier; none is given", op)
        assert op.signal_index is not None
        rows, columns = target.sizes
        width = target.panel_columns
        cluster = self.sharing(op, columns // width)
        across, along = op.tile_axes
        sizes = [1] * len(op.indices)
        sizes[across], sizes[along] = rows, width
        box = TensorMapType.of(sizes, target.element_type, target.swizzle_bytes or 0)
        map_arg = tensor_map_argument(enclosing_kernel(op), op.source, box, op)
        emit = Emit()
        base = emit.value(hw.SharedAddressOp(op.target, op.slot or emit.index(0)))
        column = op.indices[along]
        panels = columns // width
        mask: SSAValue | None = None
        if cluster > 1:
            # CTA r loads its share of the panels, from panel r * share on, and sends it to all.
            mask = emit.int32((1 << cluster) - 1)
            panels //= cluster
            rank = emit.value(hw.ClusterRankOp(), "rank")
            shift = emit.apply(affine_dim(0) * (panels * target.panel_bytes), [rank])
            base = emit.value(arith.AddiOp(base, emit.value(arith.IndexCastOp(shift, i32))))
            column = emit.apply(affine_dim(0) + affine_dim(1) * (panels * width), [column, rank])
        signal, number = op.signal, op.signal_index

        def start(then: Emit) -> None:
            for panel in range(panels):
                address, first = base, column
                if panel:
                    address = then.value(arith.AddiOp(base, then.int32(panel * target.panel_bytes)))
                    first = then.apply(affine_dim(0) + panel * width, [column])
                place = [first if axis == along else c for axis, c in enumerate(op.indices)]
                hint = None if op.cache is None else op.cache.data
                then.op(hw.TmaLoadOp(map_arg, place, address, signal, number, mask, hint))

        alone = leader(emit, op) if enclosing_role(op)[1] is not None else None
        if alone is None:
            start(emit)
        else:
            emit.when(alone, start)
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def sharing(op: tile.CopyOp, panels: int) -> int:
        """The CTAs that share a multicast copy, each with as many whole panels; 1 for others."""
        if op.multicast is None:
            return 1
        cluster = enclosing_kernel(op).cluster_size
        if cluster == 1 or panels % cluster:
            raise PolycError(
                "BadMulticast",
                f"{panels} panels of {op.target.type} do not split among the {cluster} CTAs of a "
                "cluster; give the kernel a cluster of 2 or more and the tile as many panels of "
                "its swizzle's span, or a multiple",
                op,
            )
        return cluster


class _ThreadCopy(RewritePattern):
    """All threads of the CTA copy chunks of a row, neighbours neighbouring chunks.

    A turned tile is copied by elements, neighbours neighbouring ones in the tensor.  Of a tile in
    pages it is known when compiling which of them a turn's rows are in, or among which few.
    """

    loader: str
    stores = False
    """Whether the tile goes to the tensor."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        moves = op.is_store if self.stores else op.is_load
        if not moves or op.loader is None or op.loader.data != self.loader:
            return
        if op.im2col is not None:
            return
        tensor, shared = _types(op)
        turned = op.turned is not None
        rows, columns = shared.sizes[::-1] if turned else shared.sizes
        elements = 1 if turned else self.chunk_elements(tensor)
        if columns % elements:
            raise PolycError(
                "UnsupportedCopy",
                f"{self.loader} moves {elements} elements at once and rows of {shared} have "
                f"{columns}; make rows a multiple of {elements}",
                op,
            )
        if op.wraps is not None:
            check_wraps(op, elements)
        across = columns // elements
        chunks = rows * across
        threads = scope_of(op).threads
        emit = Emit()
        if self.stores:
            scope_barrier(emit, op)
        thread = thread_in_scope(emit, op)
        held, slot = (op.source, op.source_slot) if self.stores else (op.target, op.slot)
        slot = slot or emit.index(0)
        chunk = affine_dim(0) + affine_dim(1) * threads
        start = list(op.indices)
        high, wide = op.tile_axes
        # Where the threads fill whole rows at once, a thread stays in its column, and what it
        # addresses moves on by the same number of rows each time.
        first = own = None
        down = affine_dim(0) + affine_dim(1) * (threads // across)
        if threads % across == 0:
            first = emit.apply(affine_dim(0) // across, [thread], hint="first_row")
            own = emit.apply(affine_dim(0) % across * elements, [thread], hint="column")
            start[high] = emit.apply(affine_dim(0) + affine_dim(1), [start[high], first])
            start[wide] = emit.apply(affine_dim(0) + affine_dim(1), [start[wide], own])
            wrap(emit, op, start)

        def body(inner: Emit, j: SSAValue, among: range | None = None) -> None:
            at = list(start)
            if first is not None and own is not None:
                row, column = inner.apply(down, [first, j], hint="row"), own
                at[high] = inner.apply(down, [at[high], j])
            else:
                row = inner.apply(chunk // across, [thread, j], hint="row")
                column = inner.apply(chunk % across * elements, [thread, j], hint="column")
                for axis, inside in ((high, row), (wide, column)):
                    at[axis] = inner.apply(affine_dim(0) + affine_dim(1), [at[axis], inside])
                wrap(inner, op, at)
            if among is not None:
                self.to_page(inner, op, at, row, among)

            def move(then: Emit) -> None:
                place = (column, row) if turned else (row, column)
                address = then.value(tile.ElementAddressOp(held, slot, *place))
                self.move(then, op, address, at, elements)

            if chunks % threads:
                number = inner.apply(chunk, [thread, j], hint="chunk")
                inner.when(inner.compare("slt", number, inner.index(chunks)), move)
            else:
                move(inner)

        turns = -(-chunks // threads)
        if op.across is None:
            emit.loop(turns, body, unroll=True, hint="j")
            rewriter.replace(op, emit.ops, [])
            return
        run = rows // (len(op.pages) + 1)
        whole = threads % across == 0 and run * across % threads == 0
        each = run * across // threads if whole else 1
        for turn in range(0, turns, each):
            last = min(chunks, (turn + each) * threads) - 1
            among = range(turn * threads // across, last // across + 1)
            page = partial(body, among=among)
            emit.loop(turn + each, page, unroll=True, hint="j", start=turn)
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def to_page(
        emit: Emit, op: tile.CopyOp, at: list[SSAValue], row: SSAValue, among: range
    ) -> None:
        """Move coordinates ``at`` to the page of a ``row``, which is ``among`` some of the tile."""
        assert op.across is not None and isinstance(op.target.type, SharedType)
        high, across = op.tile_axes[0], op.across.value.data
        pages = [op.indices[across], *op.pages]
        run = op.target.type.sizes[0] // len(pages)
        runs = range(among.start // run, (among.stop - 1) // run + 1)
        inside = affine_dim(0) % run if len(runs) > 1 else affine_dim(0) - runs.start * run
        at[high] = emit.apply(affine_dim(1) + inside, [row, op.indices[high]])
        at[across] = pages[runs.start]
        for number in runs[1:]:
            behind = emit.compare("sge", row, emit.index(number * run))
            at[across] = emit.value(arith.SelectOp(behind, pages[number], at[across]))

    @abstractmethod
    def chunk_elements(self, tensor: GlobalType) -> int:
        """Elements that one thread moves at once."""

    @abstractmethod
    def move(
        self, emit: Emit, op: tile.CopyOp, address: SSAValue, at: list[SSAValue], elements: int
    ) -> None:
        """Move ``elements`` between coordinates ``at`` of the tensor and a shared address."""


class LowerCpAsyncCopy(_ThreadCopy):
    """Each thread issues cp.async of the widest chunk that the rows' alignment allows."""

    loader = "cp_async"

    def chunk_elements(self, tensor: GlobalType) -> int:
        return widest(tensor)

    def move(
        self, emit: Emit, op: tile.CopyOp, address: SSAValue, at: list[SSAValue], elements: int
    ) -> None:
        assert isinstance(op.source.type, GlobalType)
        size = elements * element_bytes(op.source.type.element_type)
        emit.op(hw.CpAsyncOp(address, op.source, at, size))


class LowerRegisterCopy(_ThreadCopy):
    """Each thread loads the elements of a 16-byte chunk one by one and stores them at once.

    It takes rows of any alignment.
    """

    loader = "register"

    def chunk_elements(self, tensor: GlobalType) -> int:
        return CHUNK_BYTES // element_bytes(tensor.element_type)

    def move(
        self, emit: Emit, op: tile.CopyOp, address: SSAValue, at: list[SSAValue], elements: int
    ) -> None:
        assert isinstance(op.source.type, GlobalType)
        values: list[SSAValue] = []
        for e in range(elements):
            column = emit.apply(affine_dim(0) + e, [at[-1]])
            load = hw.LoadGlobalOp(op.source, [*at[:-1], column], op.source.type.element_type)
            values.append(emit.value(load))
        emit.op(hw.StoreSharedOp(emit.value(hw.PackOp(values)), address))


class LowerRegisterStore(_ThreadCopy):
    """Each thread brings chunks of a tile's rows to the tensor, as wide as these are aligned.

    The threads of the scope meet before, so that all of the tile is there; ``gpu-store-waits`` lets
    them meet again before it is filled anew.  Chunks outside the tensor are not written: rows hold
    whole ones, so that ``gpu-legalize-access`` guards each by its first element.
    """

    loader = "register"
    stores = True

    def chunk_elements(self, tensor: GlobalType) -> int:
        return widest(tensor)

    def move(
        self, emit: Emit, op: tile.CopyOp, address: SSAValue, at: list[SSAValue], elements: int
    ) -> None:
        assert isinstance(op.target.type, GlobalType)
        element = op.target.type.element_type
        kind = element if elements == 1 else vector_of(element, elements)
        value = emit.value(hw.LoadSharedOp(address, kind))
        emit.op(hw.StoreGlobalOp(value, op.target, at))


def check_wraps(op: tile.CopyOp, width: int) -> None:
    """Refuse columns that go on across an axis in parts of ``width`` that do not end with one."""
    tensor = op.target.type
    assert isinstance(tensor, GlobalType)
    size = tensor.dims[op.tile_axes[1]].constant()
    if size is None or size % width:
        said = "of unknown size" if size is None else f"of {size} points"
        raise PolycError(
            "UnsupportedCopy",
            f"columns of a tile go on across an axis {width} at once, and the last axis of "
            f"{tensor} is {said}; make it a known multiple of {width}, or its rows less aligned",
            op,
        )


def wrap(emit: Emit, op: tile.CopyOp, place: list[SSAValue]) -> None:
    """Move coordinates that are beyond the end of a tensor's last axis to where they are."""
    if op.wraps is None:
        return
    assert isinstance(op.target.type, GlobalType)
    across, along = op.wraps.value.data, op.tile_axes[1]
    size = op.target.type.dims[along].constant()
    assert size is not None, "check_wraps says so"
    number = place[along]
    further = emit.apply(affine_dim(0) + affine_dim(1) // size, [place[across], number])
    place[across], place[along] = further, emit.apply(affine_dim(0) % size, [number])


def widest(tensor: GlobalType) -> int:
    """The most elements of a row of a tensor that one access of up to 16 bytes takes."""
    size = element_bytes(tensor.element_type)
    return min(CHUNK_BYTES, max(tensor.align.data, size)) // size
