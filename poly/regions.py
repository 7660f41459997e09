"""What a report says of each region: its axes, its tensors and why they lie in memory (S7.1)."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, StringAttr, SymbolRefAttr

from polyc.dialects.region import KernelOp, ReduceOp
from polyc.dialects.region_types import MemRefType
from polyc.poly.indexbook import Json
from polyc.poly.names import size_json


def region_json(kernel: KernelOp) -> Json:
    """A region with the field names of the specification's section 7, and its signature.

    Its iters may all run at once: a kernel's body is pure, and each point of the iters is
    written once.  The reduced axes are those of its reductions.
    """
    reductions = [op for op in kernel.body.block.ops if isinstance(op, ReduceOp)]
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
