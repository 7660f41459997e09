"""Tile level: ``gpu.copy``, how tiles move (T3, S9.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from xdsl.dialects.builtin import IndexType, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.hardware.checks import verify_cache_hint
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.gpu.tile.flow import verify_stage
from polyc.dialects.gpu.types import (
    FragmentType,
    GlobalType,
    IndexAttr,
    IntsAttr,
    SharedType,
    element_bytes,
    index_attr,
)
from polyc.dialects.gpu.waiting import MBarrierType, RingType, TokenType

LOADERS = ("tma", "cp_async", "register")
"""How a tile travels between global and shared memory (S9.3)."""

CP_ASYNC_LEAST = 4
"""The least bytes that one cp.async moves."""


@dataclass(frozen=True)
class CopyEnd:
    """One end of a copy: ``value``, ``at`` coordinates of a tensor, or at a ``slot`` of a ring."""

    value: SSAValue
    at: Sequence[SSAValue] = ()
    slot: SSAValue | None = None

    def print(self, printer: Printer) -> None:
        """`` VALUE[AT] slot SLOT``."""
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        if isinstance(self.value.type, GlobalType):
            printer.print_string("[")
            printer.print_list(self.at, printer.print_ssa_value)
            printer.print_string("]")
        if self.slot is not None:
            printer.print_string(" slot ")
            printer.print_ssa_value(self.slot)


@dataclass(frozen=True)
class _UntypedEnd:
    """An end as it is read, before its type."""

    value: UnresolvedOperand
    at: Sequence[SSAValue]
    slot: SSAValue | None

    @staticmethod
    def parse(parser: Parser) -> _UntypedEnd:
        value = parser.parse_unresolved_operand()
        at = parser.parse_optional_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_unresolved_operand
        )
        places = [parser.resolve_operand(v, IndexType()) for v in at or ()]
        return _UntypedEnd(value, places, _parse_index(parser, "slot"))

    def of(self, parser: Parser, kind: Attribute) -> CopyEnd:
        return CopyEnd(parser.resolve_operand(self.value, kind), self.at, self.slot)


def _parse_index(parser: Parser, word: str) -> SSAValue | None:
    """An index after ``word``, where that is there."""
    if parser.parse_optional_keyword(word) is None:
        return None
    return parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())


@dataclass(frozen=True)
class CopyView:
    """Which elements of the larger end are copied, where they are not all that the types say.

    ``window`` is where the part of the larger tile begins, ``axes`` the axes of the tensor that the
    tile runs along, and ``im2col`` with ``tap`` how pixels of an image become the tile's rows.
    A ``turned`` tile has its rows as columns.  ``pages`` are where further runs of rows lie along
    the axis ``across``.  ``line`` is of a shared tile whose elements, row by row, are lines of so
    many, which a fragment takes as its rows; its columns behind the end of a line have the last one
    of that.  With ``planes`` the image of ``im2col`` has a plane for each channel, and the tile a
    row, or without a ``tap`` one for each tap of each channel.  The columns of a tile that leave
    the tensor's last axis go on at its start, in the next point of the axis ``wraps``.
    """

    window: Sequence[int] | None = None
    axes: Sequence[int] | None = None
    im2col: Im2colAttr | None = None
    tap: Sequence[SSAValue] = ()
    turned: bool = False
    pages: Sequence[SSAValue] = ()
    across: int | None = None
    line: int | None = None
    planes: bool = False
    wraps: int | None = None

    @staticmethod
    def parse(parser: Parser) -> CopyView:
        pos = parser.pos
        window = axes = im2col = None
        tap: Sequence[SSAValue] = ()
        if parser.parse_optional_keyword("window") is not None:
            window = IntsAttr.parse_parameter(parser)
        if parser.parse_optional_keyword("axes") is not None:
            axes = IntsAttr.parse_parameter(parser)
        if parser.parse_optional_keyword("im2col") is not None:
            im2col = parser.parse_attribute()
            if not isinstance(im2col, Im2colAttr):
                parser.raise_error("im2col is followed by a #gpu.im2col", pos, parser.pos)
            names: Sequence[UnresolvedOperand] = ()
            if parser.parse_optional_keyword("tap") is not None:
                names = parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, parser.parse_unresolved_operand
                )
            tap = [parser.resolve_operand(v, IndexType()) for v in names]
        planes = parser.parse_optional_keyword("planes") is not None
        turned = parser.parse_optional_keyword("turned") is not None
        pages: Sequence[SSAValue] = ()
        across: int | None = None
        if parser.parse_optional_keyword("pages") is not None:
            names = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_unresolved_operand
            )
            pages = [parser.resolve_operand(v, IndexType()) for v in names]
            parser.parse_keyword("across")
            across = parser.parse_integer(allow_boolean=False, allow_negative=False)
        line = parser.parse_integer() if parser.parse_optional_keyword("line") is not None else None
        wraps: int | None = None
        if parser.parse_optional_keyword("wraps") is not None:
            wraps = parser.parse_integer(allow_boolean=False, allow_negative=False)
        return CopyView(window, axes, im2col, tap, turned, pages, across, line, planes, wraps)

    def print(self, printer: Printer) -> None:
        for word, numbers in (("window", self.window), ("axes", self.axes)):
            if numbers is not None:
                printer.print_string(f" {word} ")
                IntsAttr(tuple(numbers)).print_parameter(printer)
        if self.im2col is not None:
            printer.print_string(" im2col ")
            printer.print_attribute(self.im2col)
            if self.tap:
                printer.print_string(" tap [")
                printer.print_list(self.tap, printer.print_ssa_value)
                printer.print_string("]")
        if self.planes:
            printer.print_string(" planes")
        if self.turned:
            printer.print_string(" turned")
        if self.across is not None:
            printer.print_string(" pages [")
            printer.print_list(self.pages, printer.print_ssa_value)
            printer.print_string(f"] across {self.across}")
        if self.line is not None:
            printer.print_string(f" line {self.line}")
        if self.wraps is not None:
            printer.print_string(f" wraps {self.wraps}")


@dataclass(frozen=True)
class CopyTravel:
    """How a tile travels between global and shared memory.

    ``loader`` is one of LOADERS; with ``multicast`` each CTA of the cluster loads a share of it for
    all; ``cache`` is a hint for the L2 cache; ``store_groups`` are the groups of threads that each
    store a part, once their waits are there.
    """

    loader: str | None = None
    multicast: bool = False
    cache: str | None = None
    store_groups: int | None = None

    @staticmethod
    def parse(parser: Parser) -> CopyTravel:
        def string(word: str) -> str | None:
            found = parser.parse_optional_keyword(word)
            return None if found is None else parser.parse_str_literal()

        loader = string("loader")
        multicast = parser.parse_optional_keyword("multicast") is not None
        cache = string("cache")
        groups: int | None = None
        if parser.parse_optional_keyword("store_groups") is not None:
            groups = parser.parse_integer()
        return CopyTravel(loader, multicast, cache, groups)

    def print(self, printer: Printer) -> None:
        if self.loader is not None:
            printer.print_string(" loader ")
            printer.print_string_literal(self.loader)
        if self.multicast:
            printer.print_string(" multicast")
        if self.cache is not None:
            printer.print_string(" cache ")
            printer.print_string_literal(self.cache)
        if self.store_groups is not None:
            printer.print_string(f" store_groups {self.store_groups}")


@dataclass(frozen=True)
class CopySignal:
    """What a copy's bytes complete: the full barrier of a ring at an iteration, or an mbarrier.

    A text may leave the index out, which the verifier then says.
    """

    barrier: SSAValue
    index: SSAValue | None

    @staticmethod
    def parse(parser: Parser) -> CopySignal | None:
        if parser.parse_optional_keyword("signal") is None:
            return None
        barrier = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        resolved = parser.resolve_operand(barrier, parser.parse_type())
        return CopySignal(resolved, _parse_index(parser, "at"))


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Copy a tile between global memory, shared tiles and fragments.

    The operands' types decide: global to shared (a load), shared to global (a store),
    fragment to and from shared or global.  ``indices`` are the tile's first coordinates in the
    tensor, with the tensor's leading axes picked where the tile has fewer; elements outside the
    tensor arrive as zeros and are not written.  Nothing is converted.

    ``slot`` and ``source_slot`` pick a tile of a ring.  ``window`` is where, in the larger of two
    tiles, the copied part begins.  ``loader`` is how the tile travels between global and shared
    memory: ``tma`` by the copy engine, ``cp_async`` by each thread asynchronously (loads only),
    ``register`` through registers; absent until ``gpu-pipeline-planning`` decides.  With
    ``signal`` a load's bytes complete on the full barrier of that ring (at iteration
    ``signal_index``), or on an mbarrier.  With ``multicast`` every CTA of the cluster copies the
    same tile: each loads its share and sends it to all.  ``cache`` is a hint for the L2 cache
    (``gpu-cache-hints``).  An asynchronous copy that nothing
    signals may give a ``token`` for ``gpu.await``: of a load, the tile may be read; of a store,
    the tile may be overwritten.  ``store_groups`` says of a TMA store that its waits are there
    (``gpu-store-waits``), and how many groups of threads store their own part of the tile.
    ``stage`` is the copy's in its pipeline (``gpu-pipeline-planning``).

    ``axes`` are the axes of the tensor that the tile runs along, where they are not its last ones;
    the others are picked.  With ``im2col`` the tile is ``[pixels, channels]`` of a convolution's
    input ``[N, H, W, C]``: ``indices`` are image, row, column and channel of the tile's first pixel
    *of the output*, ``tap`` is the filter's row and column, the tile's rows are consecutive pixels
    of the output (along its rows, then its images), and padding arrives as zeros.  With ``planes``
    the input is ``[N, C, H, W]`` and the tile ``[channels, pixels]``: ``indices`` are image,
    channel, row and column, and pixels behind the last one of the image arrive as zeros.  Without
    a ``tap`` the rows are those of whole windows, the taps of a channel row by row and those of the
    next: ``indices`` have the first one's number among them in the channel's place.  Threads
    load such a tile; in a pipeline of wgmma those of the producer do, and a load's end signals the
    ring.

    ``turned`` is of a load by cp.async, element by element: the tile is stored transposed, so that
    ``[k, m]`` is loaded of what lies as ``[m, k]``.  Axes and im2col say what it is of.  Or a
    fragment goes to a shared tile transposed, all of it or from a ``window`` of it on.

    With ``wraps 0`` a tile that is stored has columns that lie in several points of axis 0 of the
    tensor: those beyond the end of its last axis are at the start of that, one point further, as
    the pixels of several images ``[N, C, H * W]`` are.

    With ``pages [%p1, %p2] across 0`` the rows of a load by threads are as many runs of equal
    length as there are pages, and one: the first lies at ``indices``, the others at ``%p1`` and
    ``%p2`` along axis 0 of the tensor and else where the first does, as tokens in the pages of a
    cache.
    """

    name = "gpu.copy"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    source = operand_def(base(GlobalType) | base(SharedType) | base(FragmentType))
    indices = var_operand_def(IndexType)
    tap = var_operand_def(IndexType)
    pages = var_operand_def(IndexType)
    source_slot = opt_operand_def(IndexType)
    target = operand_def(base(GlobalType) | base(SharedType) | base(FragmentType))
    slot = opt_operand_def(IndexType)
    signal = opt_operand_def(base(RingType) | base(MBarrierType))
    signal_index = opt_operand_def(IndexType)
    loader = opt_prop_def(StringAttr)
    window = opt_prop_def(IntsAttr)
    axes = opt_prop_def(IntsAttr)
    im2col = opt_prop_def(Im2colAttr)
    turned = opt_prop_def(UnitAttr)
    across = opt_prop_def(IndexAttr)
    line = opt_prop_def(IndexAttr)
    planes = opt_prop_def(UnitAttr)
    wraps = opt_prop_def(IndexAttr)
    multicast = opt_prop_def(UnitAttr)
    cache = opt_prop_def(StringAttr)
    store_groups = opt_prop_def(IndexAttr)
    stage = opt_prop_def(IndexAttr)
    token = opt_result_def(TokenType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        source: CopyEnd,
        target: CopyEnd,
        view: CopyView = CopyView(),
        travel: CopyTravel = CopyTravel(),
        signal: CopySignal | None = None,
        *,
        stage: int | None = None,
        token: bool = False,
    ) -> None:
        super().__init__(
            operands=[
                source.value,
                [*source.at, *target.at],
                list(view.tap),
                list(view.pages),
                source.slot,
                target.value,
                target.slot,
                None if signal is None else signal.barrier,
                None if signal is None else signal.index,
            ],
            properties={
                "loader": None if travel.loader is None else StringAttr(travel.loader),
                "window": None if view.window is None else IntsAttr(tuple(view.window)),
                "axes": None if view.axes is None else IntsAttr(tuple(view.axes)),
                "im2col": view.im2col,
                "turned": UnitAttr() if view.turned else None,
                "across": None if view.across is None else index_attr(view.across),
                "line": None if view.line is None else index_attr(view.line),
                "planes": UnitAttr() if view.planes else None,
                "wraps": None if view.wraps is None else index_attr(view.wraps),
                "multicast": UnitAttr() if travel.multicast else None,
                "cache": None if travel.cache is None else StringAttr(travel.cache),
                "store_groups": (
                    None if travel.store_groups is None else index_attr(travel.store_groups)
                ),
                "stage": None if stage is None else index_attr(stage),
            },
            result_types=[TokenType() if token else None],
        )

    def like(
        self,
        *,
        slot: SSAValue | None = None,
        source_slot: SSAValue | None = None,
        signal: CopySignal | None = None,
        loader: str | None = None,
        indices: Sequence[SSAValue] | None = None,
    ) -> CopyOp:
        """The same copy with what is given replaced; attributes and location come along.

        A copy that signals gives no token.
        """
        source, target = self.ends
        if indices is not None and self.is_load:
            source = replace(source, at=indices)
        elif indices is not None:
            target = replace(target, at=indices)
        new = CopyOp(
            source if source_slot is None else replace(source, slot=source_slot),
            target if slot is None else replace(target, slot=slot),
            self.view,
            self.travel if loader is None else replace(self.travel, loader=loader),
            signal or self.signals,
            stage=None if self.stage is None else self.stage.value.data,
            token=self.token is not None and signal is None,
        )
        new.attributes.update(self.attributes)
        new.location = self.location
        return new

    @property
    def ends(self) -> tuple[CopyEnd, CopyEnd]:
        """Where the copy begins and ends; the coordinates are those of the end that is a tensor."""
        given = tuple(self.indices)
        stores = isinstance(self.target.type, GlobalType)
        return (
            CopyEnd(self.source, () if stores else given, self.source_slot),
            CopyEnd(self.target, given if stores else (), self.slot),
        )

    @property
    def view(self) -> CopyView:
        """Which elements of the larger end are copied."""
        window = None if self.window is None else self.window.data
        axes = None if self.axes is None else self.axes.data
        across = None if self.across is None else self.across.value.data
        turned = self.turned is not None
        line = None if self.line is None else self.line.value.data
        tap, pages, planes = tuple(self.tap), tuple(self.pages), self.planes is not None
        wraps = None if self.wraps is None else self.wraps.value.data
        return CopyView(window, axes, self.im2col, tap, turned, pages, across, line, planes, wraps)

    @property
    def travel(self) -> CopyTravel:
        """How the tile travels."""
        return CopyTravel(
            None if self.loader is None else self.loader.data,
            self.multicast is not None,
            None if self.cache is None else self.cache.data,
            None if self.store_groups is None else self.store_groups.value.data,
        )

    @property
    def signals(self) -> CopySignal | None:
        """What the copy's bytes complete."""
        return None if self.signal is None else CopySignal(self.signal, self.signal_index)

    @property
    def is_load(self) -> bool:
        """Whether a tile of a tensor goes to shared memory."""
        return isinstance(self.source.type, GlobalType) and isinstance(self.target.type, SharedType)

    @property
    def is_store(self) -> bool:
        """Whether a shared tile goes to global memory."""
        return isinstance(self.source.type, SharedType) and isinstance(self.target.type, GlobalType)

    @property
    def transposes(self) -> bool:
        """Whether a fragment goes to a shared tile transposed."""
        if self.turned is None or not isinstance(self.source.type, FragmentType):
            return False
        return isinstance(self.target.type, SharedType) and len(self.target.type.sizes) == 2

    @property
    def tile_axes(self) -> tuple[int, ...]:
        """The axes of the tensor that the tile's axes run along; its last ones by default.

        Those of a turned tile are in the tensor's order.
        """
        if self.axes is not None:
            return self.axes.data
        rank = len(self.indices)
        ends = (self.source.type, self.target.type)
        tile_type = next(t for t in ends if isinstance(t, SharedType | FragmentType))
        return tuple(range(rank - len(tile_type.sizes), rank))

    @classmethod
    def parse(cls, parser: Parser) -> CopyOp:
        pos = parser.pos
        source = _UntypedEnd.parse(parser)
        parser.parse_keyword("to")
        target = _UntypedEnd.parse(parser)
        if source.at and target.at:
            parser.raise_error(
                "a copy is between a tensor and a tile, or two tiles: one end has coordinates",
                pos,
                parser.pos,
            )
        view = CopyView.parse(parser)
        travel = CopyTravel.parse(parser)
        signal = CopySignal.parse(parser)
        staged = parser.parse_optional_keyword("stage") is not None
        stage = parser.parse_integer(allow_boolean=False) if staged else None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source_type = parser.parse_type()
        parser.parse_punctuation(",")
        target_type = parser.parse_type()
        token = parser.parse_optional_punctuation("->") is not None
        if token and not isinstance(parser.parse_type(), TokenType):
            parser.raise_error("a copy gives a !gpu.token or nothing", pos, parser.pos)
        ends = source.of(parser, source_type), target.of(parser, target_type)
        op = cls(*ends, view, travel, signal, stage=stage, token=token)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        source, target = self.ends
        source.print(printer)
        printer.print_string(" to")
        target.print(printer)
        self.view.print(printer)
        self.travel.print(printer)
        if self.signal is not None:
            printer.print_string(" signal ")
            printer.print_ssa_value(self.signal)
            printer.print_string(" : ")
            printer.print_attribute(self.signal.type)
        if self.signal_index is not None:
            printer.print_string(" at ")
            printer.print_ssa_value(self.signal_index)
        if self.stage is not None:
            printer.print_string(f" stage {self.stage.value.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(", ")
        printer.print_attribute(self.target.type)
        if self.token is not None:
            printer.print_string(" -> ")
            printer.print_attribute(self.token.type)

    def verify_(self) -> None:
        source, target = self.source.type, self.target.type
        assert isinstance(source, GlobalType | SharedType | FragmentType)
        assert isinstance(target, GlobalType | SharedType | FragmentType)
        tensors = [t for t in (source, target) if isinstance(t, GlobalType)]
        if len(tensors) == 2 or (
            isinstance(source, FragmentType) and isinstance(target, FragmentType)
        ):
            raise VerifyException(
                f"a copy has a shared tile or a fragment at one end and not two of a kind: "
                f"{source} to {target}; gpu.map copies fragments"
            )
        if self.store_groups is not None and (
            not self.is_store or self.store_groups.value.data < 1
        ):
            raise VerifyException(
                f"store_groups {self.store_groups.value.data} is of a store from a shared tile, by "
                f"1 group of threads or more; this copies {source} to {target}"
            )
        if source.element_type != target.element_type:
            raise VerifyException(f"a copy does not convert {source} to {target}")
        if tensors:
            self._verify_tensor_end(tensors[0])
        elif self.indices:
            raise VerifyException("coordinates are for a tensor in global memory")
        elif isinstance(source, SharedType) and isinstance(target, SharedType):
            raise VerifyException("shared tiles are copied through a fragment")
        else:
            assert isinstance(source, SharedType | FragmentType)
            assert isinstance(target, SharedType | FragmentType)
            if self.transposes:
                if prod(target.sizes) > prod(source.sizes):
                    raise VerifyException(
                        f"a fragment goes turned to a tile of it or of a part of it, and {target} "
                        f"is larger than {source}"
                    )
                self._verify_window(source.sizes, target.sizes[::-1])
            elif self.line is None:
                self._verify_window(source.sizes, target.sizes)
            else:
                self._verify_line(self.line.value.data, source, target)
        for end, slot in ((self.source, self.source_slot), (self.target, self.slot)):
            if slot is not None and not isinstance(end.type, SharedType):
                raise VerifyException(f"a slot is of a ring of shared tiles, not of {end.type}")
        self._verify_geometry()
        self._verify_wraps()
        self._verify_pages()
        self._verify_travel()
        verify_stage(self, self.stage)

    def _verify_tensor_end(self, tensor: GlobalType) -> None:
        tile_type = self.target.type if tensor is self.source.type else self.source.type
        assert isinstance(tile_type, SharedType | FragmentType)
        rank = len(tensor.dims)
        if len(self.indices) != rank or len(tile_type.sizes) > rank:
            raise VerifyException(
                f"a tensor of rank {rank} is copied at {rank} coordinates, as a tile of rank "
                f"{rank} or less, not at {len(self.indices)} with {tile_type}"
            )
        if self.window is not None:
            raise VerifyException("a window is of a copy between a fragment and a shared tile")
        if self.line is not None:
            raise VerifyException("lines are of a copy from a shared tile to a fragment")
        self._verify_axes(rank, len(tile_type.sizes))
        if self.im2col is not None and (rank != 4 or len(tile_type.sizes) != 2):
            raise VerifyException(
                f"im2col copies a tile of pixels and channels of a tensor [N, H, W, C], not "
                f"{tile_type} of {tensor}"
            )

    def _verify_axes(self, rank: int, tile_rank: int) -> None:
        if self.axes is None:
            return
        axes = self.axes.data
        rising = all(a < b for a, b in pairwise(axes))
        if len(axes) != tile_rank or not rising or axes[0] < 0 or axes[-1] != rank - 1:
            raise VerifyException(
                f"a tile of rank {tile_rank} runs along {tile_rank} axes of the tensor, in their "
                f"order and the last one ({rank - 1}) among them, not along {list(axes)}"
            )

    def _verify_window(self, source: tuple[int, ...], target: tuple[int, ...]) -> None:
        start = (0,) * len(source) if self.window is None else self.window.data
        fits = len(source) == len(target) == len(start)
        if fits:
            small, large = sorted((source, target), key=prod)
            fits = all(
                s >= 0 and s + n <= m for s, n, m in zip(start, small, large, strict=True)
            ) and (self.window is not None or small == large)
        if not fits:
            raise VerifyException(
                f"{list(target)} is no part of {list(source)}, nor the other way, at "
                f"{list(start)}; a window says where the smaller tile begins in the larger"
            )

    def _verify_line(
        self, line: int, source: SharedType | FragmentType, target: SharedType | FragmentType
    ) -> None:
        taken = isinstance(source, SharedType) and isinstance(target, FragmentType)
        whole = taken and line > 0 and len(target.sizes) == 2
        if not whole or self.window is not None or prod(source.sizes) != target.sizes[0] * line:
            raise VerifyException(
                f"lines of {line} elements are of a shared tile that has one for each row of a "
                f"fragment, and of no part of it, not of {source} to {target}"
            )

    def _verify_geometry(self) -> None:
        whole = self.planes is not None and not self.tap
        if len(self.tap) != (0 if self.im2col is None or whole else 2):
            raise VerifyException(
                f"an im2col copy is of one tap (row, column), or of whole windows of planes, and "
                f"others are of none, not of {len(self.tap)} coordinates"
            )
        if whole and self.loader is not None and self.loader.data != "register":
            raise VerifyException(
                "threads load whole windows of planes; give the copy a tap, or the loader "
                '"register"'
            )
        if self.im2col is not None and (not self.is_load or self.axes is not None):
            raise VerifyException("im2col is of a load, whose axes it gives itself")
        if self.planes is not None:
            self._verify_planes()
        if self.axes is not None and not self.indices:
            raise VerifyException("axes are those of a tensor in global memory")
        if self.turned is None or self.transposes:
            return
        by_threads = self.loader is not None and self.loader.data == "cp_async"
        tile_type = self.target.type
        if not by_threads or not isinstance(tile_type, SharedType) or len(tile_type.sizes) != 2:
            raise VerifyException(
                "only a load by cp_async, of a matrix to shared memory, is turned, and a fragment "
                "of two axes to a shared tile; give it that loader, or let the tile lie as the "
                "tensor does"
            )
        if element_bytes(tile_type.element_type) != CP_ASYNC_LEAST:
            raise VerifyException(
                f"cp.async turns elements of {CP_ASYNC_LEAST} bytes, which it moves one by one, "
                f"not {tile_type.element_type}"
            )

    def _verify_wraps(self) -> None:
        if self.wraps is None:
            return
        axis, rank = self.wraps.value.data, len(self.indices)
        if not self.is_store or len(self.tile_axes) != 2:
            raise VerifyException(
                f"what wraps is a store of a shared tile of two axes, not a copy of "
                f"{self.source.type} to {self.target.type}"
            )
        if axis >= rank or axis in self.tile_axes:
            raise VerifyException(
                f"columns of a tile go on across an axis of the tensor that the tile does not run "
                f"along, not across {axis}, beside {list(self.tile_axes)} of {rank} axes"
            )

    def _verify_planes(self) -> None:
        if self.im2col is None or self.turned is not None:
            raise VerifyException(
                "planes are of an im2col copy, whose tile has a row for each channel as it is"
            )
        if self.loader is None or self.loader.data == "tma":
            raise VerifyException(
                'threads load the pixels of planes; give the copy the loader "register", or '
                '"cp_async"'
            )
        if isinstance(self.target.type, SharedType) and self.target.type.sizes[-1] % 2:
            raise VerifyException(
                f"{self.target.type.sizes[-1]} pixels of a tile are stored two by two or wider; "
                "make them even"
            )

    def _verify_pages(self) -> None:
        if self.across is None:
            if self.pages:
                raise VerifyException("pages lie across an axis of the tensor; say which")
            return
        tma = self.loader is not None and self.loader.data == "tma"
        if not self.is_load or self.im2col is not None or self.turned is not None or tma:
            raise VerifyException(
                "pages are of a load of a tensor by threads, to a tile that lies as the tensor "
                "does; use cp_async or register, or a copy for each page"
            )
        across, kind = self.across.value.data, self.target.type
        assert isinstance(kind, SharedType)
        if across >= len(self.indices) or across in self.tile_axes:
            raise VerifyException(
                f"pages lie across an axis of the tensor that the tile does not run along, not "
                f"across {across}, beside {list(self.tile_axes)} of {len(self.indices)} axes"
            )
        if kind.sizes[0] % (runs := len(self.pages) + 1):
            raise VerifyException(
                f"{kind.sizes[0]} rows of a tile are no {runs} runs of equal length, one a page"
            )

    def _verify_travel(self) -> None:
        if (self.signal is None) != (self.signal_index is None):
            raise VerifyException("a copy signals a ring or an mbarrier at an index: give both")
        if self.loader is not None:
            if self.loader.data not in LOADERS:
                raise VerifyException(
                    f'a loader is one of {", ".join(LOADERS)}, not "{self.loader.data}"'
                )
            if not self.is_load and not self.is_store:
                raise VerifyException("a loader is of a copy between global and shared memory")
            if self.is_store and self.loader.data == "cp_async":
                raise VerifyException("cp.async only loads; a store is tma or register")
        if self.signal is not None and not self.is_load:
            raise VerifyException("only a load signals a ring or an mbarrier")
        if self.multicast is not None and not self.is_load:
            raise VerifyException("only a load is multicast")
        if self.cache is not None:
            verify_cache_hint(self.cache)
            if not self.is_load:
                raise VerifyException("a cache hint is of a load; it says who reads the data again")
        asynchronous = self.signal is None and (self.is_load or self.is_store)
        if self.token is not None and not asynchronous:
            raise VerifyException(
                "a token is of an asynchronous copy between global and shared memory that "
                "signals nothing"
            )
