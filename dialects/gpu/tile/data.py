"""Tile level: where tiles live and how they move (T3, S9.3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from xdsl.dialects.builtin import IndexType, StringAttr, UnitAttr, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.hardware.checks import verify_cache_hint
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.gpu.types import (
    FragmentType,
    GlobalType,
    IndexAttr,
    IntsAttr,
    MBarrierType,
    RingType,
    SharedType,
    TokenType,
    index_attr,
)

LOADERS = ("tma", "cp_async", "register")
"""How a tile travels between global and shared memory (S9.3)."""


@irdl_op_definition
class FragmentOp(IRDLOperation):
    """Allocate a fragment: registers of the threads that work on the tile together."""

    name = "gpu.fragment"
    fragment = result_def(base(FragmentType))
    assembly_format = "attr-dict `:` type($fragment)"

    def __init__(self, fragment_type: FragmentType) -> None:
        super().__init__(result_types=[fragment_type])


@irdl_op_definition
class FillOp(IRDLOperation):
    """Set every element of a fragment to ``value``."""

    name = "gpu.fill"
    value = operand_def()
    fragment = operand_def(base(FragmentType))

    def __init__(self, value: SSAValue, fragment: SSAValue) -> None:
        super().__init__(operands=[value, fragment])

    @classmethod
    def parse(cls, parser: Parser) -> FillOp:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        fragment = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        pos = parser.pos
        kind = parser.parse_type()
        if not isinstance(kind, FragmentType):
            parser.raise_error("gpu.fill sets a !gpu.fragment", pos, parser.pos)
        return cls(
            parser.resolve_operand(value, kind.element_type), parser.resolve_operand(fragment, kind)
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
        printer.print_ssa_value(self.fragment)
        printer.print_string(" : ")
        printer.print_attribute(self.fragment.type)

    def verify_(self) -> None:
        assert isinstance(self.fragment.type, FragmentType)
        if self.value.type != self.fragment.type.element_type:
            raise VerifyException(f"{self.value.type} does not fill {self.fragment.type}")


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

    ``axes`` are the axes of the tensor that the tile runs along, where they are not its last ones;
    the others are picked.  With ``im2col`` the tile is ``[pixels, channels]`` of a convolution's
    input ``[N, H, W, C]``: ``indices`` are image, row, column and channel of the tile's first pixel
    *of the output*, ``tap`` is the filter's row and column, the tile's rows are consecutive pixels
    of the output (along its rows, then its images), and padding arrives as zeros.
    """

    name = "gpu.copy"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    source = operand_def(base(GlobalType) | base(SharedType) | base(FragmentType))
    indices = var_operand_def(IndexType)
    tap = var_operand_def(IndexType)
    source_slot = opt_operand_def(IndexType)
    target = operand_def(base(GlobalType) | base(SharedType) | base(FragmentType))
    slot = opt_operand_def(IndexType)
    signal = opt_operand_def(base(RingType) | base(MBarrierType))
    signal_index = opt_operand_def(IndexType)
    loader = opt_prop_def(StringAttr)
    window = opt_prop_def(IntsAttr)
    axes = opt_prop_def(IntsAttr)
    im2col = opt_prop_def(Im2colAttr)
    multicast = opt_prop_def(UnitAttr)
    cache = opt_prop_def(StringAttr)
    store_groups = opt_prop_def(IndexAttr)
    token = opt_result_def(TokenType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        source: SSAValue,
        indices: Sequence[SSAValue],
        target: SSAValue,
        slot: SSAValue | None = None,
        signal: SSAValue | None = None,
        signal_index: SSAValue | None = None,
        loader: str | None = None,
        *,
        source_slot: SSAValue | None = None,
        window: Sequence[int] | None = None,
        multicast: bool = False,
        cache: str | None = None,
        token: bool = False,
        axes: Sequence[int] | None = None,
        im2col: Im2colAttr | None = None,
        tap: Sequence[SSAValue] = (),
    ) -> None:
        super().__init__(
            operands=[
                source,
                list(indices),
                list(tap),
                source_slot,
                target,
                slot,
                signal,
                signal_index,
            ],
            properties={
                "loader": None if loader is None else StringAttr(loader),
                "window": None if window is None else IntsAttr(tuple(window)),
                "axes": None if axes is None else IntsAttr(tuple(axes)),
                "im2col": im2col,
                "multicast": UnitAttr() if multicast else None,
                "cache": None if cache is None else StringAttr(cache),
            },
            result_types=[TokenType() if token else None],
        )

    def like(
        self,
        *,
        slot: SSAValue | None = None,
        signal: SSAValue | None = None,
        signal_index: SSAValue | None = None,
        loader: str | None = None,
    ) -> CopyOp:
        """The same copy with what is given replaced; attributes and location come along.

        A copy that signals gives no token.
        """
        own = None if self.loader is None else self.loader.data
        new = CopyOp(
            self.source,
            self.indices,
            self.target,
            slot or self.slot,
            signal or self.signal,
            signal_index or self.signal_index,
            loader or own,
            source_slot=self.source_slot,
            window=None if self.window is None else self.window.data,
            multicast=self.multicast is not None,
            cache=None if self.cache is None else self.cache.data,
            token=self.token is not None and signal is None,
            axes=None if self.axes is None else self.axes.data,
            im2col=self.im2col,
            tap=self.tap,
        )
        new.store_groups = self.store_groups
        new.attributes.update(self.attributes)
        new.location = self.location
        return new

    @property
    def is_load(self) -> bool:
        """Whether a tile of a tensor goes to shared memory."""
        return isinstance(self.source.type, GlobalType) and isinstance(self.target.type, SharedType)

    @property
    def is_store(self) -> bool:
        """Whether a shared tile goes to global memory."""
        return isinstance(self.source.type, SharedType) and isinstance(self.target.type, GlobalType)

    @property
    def tile_axes(self) -> tuple[int, ...]:
        """The axes of the tensor that the tile's axes run along; its last ones by default."""
        if self.axes is not None:
            return self.axes.data
        rank = len(self.indices)
        ends = (self.source.type, self.target.type)
        tile_type = next(t for t in ends if isinstance(t, SharedType | FragmentType))
        return tuple(range(rank - len(tile_type.sizes), rank))

    @classmethod
    def parse(cls, parser: Parser) -> CopyOp:
        def end() -> tuple[UnresolvedOperand, list[SSAValue], SSAValue | None]:
            value = parser.parse_unresolved_operand()
            at = parser.parse_optional_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_unresolved_operand
            )
            return value, [parser.resolve_operand(v, IndexType()) for v in at or ()], index("slot")

        def index(word: str) -> SSAValue | None:
            if parser.parse_optional_keyword(word) is None:
                return None
            return parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())

        pos = parser.pos
        source, source_at, source_slot = end()
        parser.parse_keyword("to")
        target, target_at, slot = end()
        if source_at and target_at:
            parser.raise_error(
                "a copy is between a tensor and a tile, or two tiles: one end has coordinates",
                pos,
                parser.pos,
            )
        window: Sequence[int] | None = None
        if parser.parse_optional_keyword("window") is not None:
            window = IntsAttr.parse_parameter(parser)
        axes: Sequence[int] | None = None
        if parser.parse_optional_keyword("axes") is not None:
            axes = IntsAttr.parse_parameter(parser)
        im2col: Im2colAttr | None = None
        tap: Sequence[SSAValue] = ()
        if parser.parse_optional_keyword("im2col") is not None:
            geometry = parser.parse_attribute()
            if not isinstance(geometry, Im2colAttr):
                parser.raise_error("im2col is followed by a #gpu.im2col", pos, parser.pos)
            im2col = geometry
            parser.parse_keyword("tap")
            names = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_unresolved_operand
            )
            tap = [parser.resolve_operand(v, IndexType()) for v in names]
        loader: str | None = None
        if parser.parse_optional_keyword("loader") is not None:
            loader = parser.parse_str_literal()
        multicast = parser.parse_optional_keyword("multicast") is not None
        cache: str | None = None
        if parser.parse_optional_keyword("cache") is not None:
            cache = parser.parse_str_literal()
        groups: int | None = None
        if parser.parse_optional_keyword("store_groups") is not None:
            groups = parser.parse_integer()
        signal: SSAValue | None = None
        signal_index: SSAValue | None = None
        if parser.parse_optional_keyword("signal") is not None:
            unresolved = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            signal = parser.resolve_operand(unresolved, parser.parse_type())
            signal_index = index("at")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source_type = parser.parse_type()
        parser.parse_punctuation(",")
        target_type = parser.parse_type()
        token = parser.parse_optional_punctuation("->") is not None
        if token and not isinstance(parser.parse_type(), TokenType):
            parser.raise_error("a copy gives a !gpu.token or nothing", pos, parser.pos)
        op = cls(
            parser.resolve_operand(source, source_type),
            source_at or target_at,
            parser.resolve_operand(target, target_type),
            slot,
            signal,
            signal_index,
            loader,
            source_slot=source_slot,
            window=window,
            multicast=multicast,
            cache=cache,
            token=token,
            axes=axes,
            im2col=im2col,
            tap=tap,
        )
        op.store_groups = None if groups is None else index_attr(groups)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        def end(value: SSAValue, slot: SSAValue | None) -> None:
            printer.print_string(" ")
            printer.print_ssa_value(value)
            if isinstance(value.type, GlobalType):
                printer.print_string("[")
                printer.print_list(self.indices, printer.print_ssa_value)
                printer.print_string("]")
            if slot is not None:
                printer.print_string(" slot ")
                printer.print_ssa_value(slot)

        end(self.source, self.source_slot)
        printer.print_string(" to")
        end(self.target, self.slot)
        if self.window is not None:
            printer.print_string(" window ")
            self.window.print_parameter(printer)
        if self.axes is not None:
            printer.print_string(" axes ")
            self.axes.print_parameter(printer)
        if self.im2col is not None:
            printer.print_string(" im2col ")
            printer.print_attribute(self.im2col)
            printer.print_string(" tap [")
            printer.print_list(self.tap, printer.print_ssa_value)
            printer.print_string("]")
        if self.loader is not None:
            printer.print_string(" loader ")
            printer.print_string_literal(self.loader.data)
        if self.multicast is not None:
            printer.print_string(" multicast")
        if self.cache is not None:
            printer.print_string(" cache ")
            printer.print_string_literal(self.cache.data)
        if self.store_groups is not None:
            printer.print_string(f" store_groups {self.store_groups.value.data}")
        if self.signal is not None:
            printer.print_string(" signal ")
            printer.print_ssa_value(self.signal)
            printer.print_string(" : ")
            printer.print_attribute(self.signal.type)
        if self.signal_index is not None:
            printer.print_string(" at ")
            printer.print_ssa_value(self.signal_index)
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
            self._verify_window(source.sizes, target.sizes)
        for end, slot in ((self.source, self.source_slot), (self.target, self.slot)):
            if slot is not None and not isinstance(end.type, SharedType):
                raise VerifyException(f"a slot is of a ring of shared tiles, not of {end.type}")
        self._verify_geometry()
        self._verify_travel()

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

    def _verify_geometry(self) -> None:
        if len(self.tap) != (0 if self.im2col is None else 2):
            raise VerifyException(
                f"an im2col copy is of one tap (row, column) and others are of none, not of "
                f"{len(self.tap)} coordinates"
            )
        if self.im2col is not None and (not self.is_load or self.axes is not None):
            raise VerifyException("im2col is of a load, whose axes it gives itself")
        if self.axes is not None and not self.indices:
            raise VerifyException("axes are those of a tensor in global memory")

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


@irdl_op_definition
class AtomicOp(IRDLOperation):
    """Combine a fragment with a tile of a tensor, atomically element by element.

    ``kind`` is ``add``, ``max`` or ``min``; ``indices`` are as for ``gpu.copy``.  Elements outside
    the tensor are left out.  The order of the additions is not defined, so that f32 sums may
    differ in their last bits from run to run.
    """

    name = "gpu.atomic"
    kind = prop_def(StringAttr)
    fragment = operand_def(base(FragmentType))
    tensor = operand_def(base(GlobalType))
    indices = var_operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$kind $fragment `to` $tensor `[` $indices `]` attr-dict "
        "`:` type($fragment) `,` type($tensor)"
    )

    def __init__(
        self, kind: str, fragment: SSAValue, tensor: SSAValue, indices: Sequence[SSAValue]
    ) -> None:
        super().__init__(
            operands=[fragment, tensor, list(indices)], properties={"kind": StringAttr(kind)}
        )

    def verify_(self) -> None:
        fragment, tensor = self.fragment.type, self.tensor.type
        assert isinstance(fragment, FragmentType) and isinstance(tensor, GlobalType)
        if self.kind.data not in ("add", "max", "min"):
            raise VerifyException(f'an atomic is add, max or min, not "{self.kind.data}"')
        if fragment.element_type != tensor.element_type:
            raise VerifyException(f"an atomic does not convert {fragment} to {tensor}")
        rank = len(tensor.dims)
        if len(self.indices) != rank or len(fragment.sizes) > rank:
            raise VerifyException(
                f"a tensor of rank {rank} takes {rank} coordinates and a fragment of rank {rank} "
                f"or less, not {len(self.indices)} and {fragment}"
            )


@irdl_op_definition
class ElementAddressOp(IRDLOperation):
    """Shared address of element ``coordinates`` of a tile (of slot ``slot`` of its ring).

    ``gpu-lower-shared-layout`` turns it into arithmetic by the tile's swizzle.
    """

    name = "gpu.element_address"
    tile = operand_def(base(SharedType))
    slot = operand_def(IndexType)
    row = operand_def(IndexType)
    column = operand_def(IndexType)
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$tile `[` $slot `]` `[` $row `,` $column `]` attr-dict `:` type($tile)"

    def __init__(self, tile: SSAValue, slot: SSAValue, row: SSAValue, column: SSAValue) -> None:
        super().__init__(operands=[tile, slot, row, column], result_types=[i32])
