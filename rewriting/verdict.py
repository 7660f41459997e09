"""Whether a module verifies, sooner than xDSL says why one does not.

A pipeline verifies the same ops after every pass, and most of what xDSL's verifier asks of an op
depends only on what is written in it: its types, properties and attributes, which never change
in place.  That part is asked once.  What depends on the ops around an op (its own verifier, its
traits, the ends of blocks, the order of definitions) is asked each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import OpDef
from xdsl.irdl.dominance import DominanceInfo
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, OpTrait

OpCheck = Callable[[Operation], None]

_MOST = 50_000
"""How many ops' texts are remembered; they keep their attributes alive."""

_NOTHING = OpTrait.verify


@dataclass(eq=False)
class _Class:
    """How ops of one class are verified."""

    definition: OpDef
    custom: OpCheck | None
    traits: frozenset[OpTrait]

    def __post_init__(self) -> None:
        self.isolated = any(isinstance(t, IsolatedFromAbove) for t in self.traits)
        self.terminator = any(isinstance(t, IsTerminator) for t in self.traits)
        self.unterminated = any(isinstance(t, NoTerminator) for t in self.traits)
        # The order of definitions says that nothing comes from above: see ``_block``.
        self.checks: tuple[OpCheck, ...] = tuple(
            t.verify
            for t in self.traits
            if type(t).verify is not _NOTHING and type(t) is not IsolatedFromAbove
        )


_classes: dict[type[Operation], _Class | None] = {}
_written: dict[tuple[object, ...], list[Attribute | None]] = {}


def _class_of(kind: type[Operation]) -> _Class | None:
    """None for a class that does not verify as ``irdl_op_definition`` makes it."""
    method = kind.verify_
    code, cells = getattr(method, "__code__", None), getattr(method, "__closure__", None)
    if kind.verify is not Operation.verify or code is None or cells is None:
        return None
    found = {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)}
    definition = found.pop("op_def", None)
    custom = cast("OpCheck | None", found.pop("custom_verify", None))
    if code.co_name != "verify_" or found or not isinstance(definition, OpDef):
        return None
    if type(definition).verify is not OpDef.verify:
        return None
    return _Class(definition, custom, kind.traits.traits)


def verifies(module: Operation) -> bool:
    """Whether ``module`` surely verifies, and defines each value before its uses.

    Where the answer is no, xDSL's verifier has the last word, and gives the reason.
    """
    if module.parent is not None or module.operands or module.successors:
        return False
    try:
        found = _class(module)
        return found is not None and _regions(module, found, set()) and _written_well(module, found)
    except Exception:  # Whatever a verifier raises, it will raise again where it is asked why.
        return False


def _class(op: Operation) -> _Class | None:
    kind = type(op)
    found = _classes.get(kind)
    if found is None or found.traits is not kind.traits.traits:
        found = _classes[kind] = _class_of(kind)
    return found


def _regions(op: Operation, kind: _Class, outer: set[SSAValue]) -> bool:
    """Whether what ``op`` holds verifies; ``outer`` are the values defined before it."""
    for region in op.regions:
        first = region.first_block
        if first is None:
            continue
        if first.next_block is None:
            own: list[SSAValue] = []
            if first.parent is not region or not _block(first, kind, outer, own, False):
                return False
            outer.difference_update(own)
            continue
        dominance = DominanceInfo(region)
        for block in region.blocks:
            seen = set(outer)
            for other in region.blocks:
                if dominance.strictly_dominates(other, block):
                    seen.update(other.args)
                    for inner in other.ops:
                        seen.update(inner.results)
            if block.parent is not region or not _block(block, kind, seen, [], True):
                return False
    return True


def _block(
    block: Block, around: _Class, seen: set[SSAValue], own: list[SSAValue], flow: bool
) -> bool:
    """Whether the ops of ``block`` verify, given the values defined before it.

    ``seen`` learns what the block defines, and so does ``own``.  ``around`` is the op that holds
    it, ``flow`` whether there are other blocks beside it.
    """
    seen.update(block.args)
    own += block.args
    op, last = block.first_op, block.last_op
    if op is None and not flow and not around.unterminated:
        return False
    while op is not None:
        kind = _class(op)
        if kind is None or op.parent is not block:
            return False
        for operand in op._operands:  # pyright: ignore[reportPrivateUsage]
            if operand not in seen:
                return False
        if op is last and not kind.terminator and (flow or not around.unterminated):
            return False
        for successor in op._successors:  # pyright: ignore[reportPrivateUsage]
            if op is not last or successor.parent is not block.parent:
                return False
        if op.regions and not _regions(op, kind, set() if kind.isolated else seen):
            return False
        if not _written_well(op, kind):
            return False
        seen.update(op.results)
        own += op.results
        op = op.next_op
    return True


def _written_well(op: Operation, kind: _Class) -> bool:
    """Whether ``op`` itself verifies.  Raises whatever its verifier raises where it does not."""
    held: list[Attribute | None] = [v.type for v in op._operands]  # pyright: ignore[reportPrivateUsage]
    held.append(None)
    held += [v.type for v in op.results]
    for region in op.regions:
        held.append(None)
        if (first := region.first_block) is not None:
            held += [v.type for v in first.args]
    held.append(None)
    held += op.properties.values()
    held += op.attributes.values()
    # Each attribute is held below, so that no other one gets its number.
    key = (
        type(op),
        *op.properties,
        None,
        *op.attributes,
        None,
        *map(id, held),
        *[len(region.blocks) for region in op.regions],
        len(op._successors),  # pyright: ignore[reportPrivateUsage]
    )
    if key in _written:
        for check in kind.checks:
            check(op)
    else:
        kind.definition.verify(op)
        if len(_written) >= _MOST:
            _written.clear()
        _written[key] = held
    if kind.custom is not None:
        kind.custom(op)
    return True
