"""``region-to-gpu``: the kernel of one schedule, at the tile level (S9, T3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    f32,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.dim import Dim
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.types import (
    BindAttr,
    FragmentType,
    GlobalType,
    IntsAttr,
    SharedType,
    index_attr,
)
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import (
    BinaryOp,
    BroadcastInDimOp,
    CastOp,
    CompareOp,
    ConstantOp,
    KernelOp,
    ReadOp,
    SelectOp,
    TransposeOp,
    UnaryOp,
)
from polyc.dialects.region_types import MemRefType
from polyc.passes.driver import located
from polyc.passes.emit import INDEX, Emit, affine_dim
from polyc.passes.gpu_double_buffer_fragments import BUFFERS
from polyc.passes.gpu_warp_specialize import REGISTERS
from polyc.passes.region_contraction import Contraction, Operand, staged_tile

ROW, COLUMN = AffineExpr.dimension(0), AffineExpr.dimension(1)
FIRST_ROW, FIRST_COLUMN = AffineExpr.symbol(0), AffineExpr.symbol(1)

BINARY: Mapping[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "add": arith.AddfOp,
    "sub": arith.SubfOp,
    "mul": arith.MulfOp,
    "div": arith.DivfOp,
    "max": arith.MaximumfOp,
    "min": arith.MinimumfOp,
    "pow": math.PowFOp,
}
"""Scalar op of each binary function; max and min propagate NaN (S0.6)."""

UNARY: Mapping[str, Callable[[SSAValue], Operation]] = {
    "abs": math.AbsFOp,
    "erf": math.ErfOp,
    "exp": math.ExpOp,
    "log": math.LogOp,
    "rsqrt": math.RsqrtOp,
    "sqrt": math.SqrtOp,
    "tanh": math.TanhOp,
    "neg": arith.NegfOp,
}
"""Scalar op of each unary function that is one op."""

COMPARE: Mapping[str, str] = {
    "eq": "oeq",
    "ne": "une",
    "lt": "olt",
    "le": "ole",
    "gt": "ogt",
    "ge": "oge",
}
"""Ordered comparisons: a NaN compares false, and ``ne`` true."""


class Epilogue:
    """The scalar body of a region's values at one point of the output tile."""

    def __init__(self, gemm: Contraction, block: Block) -> None:
        self.gemm = gemm
        self.block = block
        self.emit = Emit()
        self.values: dict[SSAValue, SSAValue] = {gemm.reduce.result: block.args[0]}
        self.tensors: list[SSAValue] = []
        self.maps: list[AffineMap] = []

    def scalar(self, value: SSAValue) -> SSAValue:
        """The scalar of a region value, made with what it needs when it is asked for first."""
        if value not in self.values:
            op = value.owner
            assert isinstance(op, Operation)
            before = len(self.emit.ops)
            made = self.make(op)
            for new in self.emit.ops[before:]:
                located(new, op)
            if value.name_hint is not None and made.name_hint is None:
                made.name_hint = value.name_hint
            self.values[value] = made
        return self.values[value]

    def make(self, op: Operation) -> SSAValue:
        match op:
            case ReadOp():
                return self.read(op)
            case ConstantOp():
                value = op.value.value.data
                kind = cast(AnyFloat, op.result.type.element_type)
                return self.emit.value(arith.ConstantOp(FloatAttr(value, kind)))
            case BroadcastInDimOp() | TransposeOp():
                return self.scalar(op.operand)
            case CastOp():
                return self.cast(self.scalar(op.operand), op.result.type.element_type)
            case UnaryOp():
                return self.unary(op.fn.data, self.scalar(op.operand))
            case BinaryOp():
                return self.emit.value(BINARY[op.fn.data](self.scalar(op.lhs), self.scalar(op.rhs)))
            case CompareOp():
                lhs, rhs = self.scalar(op.lhs), self.scalar(op.rhs)
                return self.emit.value(arith.CmpfOp(lhs, rhs, COMPARE[op.fn.data]))
            case SelectOp():
                condition, then, other = (self.scalar(v) for v in op.operands)
                return self.emit.value(arith.SelectOp(condition, then, other))
            case _:
                raise PolycError(
                    "UnsupportedProgram",
                    f"{op.name} does not run at one point of the output tile; "
                    "make its result an output of a graph of its own",
                    op,
                )

    def read(self, op: ReadOp) -> SSAValue:
        """A tensor read at the point, as an input of the map."""
        if op.guard is not None:
            raise PolycError(
                "UnsupportedProgram", "a guarded read in an epilogue is not there yet", op
            )
        axes = {self.gemm.m: ROW + FIRST_ROW, self.gemm.n: COLUMN + FIRST_COLUMN}
        dims = [axes[label] for label in op.result.type.labels]
        access = op.map.data
        if access.num_symbols and any(
            isinstance(e, type(AffineExpr.symbol(0))) for r in access.results for e in r.dfs()
        ):
            raise PolycError(
                "UnsupportedProgram",
                f"an epilogue reads at {access}, which moves by a size; not there yet",
                op,
            )
        unused = [AffineExpr.constant(0)] * access.num_symbols
        results = tuple(e.replace_dims_and_symbols(dims, unused) for e in access.results)
        self.tensors.append(op.tensor)
        self.maps.append(AffineMap(2, 2, results))
        arg = self.block.insert_arg(op.result.type.element_type, len(self.block.args))
        assert isinstance(op.tensor, BlockArgument)
        arg.name_hint = op.tensor.name_hint
        return arg

    def cast(self, value: SSAValue, target: Attribute) -> SSAValue:
        source = value.type
        if source == target:
            return value
        if target == f32:
            return self.emit.value(arith.ExtFOp(value, f32))
        if source == f32:
            return self.emit.value(arith.TruncFOp(value, cast(AnyFloat, target)))
        return self.cast(self.cast(value, f32), target)

    def unary(self, fn: str, value: SSAValue) -> SSAValue:
        if fn in UNARY:
            return self.emit.value(UNARY[fn](value))
        one = self.emit.value(arith.ConstantOp(FloatAttr(1.0, f32)))
        if fn == "reciprocal":
            return self.emit.value(arith.DivfOp(one, value))
        assert fn == "sigmoid", fn
        # 1 / (1 + exp(-x)): exp overflows to infinity where the result is 0.
        power = self.emit.value(math.ExpOp(self.emit.value(arith.NegfOp(value))))
        return self.emit.value(arith.DivfOp(one, self.emit.value(arith.AddfOp(one, power))))


@dataclass(frozen=True)
class Place:
    """Where a tile of the output begins."""

    row: SSAValue
    column: SSAValue


@dataclass
class KernelBuilder:
    """Builds the kernel of one schedule."""

    gemm: Contraction
    plan: ScheduleOp
    bindings: Sequence[BindAttr]
    """What each tensor of the region's signature is, inputs first."""

    def __post_init__(self) -> None:
        kernel = self.gemm.kernel
        self.types = [global_type(t) for t in signature(kernel)]
        names = [n.data for n in (*kernel.arg_names, *kernel.res_names)]
        symbols = kernel.symbol_names
        self.block = Block(arg_types=[*self.types, *(INDEX for _ in symbols)])
        for arg, name in zip(self.block.args, (*names, *symbols), strict=True):
            arg.name_hint = name
        for arg, tensor in zip(self.block.args, kernel.ins, strict=False):
            arg.location = tensor.location
        self.symbols = dict(zip(symbols, self.block.args[len(names) :], strict=True))
        self.emit = Emit()

    def size(self, dim: Dim) -> SSAValue:
        return self.emit.dim(dim, list(self.symbols), list(self.symbols.values()))

    def argument(self, tensor: SSAValue) -> SSAValue:
        assert isinstance(tensor, BlockArgument)
        return self.block.args[tensor.index]

    def build(self, name: str) -> gpu.KernelOp:
        gemm, plan, emit = self.gemm, self.plan, self.emit
        self.check_supported()
        sizes = [self.size(gemm.size(gemm.m)), self.size(gemm.size(gemm.n))]
        self.depth = self.size(gemm.size(gemm.k))
        if plan.flag("persistent"):
            self.tile_loop(sizes)
        else:
            coordinates = tile.TileCoordinatesOp(
                sizes[0], sizes[1], plan.tile_sizes[:2], plan.raster.data, plan.integer("group")
            )
            emit.op(coordinates)
            self.compute(Place(coordinates.row, coordinates.column))
        emit.op(gpu.ReturnOp())
        self.block.add_ops(emit.ops)
        kernel = gpu.KernelOp(
            name,
            [
                *self.bindings,
                *(BindAttr.symbol(s) for s in self.symbols),
            ],
            plan.threads(),
            Region(self.block),
            cluster=plan.integers("cluster")[0],
        )
        if split := plan.integers("registers"):
            kernel.attributes[REGISTERS] = IntsAttr(tuple(split))
        return located(kernel, gemm.kernel)

    def tile_loop(self, sizes: Sequence[SSAValue]) -> None:
        """A loop over the block's tiles; its body is what another kernel does once.

        Shared tiles and what is computed from sizes alone stand before it.
        """
        plan = self.plan
        body = Block(arg_types=[INDEX] * 3)
        row, column, ordinal = body.args
        ordinal.name_hint = "tile"
        outer, self.emit = self.emit, Emit()
        self.compute(Place(row, column))
        inner, self.emit = self.emit, outer
        for op in inner.ops:
            if isinstance(op, SharedTileOp):
                outer.op(op)
        body.add_ops([o for o in inner.ops if not isinstance(o, SharedTileOp)])
        outer.op(
            tile.TileLoopOp(
                sizes, plan.tile_sizes[:2], Region(body), plan.raster.data, plan.integer("group")
            )
        )

    def compute(self, at: Place) -> None:
        """One tile of the output: contract, and hand on what comes out."""
        gemm, emit = self.gemm, self.emit
        at.row.name_hint, at.column.name_hint = f"{gemm.m}0", f"{gemm.n}0"
        rows, columns, _ = self.plan.tile_sizes
        zero = emit.zero_f32()
        acc = emit.value(tile.FragmentOp(FragmentType.of([rows, columns], f32)), "acc")
        emit.op(tile.FillOp(zero, acc))
        self.contract(at, acc)
        self.epilogue(at, acc)

    def check_supported(self) -> None:
        """Refuse, with its name, a choice of the plan that no lowering obeys yet."""
        plan = self.plan
        rows, columns = plan.integers("cluster")
        roles = plan.flag("persistent") and plan.loader.data == "tma"
        alone = "[1, 1], or a persistent kernel that loads by tma"
        for field, taken, there in (
            ("split_k", plan.integer("split_k") != 1, "1"),
            ("cluster", columns != 1, f"[{rows}, 1], neighbours along the rows"),
            ("cluster", rows != 1 and not roles, alone),
            ("pingpong", plan.flag("pingpong"), "false"),
            ("persistent", plan.flag("persistent") and plan.mma.data != "wgmma", "false"),
            ("raster", plan.raster.data == "column", '"row" or "grouped"'),
        ):
            if taken:
                raise PolycError(
                    "UnsupportedPlan",
                    f"plan {plan.variant.data!r} asks for a {field} that region-to-gpu does not "
                    f"build yet; use {there}",
                    plan,
                )

    def contract(self, at: Place, acc: SSAValue) -> None:
        """The pipeline over k: copy both operands' tiles, and contract them."""
        gemm, plan, emit = self.gemm, self.plan, self.emit
        rows, columns, depth = plan.tile_sizes
        sizes = {gemm.m: rows, gemm.n: columns, gemm.k: depth}
        shared: list[SSAValue] = []
        for side in (gemm.lhs, gemm.rhs):
            source = cast(GlobalType, self.argument(side.read.tensor).type)
            kind = SharedType.of([sizes[a] for a in side.axes], source.element_type)
            op = located(SharedTileOp(kind), side.read)
            shared.append(emit.value(op, f"{side.name}_tile"))
        body = Block(arg_types=[INDEX, INDEX])
        position, iteration = body.args
        position.name_hint, iteration.name_hint = f"{gemm.k}0", "i"
        start = {gemm.m: at.row, gemm.n: at.column, gemm.k: position}
        for side, target in zip((gemm.lhs, gemm.rhs), shared, strict=True):
            # The CTAs of a cluster lie along the rows, and share what has none.
            copy = tile.CopyOp(
                self.argument(side.read.tensor),
                [start[a] for a in side.axes],
                target,
                loader=plan.loader.data,
                multicast=plan.flag("multicast") and gemm.m not in side.axes,
            )
            body.add_op(located(copy, side.read))
        contract = tile.ContractOp(
            shared[0],
            self.operand_map(gemm.lhs),
            shared[1],
            self.operand_map(gemm.rhs),
            acc,
            plan.mma.data,
            plan.warp_tile_sizes,
        )
        if (buffers := plan.integer(BUFFERS)) > 1:
            contract.attributes[BUFFERS] = index_attr(buffers)
        body.add_op(located(contract, gemm.reduce))
        pipeline = tile.PipelineOp(self.depth, depth, plan.integer("stages"), Region(body))
        emit.op(located(pipeline, gemm.reduce))

    def operand_map(self, side: Operand) -> AffineMap:
        order = (self.gemm.m, self.gemm.n, self.gemm.k)
        axes = tuple(AffineExpr.dimension(order.index(a)) for a in side.axes)
        return AffineMap(3, 0, axes)

    def epilogue(self, at: Place, acc: SSAValue) -> None:
        """What follows the contraction, mapped over its accumulator into the outputs.

        A persistent kernel maps into a fragment, and stores that by TMA, so that the stores go
        on while the next tile is computed.
        """
        gemm = self.gemm
        block = Block(arg_types=[f32])
        block.args[0].name_hint = gemm.reduce.label
        body = Epilogue(gemm, block)
        results: list[SSAValue] = []
        maps: list[AffineMap] = []
        by_label = {gemm.m: ROW + FIRST_ROW, gemm.n: COLUMN + FIRST_COLUMN}
        for value, out in zip(gemm.kernel.yield_op.values, gemm.kernel.outs, strict=True):
            scalar = body.scalar(value)
            results.append(body.cast(scalar, out.element_type))
            labels = [axis.label for axis in gemm.kernel.iters]
            maps.append(AffineMap(2, 2, tuple(by_label[label] for label in labels)))
        block.add_ops([*body.emit.ops, tile.YieldOp(results)])
        inputs = [self.argument(t) for t in body.tensors]
        first = len(gemm.kernel.arg_names)
        outputs: list[SSAValue] = list(self.block.args[first : first + len(results)])
        staged = staged_tile(gemm, self.plan)
        tensor = outputs[0]
        if staged is not None:
            kind = FragmentType.of(self.plan.tile_sizes[:2], results[0].type)
            outputs = [self.emit.value(tile.FragmentOp(kind), "out")]
            maps = [AffineMap(2, 2, (ROW, COLUMN))]
        new = tile.MapOp(
            acc, [at.row, at.column], inputs, outputs, [*body.maps, *maps], Region(block)
        )
        self.emit.op(located(new, gemm.kernel.yield_op))
        if staged is not None:
            for op in self.stores(at, outputs[0], tensor, staged):
                located(op, gemm.kernel.yield_op)

    def stores(
        self, at: Place, fragment: SSAValue, tensor: SSAValue, staged: tuple[int, int]
    ) -> list[Operation]:
        """The fragment by parts into a shared tile, and from there to the tensor."""
        emit, made = self.emit, len(self.emit.ops)
        assert isinstance(fragment.type, FragmentType)
        kind = SharedType.of(staged, fragment.type.element_type)
        shared = emit.value(SharedTileOp(kind), "out_tile")
        for start in range(0, self.plan.tile_sizes[1], staged[1]):
            window = None if fragment.type.sizes == staged else (0, start)
            emit.op(tile.CopyOp(fragment, [], shared, window=window))
            column = emit.apply(affine_dim(0) + start, [at.column]) if start else at.column
            emit.op(tile.CopyOp(shared, [at.row, column], tensor, loader="tma"))
        return emit.ops[made:]


def signature(kernel: KernelOp) -> list[MemRefType]:
    """The tensors of a kernel, inputs and then outputs."""
    return [*(cast(MemRefType, a.type) for a in kernel.body.block.args), *kernel.outs]


def global_type(memref: MemRefType) -> GlobalType:
    return GlobalType.of(memref.shape, memref.element_type)
