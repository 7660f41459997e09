"""``T.parallel``: a scalar body over the elements of a tile, which becomes a ``gpu.map``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from xdsl.dialects.builtin import IndexType, LocationAttr
from xdsl.ir import Attribute, Block, BlockArgument, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.gpu.tile import MapOp, YieldOp
from polyc.dialects.gpu.types import FragmentType, GlobalType, SharedType
from polyc.tile.indices import Axis, Index, IndexLike, Size, element, ssa_index, to_index
from polyc.tile.scalars import Scalar, ScalarLike, converted, hinted, number
from polyc.tile.source import here, public, refuse, targets
from polyc.tile.trace import (
    MAP,
    Scope,
    check_innermost,
    close_scope,
    insert,
    kernel_trace,
    open_scope,
    region_of,
    trace,
    valid_hint,
)


class Memory(Protocol):
    """A tensor, a shared tile or a fragment."""

    @property
    def type(self) -> GlobalType | SharedType | FragmentType: ...

    @property
    def dtype(self) -> Attribute: ...

    @property
    def value(self) -> SSAValue: ...


@dataclass(eq=False)
class _Input:
    memory: SSAValue
    place: tuple[AffineExpr, ...]
    argument: BlockArgument


@dataclass(eq=False)
class _Output:
    memory: SSAValue
    place: tuple[AffineExpr, ...]
    value: SSAValue


class Parallel:
    """The body of one map while it is traced; use it as ``with T.parallel(acc) as (i, j):``."""

    def __init__(
        self, space: Memory | None, sizes: Sequence[int], origin: Sequence[IndexLike]
    ) -> None:
        self.location: LocationAttr = here()
        self.sizes = tuple(sizes)
        self.space = space
        self.origins = [ssa_index(o) for o in origin]
        self.inputs: list[_Input] = []
        self.outputs: list[_Output] = []
        self.argument: BlockArgument | None = None
        self.scope: Scope | None = None

    @public
    def __enter__(self) -> tuple[Index, ...]:
        self.scope = open_scope(Block(), MAP, self)
        if self.space is not None:
            self._set_space(self.space)
        names = targets()
        hints = names if len(names) == len(self.sizes) else ()
        axes = [
            Axis(self.scope, i, valid_hint(hints[i]) if hints else None)
            for i in range(len(self.sizes))
        ]
        return tuple(Index(AffineExpr.dimension(0), (axis,)) for axis in axes)

    def _set_space(self, space: Memory) -> None:
        assert self.scope is not None
        self.space = space
        self.argument = self.scope.block.insert_arg(space.dtype, 0, self.location)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self.scope is not None
        if error is None:
            self._finish()
        else:
            close_scope(self.scope)

    @public
    def _finish(self) -> None:
        scope = self.scope
        assert scope is not None
        check_innermost(scope)
        if not self.outputs:
            close_scope(scope)
            refuse("NoResult", "the body of T.parallel writes nothing", self.location)
        if self.space is None:
            close_scope(scope)
            refuse(
                "NoFragment",
                "the body of T.parallel touches no fragment of its sizes at each element's own "
                "place; T.parallel(fragment) says which threads have which elements",
                self.location,
            )
        insert(YieldOp([o.value for o in self.outputs]), self.location)
        close_scope(scope)
        symbols = len(self.origins)
        maps = [AffineMap(len(self.sizes), symbols, o.place) for o in (*self.inputs, *self.outputs)]
        made = MapOp(
            self.space.value,
            self.origins,
            [i.memory for i in self.inputs],
            [o.memory for o in self.outputs],
            maps,
            region_of(scope.block),
        )
        insert(made, self.location)

    # Elements --------------------------------------------------------------------------

    def place(self, indices: Sequence[IndexLike]) -> tuple[AffineExpr, ...]:
        """Coordinates as affine expressions of the tile's axes and of the origin."""
        return tuple(self._coordinate(to_index(i)) for i in indices)

    def _coordinate(self, index: Index) -> AffineExpr:
        places: list[AffineExpr] = []
        for one in index.leaves:
            if isinstance(one, Axis):
                if one.scope is not self.scope:
                    refuse("OutOfScope", "an axis of T.parallel is known in its body only")
                places.append(AffineExpr.dimension(one.position))
                continue
            owner = one.owner
            block = owner if isinstance(owner, Block) else owner.parent
            assert self.scope is not None
            if block is self.scope.block:
                refuse(
                    "NotAffine",
                    "an element's place is an affine expression of the tile's axes and of values "
                    "from outside T.parallel; this one is computed in the body",
                )
            at = next((i for i, known in enumerate(self.origins) if known is one), None)
            if at is None:
                at = len(self.origins)
                self.origins.append(one)
            places.append(AffineExpr.symbol(at))
        return index.expr.replace_dims_and_symbols(places, [])

    def _own(self, memory: Memory, place: tuple[AffineExpr, ...]) -> bool:
        own = tuple(AffineExpr.dimension(i) for i in range(len(self.sizes)))
        kind = memory.type
        return isinstance(kind, FragmentType) and kind.sizes == self.sizes and place == own

    def load(self, memory: Memory, indices: Sequence[IndexLike]) -> Scalar | Index:
        place, value = self.place(indices), memory.value
        for output in self.outputs:
            if output.memory is value:
                if output.place == place:
                    return element(output.value)
                refuse(
                    "ReadAfterWrite",
                    "the body wrote another element of this tile or tensor before; elements of a "
                    "T.parallel do not see each other's writes, so split it in two",
                )
        own = self._own(memory, place)
        if own and self.space is None:
            self._set_space(memory)
        if own and self.space is not None and value is self.space.value:
            assert self.argument is not None
            found = self.argument
        else:
            found = self._input(memory, value, place)
        name = hinted()
        if found.name_hint is None and name is not None:
            found.name_hint = name
        return element(found)

    def _input(
        self, memory: Memory, value: SSAValue, place: tuple[AffineExpr, ...]
    ) -> BlockArgument:
        for known in self.inputs:
            if known.memory is value and known.place == place:
                return known.argument
        assert self.scope is not None
        block = self.scope.block
        made = block.insert_arg(memory.dtype, len(block.args), here())
        self.inputs.append(_Input(value, place, made))
        return made

    def store(
        self, memory: Memory, indices: Sequence[IndexLike], given: ScalarLike | IndexLike
    ) -> None:
        if isinstance(memory.type, SharedType):
            refuse(
                "NotWritten",
                "T.parallel writes fragments and tensors; T.copy takes a fragment to shared memory",
            )
        place, value = self.place(indices), memory.value
        if isinstance(memory.type, FragmentType):
            if not self._own(memory, place):
                refuse(
                    "NotWritten",
                    f"a fragment is written at the element's own place: {memory.type} does not "
                    f"have the sizes {list(self.sizes)}, or the place is another one",
                )
            if self.space is None:
                self._set_space(memory)
        if any(i.memory is value and i.place != place for i in self.inputs):
            refuse(
                "ReadAfterWrite",
                "the body writes what it reads for another element; which comes first is not "
                "defined, so write something else, or split it in two",
            )
        stored = self._stored(memory, given)
        for output in self.outputs:
            if output.memory is value and output.place == place:
                output.value = stored
                return
        self.outputs.append(_Output(value, place, stored))

    def _stored(self, memory: Memory, given: object) -> SSAValue:
        """What is written, as the memory's element type."""
        kind = memory.dtype
        if isinstance(kind, IndexType) and isinstance(given, int | Index | Size):
            return ssa_index(given)
        if isinstance(given, Scalar):
            return converted(given.value, kind)
        if isinstance(given, int | float):
            return number(given, kind)
        refuse("MixedNumbers", f"{given!r} is no element of {kind}; T.cast converts an index")


def _innermost() -> Parallel:
    for scope in reversed(trace().scopes):
        if isinstance(scope.owner, Parallel):
            return scope.owner
    refuse(
        "NotScalar",
        "single elements are read and written in the body of T.parallel; T.copy moves tiles",
    )


def load(memory: Memory, indices: Sequence[IndexLike]) -> Scalar | Index:
    """An element, in the innermost T.parallel."""
    return _innermost().load(memory, indices)


def store(memory: Memory, indices: Sequence[IndexLike], value: ScalarLike | IndexLike) -> None:
    """Write an element, in the innermost T.parallel."""
    _innermost().store(memory, indices, value)


@public
def parallel(*space: Memory | int, origin: Sequence[IndexLike] = ()) -> Parallel:
    """Compute element by element, over a fragment or over ``T.parallel(128, 256)``.

    The body reads and writes elements by their coordinates.  Places are affine in the tile's axes
    and in values from outside (``C[row + i, col + j]``).  Elements outside a tensor read as 0 and
    are not written.  A number of sizes is for the first fragment that is touched at the element's
    own place.  ``origin`` fixes the order of the outside values in the text.
    """
    kernel_trace()
    sizes: list[int] = []
    for one in space:
        if isinstance(one, int):
            sizes.append(one)
        elif len(space) == 1 and isinstance(getattr(one, "type", None), FragmentType):
            assert isinstance(one.type, FragmentType)
            return Parallel(one, one.type.sizes, origin)
    if not sizes or len(sizes) != len(space):
        refuse("WrongShape", "T.parallel takes one fragment, or the sizes of one as numbers")
    return Parallel(None, sizes, origin)
