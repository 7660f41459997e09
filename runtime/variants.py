"""The variants of a dispatch on the host: which one takes a call, and how it is launched.

A ``Variant`` is read from the module once.  ``Variant.plan`` makes it ready for certain sizes
on one GPU; the ``Plan`` then runs on any tensors of these sizes, as only addresses differ.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from ctypes import c_int32, c_uint64
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.grids import WORKSPACE_ALIGN, stands_for_copy
from polyc.dialects.common.size_expr import MAX_SIZE
from polyc.runtime import driver, tensor_maps
from polyc.runtime.arenas import Arenas
from polyc.runtime.described import Choice, Launch, TensorMap, Workspace
from polyc.runtime.lifetimes import places_in_turn
from polyc.runtime.views import ELEMENT_BYTES, TensorView, row_major

MAX_BLOCKS = 2**31 - 1
"""Blocks of a grid's x axis."""

FunctionOf = Callable[[str], driver.Function]
"""The loaded kernel of a name."""


@dataclass(frozen=True)
class Memory:
    """What kernels are bound to: a tensor of the signature, or a workspace."""

    element: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    """In elements, where it is not dense."""


class Step:
    """One launch of a variant."""

    def __init__(self, launch: Launch) -> None:
        self.name = launch.grid.kernel
        self.launch, self.grid = launch, launch.grid
        self.fills = launch.fills
        self.threads, self.shared = launch.threads, launch.shared
        self.cluster = launch.grid.cluster
        self.overlapped = launch.overlapped
        self.cooperative = launch.grid.cooperative is not None
        self.arguments = launch.arguments

    def crowded(
        self, values: Mapping[str, int], device: driver.Device, function: FunctionOf
    ) -> str | None:
        """Why the CTAs of a cooperative launch cannot all run at once there, or None."""
        if not self.cooperative:
            return None
        most = function(self.name).blocks_at_once(self.threads, self.shared)
        return self.grid.crowded(values, device.multiprocessors, most)

    def blocks(
        self, values: Mapping[str, int], device: driver.Device, function: driver.Function
    ) -> int:
        """The grid.  Raises PolycError ``BadArgument`` for one that cannot be launched."""
        blocks = self.grid.blocks(values, device.multiprocessors)
        if self.grid.persistent and self.cluster > 1:
            # Clusters stay within a part of the chip, so that fewer fit than multiprocessors say.
            most = function.clusters_at_once(self.threads, self.shared, self.cluster)
            blocks = min(blocks, max(1, most) * self.cluster)
        if self.cooperative:
            most = function.blocks_at_once(self.threads, self.shared)
            blocks = self.grid.blocks(values, device.multiprocessors, most)
        least = 1 if self.launch.alone else 0
        if not least <= blocks <= MAX_BLOCKS:
            raise PolycError(
                "BadArgument",
                f"kernel {self.name} would have {blocks} blocks at {values_text(values)}; "
                f"a grid has {least} to {MAX_BLOCKS}",
            )
        if blocks % self.cluster:
            raise PolycError(
                "BadArgument",
                f"kernel {self.name} runs in clusters of {self.cluster} and would have "
                f"{blocks} blocks at {values_text(values)}",
            )
        return blocks


class Variant:
    """One variant of the dispatch; ``align`` is in bytes, a tensor of the signature each.

    ``made`` gives its launches, and is called by the first who wants to run it: a variant may be at
    tile level before.
    """

    def __init__(self, choice: Choice, made: Callable[[], Sequence[Launch]]) -> None:
        self.name = choice.name
        self.facts = choice.facts
        self.align = choice.align
        self.kernels = list(choice.kernels)
        self.workspaces = choice.workspaces
        self._made = made
        self._sizes = choice.sizes

    @cached_property
    def steps(self) -> list[Step]:
        """Its launches in their order."""
        return [Step(launch) for launch in self._made()]

    def refuses(self, symbols: Mapping[str, int], views: Sequence[TensorView]) -> str | None:
        """Why it cannot take these tensors, or None when it can."""
        for fact in self.facts:
            if not fact.holds(symbols):
                return f"{fact} does not hold"
        for size in self._sizes:
            if (value := size.evaluate(symbols)) > MAX_SIZE:
                return f"{size} is {value}; kernels index with 32 bits, sizes up to {MAX_SIZE}"
        for i, (view, align) in enumerate(zip(views, self.align, strict=True)):
            if align and view.pointer % align:
                return f"tensor {i} at {view.pointer:#x} is not a multiple of {align} bytes"
        for i, view in enumerate(views):
            if not view.is_dense and (reason := self._takes_no_rows(i, view)) is not None:
                return reason
        return None

    def _takes_no_rows(self, tensor: int, view: TensorView) -> str | None:
        """Why it does not take a tensor whose rows are dense and lie anywhere, or None.

        It does where every kernel reads and writes it through a tensor map of its own sizes.
        """
        every = (one for step in self.steps for one in step.arguments)
        uses = [one for one in every if one.source == tensor and one.used]
        if any(one.copies == tensor for one in self.workspaces) or any(
            one.map is None or one.map.window is not None or one.view is not None for one in uses
        ):
            return f"tensor {tensor} has strides {list(view.strides)}, and is read by its address"
        item = ELEMENT_BYTES[view.element]
        for axis, (extent, stride) in enumerate(zip(view.shape[:-1], view.strides, strict=False)):
            if extent > 1 and stride * item % 16:
                return (
                    f"dimension {axis} of tensor {tensor} steps by {stride * item} bytes, and TMA "
                    "by multiples of 16"
                )
        return None

    def crowded(
        self, values: Mapping[str, int], device: driver.Device, function: FunctionOf
    ) -> str | None:
        """Why its CTAs, which wait for each other, cannot run at once there, or None."""
        reasons = (step.crowded(values, device, function) for step in self.steps)
        return next((reason for reason in reasons if reason is not None), None)

    def plan(
        self,
        views: Sequence[TensorView],
        values: Mapping[str, int],
        device: driver.Device,
        function: FunctionOf,
        constants: Collection[int] = (),
        most: int | None = None,
    ) -> Plan:
        """Make it ready for tensors of these shapes, at the addresses of ``views``.

        What is made of the tensors ``constants`` alone, by their numbers, is made once, but for
        workspaces of more than ``most`` bytes.  Raises PolycError where a grid or a tensor map
        cannot be made.
        """
        large: set[str] = set()
        for one in self.workspaces if most is not None else ():
            if prod(d.evaluate(values) for d in one.dims) * one.item > (most or 0):
                large.add(one.name)
        once, kept = self._once(constants, large)
        memories = [Memory(v.element, v.shape, _strides(v)) for v in views]
        pointers = [v.pointer for v in views]
        found: dict[str, tuple[int, Memory]] = {}
        copied: set[str] = set()
        own: list[tuple[Workspace, int, int]] = []
        for workspace in self.workspaces:
            dims = workspace.dims
            memory = Memory(workspace.element, tuple(d.evaluate(values) for d in dims))
            if (copies := workspace.copies) is not None:
                source = found[copies][0] if isinstance(copies, str) else copies
                elements = prod(memories[source].shape)
                if stands_for_copy(dims, elements, pointers[source], values):
                    found[workspace.name] = source, memory
                    continue
                copied.add(workspace.name)
            own.append((workspace, len(memories), prod(memory.shape) * workspace.item))
            found[workspace.name] = len(memories), memory
            memories.append(memory)
            # Tensor maps are made before there is a workspace; any aligned address does.
            pointers.append(WORKSPACE_ALIGN)
        steps = [step for step in self.steps if step.fills is None or step.fills in copied]
        lives = _lives([step for step in steps if step not in once], found)
        places, fills, sizes = _placed(own, kept, lives)
        plan = Plan(self.name, len(views), places, fills, sizes[False], sizes[True])
        made: list[object] = [self.name, sizes[True]]
        for step in steps:
            code = function(step.name)
            blocks = step.blocks(values, device, code)
            if not blocks:
                continue
            arguments: list[Any] = []
            if step in once:
                made += [step.name, blocks]
            for one in step.arguments:
                if one.symbol:
                    arguments.append(c_int32(values[str(one.source)]))
                    if step in once:
                        made.append(values[str(one.source)])
                    continue
                if isinstance(one.source, str):
                    source, memory = found[one.source]
                else:
                    source, memory = one.source, memories[one.source]
                pointer = pointers[source]
                if one.view is not None:
                    memory = Memory(memory.element, tuple(d.evaluate(values) for d in one.view))
                arguments.append(plan.bind(source, pointer, memory, one.map))
                if source < len(views):
                    plan.read(source, step in once)
                if step in once:
                    made.append((one.source, memory.shape))
            cluster = (step.cluster, 1, 1)
            launches = plan.once if step in once else plan.launches
            launches.append(
                code.bind(
                    (blocks,),
                    (step.threads,),
                    step.shared,
                    arguments,
                    cluster,
                    # What comes before a run is no launch of it.
                    step.overlapped and bool(launches or not plan.once),
                    step.cooperative,
                )
            )
        plan.made_of = tuple(made)
        return plan

    def _once(
        self, constants: Collection[int], large: Collection[str]
    ) -> tuple[Collection[Step], Collection[str]]:
        """The launches that read nothing but ``constants`` and what such ones made, and the
        workspaces that these write, none of which is ``large``."""
        once: list[Step] = []
        kept: set[str] = set()
        others = {one.name for one in self.workspaces if one.zeroed} | set(large)
        for step in self.steps if constants else ():
            sources = {one.source for one in step.arguments if not one.symbol}
            spaces = {source for source in sources if isinstance(source, str)}
            if others.isdisjoint(spaces) and sources - spaces <= set(constants):
                once.append(step)
                kept |= spaces
            else:
                others |= spaces - kept
        return once, kept


@dataclass(frozen=True)
class Place:
    """Where a workspace begins: among those of a run, or of those that stay."""

    start: int
    stays: bool = False


def _lives(
    steps: Sequence[Step], found: Mapping[str, tuple[int, Memory]]
) -> dict[int, tuple[int, int]]:
    """From which of some launches, one after another, to which each memory is used, by number."""
    lives: dict[int, tuple[int, int]] = {}
    for number, step in enumerate(steps):
        for one in step.arguments:
            if isinstance(one.source, str) and not one.symbol:
                source = found[one.source][0]
                lives[source] = lives.get(source, (number, number))[0], number
    return lives


def _placed(
    own: Sequence[tuple[Workspace, int, int]],
    kept: Collection[str],
    lives: Mapping[int, tuple[int, int]],
) -> tuple[list[Place], list[tuple[int, int]], dict[bool, int]]:
    """Where workspaces lie, those of a run and those that are ``kept``; what is cleared ahead of a
    run; and the bytes of either.  Each has its number among all memories, and its bytes.

    What is cleared lies side by side, as each clearing takes as long as a small kernel, and is
    nobody else's; of the others those that are over share their memory with those that begin later.
    """
    rooms = [-(-needed // WORKSPACE_ALIGN) * WORKSPACE_ALIGN for _, _, needed in own]
    starts, sizes = [0] * len(own), {False: 0, True: 0}
    others = [n for n, (one, _, _) in enumerate(own) if not (one.zeroed or one.name in kept)]
    found, sizes[False] = places_in_turn(
        [rooms[n] for n in others], [lives.get(own[n][1]) for n in others]
    )
    for n, start in zip(others, found, strict=True):
        starts[n] = start
    first, fills = sizes[False], list[tuple[int, int]]()
    for n, (one, _, needed) in enumerate(own):
        stays = one.name in kept
        if stays or one.zeroed:
            starts[n] = sizes[stays]
            sizes[stays] += rooms[n]
            if one.zeroed and needed:
                fills = [(first, starts[n] + needed - first)]
    places = [Place(starts[n], one.name in kept) for n, (one, _, _) in enumerate(own)]
    return places, fills, sizes


def _strides(view: TensorView) -> tuple[int, ...] | None:
    """A tensor's strides where it is not dense: along an axis of one element any that TMA takes."""
    if view.is_dense:
        return None
    any_one = -(-16 // ELEMENT_BYTES[view.element])
    pairs = zip(view.shape[:-1], view.strides[:-1], strict=True)
    return (*(stride if extent > 1 else any_one for extent, stride in pairs), 1)


class Plan:
    """A variant at certain sizes on one GPU; running it again elsewhere costs new addresses.

    ``size`` is what its workspaces take in bytes, one after another from ``places`` on, and
    ``kept`` what those take that stay as the launches ``once`` leave them.
    ``place`` and ``run`` are for one thread at a time, which holds ``lock``.
    """

    def __init__(
        self,
        name: str,
        count: int,
        places: Sequence[Place],
        fills: Sequence[tuple[int, int]],
        size: int,
        kept: int = 0,
    ) -> None:
        self.name = name
        self.size, self.kept = size, kept
        self.lock = threading.Lock()
        self.launches: list[driver.Launch] = []
        self.once: list[driver.Launch] = []
        self._places, self._fills = places, fills
        self._memory: int | None = None
        self._pointers: list[int | None] = [None] * count
        self.calls: Sequence[int] = range(count)
        """The tensors that calls give, by their numbers among all; the others are ``held``."""
        self.made_of: Sequence[object] = ()
        """What decides what the launches ``once`` make, beside the tensors that they read."""
        self._held: Mapping[int, int] = {}
        self._reads: tuple[set[int], set[int]] = set(), set()
        self._owners: Sequence[object] = ()
        self._values: list[list[c_uint64]] = [[] for _ in range(count + len(places))]
        self._maps: list[list[tensor_maps.TensorMap]] = [[] for _ in range(count + len(places))]

    def read(self, source: int, once: bool) -> None:
        """Say that a launch takes a tensor: one of those that run ``once``, or of every run."""
        self._reads[once].add(source)

    def reads(self, numbers: Collection[int], once: bool = False) -> set[int]:
        """Those of the tensors ``numbers`` that its launches take, or those that run ``once``."""
        return self._reads[once].intersection(numbers)

    def hold(self, held: Mapping[int, int], owners: Sequence[object]) -> None:
        """From now on calls give all tensors but ``held``, which stay at these addresses; the plan
        keeps ``owners``, whose memory that is."""
        self._held, self._owners = held, owners
        self.calls = [number for number in range(len(self._pointers)) if number not in held]

    def _every(self, pointers: Sequence[int]) -> Sequence[int]:
        """The addresses of all tensors, of those of a call's."""
        if not self._held:
            return pointers
        found = [0] * len(self._pointers)
        for number, pointer in (*self._held.items(), *zip(self.calls, pointers, strict=True)):
            found[number] = pointer
        return found

    def bind(self, source: int, pointer: int, memory: Memory, kind: TensorMap | None) -> Any:
        """The ctypes object that holds an argument made from memory ``source``."""
        if source < len(self._pointers):
            self._pointers[source] = pointer
        if kind is None:
            value = c_uint64(pointer)
            self._values[source].append(value)
            return value
        element = "tf32" if kind.tf32 else memory.element
        if kind.window is not None:
            lower, upper, steps = kind.window
            box = kind.box[0], kind.box[1]
            made = tensor_maps.im2col_map(
                pointer, element, memory.shape, box, kind.swizzle, lower, upper, steps
            )
        else:
            strides = row_major(memory.shape) if memory.strides is None else memory.strides
            made = tensor_maps.tensor_map(
                pointer, element, memory.shape, strides, kind.box, kind.swizzle, kind.onward
            )
        self._maps[source].append(made)
        return made.argument

    @property
    def is_one_launch(self) -> bool:
        """Whether it is a launch and nothing else: no workspace, and nothing to clear."""
        return len(self.launches) == 1 and not self.size and not self._fills

    def bound(self) -> tuple[list[list[c_uint64]], list[list[tensor_maps.TensorMap]]]:
        """Arguments of its launches that change with an address, by the number of its tensor."""
        return self._values, self._maps

    def _point(self, source: int, pointer: int) -> None:
        for value in self._values[source]:
            value.value = pointer
        for made in self._maps[source]:
            made.point_to(pointer)

    def place(self, pointers: Sequence[int], memory: int) -> None:
        """Move to these tensors, and to workspaces at ``memory``."""
        self._move(pointers)
        if memory != self._memory:
            self._memory = None
            self._point_spaces(memory, stays=False)
            self._memory = memory

    def _move(self, pointers: Sequence[int]) -> None:
        """Move to these tensors."""
        for source, (pointer, old) in enumerate(zip(pointers, self._pointers, strict=True)):
            if pointer != old:
                # Where this fails, some arguments have moved and some have not.
                self._pointers[source] = None
                self._point(source, pointer)
                self._pointers[source] = pointer

    def make(self, pointers: Sequence[int], memory: int, made: bool = False) -> None:
        """Run the launches that run once, for these tensors and with what stays at ``memory``.

        It waits for what the GPU has begun, and for them.  Where all that is ``made`` there already
        nothing runs.
        """
        self._move(pointers)  # No other workspaces are there yet.
        self._point_spaces(memory, stays=True)
        if made:
            return
        driver.synchronize()
        for launch in self.once:
            launch.run(0)
        driver.wait(0)

    def _point_spaces(self, memory: int, stays: bool) -> None:
        for source, place in enumerate(self._places, len(self._pointers)):
            if place.stays == stays:
                self._point(source, memory + place.start)

    def run(self, stream: int = 0) -> None:
        """Launch on ``stream`` (a CUstream as an integer; 0 is the default stream)."""
        for place, size in self._fills:
            assert self._memory is not None
            driver.clear(self._memory + place, size, stream)
        for launch in self.launches:
            launch.run(stream)

    def launch(self, pointers: Sequence[int], stream: int, index: int, arenas: Arenas) -> None:
        """Run at these addresses on ``stream`` of GPU ``index``, whose context is current.

        They are those of the tensors that calls give.  Workspaces are in the stream's arena.  Any
        thread may call it.
        """
        pointers = self._every(pointers)
        if not self.size:
            with self.lock:
                self.place(pointers, 0)
                self.run(stream)
            return
        space = arenas.of(index, stream)
        with space.lock, self.lock:
            self.place(pointers, space.pointer(self.size))
            self.run(stream)


class Bound:
    """A plan at its tensors for good, on GPU ``index``, with workspaces of its own.

    The caller orders its runs with other work on the tensors.  Any thread may run it, on any
    stream: each has workspaces of its own there.
    """

    def __init__(
        self, plan: Plan, index: int, pointers: Sequence[int], held: Sequence[object] = ()
    ) -> None:
        self.name = plan.name
        self._held = list(held)  # constants, whose memory is not the caller's to keep
        self.plan = plan
        self._index = index
        self._pointers = list(pointers)
        self._arenas = Arenas(private=True) if plan.size else None
        self._kept: driver.Buffer | None = None
        if plan.once:
            self._kept = driver.Buffer(plan.kept, index)
            with driver.current(index):
                plan.make(pointers, self._kept.pointer)
        elif not plan.size:
            plan.place(pointers, 0)

    def run(self, stream: int = 0) -> None:
        """Launch on ``stream`` (a CUstream as an integer; 0 is the default stream)."""
        plan = self.plan
        with driver.current(self._index):
            if self._arenas is not None:
                plan.launch(self._pointers, stream, self._index, self._arenas)
                return
            with plan.lock:
                plan.run(stream)

    def workspaces(self, stream: int = 0) -> tuple[int, int]:
        """Where its workspaces on ``stream`` begin, and their bytes; what they hold is open.

        Those that a launch finds zeroed are cleared by each run.
        """
        if self._arenas is None:
            return 0, 0
        with driver.current(self._index):
            return self._arenas.of(self._index, stream).pointer(self.plan.size), self.plan.size


def values_text(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
