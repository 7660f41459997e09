"""What a report says of regions: axes, tensors, and the dependences between kernels (S7.1).

A kernel is a statement over its iters and the axes that it reduces: an instance reads the
elements that its reads name and writes the element of its iters.  A tensor is the graph's, or
another kernel's output; the relations are those of ``polyc.poly.dependences``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, StringAttr, SymbolRefAttr
from xdsl.ir import BlockArgument
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap, AffineSet

from polyc.dialects.common.sized_tensor import symbol_space
from polyc.dialects.index import moved_row
from polyc.dialects.index.attrs import bounds
from polyc.dialects.region import KernelOp, ReadOp, ReduceOp
from polyc.dialects.region.types import AxisAttr, MemRefType, val_type
from polyc.poly.dependences import Access, Statement, dependence_json, dependences
from polyc.poly.indexbook import Json
from polyc.poly.names import size_json


def region_json(kernel: KernelOp) -> Json:
    """A region with the field names of the specification's section 7, and its signature.

    Its iters may all run at once: a kernel's body is pure, and each point of the iters is
    written once.  The reduced axes are those of its reductions, of what is reduced together too.
    """
    reductions = [op for op in kernel.walk() if isinstance(op, ReduceOp)]
    kinds = [cast(MemRefType, a.type) for a in kernel.ins]
    reads = zip(kernel.arg_names, kinds, kernel.arg_attrs, strict=True)
    writes = zip(kernel.res_names, kernel.outs, kernel.res_attrs, strict=True)
    places = [m.data for m in kernel.materialize]
    return {
        "region": kernel.sym_name.data,
        "parallel_axes": [a.label for a in kernel.iters],
        "reduce_axes": list(dict.fromkeys(label for op in reductions for label in op.labels)),
        "reductions": [
            {"name": op.label, "function": op.fn.data, "axes": list(op.labels)} for op in reductions
        ],
        "reads": [_tensor(name.data, kind, attrs) for name, kind, attrs in reads],
        "writes": [
            {**_tensor(name.data, kind, attrs), "materialize": place}
            for (name, kind, attrs), place in zip(writes, places, strict=True)
        ],
    }


def _tensor(name: str, kind: MemRefType, attrs: DictionaryAttr) -> Json:
    out: Json = {"tensor": name, "shape": [size_json(d) for d in kind.shape]}
    source, boundary = attrs.data.get("from"), attrs.data.get("boundary")
    if isinstance(source, SymbolRefAttr):
        out["from"] = str(source)
    if isinstance(boundary, StringAttr):
        out["boundary"] = boundary.data
    return out


# Dependences ---------------------------------------------------------------------------


def region_dependences(kernels: Sequence[KernelOp]) -> list[Json]:
    """The dependences between kernels of one program, in isl's notation.

    Only kernels with the same symbols are related.  Raises ``IslLimitExceeded``.
    """
    found: list[Json] = []
    for symbols in dict.fromkeys(k.symbol_names for k in kernels):
        among = [k for k in kernels if k.symbol_names == symbols]
        facts = symbol_space(symbols, [f for k in among for f in k.facts])
        statements = region_statements(among)
        by_name = {s.name: s for s in statements}
        between = (d for d in dependences(statements, facts) if d.source != d.sink)
        found += [dependence_json(d, by_name, symbols) for d in between]
    return found


def region_statements(kernels: Sequence[KernelOp]) -> list[Statement]:
    """Kernels with the same symbols as statements, in order.

    An output that is read as a view of another shape is one element here: whoever reads it
    needs all of it.
    """
    written = {
        _output(kernel, i): kind.shape for kernel in kernels for i, kind in enumerate(kernel.outs)
    }
    viewed = {
        tensor
        for kernel in kernels
        for i, argument in enumerate(kernel.ins)
        if (tensor := _input(kernel, i)) in written
        and cast(MemRefType, argument.type).shape != written[tensor]
    }
    return [_statement(kernel, viewed) for kernel in kernels]


def _output(kernel: KernelOp, number: int) -> str:
    return f"@{kernel.sym_name.data}::@{kernel.res_names.data[number].data}"


def _input(kernel: KernelOp, number: int) -> str:
    source = kernel.arg_attrs.data[number].data.get("from")
    name = kernel.arg_names.data[number].data
    return str(source) if isinstance(source, SymbolRefAttr) else name


def _statement(kernel: KernelOp, viewed: Collection[str]) -> Statement:
    axes: dict[str, AxisAttr] = {a.label: a for a in kernel.iters}
    reads = [op for op in kernel.body.block.ops if isinstance(op, ReadOp)]
    for op in reads:
        for axis in op.result.type.axes:
            axes.setdefault(axis.label, axis)
    dims, symbols = tuple(axes), len(kernel.symbol_names)
    rows = bounds([a.size for a in axes.values()], kernel.symbol_names)
    domain = AffineSet(len(dims), symbols, rows)

    def access(tensor: str, results: Sequence[AffineExpr], where: AffineSet) -> Access:
        kept = () if tensor in viewed else tuple(results)
        return Access(tensor, AffineMap(len(dims), symbols, kept), where)

    labels = [val_type(value).labels for value in kernel.yield_op.values]
    made = [[AffineDimExpr(dims.index(label)) for label in own] for own in labels]
    writes = [access(_output(kernel, i), own, domain) for i, own in enumerate(made)]
    found: list[Access] = []
    for op in reads:
        place = [AffineDimExpr(dims.index(label)) for label in op.result.type.labels]
        inside = () if op.guard is None else op.guard.data.constraints
        guarded = (*rows, *(moved_row(r, place) for r in inside))
        results = [e.replace_dims_and_symbols(place, ()) for e in op.map.data.results]
        tensor = _input(kernel, kernel.ins.index(cast(BlockArgument, op.tensor)))
        found.append(access(tensor, results, AffineSet(len(dims), symbols, guarded)))
    name = kernel.sym_name.data
    return Statement(name, dims, domain, tuple(dict.fromkeys(found)), tuple(writes))
