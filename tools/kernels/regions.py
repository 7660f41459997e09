"""The regions of a module in the form in which patterns are looked for in them."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp

from polyc.dialects.region import KernelOp
from polyc.dialects.region.graph import FROM
from polyc.passes.pipeline import STAGES
from polyc.rewriting.driver import copied
from polyc.rewriting.region.merge_axes import merged

MATCHED = "region-postpone-division"
"""The pass after which regions are compared: before softmax becomes one reduction of several
states, whose axes no longer merge."""

PASSES = (
    *STAGES["tiny"],
    *STAGES["index"],
    *STAGES["region"][: STAGES["region"].index(MATCHED) + 1],
)
"""What brings a graph there."""


def forms(module: ModuleOp) -> list[KernelOp]:
    """A copy of each region, by itself: over the fewest axes, with inputs that are from nowhere.

    One that hands a value to another kernel at once, without memory, is left out.
    """
    found: list[KernelOp] = []
    for op in module.ops:
        if isinstance(op, KernelOp) and all(to.data == "gmem" for to in op.materialize):
            alone = copied(op)
            alone.arg_attrs = ArrayAttr(
                DictionaryAttr({k: v for k, v in attrs.data.items() if k != FROM})
                for attrs in op.arg_attrs
            )
            found.append(merged(alone))
    return found
