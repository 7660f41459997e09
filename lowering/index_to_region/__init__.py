"""``index-to-region``: a tiny graph and its index book as kernels of pure values (S6).

What the outputs need is composed into one kernel, with movements as nothing but maps, wherever
that is legal and pays (``fusion.py``).  A graph that takes several kernels becomes a
``region.graph`` and one ``region.kernel`` for each value that is stored, in the order in which they
run; ``boundary`` beside such an output says why it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr, SymbolRefAttr, UnitAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import region, tiny
from polyc.dialects.common.signature import TensorSpec
from polyc.dialects.region.graph import FROM, SOFTMAX_SUM, edge
from polyc.dialects.region.types import AxisAttr, MemRefType, val_type
from polyc.lowering.index_to_region.body import Body
from polyc.lowering.index_to_region.buildable import apart, contracts, seconds, walks
from polyc.lowering.index_to_region.cuts import Built, composed
from polyc.lowering.index_to_region.forms import extent
from polyc.lowering.index_to_region.kernels import Fuse, Kernel, Kernels, Root, Split
from polyc.lowering.index_to_region.memory import stored_type
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.notes import show
from polyc.rewriting.structure import structure

DEFAULT_ALIGN = 16
"""Bytes that a tensor's address is a multiple of when the signature says nothing.

It is what allocators give and what the widest access needs; the launch checks it.
"""

BOUNDARY = "boundary"
"""The key, in the dictionary of an output between kernels, of why it is one."""


Answer = TypeVar("Answer")
Ask: TypeAlias = Callable[[Kernels], Callable[[Kernel], Answer]]
"""A question about one of some kernels."""


class Signature:
    """What is known of a graph whatever its kernels are; ``others`` are the names beside it."""

    def __init__(self, graph: tiny.GraphOp, others: Iterable[str] = ()) -> None:
        self.graph = graph
        self.others = tuple(others)
        self.inputs = list(graph.inputs)
        self.outputs = list(graph.outputs)
        self.arg_attrs = graph.arg_attrs.data
        made = (value for op in graph.body.block.ops for value in op.results)
        every = (*graph.body.block.args, *made)
        self.order: dict[SSAValue, int] = {value: place for place, value in enumerate(every)}
        """The places of its values in the program."""


class Lowering:
    """The ops that take the place of one graph.

    Where they are not ``named``, kernels and what lies between them have names of no meaning, which
    is enough to ask what becomes of them.
    """

    def __init__(self, signature: Signature, found: Kernels, named: bool = True) -> None:
        graph = signature.graph
        self.graph = graph
        self.name = graph.sym_name.data
        self.found = found
        self.inputs, self.outputs = signature.inputs, signature.outputs
        last = graph.body.block.last_op
        assert isinstance(last, tiny.OutputOp)
        self.yields = last
        self.order, self.arg_attrs = signature.order, signature.arg_attrs
        self.given = {self._base(value) for value in found.placed.values()}
        self.numbers: dict[SSAValue, list[int]] = {}
        for number, value in found.placed.items():
            self.numbers.setdefault(value, []).append(number)
        self.single = self._is_single()
        self.named = named
        self.kernel_names = self._kernel_names(set(signature.others)) if named else {}
        self.value_names = self._value_names() if named else {}

    def ops(self) -> list[Operation]:
        """The graph's signature, unless a single kernel has it, and the kernels."""
        kernels: list[Operation] = [self.kernel(k) for k in self.found.kernels]
        if not self.single:
            kernels.insert(0, self._graph())
        return [located(op, self.graph) for op in kernels]

    def _is_single(self) -> bool:
        """Whether one kernel has the inputs and the outputs of the graph as they are."""
        if len(self.found.kernels) != 1 or self.found.views:
            return False
        (kernel,) = self.found.kernels
        return not self.found.placed and all(
            tuple(axis.size for axis in root.stored_axes) == self.outputs[root.output].type.dims
            for root in kernel.roots
            if root.output is not None
        )

    # Names

    def _kernel_names(self, others: set[str]) -> dict[Kernel, str]:
        if self.single:
            return {self.found.kernels[0]: self.name}
        names: dict[Kernel, str] = {}
        number = 0
        for kernel in self.found.kernels:
            while (name := f"{self.name}_{number}") in others:
                number += 1
            names[kernel] = name
            number += 1
        return names

    def _value_names(self) -> dict[SSAValue, str]:
        """The name of each value in memory: the output's that it is, its own, or a number."""
        taken = {spec.name for spec in (*self.inputs, *self.outputs)}
        names: dict[SSAValue, str] = {}
        for leaf, spec in zip(self.graph.body.block.args, self.inputs, strict=True):
            names[leaf] = spec.name
        for number, value in self.found.placed.items():
            if value in self.found.stored:
                names[value] = self.outputs[number].name
        number = 0
        for value in sorted(self.found.stored, key=self.order.__getitem__):
            if value in names:
                continue
            hint = value.name_hint
            while hint is None or hint in taken:
                hint, number = f"v{number}", number + 1
            taken.add(hint)
            names[value] = hint
        return names

    # Tensors

    def _base(self, value: SSAValue) -> SSAValue:
        """The value of which ``value`` is a view in memory, or itself."""
        while value in self.found.views:
            value = self.found.views[value]
        return value

    def _spec(self, value: SSAValue) -> TensorSpec | None:
        """The output of the graph that a stored value is, where it has the output's shape."""
        for number in self.numbers.get(value, ()):
            spec = self.outputs[number]
            if extent(value, self.graph) == spec.type.dims:
                return spec
        return None

    def _in_memory(self, value: SSAValue) -> MemRefType:
        """The type of a value in memory; a view has the promises of what it views."""
        if isinstance(value, BlockArgument):
            return memref(self.inputs[value.index])
        if (spec := self._spec(value)) is not None and value in self.found.stored:
            return memref(spec)
        align, noalias = DEFAULT_ALIGN, True
        element = self._element(value)
        if value in self.found.views:
            base = self._in_memory(self.found.views[value])
            align, noalias, element = base.align, base.noalias, base.element_type
        sizes = extent(value, self.graph)
        if value in self.found.stored:
            sizes = [sizes[axis] for axis in self.found.stored[value].order]
        return MemRefType.of(sizes, element, align, noalias)

    def _element(self, value: SSAValue) -> Attribute:
        """The type of a value's elements in memory.

        What is merged into its reader, what an output of the graph is another view of, and what a
        row of an attention has one of, is as it is computed.
        """
        stored = self.found.stored.get(value)
        if stored is None or stored.edge != "gmem" or stored.exact or value in self.given:
            return tiny.tensor_of(value).element_type
        return stored_type(value)

    def _place(self, value: SSAValue) -> tuple[SymbolRefAttr, str]:
        """Where a value lies in memory: what it is ``from``, and its name there."""
        value = self._base(value)
        name = self._name(value)
        if isinstance(value, BlockArgument):
            return edge(self.name, name), name
        return edge(self._kernel_name(self.found.stored[value].kernel), name), name

    def _name(self, value: SSAValue) -> str:
        """What a value in memory is called."""
        return self.value_names[value] if self.named else f"__{self.order[value]}"

    def _kernel_name(self, kernel: Kernel) -> str:
        """What a kernel that makes a value is called."""
        return self.kernel_names[kernel] if self.named else f"{self.name}_of"

    def _reads(self, kernel: Kernel) -> dict[SSAValue, region.KernelTensor]:
        """What a kernel reads: the graph's inputs first, then what other kernels make."""
        leaves = self.graph.body.block.args if self.single else ()
        wanted = dict.fromkeys([*leaves, *kernel.reads])
        found: dict[SSAValue, region.KernelTensor] = {}
        taken: set[str] = set()
        for value in sorted((v for v in wanted if v in self.order), key=self.order.__getitem__):
            place, name = self._place(value)
            number = 0
            while name in taken:
                name, number = f"{self._place(value)[1]}_{number}", number + 1
            taken.add(name)
            attrs = DictionaryAttr({})
            if isinstance(value, BlockArgument):
                attrs = self.arg_attrs[value.index]
            if not self.single:
                attrs = DictionaryAttr({**attrs.data, FROM: place})
            stored = self.found.stored.get(value)
            if stored is not None and stored.sums:
                attrs = DictionaryAttr({**attrs.data, SOFTMAX_SUM: UnitAttr()})
            found[value] = region.KernelTensor(name, self._in_memory(value), attrs)
        return found

    def _writes(self, kernel: Kernel) -> list[region.KernelTensor]:
        """What a kernel makes, in the order of its roots."""
        found: list[region.KernelTensor] = []
        for root in kernel.roots:
            kind = self._in_memory(root.value)
            if root.output is None:
                stored, spec = self.found.stored[root.value], self._spec(root.value)
                attrs = DictionaryAttr({}) if spec is None else self._res_attrs(spec)
                attrs = DictionaryAttr({**attrs.data, BOUNDARY: StringAttr(stored.reason)})
                name = self._name(root.value)
                found.append(region.KernelTensor(name, kind, attrs, stored.edge))
                continue
            spec = self.outputs[root.output]
            whole = memref(spec)
            sizes = [axis.size for axis in root.stored_axes]
            kind = MemRefType.of(sizes, whole.element_type, whole.align, whole.noalias)
            found.append(region.KernelTensor(spec.name, kind, self._res_attrs(spec)))
        return found

    def _res_attrs(self, spec: TensorSpec) -> DictionaryAttr:
        return self.graph.res_attrs.data[self.outputs.index(spec)]

    # Ops

    def kernel(self, kernel: Kernel) -> region.KernelOp:
        """The region of one kernel."""
        reads, writes = self._reads(kernel), self._writes(kernel)
        block = Block(arg_types=[t.type for t in reads.values()])
        tensors: dict[SSAValue, SSAValue] = dict(zip(reads, block.args, strict=True))
        for value, argument in zip(reads, block.args, strict=True):
            if isinstance(value, BlockArgument):
                argument.location = value.location
        stored = self.found.stored
        orders = {value: stored[value].order for value in reads if value in stored}
        body = Body(kernel.forms, block, tensors, orders)
        made = [
            self._rounded(body, body.value(root.value, root.point), tensor)
            for root, tensor in zip(kernel.roots, writes, strict=True)
        ]
        values = [
            body.values.spread(value, _axes_in_memory(root, kernel), self.yields)
            for value, root in zip(made, kernel.roots, strict=True)
        ]
        block.add_op(located(region.YieldOp(values), self.yields))
        op = region.KernelOp(
            self._own_name(kernel),
            kernel.iters,
            list(reads.values()),
            writes,
            body=Region(block),
            symbols=self.graph.symbol_names,
            assumptions=self.graph.assumptions,
        )
        if self.single:
            op.attributes |= self.graph.attributes
        return op

    def _own_name(self, kernel: Kernel) -> str:
        if self.named:
            return self.kernel_names[kernel]
        return self.name if self.single else f"{self.name}_own"

    def signature(self, kernel: Kernel) -> Hashable:
        """What a kernel's region follows from, but for names: those of equal ones are alike."""
        found, facts = self.found, list[Hashable]()
        for value in (*kernel.reads, *(root.value for root in kernel.roots)):
            here: SSAValue | None = value
            while here is not None:
                stored = found.stored.get(here)
                facts.append((here, here in self.given, tuple(self.numbers.get(here, ()))))
                if stored is not None:
                    facts.append((stored.edge, stored.order, stored.exact, stored.sums))
                here = found.views.get(here)
        outputs = tuple(root.output for root in kernel.roots)
        return kernel.key, kernel.iters, outputs, self.single, tuple(facts)

    def _rounded(self, body: Body, value: SSAValue, tensor: region.KernelTensor) -> SSAValue:
        """A value as it is stored: rounded to a type of its own that is narrower."""
        element = tensor.type.element_type
        if val_type(value).element_type == element:
            return value
        return body.values.add(region.CastOp(value, element), self.yields)

    def _graph(self) -> region.GraphOp:
        sources: dict[int, SymbolRefAttr] = {
            number: self._place(value)[0] for number, value in self.found.placed.items()
        }
        for kernel, name in self.kernel_names.items():
            for root in kernel.roots:
                if root.output is not None:
                    sources[root.output] = edge(name, self.outputs[root.output].name)
        op = region.GraphOp(
            self.name,
            self._tensors(self.inputs, self.graph.arg_attrs),
            self._tensors(self.outputs, self.graph.res_attrs),
            [sources[i] for i in range(len(self.outputs))],
            symbols=self.graph.symbol_names,
            assumptions=self.graph.assumptions,
        )
        op.attributes |= self.graph.attributes
        return op

    @staticmethod
    def _tensors(
        specs: Sequence[TensorSpec], attributes: Iterable[DictionaryAttr]
    ) -> list[region.KernelTensor]:
        """One side of the graph's signature."""
        return [
            region.KernelTensor(spec.name, memref(spec), attrs)
            for spec, attrs in zip(specs, attributes, strict=True)
        ]


def _axes_in_memory(root: Root, kernel: Kernel) -> Sequence[AxisAttr]:
    """The axes along which a kernel stores a value: an output's are its own, in their order."""
    if root.output is None:
        return sorted(root.point.axes, key=kernel.iters.index)
    return root.stored_axes


def memref(spec: TensorSpec) -> MemRefType:
    """How a tensor of a graph's signature lies in memory."""
    align = DEFAULT_ALIGN if spec.align is None else spec.align
    return MemRefType.of(spec.type.dims, spec.type.element_type, align, spec.noalias)


def lower_graph(
    graph: tiny.GraphOp, fuse: Fuse = "cost", split: Split = "none", others: Iterable[str] = ()
) -> Sequence[Operation]:
    """The ops that take the place of a tiny graph, which stays as it is.

    ``others`` are the names of the module's symbols.  Raises PolycError of kind
    ``UnsupportedProgram``, ``NonSCoP`` or ``MissingIndexBook``.
    """
    signature = Signature(graph, others)

    def asked(question: Callable[[region.KernelOp], Answer]) -> Ask[Answer]:
        def of(found: Kernels) -> Callable[[Kernel], Answer]:
            lowering = cache(lambda: Lowering(signature, found))
            return lambda kernel: question(lowering().kernel(kernel))

        return of

    keys: dict[Hashable, Hashable] = {}

    def once(question: Callable[[region.KernelOp], Answer]) -> Ask[Answer]:
        known: dict[Hashable, Answer] = {}

        def of(found: Kernels) -> Callable[[Kernel], Answer]:
            lowering = cache(lambda: Lowering(signature, found, named=False))

            def ask(kernel: Kernel) -> Answer:
                made: region.KernelOp | None = None
                sign = lowering().signature(kernel)
                if sign not in keys:
                    made = lowering().kernel(kernel)
                    keys[sign] = _alike(made)
                if (key := keys[sign]) not in known:
                    known[key] = question(made or lowering().kernel(kernel))
                return known[key]

            return ask

        return of

    built = Built(once(contracts), once(walks), once(seconds), asked(apart), once(_alike))
    kernels, notes = composed(graph, fuse, split, built)
    show(notes)
    return Lowering(signature, kernels).ops()


_NAMED = ("sym_name", "arg_names", "arg_attrs", "res_names", "res_attrs")
"""What kernels are called, and where their tensors come from."""


def _alike(kernel: region.KernelOp) -> Hashable:
    """A key that kernels have in common that run alike, whatever their names are."""
    attributes = (*kernel.arg_attrs, *kernel.res_attrs)
    said = tuple(
        tuple((k, a.data[k]) for k in sorted(a.data) if k not in _SAYS) for a in attributes
    )
    constant = tuple(tensor.is_constant for tensor in kernel.inputs)
    return structure(kernel, _NAMED), said, constant


_SAYS = (FROM, BOUNDARY, "entry", "made")
"""What is said of a tensor that is no fact of its numbers."""


@dataclass(eq=False)
class LowerTinyGraph(RewritePattern):
    """``tiny.graph`` with its index book → one ``region.kernel``, or a ``region.graph`` of several.

    Legal when every access is affine, or a reshape, which is a view of what is stored.  Each
    value is computed by the same operations as before.  Rounding: what lies between kernels is
    rounded to the type that its op says to be its own; exact where none does.
    """

    fuse: Fuse = "cost"
    split: Split = "none"

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.GraphOp, rewriter: PatternRewriter, /) -> None:
        block = op.parent_block()
        names = (o.properties.get("sym_name") for o in (() if block is None else block.ops))
        others = [name.data for name in names if isinstance(name, StringAttr)]
        rewriter.replace(op, list(lower_graph(op, self.fuse, self.split, others)), [])


@dataclass(frozen=True)
class IndexToRegion(ModulePass):
    """Every ``tiny.graph`` as kernels; the index book is used up (S6.1).

    ``fuse=none`` stores every reduction and every value with several uses, ``legal`` fuses
    whatever may be computed inside its consumer, ``cost`` (the default) what pays by S11.1.
    ``split=contractions`` keeps a kernel for each contraction: one that would be fused is joined
    to its consumer by a ``deferred`` edge, for ``region-inline-deferred`` to merge.
    """

    name = "index-to-region"

    fuse: Fuse = "cost"
    split: Split = "none"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerTinyGraph(self.fuse, self.split)])
