"""Tile level: what is computed on tiles (T3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IndexType,
    MemRefType,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
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
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from polyc.affine.expressions import NotAffine, linear_of
from polyc.dialects.gpu.hardware.checks import verify_cache_hint, verify_pending
from polyc.dialects.gpu.tile.flow import YieldOp, verify_stage
from polyc.dialects.gpu.types import (
    FragmentType,
    GlobalType,
    IndexAttr,
    IntsAttr,
    SharedType,
    index_attr,
)
from polyc.dialects.gpu.waiting import TokenType

MMA_KINDS = ("wgmma", "mma.sync", "fma")
"""What a contract can become: two instructions of tensor cores, and threads' own multiply-adds."""

CONTRACT_UNITS = {"wgmma": (64, 8, 16), "mma.sync": (16, 16, 16), "fma": (4, 4, 4)}
"""The (m, n, k) of which each takes multiples: of a warp_tile, and of the tile's k."""

FMA_VECTOR = 4
"""Elements of f32 that a thread loads at once from shared memory: 16 bytes."""


def fma_lanes(rows: int, columns: int) -> tuple[int, int]:
    """How the lanes of a warp that multiplies by itself lie over its rows and columns.

    A lane has four neighbours of both, or more.  Of few rows are as many lanes as these have, the
    others beside each other; ValueError for a part that 32 lanes do not share out.
    """
    for high in (8, 4, 2, 1):
        wide = 32 // high
        if rows % (high * FMA_VECTOR) == 0 and columns % (wide * FMA_VECTOR) == 0:
            return high, wide
    raise ValueError(
        f"32 lanes of fma have four neighbouring rows and columns each of a warp_tile, and "
        f"{rows}x{columns} does not split so; make it a multiple of 32x16, 16x32, 8x64 or 4x128"
    )


TF32_STEP = 8
"""The k of one wgmma of TF32."""


@dataclass(frozen=True)
class ContractSide:
    """One operand of a contract: a tile, how ``(m, n, k)`` map to its axes, a slot of a ring."""

    tile: SSAValue
    map: AffineMap
    slot: SSAValue | None = None


@irdl_op_definition
class ContractOp(IRDLOperation):
    """``acc[m, n] += sum over k of a[m, k] · b[k, n]``, or ``=`` with ``clear``.

    The right operand is a shared tile; the left one is a shared tile, or a fragment that the
    threads hold in the accumulator's layout (the probabilities of attention).

    ``lhs`` and ``rhs`` map ``(m, n, k)`` to the tiles' own axes, so that either operand may
    be stored transposed.  ``mma`` names the instruction, ``warp_tile`` the part of the tile
    that one warp (``mma.sync``, ``fma``) or one warpgroup (``wgmma``) computes.  ``fma`` is no
    tensor core: threads multiply f32 exactly as they are, add along k in ascending order, and
    round each sum once; a left operand in registers is one that the lanes of a warp hand to each
    other, so that a warp has all columns of its rows.  ``wgmma`` of f32 takes both
    operands as TF32 (``gpu.wgmma``), from shared tiles that are stored along k, or the left one
    from a fragment, which may be stored either way.  It is
    asynchronous: the accumulator is ready after a ``gpu.await``, which may name the contract by its
    ``token``.  ``stage`` is the contract's in its pipeline (``gpu-pipeline-planning``).
    """

    name = "gpu.contract"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    lhs = operand_def(base(SharedType) | base(FragmentType))
    lhs_slot = opt_operand_def(IndexType)
    rhs = operand_def(base(SharedType))
    rhs_slot = opt_operand_def(IndexType)
    acc = operand_def(base(FragmentType))
    lhs_map = prop_def(AffineMapAttr)
    rhs_map = prop_def(AffineMapAttr)
    mma = prop_def(StringAttr)
    warp_tile = prop_def(IntsAttr)
    clear = opt_prop_def(UnitAttr)
    fragment_buffers = opt_prop_def(IndexAttr)
    stage = opt_prop_def(IndexAttr)
    token = opt_result_def(TokenType)
    assembly_format = (
        "$lhs (`slot` $lhs_slot^)? $lhs_map `,` $rhs (`slot` $rhs_slot^)? $rhs_map `into` $acc "
        "(`clear` $clear^)? `mma` $mma `warp_tile` $warp_tile "
        "(`fragment_buffers` $fragment_buffers^)? (`stage` $stage^)? attr-dict "
        "`:` type($lhs) `,` type($rhs) `,` type($acc) (`->` type($token)^)?"
    )

    def __init__(
        self,
        lhs: ContractSide,
        rhs: ContractSide,
        acc: SSAValue,
        mma: str,
        warp_tile: Sequence[int],
        *,
        token: bool = False,
        clear: bool = False,
        fragment_buffers: int = 1,
        stage: int | None = None,
    ) -> None:
        super().__init__(
            operands=[lhs.tile, lhs.slot, rhs.tile, rhs.slot, acc],
            properties={
                "lhs_map": AffineMapAttr(lhs.map),
                "rhs_map": AffineMapAttr(rhs.map),
                "mma": StringAttr(mma),
                "warp_tile": IntsAttr(tuple(warp_tile)),
                "clear": UnitAttr() if clear else None,
                "fragment_buffers": index_attr(fragment_buffers) if fragment_buffers != 1 else None,
                "stage": None if stage is None else index_attr(stage),
            },
            result_types=[TokenType() if token else None],
        )

    def like(
        self,
        lhs: ContractSide | None = None,
        rhs: ContractSide | None = None,
        acc: SSAValue | None = None,
        token: bool | None = None,
    ) -> ContractOp:
        """The same contract with other operands, or with a token, where these are given."""
        new = ContractOp(
            lhs or self.sides[0],
            rhs or self.sides[1],
            acc or self.acc,
            self.mma.data,
            self.warp_sizes,
            token=self.token is not None if token is None else token,
            clear=self.clear is not None,
            fragment_buffers=self.buffers,
            stage=None if self.stage is None else self.stage.value.data,
        )
        new.attributes.update(self.attributes)
        new.location = self.location
        return new

    @property
    def sides(self) -> tuple[ContractSide, ContractSide]:
        """The left and the right operand."""
        return (
            ContractSide(self.lhs, self.lhs_map.data, self.lhs_slot),
            ContractSide(self.rhs, self.rhs_map.data, self.rhs_slot),
        )

    @property
    def buffers(self) -> int:
        """For how many steps over k a thread of mma.sync or fma holds operands."""
        return 1 if self.fragment_buffers is None else self.fragment_buffers.value.data

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
    def is_tf32(self) -> bool:
        """Whether tensor cores multiply f32, of which they take 10 bits of the mantissa."""
        assert isinstance(self.rhs.type, SharedType)
        return self.mma.data == "wgmma" and str(self.rhs.type.element_type) == "f32"

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The tile's (m, n, k)."""
        assert isinstance(self.lhs.type, SharedType | FragmentType)
        assert isinstance(self.rhs.type, SharedType)
        m, k = self.lhs.type.sizes if self.lhs_k_major else self.lhs.type.sizes[::-1]
        n = self.rhs.type.sizes[0] if self.rhs_k_major else self.rhs.type.sizes[1]
        return m, n, k

    def verify_(self) -> None:
        lhs, rhs, acc = self.lhs.type, self.rhs.type, self.acc.type
        assert isinstance(lhs, SharedType | FragmentType) and isinstance(rhs, SharedType)
        assert isinstance(acc, FragmentType)
        lies = self.lhs_k_major or self.mma.data == "wgmma"
        if isinstance(lhs, FragmentType) and (self.lhs_slot is not None or not lies):
            raise VerifyException(
                "a fragment on the left is [m, k], or [k, m] of wgmma, and has no slots; the "
                "instruction takes rows of it from registers"
            )
        if self.buffers not in (1, 2):
            raise VerifyException(f"BadBuffers: fragment_buffers is 1 or 2, not {self.buffers}")
        verify_stage(self, self.stage)
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
        self.verify_elements(lhs, rhs)
        if str(acc.element_type) != "f32":
            raise VerifyException(f"the accumulator is f32, not {acc.element_type}")
        if len(self.warp_tile.data) != 2 or min(self.warp_tile.data) < 1:
            raise VerifyException(
                f"a warp_tile is [rows, columns], not {list(self.warp_tile.data)}"
            )
        wm, wn = self.warp_sizes
        of_m, of_n, of_k = CONTRACT_UNITS[self.mma.data]
        if self.is_tf32:
            of_k = TF32_STEP
        if m % wm or n % wn or wm % of_m or wn % of_n or k % of_k:
            raise VerifyException(
                f"a tile of {m}x{n}x{k} does not split into {self.mma.data} work of "
                f"{wm}x{wn}x{of_k}"
            )
        if self.mma.data == "fma":
            try:
                fma_lanes(wm, wn)
                if isinstance(lhs, FragmentType):
                    fma_lanes(wm, k)  # The same lanes have its rows.
            except ValueError as error:
                raise VerifyException(str(error)) from None
            if isinstance(lhs, FragmentType) and (wn != n or self.rhs_k_major):
                raise VerifyException(
                    "fma takes a fragment on the left where a warp has all columns of its rows and "
                    f"the right operand is [k, n]; here a warp has {wn} of {n} columns and the "
                    f"operand is {list(rhs.sizes)}"
                )

    def verify_elements(self, lhs: SharedType | FragmentType, rhs: SharedType) -> None:
        """The operands' types, and where they are, are those that the instruction takes."""
        elements = f"{lhs.element_type} and {rhs.element_type}"
        if self.mma.data == "fma":
            if elements != "f32 and f32":
                raise VerifyException(f"operands of fma are both f32, not {elements}")
        elif self.is_tf32 and elements == "f32 and f32":
            held = isinstance(lhs, FragmentType)
            if not (self.rhs_k_major and (held or self.lhs_k_major)):
                raise VerifyException(
                    "wgmma takes operands of f32, as TF32, from shared tiles that are stored along "
                    "k, or the left one from a fragment; copy them so"
                )
        elif lhs.element_type != rhs.element_type or str(lhs.element_type) not in ("f16", "bf16"):
            raise VerifyException(f"operands are both f16 or both bf16, not {elements}")


LHS_MK = AffineMap.from_callable(lambda m, n, k: (m, k))
LHS_KM = AffineMap.from_callable(lambda m, n, k: (k, m))
RHS_KN = AffineMap.from_callable(lambda m, n, k: (k, n))
RHS_NK = AffineMap.from_callable(lambda m, n, k: (n, k))


@irdl_op_definition
class AwaitOp(IRDLOperation):
    """Wait for asynchronous ops.

    With ``tokens``, until the ops that gave them are complete; younger ones may stay in flight.
    A contract's token makes its accumulator readable.  With ``pending n``, until at most the
    ``n`` newest contracts are unfinished.  ``gpu-resolve-tokens`` turns the first form into
    the second, and says which accumulators are then ``ready``: their registers may be touched.
    """

    name = "gpu.await"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    tokens = var_operand_def(TokenType)
    ready = var_operand_def(base(FragmentType) | base(MemRefType))
    pending = opt_prop_def(IndexAttr)
    assembly_format = (
        "($tokens^)? (`pending` $pending^)? (`ready` $ready^ `:` type($ready))? attr-dict"
    )

    def __init__(
        self,
        pending: int | None = None,
        tokens: Sequence[SSAValue] = (),
        ready: Sequence[SSAValue] = (),
    ) -> None:
        super().__init__(
            operands=[list(tokens), list(ready)],
            properties={"pending": None if pending is None else index_attr(pending)},
        )

    @property
    def depth(self) -> int:
        """How many contracts may stay unfinished; tokens are resolved."""
        assert self.pending is not None
        return self.pending.value.data

    def verify_(self) -> None:
        if self.pending is not None:
            verify_pending("contracts", self.pending)
        if (self.pending is None) == (not self.tokens):
            raise VerifyException(
                "an await names the tokens that it waits for, or how many contracts may stay "
                "pending: one of both"
            )
        if self.ready and self.pending is None:
            raise VerifyException("what a token's await makes ready, gpu-resolve-tokens finds")


@irdl_op_definition
class MapOp(IRDLOperation):
    """Apply a scalar body at every element of the tile that ``space`` covers.

    ``inputs`` are ``space`` itself (always the first body argument) and then tensors in
    global memory, shared tiles or fragments; ``outputs`` are fragments of the same tile or
    tensors in global memory.  ``maps`` gives, for each input after the first and then each
    output, the coordinates as an affine map of the tile's axes (dimensions) and of ``origin``
    (symbols: the tile's place in the whole).  So ``(d0, d1) -> (d0)`` reads a statistic of the
    row from a fragment of rank 1.  An output fragment is written at the element's own place.
    Elements outside a tensor are not read (the body sees 0) and not written.  Where the body does
    not use the first argument, ``space`` says only how the tile is spread over threads.  In the
    body ``gpu.tile_index`` is the element's coordinate in the tile.

    What the body writes to a tensor by itself, at places that it computes, each thread writes that
    holds the element: such a map has a layout in which that is one.  ``cache`` is a hint for the L2
    cache of what its maps read of tensors (``CACHE_HINTS``).
    """

    name = "gpu.map"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    space = operand_def(base(FragmentType))
    origin = var_operand_def(IndexType)
    inputs = var_operand_def(base(GlobalType) | base(SharedType) | base(FragmentType))
    outputs = var_operand_def(base(GlobalType) | base(FragmentType))
    maps = prop_def(ArrayAttr[AffineMapAttr])
    cache = opt_prop_def(StringAttr)
    body = region_def("single_block")

    def __init__(
        self,
        space: SSAValue,
        origin: Sequence[SSAValue],
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        body: Region,
        cache: StringAttr | None = None,
    ) -> None:
        super().__init__(
            operands=[space, list(origin), list(inputs), list(outputs)],
            properties={"maps": ArrayAttr(map(AffineMapAttr, maps)), "cache": cache},
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
        cache = None
        if parser.parse_optional_keyword("cache") is not None:
            cache = StringAttr(parser.parse_str_literal())
        body = parser.parse_region()
        return cls(space, origin, inputs, outputs, maps, body, cache)

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
        if self.cache is not None:
            printer.print_string(" cache ")
            printer.print_attribute(self.cache)
        printer.print_string(" ")
        printer.print_region(self.body)

    def verify_(self) -> None:
        space = self.space.type
        assert isinstance(space, FragmentType)
        if self.cache is not None:
            verify_cache_hint(self.cache)
        operands = [*self.inputs, *self.outputs]
        if len(self.maps) != len(operands):
            raise VerifyException(f"{len(self.maps)} maps do not fit {len(operands)} operands")
        for value, attr in zip(operands, self.maps, strict=True):
            kind = value.type
            assert isinstance(kind, GlobalType | SharedType | FragmentType)
            rank = len(kind.dims if isinstance(kind, GlobalType) else kind.sizes)
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
        for value, m in zip(self.outputs, self.output_maps, strict=True):
            kind = value.type
            axes = tuple(AffineExpr.dimension(i) for i in range(len(space.sizes)))
            own = AffineMap(len(axes), len(self.origin), axes)
            if isinstance(kind, FragmentType) and (m != own or kind.sizes != space.sizes):
                raise VerifyException(
                    f"{kind} is written at each element's own place, so it has the sizes "
                    f"{list(space.sizes)} and the map {own}, not {m}"
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
    assert isinstance(value.type, GlobalType | SharedType | FragmentType)
    return value.type.element_type


@irdl_op_definition
class TileIndexOp(IRDLOperation):
    """In the body of a ``gpu.map``, the element's coordinate on ``axis`` of the tile."""

    name = "gpu.tile_index"
    axis = prop_def(IndexAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$axis attr-dict"

    def __init__(self, axis: int) -> None:
        super().__init__(properties={"axis": index_attr(axis)}, result_types=[IndexType()])

    def verify_(self) -> None:
        parent = self.parent_op()
        while parent is not None and not isinstance(parent, MapOp):
            parent = parent.parent_op()
        if parent is None:
            raise VerifyException("a tile has coordinates in the body of a gpu.map only")
        assert isinstance(parent.space.type, FragmentType)
        rank = len(parent.space.type.sizes)
        if not 0 <= self.axis.value.data < rank:
            raise VerifyException(f"a tile of rank {rank} has no axis {self.axis.value.data}")


REDUCTIONS = ("sum", "prod", "max", "min")
"""What a ``gpu.reduce`` does with the elements that fall together."""


def verify_reduction(
    kind: str, source: SSAValue, target: SSAValue
) -> tuple[FragmentType, FragmentType]:
    """The types of two fragments of which one is reduced into the other; raises VerifyException."""
    found, into = source.type, target.type
    assert isinstance(found, FragmentType) and isinstance(into, FragmentType)
    if kind not in REDUCTIONS:
        raise VerifyException(f'a reduction is {", ".join(REDUCTIONS)}, not "{kind}"')
    if found.element_type != into.element_type:
        raise VerifyException(f"a reduction does not convert {found} to {into}")
    return found, into


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """``target[by(i)] = kind over all i of source[i]``.

    ``by`` maps the source's coordinates to the target's: ``(d0, d1) -> (d0)`` reduces rows, and
    ``(d0, d1) -> (d0, d1 mod 4)`` reduces each row to four parts.  With ``accumulate`` the target's
    value takes part; without it the target is overwritten, by the neutral element where nothing
    falls.  With ``cluster`` the elements of all CTAs of the cluster take part, and each gets the
    result.  max and min propagate NaN (S0.6).  A sum's order follows the layout, which is fixed
    by the program: the result is deterministic.
    """

    name = "gpu.reduce"
    kind = prop_def(StringAttr)
    source = operand_def(base(FragmentType))
    by = prop_def(AffineMapAttr)
    target = operand_def(base(FragmentType))
    accumulate = opt_prop_def(UnitAttr)
    cluster = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        kind: str,
        source: SSAValue,
        by: AffineMap,
        target: SSAValue,
        accumulate: bool = False,
        cluster: bool = False,
    ) -> None:
        super().__init__(
            operands=[source, target],
            properties={
                "kind": StringAttr(kind),
                "by": AffineMapAttr(by),
                "accumulate": UnitAttr() if accumulate else None,
                "cluster": UnitAttr() if cluster else None,
            },
        )

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        kind = parser.parse_identifier()
        source = parser.parse_unresolved_operand()
        parser.parse_keyword("by")
        pos = parser.pos
        by = parser.parse_attribute()
        if not isinstance(by, AffineMapAttr):
            parser.raise_error("an affine_map says which elements fall together", pos, parser.pos)
        parser.parse_keyword("into")
        target = parser.parse_unresolved_operand()
        accumulate = parser.parse_optional_keyword("accumulate") is not None
        cluster = parser.parse_optional_keyword("cluster") is not None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source_type = parser.parse_type()
        parser.parse_punctuation(",")
        op = cls(
            kind,
            parser.resolve_operand(source, source_type),
            by.data,
            parser.resolve_operand(target, parser.parse_type()),
            accumulate,
            cluster,
        )
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data} ")
        printer.print_ssa_value(self.source)
        printer.print_string(" by ")
        printer.print_attribute(self.by)
        printer.print_string(" into ")
        printer.print_ssa_value(self.target)
        printer.print_string(" accumulate" if self.accumulate is not None else "")
        printer.print_string(" cluster" if self.cluster is not None else "")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(", ")
        printer.print_attribute(self.target.type)

    def verify_(self) -> None:
        source, target = verify_reduction(self.kind.data, self.source, self.target)
        by = self.by.data
        if (by.num_dims, by.num_symbols, len(by.results)) != (
            len(source.sizes),
            0,
            len(target.sizes),
        ):
            raise VerifyException(f"{by} does not take {source} to {target}")
        try:
            for result in by.results:
                linear_of(result)
        except NotAffine as error:
            raise VerifyException(str(error)) from error
        for corner in product(*((0, size - 1) for size in source.sizes)):
            place = by.eval(list(corner), [])
            if any(not 0 <= p < size for p, size in zip(place, target.sizes, strict=True)):
                raise VerifyException(
                    f"element {list(corner)} of {source} falls on {list(place)}, outside {target}"
                )
