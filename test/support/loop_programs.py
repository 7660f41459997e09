"""Programs whose regions no fast family takes, and the sizes at which tests play them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i1
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.dim import AssumptionsAttr, Dim
from polyc.dialects.frontend import GraphOp, tensor
from polyc.dialects.plan import ScheduleOp
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.index_to_region.kernels import Fuse
from polyc.passes.pipeline import build
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context

Size = Dim | int | str
Input = tuple[Sequence[Size], Attribute]
Make = Callable[["Graph"], Sequence[SSAValue]]


class Graph:
    """A frontend graph that ops are added to; ``ins`` are its inputs."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        self.op = GraphOp("f", [tensor(shape, element) for shape, element in inputs], [])
        self.ins = list(self.op.body.block.args)

    def add(self, op: Operation) -> SSAValue:
        self.op.body.block.add_op(op)
        return op.results[0]

    def fn(self, name: str, *values: SSAValue) -> SSAValue:
        return self.add(frontend.ElementwiseOp(name, values))

    def reduce(self, name: str, value: SSAValue, *axes: int) -> SSAValue:
        return self.add(frontend.ReduceOp(name, value, axes))

    def module(self, outputs: Sequence[SSAValue]) -> ModuleOp:
        self.op.body.block.add_op(frontend.OutputOp(outputs))
        kinds = [a.type for a in self.ins]
        body = self.op.detach_region(self.op.body)
        return ModuleOp([GraphOp("f", kinds, [v.type for v in outputs], body)])


@dataclass(frozen=True)
class Program:
    """A graph, and sizes at which it is small and has tails."""

    inputs: Sequence[Input]
    make: Make
    sizes: Sequence[Mapping[str, int]]
    fuse: Fuse = "legal"

    def module(self) -> ModuleOp:
        graph = Graph(self.inputs)
        return graph.module(self.make(graph))

    def regions(self) -> ModuleOp:
        """The regions that the graph becomes; fused where that is legal, paid or not."""
        module = self.module()
        ctx = make_context()
        for name in ("frontend-to-tiny", "tiny-to-index"):
            run_pass(ctx, build(name, ""), module)
        run_pass(ctx, IndexToRegion(self.fuse), module)
        for name in ("region-srnf", "region-inline-deferred", "region-streaming-softmax"):
            run_pass(ctx, build(name, ""), module)
        return module


def _chain(g: Graph) -> list[SSAValue]:
    x, y = g.ins
    return [g.fn("gelu", g.fn("add", x, y))]


def _movements(g: Graph) -> list[SSAValue]:
    (x,) = g.ins
    turned = g.add(frontend.PermuteOp(x, [2, 0, 1]))
    padded = g.add(frontend.PadOp(turned, [1, 0, 2], [0, 1, 1], 1.5))
    every = [Dim.const(0)] * 3, [Dim.sym("K") + 1, Dim.sym("M") + 1, Dim.sym("N") + 3], [1, 1, 2]
    return [g.add(frontend.SliceOp(padded, *every))]


def _concat(g: Graph) -> list[SSAValue]:
    return [g.add(frontend.ConcatOp([g.ins[0], g.fn("neg", g.ins[1])], 1))]


def _total(g: Graph) -> list[SSAValue]:
    return [g.reduce("mean", g.ins[0], 0, 1)]


def _weighed(g: Graph) -> list[SSAValue]:
    return [g.reduce("sum", g.fn("mul", *g.ins), 1)]


def _columns(g: Graph) -> list[SSAValue]:
    return [g.reduce("max", g.ins[0], 0, 1)]


def _softmax(axes: Sequence[int]) -> Make:
    return lambda g: [g.add(frontend.SoftmaxOp(g.ins[0], axes))]


def _layer_norm(g: Graph) -> list[SSAValue]:
    x, weight = g.ins
    return [g.add(frontend.LayerNormOp(x, [0, 2], 1e-3, weight=weight))]


def _gemm(turned: bool = False) -> Make:
    def make(g: Graph) -> list[SSAValue]:
        return [g.add(frontend.GemmOp(*g.ins[:2], transpose_b=turned))]

    return make


def _flat(g: Graph) -> list[SSAValue]:
    """A product that is a vector in memory, and is read as a matrix again."""
    flat = Dim.sym("M") * Dim.sym("N")
    product = g.add(frontend.ReshapeOp(g.add(frontend.GemmOp(*g.ins[:2])), [flat]))
    rows = g.add(frontend.ReshapeOp(product, [Dim.sym("M"), Dim.sym("N")]))
    return [product, g.fn("tanh", rows)]


def _computed(g: Graph) -> list[SSAValue]:
    return [g.add(frontend.GemmOp(g.fn("tanh", g.ins[0]), g.fn("abs", g.ins[1])))]


def _conv(g: Graph) -> list[SSAValue]:
    op = frontend.Conv2dOp(
        *g.ins,
        layout="nchw",
        stride=(2, 1),
        padding=[1, 0, 1, 1],
        dilation=(1, 2),
        groups=2,
    )
    return [g.fn("silu", g.add(op))]


def _each_channel(g: Graph) -> list[SSAValue]:
    """A convolution of each channel by itself, whose windows slide along lines of memory."""
    op = frontend.Conv2dOp(
        *g.ins,
        layout="nchw",
        stride=(2, 1),
        padding=[1, 1, 1, 1],
        dilation=(1, 1),
        groups=3,
    )
    return [g.fn("silu", g.add(op))]


def _attention(g: Graph) -> list[SSAValue]:
    q, k, v, mask = g.ins
    op = frontend.AttentionOp(q, k, v, [mask], causal=True, lse=True)
    g.add(op)
    return list(op.results)


def _conditions(g: Graph) -> list[SSAValue]:
    x, flags = g.ins
    positive = g.add(frontend.CompareOp("gt", x, g.add(frontend.ConstantOp(0.25))))
    return [g.add(frontend.SelectOp(flags, x, g.fn("exp", x))), positive]


def _several(g: Graph) -> list[SSAValue]:
    """Outputs over all axes, over one, and over none, which share their reductions."""
    (x,) = g.ins
    rows = g.reduce("sum", x, 1)
    return [g.fn("sub", x, g.add(frontend.ReshapeOp(rows, [Dim.sym("M"), Dim.const(1)]))), rows]


MN: Sequence[Size] = ("M", "N")
TAILS = ({"M": 9, "N": 130}, {"M": 3, "N": 16}, {"M": 17, "N": 1})

PROGRAMS: Mapping[str, Program] = {
    "a chain": Program([(MN, f16), (("N",), f32)], _chain, TAILS),
    "a chain of halves": Program([(MN, f16), (MN, f16)], _chain, TAILS),
    "a chain of a vector": Program(
        [(("M",), bf16), (("M",), bf16)], _chain, ({"M": 1500}, {"M": 1504})
    ),
    "a chain of scalars": Program([((), f32), ((), f32)], _chain, ({},)),
    "a chain with known rows of 3": Program(
        [(("M", 5, 3), f32), (("M", 5, 3), f32)], _chain, ({"M": 70},)
    ),
    "movements": Program([(("M", "N", "K"), f32)], _movements, ({"M": 3, "N": 5, "K": 4},)),
    "a concatenation": Program([(MN, f32), (MN, f32)], _concat, TAILS),
    "a mean over everything": Program([(MN, f16)], _total, (*TAILS, {"M": 0, "N": 3})),
    "a maximum over leading axes": Program(
        [(("K", "M", "N"), f32)], _columns, ({"K": 3, "M": 11, "N": 140}, {"K": 0, "M": 2, "N": 3})
    ),
    "sums of rows that have a number each": Program(
        [((3, "M", 136), f16), ((3, "M", 1), f32)], _weighed, ({"M": 70}, {"M": 0})
    ),
    "a softmax over columns": Program([(MN, f32)], _softmax([0]), (*TAILS, {"M": 20, "N": 3})),
    "a softmax over everything": Program([(MN, f32)], _softmax([0, 1]), TAILS),
    "a norm over two axes apart": Program(
        [(("M", "K", "N"), f32), (("M", "N"), f16)], _layer_norm, ({"M": 3, "K": 4, "N": 9},)
    ),
    "a product of f32": Program(
        [(("M", "K"), f32), (("K", "N"), f32)],
        _gemm(),
        ({"M": 9, "N": 130, "K": 5}, {"M": 2, "N": 3, "K": 0}, {"M": 9, "N": 12, "K": 3}),
    ),
    "a batch of products of f32": Program(
        [((2, "B", "M", "K"), f32), ((2, 1, "N", "K"), f32)],
        _gemm(True),
        ({"B": 3, "M": 9, "N": 5, "K": 7}, {"B": 3, "M": 9, "N": 5, "K": 8}),
    ),
    "a product that is a vector in memory": Program(
        [(("M", "K"), f32), (("K", "N"), f32)], _flat, ({"M": 9, "N": 20, "K": 5},), "none"
    ),
    "a product of two computed factors": Program(
        [(("M", "K"), f16), (("K", "N"), f16)],
        _computed,
        ({"M": 9, "N": 20, "K": 5}, {"M": 3, "N": 24, "K": 5}),
    ),
    "a convolution in groups": Program(
        [(("B", 4, "H", "W"), f32), ((6, 2, 3, 2), f32)],
        _conv,
        ({"B": 2, "H": 7, "W": 9}, {"B": 1, "H": 5, "W": 12}),
    ),
    "windows along lines": Program(
        [(("B", 3, 7, 14), f16), ((3, 1, 3, 3), f16)], _each_channel, ({"B": 2}, {"B": 11})
    ),
    "an attention of f32": Program(
        [((2, "M", 4), f32), ((2, "N", 4), f32), ((2, "N", 3), f32), ((1, "N"), i1)],
        _attention,
        ({"M": 9, "N": 7}, {"M": 3, "N": 0}),
    ),
    "conditions": Program([(MN, f32), (MN, i1)], _conditions, TAILS),
    "several outputs": Program([(MN, f32)], _several, (*TAILS, {"M": 3, "N": 0})),
}
"""Programs by what they show."""


def without_least_points(module: ModuleOp) -> None:
    """Take from the schedules in a module how many points there have to be.

    That makes a variant fast; it is right for fewer, which tests can run.  It is not right for more
    tiles than blocks share.
    """
    for op in module.walk():
        if isinstance(op, ScheduleOp):
            blocks = op.integer("split_k") if op.spreads_sums else None
            op.when = AssumptionsAttr(
                tuple(
                    fact
                    for fact in op.when.data
                    if fact.kind == "==" or dict(fact.expr.terms).get(()) == blocks
                )
            )
