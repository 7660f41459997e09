"""What an op is but for its place and the names of its values, to find ops that are alike."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from xdsl.ir import Block, BlockArgument, Operation, SSAValue


def structure(
    root: Operation, left_out: Collection[str] = (), used: list[BlockArgument] | None = None
) -> Hashable:
    """A key of ``root`` and all in it: ops of equal keys are written alike, in the same order.

    Properties and attributes of ``root`` itself that ``left_out`` names do not count, nor do
    locations.  Values of other ops, and blocks, are told apart by what they are.  With ``used`` the
    order of the arguments of ``root``'s block does not count either: they are told apart by their
    first uses, and ``used`` gets them in that order.
    """
    values: dict[SSAValue, int] = {}
    blocks: dict[Block, int] = {}
    text: list[Hashable] = []
    later: set[SSAValue] = set()

    def define(value: SSAValue) -> None:
        values[value] = len(values)
        text.append(value.type)

    def read(value: SSAValue) -> Hashable:
        if value in later and value not in values:
            assert used is not None and isinstance(value, BlockArgument)
            define(value)
            used.append(value)
        return values.get(value, value)

    def visit(op: Operation, without: Collection[str]) -> None:
        text.append(type(op))
        text.append(tuple([read(operand) for operand in op.operands]))
        for given in (op.properties, op.attributes):
            text.append(tuple((k, given[k]) for k in sorted(given) if k not in without))
        text.append(tuple(blocks.get(successor, successor) for successor in op.successors))
        text.append(len(op.results))
        for result in op.results:
            define(result)
        for region in op.regions:
            text.append(len(region.blocks))
            for block in region.blocks:
                blocks[block] = len(blocks)
            for block in region.blocks:
                text.append(len(block.args))
                if used is not None and op is root:
                    later.update(block.args)
                else:
                    for arg in block.args:
                        define(arg)
                for inner in block.ops:
                    visit(inner, ())
            text.append(None)

    visit(root, left_out)
    for region in root.regions if used is not None else ():
        for block in region.blocks:
            for arg in block.args:
                read(arg)
    return tuple(text)
