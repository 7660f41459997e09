"""What a program under construction knows: the kernel, the open regions, what may be used where.

A program is built by running its Python function once.  Each call appends ops to the innermost open
region.  There is one ``Trace`` at a time; calls outside one are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    UnitAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import from_text
from polyc.dialects.gpu.tile import TileIndexOp, YieldOp
from polyc.dialects.gpu.types import IntsAttr
from polyc.tile.source import here, refuse

OperationT = TypeVar("OperationT", bound=Operation)

INDEX = IndexType()

MAP, ROLES = "map", "roles"
"""Regions that are special: the body of ``T.parallel``, and ``T.roles`` outside of its roles."""


@dataclass(eq=False)
class Scope:
    """An open region: ops are appended to ``block``.

    ``kind`` is ``MAP``, ``ROLES`` or another word, ``owner`` the Python object that opened it,
    ``constants`` are those that may be used again in it.
    """

    block: Block
    kind: str
    owner: object = None
    constants: dict[Attribute, SSAValue] = field(default_factory=dict[Attribute, SSAValue])


class KernelLike(Protocol):
    """What the rest of the package asks a kernel."""

    @property
    def name(self) -> str: ...

    @property
    def threads(self) -> int: ...

    def argument(self, tensor: object) -> SSAValue: ...

    def symbol(self, name: str) -> SSAValue: ...

    def is_symbol(self, value: SSAValue) -> bool: ...


@dataclass(eq=False)
class Trace:
    """A program under construction."""

    arch: str
    kernel: KernelLike | None = None
    scopes: list[Scope] = field(default_factory=list[Scope])


CURRENT: ContextVar[Trace | None] = ContextVar("polyc.tile", default=None)


def trace() -> Trace:
    """The program under construction; raises PolycError ``NoProgram``."""
    current = CURRENT.get()
    if current is None:
        refuse("NoProgram", "this belongs in a function that T.program decorates")
    return current


def kernel_trace() -> Trace:
    """The same with an open kernel; raises PolycError ``NoKernel``."""
    current = trace()
    if current.kernel is None:
        refuse("NoKernel", "this belongs in a kernel: put it under `with T.kernel(…)`")
    return current


def in_kernel() -> bool:
    """Whether a kernel is open."""
    current = CURRENT.get()
    return current is not None and current.kernel is not None


def in_map() -> bool:
    """Whether the innermost region is the body of ``T.parallel``."""
    current = CURRENT.get()
    return current is not None and any(s.kind == MAP for s in current.scopes)


def open_scope(block: Block, kind: str, owner: object = None) -> Scope:
    scope = Scope(block, kind, owner)
    kernel_trace().scopes.append(scope)
    return scope


def close_scope(scope: Scope) -> None:
    """Close ``scope``, and what an error left open in it."""
    scopes = trace().scopes
    while scopes and scopes[-1] is not scope:
        scopes.pop()
    if scopes:
        scopes.pop()


def visible(value: SSAValue) -> bool:
    """Whether an op in the innermost region may use ``value``."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    return any(scope.block is block for scope in kernel_trace().scopes)


def check_visible(value: SSAValue, what: str = "") -> None:
    if not visible(value):
        name = what or (f"%{value.name_hint}" if value.name_hint else "the value")
        refuse(
            "OutOfScope",
            f"{name} was made in a kernel or region that is closed, or in another role; values "
            "live as long as the `with` that they are made in, and leave it through a loop's carry",
        )


def _is_scalar(op: Operation) -> bool:
    """Whether the body of ``T.parallel`` may hold the op."""
    dialect = op.name.partition(".")[0]
    return dialect in ("arith", "math", "affine", "scf") or isinstance(op, TileIndexOp | YieldOp)


def check_innermost(scope: Scope) -> None:
    """Raises PolycError ``LeftByJump`` where a region in ``scope`` is still open."""
    if kernel_trace().scopes[-1] is not scope:
        refuse(
            "LeftByJump",
            "a `for` over a loop of T was left by break or return; its body is recorded whole, and "
            "T.when says what runs under a condition",
        )


def insert(op: OperationT, at: LocationAttr | None = None) -> OperationT:
    """Append ``op`` to the innermost region, at the user's line or at ``at``."""
    location = here() if at is None else at
    scope = kernel_trace().scopes[-1]
    op.location = location
    for inner in op.walk():
        for region in inner.regions:
            for block in region.blocks:
                for arg in block.args:
                    if isinstance(arg.location, UnknownLoc):
                        arg.location = location
    if scope.kind == ROLES:
        refuse("NoRole", f"{op.name} stands between the roles; put it in one of them", location)
    if scope.kind == MAP and not _is_scalar(op):
        refuse(
            "NotScalar",
            f"{op.name} works on whole tiles, and T.parallel's body on one element; put it outside",
            location,
        )
    for operand in op.operands:
        check_visible(operand)
    scope.block.add_op(op)
    if isinstance(op, TileIndexOp):
        return op  # it asks for the gpu.map around it, which is made when the body is whole
    try:
        op.verify(verify_nested_ops=False)
    except VerifyException as error:
        scope.block.detach_op(op)
        raise from_text(str(error), location) from None
    return op


def value_of(op: Operation, hint: str | None = None) -> SSAValue:
    """Append an op of one result; the result is named ``hint`` in the text."""
    result = insert(op).results[0]
    if hint is not None:
        result.name_hint = hint
    return result


def constant_attr(value: float, kind: Attribute) -> Attribute:
    """``value`` as a constant of type ``kind``."""
    if isinstance(kind, AnyFloat):
        return FloatAttr(float(value), kind)
    return IntegerAttr(int(value), cast(IndexType, kind))


def constant(value: float, kind: Attribute) -> SSAValue:
    """A constant: one that is there already, or a new one here."""
    attr = constant_attr(value, kind)
    for scope in reversed(kernel_trace().scopes):
        if (known := scope.constants.get(attr)) is not None:
            return known
    return new_constant(value, kind)


def new_constant(value: float, kind: Attribute, hint: str | None = None) -> SSAValue:
    """A constant of its own; later uses of the same number in this region take it."""
    attr = constant_attr(value, kind)
    made = value_of(arith.ConstantOp(cast(FloatAttr, attr)), hint)
    kernel_trace().scopes[-1].constants[attr] = made
    return made


def named(values: Sequence[SSAValue], names: Sequence[str]) -> None:
    """Name ``values`` after the variables that take them, where the counts agree."""
    if len(values) == len(names):
        for value, name in zip(values, names, strict=True):
            value.name_hint = valid_hint(name)


def valid_hint(name: str) -> str | None:
    """A Python name as a name of the text: ``_`` and names that are not ASCII give none."""
    return name if name.strip("_") and name.isascii() else None


def region_of(block: Block) -> Region:
    return Region(block)


def attribute(given: object) -> Attribute:
    """A Python value as an attribute: a number is an index, tuples are ``#gpu.ints``."""
    match given:
        case Attribute():
            return given
        case bool():
            return UnitAttr() if given else refuse("NotAnAttribute", "leave a false flag out")
        case int():
            return IntegerAttr.from_index_int_value(given)
        case str():
            return StringAttr(given)
        case tuple() | list():
            return IntsAttr(tuple(cast("Sequence[int]", given)))
        case _:
            refuse("NotAnAttribute", f"{given!r} is no attribute; take numbers and text")
