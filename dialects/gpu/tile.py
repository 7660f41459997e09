"""The tile level of the gpu dialect: what a kernel author thinks in (T3).

A kernel moves tiles between global memory, shared tiles (``gpu.shared_tile``) and
fragments, multiplies them and maps scalars over them.  Fragments are mutable.  What an
author leaves out (layouts, stages, roles, barriers, waits, predicates) the passes of
``docs/gpu-passes.md`` fill in; each of these also has an op here, so that it can be said.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IndexType,
    StringAttr,
    i32,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.hw_checks import verify_pending
from polyc.dialects.gpu.tile_flow import (
    PipelineOp,
    RingAcquireOp,
    RingOp,
    RingReleaseOp,
    RingWaitOp,
    RolesOp,
    YieldOp,
)
from polyc.dialects.gpu.types import (
    FragmentType,
    GlobalType,
    IndexAttr,
    IntsAttr,
    MBarrierType,
    RingType,
    SharedType,
    index_attr,
)

LOADERS = ("tma", "cp_async", "register")
"""How a tile travels from global to shared memory (S9.3)."""

MMA_KINDS = ("wgmma", "mma.sync")
"""The tensor-core instructions that a contract can become."""


@irdl_op_definition
class TileCoordinatesOp(IRDLOperation):
    """The first row and column of the CTA's output tile.

    The grid is linear.  ``rows`` and ``columns`` are the output's sizes, ``tile`` the tile's.
    With ``raster "grouped"`` the CTAs walk ``group`` tile rows at a time, down a column of
    the group and then right, which keeps the operands of neighbouring CTAs in the L2 cache;
    ``"row"`` walks row by row.
    """

    name = "gpu.tile_coordinates"
    rows = operand_def(IndexType)
    columns = operand_def(IndexType)
    tile = prop_def(IntsAttr)
    raster = prop_def(StringAttr)
    group = prop_def(IndexAttr)
    row = result_def(IndexType)
    column = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "`[` $rows `,` $columns `]` `tile` $tile `raster` $raster $group attr-dict"

    def __init__(
        self,
        rows: SSAValue,
        columns: SSAValue,
        tile: Sequence[int],
        raster: str = "grouped",
        group: int = 8,
    ) -> None:
        super().__init__(
            operands=[rows, columns],
            properties={
                "tile": IntsAttr(tuple(tile)),
                "raster": StringAttr(raster),
                "group": index_attr(group),
            },
            result_types=[IndexType(), IndexType()],
        )

    @property
    def tile_sizes(self) -> tuple[int, ...]:
        return self.tile.data

    def verify_(self) -> None:
        if len(self.tile.data) != 2 or min(self.tile_sizes) < 1:
            raise VerifyException(f"a tile is [rows, columns], not {list(self.tile_sizes)}")
        if self.raster.data not in ("grouped", "row"):
            raise VerifyException(f'a raster is "grouped" or "row", not "{self.raster.data}"')
        if self.group.value.data < 1:
            raise VerifyException(f"a raster group has 1 or more rows, not {self.group.value.data}")


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
    """Copy a tile from global memory to a shared tile.

    ``indices`` are the tile's first coordinates in the tensor.  Elements outside the tensor
    arrive as zeros.  ``slot`` picks a tile of a ring.  ``loader`` is how it travels: ``tma``
    by the copy engine, ``cp_async`` by each thread asynchronously, ``register`` through
    registers; absent until ``gpu-pipeline-planning`` decides.  With ``signal`` the copy's bytes
    complete on the full barrier of that ring (at iteration ``signal_index``), or on an mbarrier.
    """

    name = "gpu.copy"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    source = operand_def(base(GlobalType))
    indices = var_operand_def(IndexType)
    target = operand_def(base(SharedType))
    slot = opt_operand_def(IndexType)
    signal = opt_operand_def(base(RingType) | base(MBarrierType))
    signal_index = opt_operand_def(IndexType)
    loader = opt_prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$source `[` $indices `]` `to` $target (`slot` $slot^)? (`loader` $loader^)? "
        "(`signal` $signal^ `:` type($signal) `at` $signal_index)? attr-dict "
        "`:` type($source) `,` type($target)"
    )

    def __init__(
        self,
        source: SSAValue,
        indices: Sequence[SSAValue],
        target: SSAValue,
        slot: SSAValue | None = None,
        signal: SSAValue | None = None,
        signal_index: SSAValue | None = None,
        loader: str | None = None,
    ) -> None:
        super().__init__(
            operands=[source, list(indices), target, slot, signal, signal_index],
            properties={"loader": None if loader is None else StringAttr(loader)},
        )

    def verify_(self) -> None:
        source, target = self.source.type, self.target.type
        assert isinstance(source, GlobalType) and isinstance(target, SharedType)
        rank = len(source.dims)
        if len(self.indices) != rank or len(target.sizes) != rank:
            raise VerifyException(
                f"a tensor of rank {rank} is copied at {rank} coordinates to a tile of rank "
                f"{rank}, not at {len(self.indices)} to {target}"
            )
        if source.element_type != target.element_type:
            raise VerifyException(f"a copy does not convert {source} to {target}")
        if (self.signal is None) != (self.signal_index is None):
            raise VerifyException("a copy signals a ring or an mbarrier at an index: give both")
        if self.loader is not None and self.loader.data not in LOADERS:
            raise VerifyException(
                f'a loader is one of {", ".join(LOADERS)}, not "{self.loader.data}"'
            )


@irdl_op_definition
class ContractOp(IRDLOperation):
    """``acc[m, n] += sum over k of a[m, k] · b[k, n]`` on shared tiles.

    ``lhs`` and ``rhs`` map ``(m, n, k)`` to the tiles' own axes, so that either operand may
    be stored transposed.  ``mma`` names the instruction, ``warp_tile`` the part of the tile
    that one warp (``mma.sync``) or one warpgroup (``wgmma``) computes.  A ``wgmma`` contract is
    asynchronous: the accumulator is ready after a ``gpu.await``.
    """

    name = "gpu.contract"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    lhs = operand_def(base(SharedType))
    lhs_slot = opt_operand_def(IndexType)
    rhs = operand_def(base(SharedType))
    rhs_slot = opt_operand_def(IndexType)
    acc = operand_def(base(FragmentType))
    lhs_map = prop_def(AffineMapAttr)
    rhs_map = prop_def(AffineMapAttr)
    mma = prop_def(StringAttr)
    warp_tile = prop_def(IntsAttr)
    assembly_format = (
        "$lhs (`slot` $lhs_slot^)? $lhs_map `,` $rhs (`slot` $rhs_slot^)? $rhs_map `into` $acc "
        "`mma` $mma `warp_tile` $warp_tile attr-dict `:` type($lhs) `,` type($rhs) `,` type($acc)"
    )

    def __init__(
        self,
        lhs: SSAValue,
        lhs_map: AffineMap,
        rhs: SSAValue,
        rhs_map: AffineMap,
        acc: SSAValue,
        mma: str,
        warp_tile: Sequence[int],
        lhs_slot: SSAValue | None = None,
        rhs_slot: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[lhs, lhs_slot, rhs, rhs_slot, acc],
            properties={
                "lhs_map": AffineMapAttr(lhs_map),
                "rhs_map": AffineMapAttr(rhs_map),
                "mma": StringAttr(mma),
                "warp_tile": IntsAttr(tuple(warp_tile)),
            },
        )

    @property
    def warp_sizes(self) -> tuple[int, int]:
        m, n = self.warp_tile.data
        return m, n

    @property
    def lhs_k_major(self) -> bool:
        """True where the left tile is stored ``[m, k]``, k contiguous."""
        return self.lhs_map.data == LHS_MK

    @property
    def rhs_k_major(self) -> bool:
        """True where the right tile is stored ``[n, k]``, k contiguous."""
        return self.rhs_map.data == RHS_NK

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The tile's (m, n, k)."""
        assert isinstance(self.lhs.type, SharedType) and isinstance(self.rhs.type, SharedType)
        m, k = self.lhs.type.sizes if self.lhs_k_major else self.lhs.type.sizes[::-1]
        n = self.rhs.type.sizes[0] if self.rhs_k_major else self.rhs.type.sizes[1]
        return m, n, k

    def verify_(self) -> None:
        lhs, rhs, acc = self.lhs.type, self.rhs.type, self.acc.type
        assert isinstance(lhs, SharedType) and isinstance(rhs, SharedType)
        assert isinstance(acc, FragmentType)
        if self.mma.data not in MMA_KINDS:
            raise VerifyException(f'mma is {" or ".join(MMA_KINDS)}, not "{self.mma.data}"')
        if self.lhs_map.data not in (LHS_MK, LHS_KM) or self.rhs_map.data not in (RHS_KN, RHS_NK):
            raise VerifyException(
                "the maps take (m, n, k) to (m, k) or (k, m) on the left and to (k, n) or (n, k) "
                f"on the right, not {self.lhs_map.data} and {self.rhs_map.data}"
            )
        if len(lhs.sizes) != 2 or len(rhs.sizes) != 2:
            raise VerifyException(f"{lhs} and {rhs} are not two matrices")
        m, n, k = self.sizes
        rhs_k = rhs.sizes[1] if self.rhs_k_major else rhs.sizes[0]
        if rhs_k != k or acc.sizes != (m, n):
            raise VerifyException(
                f"[{m}, {k}] times [{rhs_k}, {n}] does not add to {list(acc.sizes)}"
            )
        if lhs.element_type != rhs.element_type or str(lhs.element_type) not in ("f16", "bf16"):
            raise VerifyException(
                f"operands are both f16 or both bf16, not {lhs.element_type} and {rhs.element_type}"
            )
        if str(acc.element_type) != "f32":
            raise VerifyException(f"the accumulator is f32, not {acc.element_type}")
        if len(self.warp_tile.data) != 2 or min(self.warp_tile.data) < 1:
            raise VerifyException(
                f"a warp_tile is [rows, columns], not {list(self.warp_tile.data)}"
            )
        wm, wn = self.warp_sizes
        unit = (64, 8) if self.mma.data == "wgmma" else (16, 16)
        if m % wm or n % wn or wm % unit[0] or wn % unit[1] or k % 16:
            raise VerifyException(
                f"a tile of {m}x{n}x{k} does not split into {self.mma.data} work of {wm}x{wn}x16"
            )


LHS_MK = AffineMap.from_callable(lambda m, n, k: (m, k))
LHS_KM = AffineMap.from_callable(lambda m, n, k: (k, m))
RHS_KN = AffineMap.from_callable(lambda m, n, k: (k, n))
RHS_NK = AffineMap.from_callable(lambda m, n, k: (n, k))


@irdl_op_definition
class AwaitOp(IRDLOperation):
    """Wait until at most ``pending`` of the newest asynchronous contracts are unfinished."""

    name = "gpu.await"
    pending = prop_def(IndexAttr)
    assembly_format = "`pending` $pending attr-dict"

    def __init__(self, pending: int) -> None:
        super().__init__(properties={"pending": index_attr(pending)})

    def verify_(self) -> None:
        verify_pending("contracts", self.pending)


@irdl_op_definition
class MapOp(IRDLOperation):
    """Apply a scalar body at every element of the tile that ``space`` covers.

    ``inputs`` are ``space`` itself (always the first body argument) and then tensors in
    global memory; ``outputs`` are fragments of the same tile or tensors in global memory.
    ``maps`` gives, for each input after the first and then each output, the coordinates as an
    affine map of the tile's axes (dimensions) and of ``origin`` (symbols: the tile's place in
    the whole).  Elements outside a tensor are not read (the body sees 0) and not written.
    """

    name = "gpu.map"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    space = operand_def(base(FragmentType))
    origin = var_operand_def(IndexType)
    inputs = var_operand_def(base(GlobalType))
    outputs = var_operand_def(base(GlobalType) | base(FragmentType))
    maps = prop_def(ArrayAttr[AffineMapAttr])
    body = region_def("single_block")

    def __init__(
        self,
        space: SSAValue,
        origin: Sequence[SSAValue],
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        body: Region,
    ) -> None:
        super().__init__(
            operands=[space, list(origin), list(inputs), list(outputs)],
            properties={"maps": ArrayAttr(map(AffineMapAttr, maps))},
            regions=[body],
        )

    @property
    def input_maps(self) -> list[AffineMap]:
        return [m.data for m in self.maps.data[: len(self.inputs)]]

    @property
    def output_maps(self) -> list[AffineMap]:
        return [m.data for m in self.maps.data[len(self.inputs) :]]

    @classmethod
    def parse(cls, parser: Parser) -> MapOp:
        def typed() -> SSAValue:
            value = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            return parser.resolve_operand(value, parser.parse_type())

        maps: list[AffineMap] = []

        def mapped() -> SSAValue:
            value = typed()
            pos = parser.pos
            attr = parser.parse_attribute()
            if not isinstance(attr, AffineMapAttr):
                parser.raise_error("an affine_map says which element", pos, parser.pos)
            maps.append(attr.data)
            return value

        space = typed()
        parser.parse_keyword("origin")
        origin = [
            parser.resolve_operand(v, IndexType())
            for v in parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_unresolved_operand
            )
        ]
        parser.parse_keyword("ins")
        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, mapped)
        parser.parse_keyword("outs")
        outputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, mapped)
        body = parser.parse_region()
        return cls(space, origin, inputs, outputs, maps, body)

    def print(self, printer: Printer) -> None:
        def typed(value: SSAValue) -> None:
            printer.print_ssa_value(value)
            printer.print_string(" : ")
            printer.print_attribute(value.type)

        printer.print_string(" ")
        typed(self.space)
        printer.print_string(" origin [")
        printer.print_list(self.origin, printer.print_ssa_value)
        printer.print_string("]")
        rows = list(zip([*self.inputs, *self.outputs], self.maps, strict=True))
        split = len(self.inputs)
        for word, group in ((" ins(", rows[:split]), (" outs(", rows[split:])):
            printer.print_string(word)
            for i, (value, attr) in enumerate(group):
                printer.print_string(", " if i else "")
                typed(value)
                printer.print_string(" ")
                printer.print_attribute(attr)
            printer.print_string(")")
        printer.print_string(" ")
        printer.print_region(self.body)

    def verify_(self) -> None:
        space = self.space.type
        assert isinstance(space, FragmentType)
        operands = [*self.inputs, *self.outputs]
        if len(self.maps) != len(operands):
            raise VerifyException(f"{len(self.maps)} maps do not fit {len(operands)} operands")
        for value, attr in zip(operands, self.maps, strict=True):
            rank = len(value.type.dims) if isinstance(value.type, GlobalType) else len(space.sizes)
            m = attr.data
            if (m.num_dims, m.num_symbols, len(m.results)) != (
                len(space.sizes),
                len(self.origin),
                rank,
            ):
                raise VerifyException(
                    f"{m} does not take {len(space.sizes)} tile axes and {len(self.origin)} "
                    f"origins to the {rank} axes of {value.type}"
                )
        expected = [space.element_type, *(_element(v) for v in self.inputs)]
        if [a.type for a in self.body.block.args] != expected:
            raise VerifyException(
                "the body takes one scalar an input: " + ", ".join(str(t) for t in expected)
            )
        end = self.body.block.last_op
        if not isinstance(end, YieldOp) or [v.type for v in end.values] != [
            _element(v) for v in self.outputs
        ]:
            raise VerifyException(
                "the body ends in a gpu.yield of one scalar an output: "
                + ", ".join(str(_element(v)) for v in self.outputs)
            )


def _element(value: SSAValue) -> Attribute:
    assert isinstance(value.type, GlobalType | FragmentType)
    return value.type.element_type


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


TILE_OPS: list[type[Operation]] = [
    TileCoordinatesOp,
    FragmentOp,
    FillOp,
    CopyOp,
    ContractOp,
    AwaitOp,
    YieldOp,
    MapOp,
    PipelineOp,
    RingOp,
    RingAcquireOp,
    RingWaitOp,
    RingReleaseOp,
    RolesOp,
    ElementAddressOp,
]

__all__ = [
    "LHS_KM",
    "LHS_MK",
    "LOADERS",
    "MMA_KINDS",
    "RHS_KN",
    "RHS_NK",
    "TILE_OPS",
    "AwaitOp",
    "ContractOp",
    "CopyOp",
    "ElementAddressOp",
    "FillOp",
    "FragmentOp",
    "MapOp",
    "PipelineOp",
    "RingAcquireOp",
    "RingOp",
    "RingReleaseOp",
    "RingWaitOp",
    "RolesOp",
    "TileCoordinatesOp",
    "YieldOp",
]
