"""A launch whose arguments lie ready in memory of its own: moving it is one write.

A plan that is one launch without workspaces is packed as often as threads run it at once, so that
none waits for another.  The addresses of tensors stand side by side; a tensor map is kept for each
address that its tensor had, and is never changed, so that going back to one costs nothing.
"""

from __future__ import annotations

import ctypes
import struct
from ctypes import c_uint64

from polyc.runtime import driver
from polyc.runtime.tensor_maps import TensorMap
from polyc.runtime.variants import Plan

MAPS_KEPT = 64
"""Addresses for which a tensor map of a plan is kept, the oldest going first."""


class Packing:
    """How the one launch of a plan is packed, as often as is wanted.

    ``context`` is the CUcontext of GPU ``index``, which launches need.
    """

    def __init__(self, plan: Plan, count: int, index: int) -> None:
        self.launch = plan.launches[0]
        self.count = count
        self.context = driver.context(index)
        self.index = index
        self.write = struct.Struct(f"{count}Q").pack_into
        values, maps = plan.bound()
        # What is not a call's, the constants and what is made of them, stays where it is.
        calls = plan.calls
        self.values = {id(value): at for at, n in enumerate(calls) for value in values[n]}
        with plan.lock:  # others may be moving its maps
            self.maps = {
                id(one.argument): (at, one.copied())
                for at, number in enumerate(calls)
                for one in maps[number]
            }
        self.known: list[dict[int, TensorMap]] = [{} for _ in self.maps]
        """The tensor maps by the address of their tensor, shared by all packed launches."""

    @classmethod
    def of(cls, plan: Plan, count: int, index: int) -> Packing | None:
        """None for a plan of several launches, or with workspaces: those are one stream's."""
        return cls(plan, count, index) if plan.is_one_launch else None

    def packed(self) -> Packed:
        return Packed(self)

    def parameters(self) -> tuple[tuple[int, int, int, bytes], ...]:
        """What each parameter of the kernel is: a constant by its address, the address of a tensor
        by the tensor's number, or a tensor map of it, which is given at some address (0, 1, 2)."""
        found: list[tuple[int, int, int, bytes]] = []
        for argument in self.launch.arguments:
            if (at := self.values.get(id(argument))) is not None:
                found.append((1, at, 0, b""))
            elif (made := self.maps.get(id(argument))) is not None:
                found.append((2, made[0], 0, bytes(made[1].argument)))
            else:
                found.append((0, 0, ctypes.addressof(argument), b""))
        return tuple(found)


class Packed:
    """One packed launch, for one thread at a time; ``pointers`` is where it was moved to.

    ``arguments`` are those of ``launch``: cuLaunchKernelEx's, as ctypes takes them.
    """

    __slots__ = (
        *("arguments", "config", "held", "launch", "maps", "packing"),
        *("parameters", "pointers", "slots", "stream"),
    )

    def __init__(self, packing: Packing) -> None:
        self.packing = packing
        self.pointers: tuple[int, ...] | None = None
        self.slots = (c_uint64 * packing.count)()
        self.maps: list[tuple[int, int, TensorMap, dict[int, TensorMap]]] = []
        self.held: dict[int, TensorMap] = {}
        start = ctypes.addressof(self.slots)
        addresses: list[int] = []
        for place, argument in enumerate(packing.launch.arguments):
            at = packing.values.get(id(argument))
            addresses.append(ctypes.addressof(argument) if at is None else start + 8 * at)
            if (found := packing.maps.get(id(argument))) is not None:
                self.maps.append((place, *found, packing.known[len(self.maps)]))
        copied = packing.launch.copied(addresses)
        self.launch, self.arguments, self.config, self.parameters = copied
        self.stream = 0

    def move(self, pointers: tuple[int, ...]) -> None:
        """Take tensors at these addresses.  Raises PolycError where the driver refuses one."""
        self.pointers = None
        self.packing.write(self.slots, 0, *pointers)
        for place, source, pattern, known in self.maps:
            pointer = pointers[source]
            made = known.get(pointer)
            if made is None:
                made = pattern.copied()
                made.point_to(pointer)
                known[pointer] = made
                if len(known) > MAPS_KEPT:
                    # The oldest, if no other thread took it away meanwhile.
                    known.pop(next(iter([*known])), None)
            self.held[place] = made
            self.parameters[place] = ctypes.addressof(made.argument)
        self.pointers = pointers

    def retried(self, status: int) -> int:
        """The driver's answer after one that was not 0: it launches nothing where a context is
        current that is not the kernel's, and is asked again with that one."""
        if driver.is_current(self.packing.context):
            return status
        with driver.current(self.packing.index):
            return int(self.launch(*self.arguments))

    def failed(self, status: int) -> None:
        """Raises PolycError ``LaunchFailed`` for what the driver answered."""
        self.packing.launch.check(status)
