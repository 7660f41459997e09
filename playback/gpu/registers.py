"""A warp's registers: what code and instructions read and write of them, and in which order."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyc.playback.gpu.core import WarpCore
from polyc.playback.gpu.lanes import LANES, Array, Mask, Value, every, is_lanes, some
from polyc.playback.gpu.storage import Registers


class RegisterFile:
    """The register arrays of a warp."""

    def __init__(self, core: WarpCore) -> None:
        self.core = core
        self.moment: int = 0
        """Counts the warp's fences and waits of wgmma and its register fences."""
        self.settled: int = 0
        """The wgmma groups that are known complete."""
        self.accumulators: list[Registers] = []

    def alloca(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], tracked: bool
    ) -> Registers:
        """A new array; wgmma accumulates in those that are ``tracked``."""
        found = Registers(name, shape, dtype, tracked)
        if tracked:
            self.accumulators.append(found)
        return found

    def _inside(self, number: int, registers: Registers, at: tuple[Value, ...], m: Mask) -> bool:
        """Whether the active lanes' indices are inside the array."""
        for index, extent in zip(at, registers.data.shape, strict=False):
            if is_lanes(index):
                values = index if m is None else index[m]
                if every((values >= 0) & (values < extent)):
                    continue
            else:
                if 0 <= index < extent:
                    continue
                values = np.array([index])
            if some((values < 0) | (values >= extent)):
                lanes = self.core.active(m)
                bad = int(values[(values < 0) | (values >= extent)][0])
                self.core.find(
                    number,
                    "OutOfBounds",
                    f"register {bad} of {registers.name}, which has {extent}",
                    threads=self.core.threads[lanes],
                    space="register",
                    address=bad,
                )
                return False
        return True

    def load(self, number: int, registers: Registers, at: tuple[Value, ...], m: Mask) -> Array:
        """Each lane's register at its indices."""
        if not self._inside(number, registers, at, m):
            return np.zeros(32, registers.data.dtype)
        if registers.tracked:
            self.touch(number, registers, False)
        varying = False
        for i in at:
            varying = varying or isinstance(i, np.ndarray)
        where = (*at, LANES) if varying else at
        if not registers.full:
            self.check_set(number, registers, registers.initialised[where], m)
        if varying and m is not None:
            where = (*(np.where(m, i, 0) for i in at), LANES)
        return registers.data[where].copy()

    def check_set(self, number: int, registers: Registers, initialised: Array, m: Mask) -> None:
        """Registers are read that are ``initialised``, or it is a finding."""
        ready = initialised if m is None else initialised | ~m
        if every(ready):
            if m is None and every(registers.initialised):
                registers.full = True
            return
        lanes = np.nonzero(~ready.reshape(-1, 32).all(axis=0))[0]
        self.core.find(
            number,
            "Uninitialised",
            f"registers of {registers.name} are read before they are set",
            threads=self.core.threads[lanes],
            space="register",
        )

    def store(
        self, number: int, value: Value, registers: Registers, at: tuple[Value, ...], m: Mask
    ) -> None:
        """Set each active lane's register at its indices."""
        if not self._inside(number, registers, at, m):
            return
        if registers.tracked:
            self.touch(number, registers, True)
        varying = m is not None
        for i in at:
            varying = varying or isinstance(i, np.ndarray)
        if not varying:
            registers.data[at] = value
            if not registers.full:
                registers.initialised[at] = True
            return
        lanes = self.core.active(m)
        where = (*(i[lanes] if is_lanes(i) else i for i in at), lanes)
        registers.data[where] = value[lanes] if is_lanes(value) else value
        registers.initialised[where] = True

    def touch(self, number: int, registers: Registers, writes: bool) -> None:
        """Code reads or writes registers that wgmma accumulates in."""
        if registers.group > self.settled:
            self.core.find(
                number,
                "AccumulatorRace",
                f"{registers.name} is {'written' if writes else 'read'} while the wgmma of group "
                f"{registers.group} may still add to it; {self.settled} groups were waited for",
                space="register",
            )
        elif writes and registers.reader > self.settled:
            self.core.find(
                number,
                "AccumulatorRace",
                f"{registers.name} is written while the wgmma of group {registers.reader} may "
                f"still read it; {self.settled} groups were waited for",
                space="register",
            )
        elif registers.group and registers.fenced <= registers.issued:
            self.core.find(
                number,
                "RegisterFence",
                f"nothing keeps the compiler from moving this access of {registers.name} before "
                "the wait for its wgmma; put gpu.register_fence after the wait",
                space="register",
            )
        registers.touched = self.moment
        if writes:
            registers.written = self.moment

    def first_of(
        self, number: int, registers: Registers, offset: Value, count: int, m: Mask
    ) -> int | None:
        """The first of ``count`` registers that an instruction names; None outside the array."""
        first = self.core.scalar(number, offset, m)
        size = registers.data.shape[0]
        if first >= 0 and first + count <= size:
            return first
        self.core.find(
            number,
            "OutOfBounds",
            f"registers {first} to {first + count - 1} of {registers.name}, which has {size}",
            space="register",
            address=first,
        )
        return None
