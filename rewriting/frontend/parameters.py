"""``frontend.parameter`` becomes an input of the constant pool (S12.2).

Inputs behind the user's own are all that lower layers see of the entries of a parameter file: the
signature is the ABI, and says of each which entry it is.
"""

from __future__ import annotations

import re

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.frontend import GraphOp, parameters
from polyc.rewriting.driver import copied, rewrite


class LiftParameters(RewritePattern):
    """``frontend.parameter "w"`` → an input with ``storage = "const_pool"`` and ``entry = "w"``.

    One input an entry, behind the inputs that are there, in the order in which ops name them; an
    input that has the entry already is read in its place.  Exact, and legal always.  An input is
    called as its entry is, with ``_`` for what no name has and a number where that name is taken.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOp, rewriter: PatternRewriter, /) -> None:
        found = list(parameters(op))
        if not found:
            return
        block = op.body.block
        held: dict[str, SSAValue] = {
            spec.entry: arg
            for spec, arg in zip(op.inputs, block.args, strict=True)
            if spec.entry is not None
        }
        names = [name.data for name in op.arg_names]
        attrs = list(op.arg_attrs)
        taken = {*names, *(name.data for name in op.res_names), *op.symbol_names}
        for one in found:
            entry = one.entry.data
            if entry not in held:
                name = _fresh(entry, taken)
                arg = rewriter.insert_block_argument(block, len(block.args), one.result.type)
                arg.location = one.location
                arg.name_hint = name if SSAValue.is_valid_name(name) else None
                held[entry] = arg
                names.append(name)
                taken.add(name)
                attrs.append(DictionaryAttr(_ATTRIBUTES | {"entry": one.entry}))
            rewriter.replace(one, [], [held[entry]])
        op.arg_names = ArrayAttr(map(StringAttr, names))
        op.arg_attrs = ArrayAttr(attrs)
        op.function_type = FunctionType.from_lists(
            [arg.type for arg in block.args], op.function_type.outputs.data
        )
        rewriter.notify_op_modified(op)


_ATTRIBUTES = {"role": StringAttr("param"), "storage": StringAttr("const_pool")}


def _fresh(entry: str, taken: set[str]) -> str:
    """A name of letters, digits and ``_`` like the one of an entry, that nothing else has."""
    stem = re.sub(r"[^A-Za-z0-9_]", "_", entry)
    if not re.match(r"[A-Za-z]", stem):
        stem = f"p{stem}"
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


def lift_parameters(module: ModuleOp) -> None:
    """Make inputs of all parameters of the graphs of ``module``."""
    if any(has_parameters(op) for op in module.ops if isinstance(op, GraphOp)):
        rewrite(module, [LiftParameters()])


def has_parameters(graph: GraphOp) -> bool:
    """Whether an op of a graph names an entry."""
    return next(parameters(graph), None) is not None


def lifted(graph: GraphOp) -> GraphOp:
    """A graph whose parameters are inputs: ``graph`` itself, or a copy that stands nowhere."""
    if not has_parameters(graph):
        return graph
    module = ModuleOp([copied(graph)])
    rewrite(module, [LiftParameters()])
    found = next(op for op in module.ops if isinstance(op, GraphOp))
    found.detach()
    return found
