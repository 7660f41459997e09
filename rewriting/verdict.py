"""Whether a module verifies, sooner than xDSL says why one does not.

A pipeline verifies the same ops after every pass, and most of what xDSL's verifier asks of an op
depends only on what is written in it: its types, properties and attributes, which never change
in place.  That part is asked once.  The ends of blocks and the order of definitions are looked at
each time.

What an op's own verifier and its traits ask depends on the ops around it.  Most passes change few
kernels: of an op that is isolated from above, as a kernel is, and that was found right before, they
are asked again only when something in it has changed, or in what stands around it.  What stands
around it are the ops in the same isolated op and in those around that, without what is inside of
other isolated ops; so no verifier may look from one kernel into another.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
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
_written: dict[tuple[object, ...], tuple[int, list[Attribute | None]]] = {}
_numbers = count()
"""What is written in an op has a number, which nothing else ever gets."""

_right: set[bytes | None] = set()
"""Digests of isolated ops that were found right, each with what stood around it."""

_BEGIN, _END = -1, -2


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


@dataclass(eq=False)
class _Unit:
    """An isolated op, or the module, whose structure is right; its verifiers are not yet asked."""

    number: int
    """That of what is written in it."""
    own: bytes | None
    """A digest of what is written in its ops and of who uses what, but for the units in it; None
    where blocks follow one another, of which there are few."""
    whole: bytes | None
    """The same with the units in it."""
    asked: list[tuple[Operation, _Class]]
    """Its ops, itself the last, but for those of units in it; inner ones come first."""
    inside: list[_Unit]


@dataclass(eq=False)
class _Reading:
    """One unit on the way: its values by number, and its ops as numbers."""

    values: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    count: int = 0
    text: list[int] = field(default_factory=list[int])
    asked: list[tuple[Operation, _Class]] = field(default_factory=list[tuple[Operation, _Class]])
    inside: list[_Unit] = field(default_factory=list[_Unit])
    known: bool = True
    """Whether ``text`` says everything: blocks that follow one another are not in it."""

    def define(self, value: SSAValue) -> None:
        self.values[value] = self.count
        self.count += 1


class _Wrong(Exception):
    """The module may not verify."""


def verifies(module: Operation) -> bool:
    """Whether ``module`` surely verifies, and defines each value before its uses.

    Where the answer is no, xDSL's verifier has the last word, and gives the reason.
    """
    if module.parent is not None or module.operands or module.successors:
        return False
    try:
        found = _class(module)
        if found is None:
            return False
        _ask(_unit(module, found), None)
    except Exception:  # Whatever a verifier raises, it will raise again where it is asked why.
        return False
    return True


def _ask(unit: _Unit, around: bytes | None) -> None:
    """Ask the verifiers of a unit's ops, unless it was right before with the same ``around`` it.

    The module's own, around which nothing is, are always asked.
    """
    name = None if unit.whole is None or around is None else unit.whole + around
    if name in _right:
        return
    own = unit.own if around is None else None if unit.own is None else unit.own + around
    for inner in unit.inside:
        _ask(inner, own)
    for op, kind in unit.asked:
        for check in kind.checks:
            check(op)
        if kind.custom is not None:
            kind.custom(op)
    if name is not None:
        if len(_right) >= _MOST:
            _right.clear()
        _right.add(name)


def _unit(op: Operation, kind: _Class) -> _Unit:
    """An isolated op, whose structure is right.  Raises where it is not, or may not be."""
    read = _Reading()
    _regions(op, kind, read)
    number = _written_well(op, kind)
    read.asked.append((op, kind))
    own = whole = None
    if read.known:
        own = _digest(array("q", [*read.text, number]).tobytes())
        wholes = [unit.whole for unit in read.inside if unit.whole is not None]
        whole = _digest(own + b"".join(wholes)) if len(wholes) == len(read.inside) else None
    return _Unit(number, own, whole, read.asked, read.inside)


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def _class(op: Operation) -> _Class | None:
    kind = type(op)
    found = _classes.get(kind)
    if found is None or found.traits is not kind.traits.traits:
        found = _classes[kind] = _class_of(kind)
    return found


def _regions(op: Operation, kind: _Class, read: _Reading) -> None:
    """Read what ``op`` holds; ``read`` has the values defined before it."""
    for region in op.regions:
        first = region.first_block
        read.text.append(_BEGIN)
        if first is None or first.next_block is None:
            if first is not None:
                if first.parent is not region:
                    raise _Wrong
                for value in _block(first, kind, read, False):
                    del read.values[value]
            read.text.append(_END)
            continue
        read.known = False
        dominance = DominanceInfo(region)
        before = read.values
        for block in region.blocks:
            read.values = dict(before)
            for other in region.blocks:
                if dominance.strictly_dominates(other, block):
                    for value in (*other.args, *(v for inner in other.ops for v in inner.results)):
                        read.define(value)
            if block.parent is not region:
                raise _Wrong
            _block(block, kind, read, True)
        read.values = before


def _block(block: Block, around: _Class, read: _Reading, flow: bool) -> list[SSAValue]:
    """Read the ops of ``block``, given the values defined before it; what it defines.

    ``around`` is the op that holds it, ``flow`` whether there are other blocks beside it.
    """
    own: list[SSAValue] = []
    values, text = read.values, read.text
    for argument in block.args:
        read.define(argument)
        own.append(argument)
    op, last = block.first_op, block.last_op
    if op is None and not flow and not around.unterminated:
        raise _Wrong
    while op is not None:
        kind = _class(op)
        if kind is None or op.parent is not block:
            raise _Wrong
        for operand in op._operands:  # pyright: ignore[reportPrivateUsage]
            text.append(values[operand])
        if op is last and not kind.terminator and (flow or not around.unterminated):
            raise _Wrong
        for successor in op._successors:  # pyright: ignore[reportPrivateUsage]
            if op is not last or successor.parent is not block.parent:
                raise _Wrong
        if kind.isolated and op.regions:
            unit = _unit(op, kind)
            read.inside.append(unit)
            text.append(unit.number)
        else:
            if op.regions:
                _regions(op, kind, read)
            text.append(_written_well(op, kind))
            read.asked.append((op, kind))
        for result in op.results:
            read.define(result)
            own.append(result)
        op = op.next_op
    return own


def _written_well(op: Operation, kind: _Class) -> int:
    """The number of what is written in ``op``, which verifies as far as that goes.

    Raises whatever its verifier raises where it does not.
    """
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
    found = _written.get(key)
    if found is not None:
        return found[0]
    kind.definition.verify(op)
    if len(_written) >= _MOST:
        _written.clear()
    number = next(_numbers)
    _written[key] = number, held
    return number
