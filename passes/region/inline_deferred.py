"""``region-inline-deferred``: a deferred producer becomes part of its consumer (S6.1).

An output marked ``deferred`` goes straight to the kernel that reads it, whose input says
``from = @producer::@output``.  ``InlineDeferred`` merges the two kernels; what it leaves
``MaterializeDeferred`` turns into ``gmem`` with a warning that says why, so that after
the pass one kernel is one launch and no output is deferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, BlockArgument, Region, SSAValue
from xdsl.ir.affine import AffineSet
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import region
from polyc.dialects.common.dim import AssumptionsAttr
from polyc.dialects.region.graph import ends, kernels_beside, source
from polyc.dialects.region.types import MemRefType, ValType
from polyc.poly.same_point import two_points
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.notes import Note, show
from polyc.rewriting.region.compose import COMPOSED, Composer, compose, domain, read_point

# Edges ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edge:
    """A deferred output and the inputs that read it, in the order of the text."""

    producer: region.KernelOp
    output: int
    readers: tuple[BlockArgument, ...]

    @property
    def name(self) -> str:
        return f"@{self.producer.sym_name.data}::@{self.producer.res_names.data[self.output].data}"

    @property
    def consumer(self) -> region.KernelOp:
        """The kernel of the first reader."""
        return cast(region.KernelOp, self.readers[0].owner.parent_op())


def edges(producer: region.KernelOp) -> list[Edge]:
    """The deferred outputs of a kernel with their readers in the kernels beside it."""
    found: list[Edge] = []
    for i, (name, where) in enumerate(zip(producer.res_names, producer.materialize, strict=True)):
        if where.data == "deferred":
            wanted = (producer.sym_name.data, name.data)
            readers = [
                arg
                for k in kernels_beside(producer)
                for j, arg in enumerate(k.ins)
                if source(k, j) == wanted
            ]
            found.append(Edge(producer, i, tuple(readers)))
    return found


# Legality ------------------------------------------------------------------------------


def _reads(argument: BlockArgument) -> list[region.ReadOp]:
    return [u.operation for u in argument.uses if isinstance(u.operation, region.ReadOp)]


def why_not_merged(edge: Edge) -> str | None:
    """Why the producer of ``edge`` stays a kernel of its own; None when it can be merged."""
    producer, readers = edge.producer, edge.readers
    if (graph := _graph_of_output(edge)) is not None:
        return f"it is an output of @{graph.sym_name.data}"
    if not readers:
        return "no kernel reads it"
    if len(readers) > 1:
        return f"{len(readers)} inputs read it, and one may"
    consumer = edge.consumer
    if len(producer.outs) > 1:
        return f"@{producer.sym_name.data} has {len(producer.outs)} outputs"
    block = producer.parent_block()
    assert block is not None
    if block.get_operation_index(consumer) < block.get_operation_index(producer):
        return f"@{consumer.sym_name.data} stands before the kernel that it reads from"
    if producer.symbol_names != consumer.symbol_names:
        return (
            f"the kernels have the symbols [{', '.join(producer.symbol_names)}] and "
            f"[{', '.join(consumer.symbol_names)}]"
        )
    out, into = producer.outs.data[edge.output], cast(MemRefType, edge.readers[0].type)
    if (out.shape, out.element_type) != (into.shape, into.element_type):
        return f"it is {out} and is read as {into}"
    return _why_not_computed(edge) or _why_not_named(producer, consumer)


def _graph_of_output(edge: Edge) -> region.GraphOp | None:
    """The graph of which a deferred value is an output, or None."""
    name = edge.producer.res_names.data[edge.output].data
    where = (edge.producer.sym_name.data, name)
    block = edge.producer.parent_block()
    for op in () if block is None else block.ops:
        if isinstance(op, region.GraphOp) and any(ends(s) == where for s in op.sources):
            return op
    return None


def _why_not_computed(edge: Edge) -> str | None:
    """Why it is not computed where it is read: a reduction of it would be repeated (S6.6)."""
    consumer = f"@{edge.consumer.sym_name.data}"
    body = [op for op in edge.producer.body.block.ops if not isinstance(op, region.YieldOp)]
    for op in body:
        if not isinstance(op, COMPOSED):
            return f"it is made by {op.name}, which is not computed at other points"
    if not any(isinstance(op, region.ReduceOp) for op in body):
        return None
    points = list(dict.fromkeys(read_point(read) for read in _reads(edge.readers[0])))
    if len(points) > 1:
        return f"it is reduced, and {consumer} reads it at {len(points)} indices"
    for point in points:
        where = domain(edge.consumer, point.axes)
        if point.guard is not None:
            where = AffineSet(
                where.num_dims,
                where.num_symbols,
                (*where.constraints, *point.guard.constraints),
            )
        if (clash := two_points(point.map, where, point.labels)) is not None:
            return f"it is reduced, and in {consumer} {clash}"
    return None


def _why_not_named(producer: region.KernelOp, consumer: region.KernelOp) -> str | None:
    ours = {
        n.data: (a.type, d)
        for n, a, d in zip(producer.arg_names, producer.ins, producer.arg_attrs, strict=True)
    }
    for name, arg, attrs in zip(consumer.arg_names, consumer.ins, consumer.arg_attrs, strict=True):
        if ours.get(name.data, (arg.type, attrs)) != (arg.type, attrs):
            return f"input {name.data} is another tensor in @{consumer.sym_name.data}"
    if taken := set(ours) & {n.data for n in consumer.res_names}:
        return f"@{consumer.sym_name.data} has an output of the name {taken.pop()}"
    return None


# Merging -------------------------------------------------------------------------------


def merge(edge: Edge) -> region.KernelOp:
    """One kernel that computes what the producer and the consumer of ``edge`` do.

    It has the consumer's name and outputs, and the inputs of both, each once.  Legal when
    ``why_not_merged`` is None.  Exact: the deferred value keeps its rounding.
    """
    producer, consumer = edge.producer, edge.consumer
    through = edge.readers[0]
    signature: dict[str, region.KernelTensor] = {}
    arguments: list[tuple[BlockArgument, str]] = []
    for kernel in (producer, consumer):
        for arg, tensor in zip(kernel.ins, kernel.inputs, strict=True):
            if arg is not through:
                signature.setdefault(tensor.name, tensor)
                arguments.append((arg, tensor.name))
    block = Block(arg_types=[t.type for t in signature.values()])
    place = dict(zip(signature, block.args, strict=True))
    values: dict[SSAValue, SSAValue] = {arg: place[name] for arg, name in arguments}
    ops = list(consumer.body.block.ops)
    labels = {op.label for op in consumer.body.walk() if isinstance(op, region.ReduceOp)}
    sizes = {a.label: a for op in ops for r in op.results for a in cast(ValType, r.type).axes}
    sizes |= {a.label: a for a in consumer.iters}
    composer = Composer(producer, block, values, sizes, {x for x in labels if x is not None})
    made = producer.yield_op.values[edge.output]
    for op in ops:
        if isinstance(op, region.ReadOp) and op.tensor is through:
            values[op.result] = compose(composer, made, op)
        else:
            copy = op.clone(value_mapper=values)
            copy.location = op.location
            block.add_op(copy)
    merged = region.KernelOp(
        consumer.sym_name.data,
        consumer.iters,
        list(signature.values()),
        consumer.outputs,
        body=Region(block),
        symbols=consumer.symbol_names,
        assumptions=_both(producer.assumptions, consumer.assumptions),
    )
    merged.attributes |= consumer.attributes
    return located(merged, consumer)


def _both(a: AssumptionsAttr, b: AssumptionsAttr) -> AssumptionsAttr:
    return AssumptionsAttr(tuple(dict.fromkeys((*a.data, *b.data))))


# Patterns and the pass -----------------------------------------------------------------


class InlineDeferred(RewritePattern):
    """A kernel with one deferred output → part of the one kernel that reads it.

    Legal when the consumer comes later and has the same symbols: each element is computed where
    it is used, at every index at which it is.  Where the producer reduces, one index wants each
    element, which isl decides, so that no reduction is repeated.  Exact.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.KernelOp, rewriter: PatternRewriter, /) -> None:
        for edge in edges(op):
            if why_not_merged(edge) is None:
                rewriter.replace(edge.consumer, merge(edge), [])
                rewriter.erase(op)
                return


@dataclass
class MaterializeDeferred(RewritePattern):
    """A deferred output → an output in global memory; ``notes`` collects why.

    Legal always, and exact: the value is stored and read back in its own type.
    """

    notes: list[Note] = field(default_factory=list[Note])

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.KernelOp, rewriter: PatternRewriter, /) -> None:
        left: Sequence[Edge] = edges(op)
        if not left:
            return
        for edge in left:
            text = f"{edge.name} is stored in global memory: {why_not_merged(edge)}"
            self.notes.append(Note("DeferredMaterialized", text, op, "warning"))
        op.materialize = ArrayAttr(StringAttr("gmem") for _ in op.outs)
        rewriter.notify_op_modified(op)


class DissolveGraph(RewritePattern):
    """``region.graph`` of one kernel with its outputs → that kernel, with the graph's signature.

    Legal when the kernel reads the graph's inputs alone and makes its outputs, each as it is.
    Exact.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.GraphOp, rewriter: PatternRewriter, /) -> None:
        if (kernel := single_kernel(op)) is not None:
            rewriter.replace(kernel, alone(op, kernel), [])
            rewriter.erase(op)


def single_kernel(graph: region.GraphOp) -> region.KernelOp | None:
    """The one kernel that has a graph's inputs and outputs as they are, or None."""
    kernels = graph.kernels()
    if len(kernels) != 1:
        return None
    (kernel,) = kernels
    name = kernel.sym_name.data
    inputs = {
        (graph.sym_name.data, n.data): t for n, t in zip(graph.arg_names, graph.ins, strict=True)
    }
    read = [(source(kernel, i), arg.type) for i, arg in enumerate(kernel.ins)]
    same = all(where is not None and inputs.get(where) == kind for where, kind in read)
    made = [(ends(s), t) for s, t in zip(graph.sources, graph.outs, strict=True)]
    makes = [((name, n.data), t) for n, t in zip(kernel.res_names, kernel.outs, strict=True)]
    once = len({where for where, _ in read}) == len(read)
    return kernel if same and once and made == makes else None


def alone(graph: region.GraphOp, kernel: region.KernelOp) -> region.KernelOp:
    """``kernel``, the one kernel of ``graph``, with the graph's name and signature."""
    block = Block(arg_types=graph.ins.data)
    place = dict(zip((n.data for n in graph.arg_names), block.args, strict=True))
    values: dict[SSAValue, SSAValue] = {}
    for i, arg in enumerate(kernel.ins):
        where = source(kernel, i)
        assert where is not None
        values[arg] = place[where[1]]
    for op in kernel.body.block.ops:
        copy = op.clone(value_mapper=values)
        copy.location = op.location
        block.add_op(copy)
    found = region.KernelOp(
        graph.sym_name.data,
        kernel.iters,
        graph.inputs,
        graph.outputs,
        body=Region(block),
        symbols=graph.symbol_names,
        assumptions=graph.assumptions,
    )
    found.attributes |= graph.attributes | kernel.attributes
    return located(found, graph)


@dataclass(frozen=True)
class RegionInlineDeferred(ModulePass):
    """No output is deferred: producers are merged where that is legal, else stored (S6.1)."""

    name = "region-inline-deferred"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [InlineDeferred()], recursive=True)
        store = MaterializeDeferred()
        rewrite(op, [store])
        rewrite(op, [DissolveGraph()])
        show(store.notes)
