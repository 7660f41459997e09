"""A region anew, over other axes or of tensors that it sees in other shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.region import KernelOp, ReadOp
from polyc.dialects.region.types import AxisAttr, MemRefType
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
