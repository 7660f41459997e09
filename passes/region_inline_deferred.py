"""``region-inline-deferred``: a deferred producer becomes part of its consumer (S6.1).

An output marked ``deferred`` goes straight to the kernel that reads it, whose input says
``from = @producer::@output``.  ``InlineDeferred`` merges the two kernels; what it leaves
``MaterializeDeferred`` turns into ``gmem`` with a warning that says why, so that after
the pass one kernel is one launch and no output is deferred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import Rewriter

from polyc.dialects import region
from polyc.dialects.dim import AssumptionsAttr
from polyc.dialects.region_types import AxisAttr, MemRefType, ValType, axes_text, val_type
from polyc.passes.driver import located, rewrite
from polyc.passes.notes import Note, show

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


def source(kernel: region.KernelOp, position: int) -> tuple[str, str] | None:
    """The kernel and the output that input ``position`` comes ``from``, or None."""
    found = kernel.arg_attrs.data[position].data.get("from")
    if not isinstance(found, SymbolRefAttr) or len(found.nested_references) != 1:
        return None
    return found.root_reference.data, found.nested_references.data[0].data


def edges(producer: region.KernelOp) -> list[Edge]:
    """The deferred outputs of a kernel with their readers in the kernels beside it."""
    block = producer.parent_block()
    kernels = [] if block is None else [o for o in block.ops if isinstance(o, region.KernelOp)]
    found: list[Edge] = []
    for i, (name, where) in enumerate(zip(producer.res_names, producer.materialize, strict=True)):
        if where.data == "deferred":
            wanted = (producer.sym_name.data, name.data)
            readers = [
                arg for k in kernels for j, arg in enumerate(k.ins) if source(k, j) == wanted
            ]
            found.append(Edge(producer, i, tuple(readers)))
    return found


# Legality ------------------------------------------------------------------------------


def _reads(argument: BlockArgument) -> list[region.ReadOp]:
    return [u.operation for u in argument.uses if isinstance(u.operation, region.ReadOp)]


def read_labels(read: region.ReadOp) -> tuple[str, ...] | None:
    """The axis that indexes each dimension of a read of whole axes; None for any other.

    Such a read is pointwise: one axis a dimension, each over the dimension's extent.
    """
    memref, axes = cast(MemRefType, read.tensor.type), val_type(read.result).axes.data
    kernel = region.kernel_of(read)
    labels: list[str] = []
    for expr, extent in zip(read.map.data.results, memref.shape, strict=True):
        if not isinstance(expr, AffineDimExpr):
            return None
        axis = axes[expr.position]
        if axis.size != extent and (kernel is None or not kernel.same_size(axis.size, extent)):
            return None
        labels.append(axis.label)
    if read.guard is not None or len(set(labels)) != len(labels) or len(labels) != len(axes):
        return None
    return tuple(labels)


def _reduced_later(value: SSAValue) -> bool:
    """Whether a reduction depends on ``value``."""
    seen: set[Operation] = set()
    todo = [u.operation for u in value.uses]
    while todo:
        op = todo.pop()
        if isinstance(op, region.ReduceOp):
            return True
        if op not in seen:
            seen.add(op)
            todo += [u.operation for r in op.results for u in r.uses]
    return False


def why_not_merged(edge: Edge) -> str | None:
    """Why the producer of ``edge`` stays a kernel of its own; None when it can be merged."""
    producer, readers = edge.producer, edge.readers
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
    return _why_not_read(edge) or _why_not_named(producer, consumer)


def _why_not_read(edge: Edge) -> str | None:
    consumer = f"@{edge.consumer.sym_name.data}"
    reads = _reads(edge.readers[0])
    labels = {read_labels(read) for read in reads}
    if None in labels:
        return f"{consumer} does not read it pointwise"
    if len(labels) > 1:
        return f"{consumer} reads it at several indices"
    if any(isinstance(op, region.ReduceOp) for op in edge.producer.body.block.ops):
        iters = edge.consumer.iters
        for read in reads:
            if set(read_labels(read) or ()) != {a.label for a in iters}:
                return (
                    f"it is reduced, and {consumer} reads it along {axes_text(iters)} more than "
                    "once"
                )
            if _reduced_later(read.result):
                return f"it is reduced, and {consumer} reduces it again"
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


def _fresh(label: str, taken: set[str]) -> str:
    if label not in taken:
        return label
    number = 0
    while f"r{number}" in taken:
        number += 1
    return f"r{number}"


def _renaming(edge: Edge) -> dict[str, str]:
    """New names for the producer's axes: those of the read, and none twice."""
    consumer = edge.consumer
    value = val_type(edge.producer.yield_op.values[edge.output])
    reads = _reads(edge.readers[0])
    targets = (read_labels(reads[0]) if reads else None) or value.labels
    renamed = dict(zip(value.labels, targets, strict=True))
    sizes = {
        a.label: a.size
        for op in consumer.body.block.ops
        for r in op.results
        for a in cast(ValType, r.type).axes
    }
    sizes |= {a.label: a.size for a in consumer.iters}
    for op in edge.producer.body.block.ops:
        for result in op.results:
            for axis in cast(ValType, result.type).axes:
                if axis.label in renamed:
                    continue
                taken = {*renamed.values()}
                taken |= {label for label, size in sizes.items() if size != axis.size}
                renamed[axis.label] = _fresh(axis.label, taken)
    return renamed


def _renamed(t: ValType, names: Mapping[str, str]) -> ValType:
    return ValType.of(
        (AxisAttr.of(names.get(a.label, a.label), a.size) for a in t.axes), t.element_type
    )


def _clone(op: Operation, values: dict[SSAValue, SSAValue], names: Mapping[str, str]) -> Operation:
    copy = op.clone(value_mapper=values)
    copy.location = op.location
    for old, result in zip(op.results, tuple(copy.results), strict=True):
        renamed = _renamed(cast(ValType, result.type), names)
        if renamed != result.type:
            values[old] = Rewriter.replace_value_with_new_type(result, renamed)
    if isinstance(copy, region.ReduceOp):
        copy.axes = ArrayAttr(StringAttr(names.get(label, label)) for label in copy.labels)
    return copy


def _relabel(op: region.ReduceOp, taken: set[str]) -> None:
    """Give the reduction a name that no other has."""
    if (label := op.label) is None:
        return
    number = 0
    while label in taken:
        number += 1
        label = f"{op.label}{number}"
    taken.add(label)
    op.label_attr = StringAttr(label)


def merge(edge: Edge) -> region.KernelOp:
    """One kernel that computes what the producer and the consumer of ``edge`` do.

    It has the consumer's name and outputs, and the inputs of both, each once.  Legal when
    ``why_not_merged`` is None.  Exact: the deferred value keeps its rounding.
    """
    producer, consumer = edge.producer, edge.consumer
    through = edge.readers[0]
    signature: dict[str, tuple[MemRefType, DictionaryAttr]] = {}
    arguments: list[tuple[BlockArgument, str]] = []
    for kernel in (producer, consumer):
        for arg, name, attrs in zip(kernel.ins, kernel.arg_names, kernel.arg_attrs, strict=True):
            if arg is not through:
                signature.setdefault(name.data, (cast(MemRefType, arg.type), attrs))
                arguments.append((arg, name.data))
    block = Block(arg_types=[t for t, _ in signature.values()])
    place = dict(zip(signature, block.args, strict=True))
    values: dict[SSAValue, SSAValue] = {arg: place[name] for arg, name in arguments}
    names = _renaming(edge)
    taken = {op.label for op in consumer.body.block.ops if isinstance(op, region.ReduceOp)}
    used = {label for label in taken if label is not None}
    for op in producer.body.block.ops:
        if not isinstance(op, region.YieldOp):
            block.add_op(copy := _clone(op, values, names))
            if isinstance(copy, region.ReduceOp):
                _relabel(copy, used)
    made = values[producer.yield_op.values[edge.output]]
    for op in consumer.body.block.ops:
        if isinstance(op, region.ReadOp) and op.tensor is through:
            values[op.result] = _as_read(op, made, block)
        else:
            block.add_op(_clone(op, values, {}))
    merged = region.KernelOp(
        consumer.sym_name.data,
        consumer.iters,
        [t for t, _ in signature.values()],
        consumer.outs.data,
        list(signature),
        [n.data for n in consumer.res_names],
        body=Region(block),
        symbols=consumer.symbol_names,
        assumptions=_both(producer.assumptions, consumer.assumptions),
        arg_attrs=[a for _, a in signature.values()],
        res_attrs=consumer.res_attrs.data,
        materialize=[m.data for m in consumer.materialize],
    )
    merged.attributes |= consumer.attributes
    return located(merged, consumer)


def _as_read(read: region.ReadOp, made: SSAValue, block: Block) -> SSAValue:
    """``made`` with its axes in the order of the read that it replaces."""
    have, want = val_type(made).labels, val_type(read.result).labels
    if have == want:
        return made
    op = located(region.TransposeOp(made, [have.index(w) for w in want]), read)
    block.add_op(op)
    return op.result


def _both(a: AssumptionsAttr, b: AssumptionsAttr) -> AssumptionsAttr:
    return AssumptionsAttr(tuple(dict.fromkeys((*a.data, *b.data))))


# Patterns and the pass -----------------------------------------------------------------


class InlineDeferred(RewritePattern):
    """A kernel with one deferred output → part of the one kernel that reads it.

    Legal when the consumer comes later, has the same symbols, and reads the output
    pointwise at one index, so that each element is computed where it is used; and where
    the producer reduces, when the consumer uses each element once and reduces none of
    them, so that no reduction is repeated.  Exact.
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


@dataclass(frozen=True)
class RegionInlineDeferred(ModulePass):
    """No output is deferred: producers are merged where that is legal, else stored (S6.1)."""

    name = "region-inline-deferred"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [InlineDeferred()], recursive=True)
        store = MaterializeDeferred()
        rewrite(op, [store])
        show(store.notes)
