"""Patterns that lower ``gpu.copy`` with ``im2col``: one tap of a convolution's pixels (S9.3).

A tile's rows are consecutive pixels of the output.  Its first one is at (image, row, column);
pixel (p, q) and tap (r, s) read the input at (p·stride - padding + r·dilation, and so along the
width).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.gpu.types import (
    GlobalType,
    SharedType,
    element_bytes,
)
from polyc.dialects.gpu.waiting import MBarrierType
from polyc.passes.support.gpu.scope import scope_of, thread_in_scope
from polyc.passes.support.gpu.symbols import enclosing_kernel, size_value
from polyc.passes.support.gpu.tile_copies import CHUNK_BYTES, tensor_map_argument
from polyc.rewriting.emit import Emit, affine_dim

OUTSIDE = -(1 << 24)
"""A row of the input that is outside it with any tap."""


def operands_of(op: tile.CopyOp) -> tuple[GlobalType, SharedType, Im2colAttr]:
    """The image's type, the tile's and the geometry; raises PolycError ``NoLayout`` while the tile
    has none."""
    source, target, geometry = op.source.type, op.target.type, op.im2col
    assert isinstance(source, GlobalType) and isinstance(target, SharedType)
    assert geometry is not None
    if target.swizzle_bytes is None:
        raise PolycError("NoLayout", f"{target} has no layout; run gpu-layout-inference", op)
    return source, target, geometry


def tap_of(emit: Emit, op: tile.CopyOp, geometry: Im2colAttr) -> list[SSAValue]:
    """How far the tap is from the filter's base."""
    return [
        emit.apply(affine_dim(0) * dilation, [at], hint=hint)
        for at, dilation, hint in zip(op.tap, geometry.dilations, ("down", "across"), strict=True)
    ]


def divided(emit: Emit, value: SSAValue, by: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Quotient and remainder, by pure ops: they leave loops."""
    quotient = emit.value(arith.FloorDivSIOp(value, by))
    whole = emit.value(arith.MuliOp(quotient, by))
    return quotient, emit.value(arith.SubiOp(value, whole))


def invariant_place(op: Operation, values: Sequence[SSAValue]) -> Operation:
    """The outermost loop or branch around ``op`` that all ``values`` are defined before."""
    found = op
    while isinstance(parent := found.parent_op(), scf.ForOp | scf.IfOp):
        if any(parent.is_ancestor(_home(value)) for value in values):
            break
        found = parent
    return found


def _home(value: SSAValue) -> Operation:
    """The op that defines a value, or the one whose region has it as an argument."""
    owner = value.owner
    if isinstance(owner, Operation):
        return owner
    home = owner.parent_op()
    assert home is not None
    return home


class LowerIm2colTma(RewritePattern):
    """One ``gpu.tma_load_im2col`` a panel of the tile, all on the copy's mbarrier.

    Legality: the tensor's pixels are 16-byte aligned (``gpu-pipeline-planning`` sees to it), and
    the geometry is within what a descriptor holds.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        if op.im2col is None or op.loader is None or op.loader.data != "tma":
            return
        _, target, geometry = operands_of(op)
        if op.signal is None or not isinstance(op.signal.type, MBarrierType):
            raise PolycError("NoBarrier", "a TMA copy signals an mbarrier; none is given", op)
        assert op.signal_index is not None
        pixels, channels = target.sizes
        width = target.panel_columns
        span = target.swizzle_bytes or 0
        try:
            kind = geometry.map_type(pixels, width, target.element_type, span)
        except VerifyException as error:
            raise PolycError("BadTmaSource", str(error), op) from None
        map_arg = tensor_map_argument(enclosing_kernel(op), op.source, kind, op)
        emit = Emit()
        base = emit.value(hw.SharedAddressOp(op.target, op.slot or emit.index(0)))
        image, row, column, channel = op.indices
        height, width_at = (
            emit.apply(affine_dim(0) * step - pad, [at])
            for at, step, pad in zip((row, column), geometry.steps, geometry.pads, strict=True)
        )
        offsets = tap_of(emit, op, geometry)
        for panel in range(channels // width):
            address, start = base, channel
            if panel:
                address = emit.value(arith.AddiOp(base, emit.int32(panel * target.panel_bytes)))
                start = emit.apply(affine_dim(0) + panel * width, [channel])
            place = [image, height, width_at, start]
            emit.op(
                hw.TmaLoadIm2colOp(map_arg, place, offsets, address, op.signal, op.signal_index)
            )
        rewriter.replace(op, emit.ops, [])


class _Gather(RewritePattern):
    """The threads of the scope copy chunks of pixels, neighbours neighbouring chunks.

    Where a pixel lies depends on the tile and the thread alone: that is computed before the loops
    and branches that do not change the tile.  What a tap adds is the same for all threads.  A
    chunk is read where its pixel is in its image and its channels in the tensor, and is zero
    elsewhere.
    """

    loader: str

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        if op.im2col is None or op.loader is None or op.loader.data != self.loader:
            return
        if op.planes is not None:
            return
        source, target, geometry = operands_of(op)
        turned = op.turned is not None
        pixels, channels = target.sizes[::-1] if turned else target.sizes
        elements = 1 if turned else self.chunk_elements(source)
        threads = scope_of(op).threads
        across = channels // elements if channels % elements == 0 else 0
        if not across or pixels * across % threads:
            raise PolycError(
                "UnsupportedCopy",
                f"{threads} threads gather whole chunks of {elements} channels each, and "
                f"{target} does not split so; change the tile or the number of threads",
                op,
            )
        early, emit = Emit(), Emit()
        kernel = enclosing_kernel(op)
        images, *extents, depth = (size_value(early, d, kernel) for d in source.dims)
        outputs = [size_value(early, d, kernel) for d in geometry.output_dims(*source.dims[1:3])]
        thread = thread_in_scope(early, op)
        offsets = tap_of(emit, op, geometry)
        tap = self.tap_offset(emit, offsets, op.indices[3], extents[1], depth)
        slot = op.slot or emit.index(0)
        for j in range(pixels * across // threads):
            chunk = affine_dim(0) + j * threads
            row = early.apply(chunk // across, [thread], hint="row")
            column = early.apply(chunk % across * elements, [thread], hint="column")
            place = self.pixel(early, op, geometry, row, outputs, images)
            offset = self.pixel_offset(early, place, extents, depth, column)
            inside: SSAValue | None = None
            for at, further, extent in zip(place[1:], offsets, extents, strict=True):
                here = emit.apply(affine_dim(0) + affine_dim(1), [at, further])
                inside = emit.both(inside, emit.compare("ult", here, extent))
            first = emit.apply(affine_dim(0) + affine_dim(1), [op.indices[3], column])
            within = (column, row) if turned else (row, column)
            address = emit.value(tile.ElementAddressOp(op.target, slot, *within))
            total = emit.value(arith.AddiOp(offset, tap))
            assert inside is not None
            self.move(emit, op, address, total, inside, first, depth, elements)
        rewriter.insert(early.ops, InsertPoint.before(invariant_place(op, op.indices[:3])))
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def pixel(
        emit: Emit,
        op: tile.CopyOp,
        geometry: Im2colAttr,
        row: SSAValue,
        outputs: list[SSAValue],
        images: SSAValue,
    ) -> tuple[SSAValue, SSAValue, SSAValue]:
        """Image, row and column of the filter's base for a row of the tile.

        Past the last image, the row is far outside.
        """
        image, p, q, _ = op.indices
        along = emit.apply(affine_dim(0) + affine_dim(1), [q, row])
        lines, column = divided(emit, along, outputs[1])
        down = emit.value(arith.AddiOp(p, lines))
        more, line = divided(emit, down, outputs[0])
        at = emit.value(arith.AddiOp(image, more))
        (step_h, step_w), (pad_h, pad_w) = geometry.steps, geometry.pads
        height = emit.apply(affine_dim(0) * step_h - pad_h, [line])
        width = emit.apply(affine_dim(0) * step_w - pad_w, [column])
        there = emit.compare("slt", at, images)
        height = emit.value(arith.SelectOp(there, height, emit.index(OUTSIDE)))
        return at, height, width

    @staticmethod
    def pixel_offset(
        emit: Emit,
        place: tuple[SSAValue, SSAValue, SSAValue],
        extents: list[SSAValue],
        depth: SSAValue,
        column: SSAValue,
    ) -> SSAValue:
        """Where a pixel's chunk begins for the first tap and channel, in 64 bits."""
        total = emit.value(arith.IndexCastOp(place[0], i64))
        for at, size in zip((*place[1:], column), (*extents, depth), strict=True):
            wide = emit.value(arith.IndexCastOp(size, i64))
            total = emit.value(arith.MuliOp(total, wide))
            total = emit.value(arith.AddiOp(total, emit.value(arith.IndexCastOp(at, i64))))
        return total

    @staticmethod
    def tap_offset(
        emit: Emit, offsets: list[SSAValue], channel: SSAValue, width: SSAValue, depth: SSAValue
    ) -> SSAValue:
        """What the tap and the first channel add to a pixel's offset, in 64 bits."""
        down, across = offsets
        line = emit.value(arith.MuliOp(down, width))
        pixel = emit.value(arith.AddiOp(line, across))
        wide = emit.value(arith.IndexCastOp(pixel, i64))
        total = emit.value(arith.MuliOp(wide, emit.value(arith.IndexCastOp(depth, i64))))
        return emit.value(arith.AddiOp(total, emit.value(arith.IndexCastOp(channel, i64))))

    @abstractmethod
    def chunk_elements(self, source: GlobalType) -> int:
        """Channels that one thread moves at once."""

    @abstractmethod
    def move(
        self,
        emit: Emit,
        op: tile.CopyOp,
        address: SSAValue,
        offset: SSAValue,
        inside: SSAValue,
        channel: SSAValue,
        channels: SSAValue,
        elements: int,
    ) -> None:
        """Move ``elements`` from an offset of the source to a shared address.

        ``inside`` says whether the pixel is in its image; ``channel`` is the first one, of
        ``channels`` in the tensor.
        """


class LowerIm2colCpAsync(_Gather):
    """Each thread issues cp.async of the widest chunk that the pixels' alignment allows."""

    loader = "cp_async"

    def chunk_elements(self, source: GlobalType) -> int:
        size = element_bytes(source.element_type)
        return min(CHUNK_BYTES, max(source.align.data, size)) // size

    def move(
        self,
        emit: Emit,
        op: tile.CopyOp,
        address: SSAValue,
        offset: SSAValue,
        inside: SSAValue,
        channel: SSAValue,
        channels: SSAValue,
        elements: int,
    ) -> None:
        assert isinstance(op.source.type, GlobalType)
        guard = emit.both(inside, emit.compare("slt", channel, channels))
        size = elements * element_bytes(op.source.type.element_type)
        emit.op(hw.CpAsyncOp(address, op.source, [offset], size, guard))


class LowerIm2colRegister(_Gather):
    """Each thread loads the channels of a 16-byte chunk one by one and stores them at once."""

    loader = "register"

    def chunk_elements(self, source: GlobalType) -> int:
        return CHUNK_BYTES // element_bytes(source.element_type)

    def move(
        self,
        emit: Emit,
        op: tile.CopyOp,
        address: SSAValue,
        offset: SSAValue,
        inside: SSAValue,
        channel: SSAValue,
        channels: SSAValue,
        elements: int,
    ) -> None:
        assert isinstance(op.source.type, GlobalType)
        values: list[SSAValue] = []
        for e in range(elements):
            at = emit.apply(affine_dim(0) + e, [channel])
            guard = emit.both(inside, emit.compare("slt", at, channels))
            step = emit.value(arith.IndexCastOp(emit.index(e), i64))
            place = emit.value(arith.AddiOp(offset, step))
            load = hw.LoadGlobalOp(op.source, [place], op.source.type.element_type, guard)
            values.append(emit.value(load))
        emit.op(hw.StoreSharedOp(emit.value(hw.PackOp(values)), address))


IM2COL_PATTERNS: list[RewritePattern] = [
    LowerIm2colTma(),
    LowerIm2colCpAsync(),
    LowerIm2colRegister(),
]
"""The lowerings of im2col copies, one a loader."""
