"""What a kernel works on: tensors, shared tiles, fragments, and their rings, turns and tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import DictionaryAttr, IndexType, IntAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects.common.dim import ShapeAttr
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    GlobalType,
    SharedType,
)
from polyc.dialects.gpu.waiting import OrderType, RingType, TokenType
from polyc.tile import maps, specs
from polyc.tile.functions import affine_map
from polyc.tile.indices import Index, IndexLike, Size, leaf, ssa_index
from polyc.tile.scalars import Scalar, ScalarLike, dtype, hinted
from polyc.tile.source import public, refuse
from polyc.tile.specs import TensorSpec
from polyc.tile.trace import check_visible, in_map, insert, kernel_trace, value_of

# Signatures ----------------------------------------------------------------------------


def type_of(spec: TensorSpec) -> GlobalType:
    """The type of a tensor of the signature.  Raises VerifyException."""
    return GlobalType(ShapeAttr(spec.dims), dtype(spec.element), IntAttr(spec.align))


def attributes_of(spec: TensorSpec) -> DictionaryAttr:
    """Its attributes in the IR."""

    def attr(value: str | bool | int) -> Attribute:
        if isinstance(value, str):
            return StringAttr(value)
        if isinstance(value, bool):
            return IntegerAttr.from_bool(value)
        return IntegerAttr(value, 64)

    return DictionaryAttr({name: attr(value) for name, value in spec.attributes})


class _Handle:
    """What stands for a value of the IR."""

    def __bool__(self) -> bool:
        return True


class Tensor(_Handle, specs.Tensor):
    """A tensor in global memory: an argument of the program, or a workspace.

    ``A[i, k]`` is a place in it: the first coordinates of a tile that ``T.copy`` moves, or, in
    ``T.parallel``, the element.
    """

    def __init__(self, name: str, type: GlobalType, bind: BindAttr) -> None:
        self.name = name
        self.type = type
        self.bind = bind

    @property
    def shape(self) -> tuple[Size, ...]:
        return tuple(Size(dim) for dim in self.type.dims)

    @property
    def dtype(self) -> Attribute:
        return self.type.element_type

    @property
    def value(self) -> SSAValue:
        """The open kernel's argument."""
        kernel = kernel_trace().kernel
        assert kernel is not None
        return kernel.argument(self)

    @public
    def __getitem__(self, indices: IndexLike | tuple[IndexLike, ...]) -> Any:
        at = _indices(indices, len(self.type.dims), f"{self.name}, a tensor {self.type}")
        if in_map():
            return maps.load(self, at)
        return TilePlace(self, at)

    @public
    def __setitem__(
        self, indices: IndexLike | tuple[IndexLike, ...], value: ScalarLike | IndexLike
    ) -> None:
        at = _indices(indices, len(self.type.dims), f"{self.name}, a tensor {self.type}")
        maps.store(self, at, value)


class Out(Tensor, specs.Out):
    """An output: ``C: T.Out[M, N, T.f16]``."""


def _indices(given: object, rank: int, what: str) -> tuple[IndexLike, ...]:
    at = cast("tuple[object, ...]", given) if isinstance(given, tuple) else (given,)
    if len(at) != rank:
        refuse("WrongRank", f"{what}, has {rank} coordinates, not {len(at)}")
    if any(isinstance(i, slice) for i in at):
        refuse(
            "NotAnIndex",
            f"{what}, is taken at first coordinates; the tile at the other end says how many",
        )
    return cast("tuple[IndexLike, ...]", at)


@dataclass(frozen=True, eq=False)
class TilePlace:
    """A place in a tensor: first coordinates of a tile."""

    tensor: Tensor
    indices: tuple[IndexLike, ...]


# Tiles ---------------------------------------------------------------------------------


class Tile(_Handle):
    """A shared tile or a fragment."""

    def __init__(self, value: SSAValue) -> None:
        self._value = value

    @property
    def type(self) -> SharedType | FragmentType:
        assert isinstance(self._value.type, SharedType | FragmentType)
        return self._value.type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.sizes

    @property
    def dtype(self) -> Attribute:
        return self.type.element_type

    @property
    def value(self) -> SSAValue:
        check_visible(self._value)
        return self._value

    def retype(self, value: SSAValue) -> None:
        """Stand for ``value`` from now on, which replaces the one before."""
        self._value = value

    @public
    def __getitem__(self, indices: Any) -> Any:
        if in_map():
            at = _indices(indices, len(self.shape), f"{self.type}")
            return maps.load(self, at)
        return View(self, start=_window(self, indices))

    @public
    def __setitem__(self, indices: Any, value: ScalarLike | IndexLike) -> None:
        maps.store(self, _indices(indices, len(self.shape), f"{self.type}"), value)


def _window(of: Tile, indices: object) -> tuple[tuple[int, int], ...]:
    """Start and size on each axis of ``tile[64:128, :]``."""
    at = cast("tuple[object, ...]", indices) if isinstance(indices, tuple) else (indices,)
    if len(at) != len(of.shape):
        refuse("WrongRank", f"{of.type} has {len(of.shape)} axes, not {len(at)}")
    found: list[tuple[int, int]] = []
    for one, extent in zip(at, of.shape, strict=True):
        match one:
            case slice(start=int() | None as start, stop=int() | None as stop, step=None):
                first, last = start or 0, extent if stop is None else stop
                if not 0 <= first < last <= extent:
                    refuse("OutOfBounds", f"{first}:{last} is no part of an axis of {extent}")
                found.append((first, last - first))
            case _:
                refuse(
                    "NotAWindow",
                    "outside T.parallel a tile is cut by slices of known numbers, such as "
                    "tile[:, 64:128]; its elements are read in T.parallel",
                )
    return tuple(found)


class Shared(Tile):
    """A tile in shared memory, or a ring of them."""

    @public
    def slot(self, number: IndexLike) -> View:
        """The tile of slot ``number`` of the ring, counted modulo its depth."""
        return View(self, slot=number)


class Fragment(Tile):
    """A tile in the registers of the threads that work on it together."""


@dataclass(frozen=True, eq=False)
class View:
    """A slot of a ring, or a part of a tile."""

    tile: Tile
    slot: IndexLike | None = None
    start: tuple[tuple[int, int], ...] | None = None

    @public
    def __getitem__(self, indices: Any) -> Any:
        if self.slot is not None and in_map():
            refuse("NotAWindow", "T.parallel reads tiles that are no ring")
        return View(self.tile, self.slot, _window(self.tile, indices))


@public
def alloc_shared(
    shape: Sequence[int], kind: object, *, ring: int = 1, swizzle: int | None = None
) -> Shared:
    """A tile in shared memory; ``ring`` of them, one after another, for a pipeline.

    ``swizzle`` is the span of its layout in bytes (0, 32, 64, 128), inferred where it is absent.
    """
    kernel_trace()
    made = SharedTileOp(SharedType.of(_sizes(shape), dtype(kind), swizzle, ring))
    return Shared(value_of(made, hinted()))


@public
def alloc_fragment(
    shape: Sequence[int], kind: object, *, layout: FragmentLayoutAttr | None = None
) -> Fragment:
    """A tile in registers; its layout is inferred where it is absent."""
    kernel_trace()
    made = tile.FragmentOp(FragmentType.of(_sizes(shape), dtype(kind), layout))
    return Fragment(value_of(made, hinted()))


def _sizes(shape: object) -> list[int]:
    listed = [shape] if isinstance(shape, int) else list(cast("Sequence[object]", shape))
    for one in listed:
        if not isinstance(one, int) or isinstance(one, bool) or one < 1:
            refuse(
                "WrongShape",
                f"a tile's sizes are positive numbers that are known here, not {one!r}; symbolic "
                "sizes are those of tensors",
            )
    found = cast("list[int]", listed)
    if not found or prod(found) > 1 << 24:
        refuse("WrongShape", f"{found} are no sizes of a tile")
    return found


@public
def fragment_layout(
    threads: int, registers: int, place: Callable[[Any, Any], Sequence[Any]]
) -> FragmentLayoutAttr:
    """Where each register of each thread stands: ``lambda t, r: (t // 4, t % 4 * 2 + r)``."""
    return FragmentLayoutAttr.of(threads, registers, affine_map(2, place))


@public
def swizzle(span: int) -> int:
    """For ``T.annotate_layout``: the hardware's swizzle of 0, 32, 64 or 128 bytes."""
    return span


@public
def annotate_layout(layouts: Mapping[Tile, FragmentLayoutAttr | int]) -> None:
    """Say the layouts of tiles: a swizzle's bytes, or a ``T.fragment_layout``."""
    for one, layout in layouts.items():
        old = one.value
        if isinstance(one.type, SharedType) and isinstance(layout, int):
            new: Operation = SharedTileOp(one.type.like(swizzle=layout))
        elif isinstance(one.type, FragmentType) and isinstance(layout, FragmentLayoutAttr):
            new = tile.FragmentOp(FragmentType.of(one.type.sizes, one.type.element_type, layout))
        else:
            refuse("WrongLayout", f"{layout} is no layout of {one.type}")
        made, owner = new.results[0], old.owner
        assert isinstance(owner, Operation) and owner.parent is not None
        block = owner.parent
        made.name_hint = old.name_hint
        new.location = owner.location
        block.insert_op_before(new, owner)
        old.replace_all_uses_with(made)
        block.erase_op(owner)
        one.retype(made)


# Flow ----------------------------------------------------------------------------------


class Token(_Handle):
    """An asynchronous op under way, for ``T.await_``."""

    def __init__(self, value: SSAValue) -> None:
        self.value = value


class Ring(_Handle):
    """The flow of a ring of shared tiles; ``ring[i]`` is its step of iteration ``i``."""

    def __init__(self, value: SSAValue) -> None:
        self._value = value

    @property
    def value(self) -> SSAValue:
        check_visible(self._value)
        return self._value

    def __getitem__(self, iteration: IndexLike) -> RingStep:
        return RingStep(self, iteration)


@dataclass(frozen=True, eq=False)
class RingStep:
    """A ring at an iteration's number: its slot is the number modulo the depth."""

    ring: Ring
    iteration: IndexLike

    @public
    def acquire(self) -> None:
        """Producer: wait until the slot is free."""
        insert(tile.RingAcquireOp(self.ring.value, ssa_index(self.iteration)))

    @public
    def wait(self) -> None:
        """Consumer: wait until the slot is full."""
        insert(tile.RingWaitOp(self.ring.value, ssa_index(self.iteration)))

    @public
    def release(self) -> None:
        """Consumer: the slot has been read."""
        insert(tile.RingReleaseOp(self.ring.value, ssa_index(self.iteration)))


@public
def ring(depth: int, *, consumers: int, peers: int = 1) -> Ring:
    """Flow control of rings of ``depth`` slots that ``consumers`` warpgroups read.

    ``peers`` is how many CTAs of a cluster fill each other's slots.
    """
    kernel_trace()
    return Ring(value_of(tile.RingOp(depth, consumers, peers), hinted()))


class Order(_Handle):
    """Turns that independent consumers take."""

    def __init__(self, value: SSAValue) -> None:
        self._value = value

    @public
    def enter(self, number: IndexLike) -> None:
        """Wait for the turn of participant ``number``."""
        insert(tile.OrderEnterOp(self._value, ssa_index(number)))

    @public
    def leave(self, number: IndexLike) -> None:
        """End the turn of participant ``number``."""
        insert(tile.OrderLeaveOp(self._value, ssa_index(number)))


@public
def order_barrier(participants: int) -> Order:
    """Turns of ``participants`` warpgroups, number 0 first."""
    kernel_trace()
    return Order(value_of(tile.OrderBarrierOp(participants), hinted()))


def wrapped(value: SSAValue) -> Any:
    """The Python object that stands for a value."""
    match value.type:
        case IndexType():
            return leaf(value)
        case TokenType():
            return Token(value)
        case SharedType():
            return Shared(value)
        case FragmentType():
            return Fragment(value)
        case RingType():
            return Ring(value)
        case OrderType():
            return Order(value)
        case _:
            return Scalar(value)


def unwrapped(given: object) -> SSAValue:
    """The value that a Python object stands for."""
    match given:
        case SSAValue():
            return given
        case Index() | Size():
            return ssa_index(given)
        case Scalar() | Token() | Tile() | Ring() | Tensor():
            return given.value
        case Order():
            return given._value  # pyright: ignore[reportPrivateUsage]
        case _:
            refuse("NotAValue", f"{given!r} is no value of the kernel")
