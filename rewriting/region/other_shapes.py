"""A region anew, over other axes or of tensors that it sees in other shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseArrayBase, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.region import (
    BroadcastInDimOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    ReduceTogetherOp,
    TransposeOp,
)
from polyc.dialects.region.types import AxisAttr, MemRefType, ValType, val_type
from polyc.rewriting.driver import located


def over_axes(
    kernel: KernelOp,
    axes: Sequence[AxisAttr],
    ins: Sequence[Attribute],
    outs: Sequence[Attribute],
    block: Block,
) -> KernelOp:
    """A region over other axes, whose tensors it sees in other shapes; ``held`` is as before."""
    found = KernelOp(
        kernel.sym_name.data,
        axes,
        [replace(t, type=kind) for t, kind in zip(kernel.inputs, ins, strict=True)],
        [replace(t, type=kind) for t, kind in zip(kernel.outputs, outs, strict=True)],
        body=Region(block),
        symbols=kernel.symbol_names,
        assumptions=kernel.assumptions,
        held=kernel.tensors,
    )
    found.attributes |= kernel.attributes
    return located(found, kernel)


def in_other_shapes(
    kernel: KernelOp,
    shapes: Mapping[SSAValue, Sequence[Sequence[Dim] | None]],
    places: Callable[[ReadOp], Sequence[AffineExpr]],
) -> KernelOp:
    """A region that sees some of its tensors, which are only read, in other shapes: a copy that
    stands nowhere.

    ``shapes`` has the sizes that each dimension of such a tensor is seen as, None for one that
    stays, and ``places`` where a read of it is then.
    """
    old = kernel.body.block
    kinds: list[Attribute] = []
    for arg in old.args:
        kind = cast(MemRefType, arg.type)
        if arg in shapes:
            dims: list[Dim] = []
            for several, size in zip(shapes[arg], kind.shape, strict=True):
                dims += [size] if several is None else several
            kind = MemRefType.of(dims, kind.element_type, kind.align, kind.noalias)
        kinds.append(kind)
    block = Block(arg_types=kinds)
    values: dict[SSAValue, SSAValue] = dict(zip(old.args, block.args, strict=True))
    for before, new in zip(old.args, block.args, strict=True):
        new.location, new.name_hint = before.location, before.name_hint
    for op in old.ops:
        copy = op.clone(values)
        copy.location = op.location
        if isinstance(op, ReadOp) and op.tensor in shapes:
            given = op.map.data
            found = AffineMap(given.num_dims, given.num_symbols, tuple(places(op)))
            copy.properties["map"] = AffineMapAttr(found)
        block.add_op(copy)
    return over_axes(kernel, kernel.iters.data, kinds, kernel.outs.data, block)


def units_outside(kernel: KernelOp, tensors: Iterable[SSAValue]) -> KernelOp:
    """The region that sees the innermost dimensions of one point of some tensors outside of the one
    that they lie in, ``[K, 1]`` as ``[1, K]``: a copy that stands nowhere, or itself where there
    are none.

    Of arguments that are only read.  Exact: it is another view of the same memory.
    """
    last: dict[SSAValue, int] = {}
    for arg in tensors:
        shape = cast(MemRefType, arg.type).shape
        wide = [i for i, size in enumerate(shape) if size != Dim.const(1)]
        read = arg.uses and all(isinstance(use.operation, ReadOp) for use in arg.uses)
        if read and wide and wide[-1] < len(shape) - 1:
            last[arg] = wide[-1]
    if not last:
        return kernel
    shapes: dict[SSAValue, list[list[Dim] | None]] = {}
    for arg, at in last.items():
        shape = cast(MemRefType, arg.type).shape
        kept: list[list[Dim] | None] = [None] * at
        shapes[arg] = [*kept, [*shape[at + 1 :], shape[at]], *([] for _ in shape[at + 1 :])]

    def places(op: ReadOp) -> list[AffineExpr]:
        found, at = list(op.map.data.results), last[op.tensor]
        return [*found[:at], *found[at + 1 :], found[at]]

    return in_other_shapes(kernel, shapes, places)


class OverOthers(ABC):
    """Builds a region over other axes, of ops that compute at each point by itself, or reduce."""

    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel

    @abstractmethod
    def over(self, axes: Iterable[AxisAttr]) -> list[AxisAttr]:
        """What axes are here."""

    @abstractmethod
    def read(self, op: ReadOp, tensor: SSAValue) -> ReadOp:
        """A read over the axes here."""

    def kind(self, value: SSAValue) -> ValType:
        """The type of a value here."""
        own = val_type(value)
        return ValType.of(self.over(own.axes), own.element_type)

    def placed(self, op: Operation) -> Mapping[str, Attribute]:
        """The properties of an op that say where it is; none of most."""
        return {}

    def region(self, ins: Sequence[Attribute], outs: Sequence[Attribute]) -> KernelOp:
        """The region, which stands nowhere, with tensors of these types."""
        block = self.block(self.kernel.body.block, ins)
        return over_axes(self.kernel, self.over(self.kernel.iters), ins, outs, block)

    def block(self, old: Block, kinds: Sequence[Attribute]) -> Block:
        """A block of the region, or of a reduction in it, with arguments of these types."""
        block = Block(arg_types=kinds)
        values: dict[SSAValue, SSAValue] = dict(zip(old.args, block.args, strict=True))
        for before, new in zip(old.args, block.args, strict=True):
            new.location, new.name_hint = before.location, before.name_hint
        for op in old.ops:
            operands = [values[operand] for operand in op.operands]
            if isinstance(op, BroadcastInDimOp) and operands[0].type == self.kind(op.result):
                values[op.result] = operands[0]
                continue
            new = located(self.op(op, operands), op)
            block.add_op(new)
            for before, value in zip(op.results, new.results, strict=True):
                value.name_hint = before.name_hint
                values[before] = value
        return block

    def op(self, op: Operation, operands: Sequence[SSAValue]) -> Operation:
        """An op on other operands."""
        if isinstance(op, ReadOp):
            return self.read(op, operands[0])
        properties = {**op.properties, **self.placed(op)}
        match op:
            case BroadcastInDimOp():
                there = [axis.label for axis in self.over(val_type(op.result).axes)]
                places = [there.index(label) for label in val_type(operands[0]).labels]
                properties["dims"] = DenseArrayBase.from_list(i64, places)
            case TransposeOp():
                have = val_type(operands[0]).labels
                order = [have.index(axis.label) for axis in self.over(op.result.type.axes)]
                properties["perm"] = DenseArrayBase.from_list(i64, order)
            case ReduceOp() | ReduceTogetherOp():
                named = {a.label: a for value in op.operands for a in val_type(value).axes}
                kept = self.over(named[label] for label in op.labels)
                properties["axes"] = ArrayAttr(StringAttr(axis.label) for axis in kept)
            case _:
                pass
        kinds = [self.kind(r) if isinstance(r.type, ValType) else r.type for r in op.results]
        return type(op).create(
            operands=operands,
            result_types=kinds,
            properties=properties,
            attributes=dict(op.attributes),
            regions=[self.inner(region) for region in op.regions],
        )

    def inner(self, region: Region) -> Region:
        """A region of a reduction, whose arguments are values."""
        return Region(self.block(region.block, [self.kind(arg) for arg in region.block.args]))
