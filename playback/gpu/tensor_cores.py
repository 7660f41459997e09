"""A warp of the machine: one method for each op with an effect.

A method that can block is a generator and yields a ``Wait``; the scheduler in ``schedule``
decides who goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyc.playback.gpu import fragments
from polyc.playback.gpu.copies import WgmmaCall
from polyc.playback.gpu.grid import GridWarp
from polyc.playback.gpu.kernel import Steps, Wait
from polyc.playback.gpu.lanes import LANES, Array, Mask, Value, is_lanes
from polyc.playback.gpu.storage import WINDOW, Registers


class Warp(GridWarp):
    """Thirty-two threads of a CTA."""

    # Tensor cores

    def ldmatrix(
        self,
        number: int,
        address: Value,
        registers: Registers,
        offset: Value,
        transpose: bool,
        m: Mask,
    ) -> None:
        lanes, relative = self._addresses(number, address, LANES, 16)
        if lanes.size == 32:
            self._read_shared(number, lanes, relative, 16)
            rows = self.cta.shared.rows[16][relative >> 4]
        else:
            rows = np.zeros((32, 16), np.uint8)
        if not self.collective(number, m):
            return
        first = self._range(number, registers, offset, 4, m)
        if first is not None:
            registers.data[first : first + 4] = fragments.ldmatrix_fragments(rows, transpose)
            registers.initialised[first : first + 4] = True

    def stmatrix(
        self,
        number: int,
        registers: Registers,
        offset: Value,
        address: Value,
        transpose: bool,
        m: Mask,
    ) -> None:
        first = self._range(number, registers, offset, 4, m)
        if first is not None:
            if not registers.full:
                self._written(number, registers, registers.initialised[first : first + 4], m)
            rows = fragments.stmatrix_rows(registers.data[first : first + 4], transpose)
            lanes, relative = self._addresses(number, address, LANES, 16)
            if lanes.size:
                threads = self.threads[lanes]
                clocks = self.clocks.clock(threads)
                self._write_shared(number, lanes, relative, 16, threads, clocks, False)
                self.cta.shared.store(relative, rows[lanes])
        self.collective(number, m)

    def mma(
        self,
        number: int,
        a: tuple[Registers, Value],
        b: tuple[Registers, Value],
        acc: tuple[Registers, Value],
        dtype: np.dtype[Any],
        m: Mask,
    ) -> None:
        if not self.collective(number, m):
            return
        self.counters.mma += 1
        self.products += 1
        places: list[int] = []
        for (registers, offset), count in ((a, 4), (b, 2), (acc, 4)):
            first = self._range(number, registers, offset, count, m)
            if first is None:
                return
            places.append(first)
            if registers.tracked:
                self._touch(number, registers, registers is acc[0])
            if not registers.full:
                self._written(number, registers, registers.initialised[first : first + count], m)
        i, j, k = places
        product = fragments.mma_a(a[0].data[i : i + 4], dtype) @ fragments.mma_b(
            b[0].data[j : j + 2], dtype
        )
        target = acc[0].data
        target[k : k + 4] = fragments.mma_accumulate(target[k : k + 4], product)

    def descriptor(
        self, number: int, address: Value, leading: int, stride: int, span: int, m: Mask
    ) -> Value:
        if is_lanes(address):
            address = self._scalar(number, address, m)
        if address % 16 or not 0 <= address < 1 << 18:
            self.find(
                number,
                "DescriptorMisaligned",
                f"a descriptor starts at {address:#x}; it holds multiples of 16 below 2^18",
                space="shared",
                address=int(address),
            )
        return fragments.encode_descriptor(int(address), leading, stride, span)

    def wgmma_fence(self, number: int, m: Mask) -> None:
        self.collective(number, m)
        self.moment += 1
        self.fenced = self.moment

    def register_fence(self, registers: Registers) -> None:
        self.moment += 1
        registers.fenced = self.moment

    def wgmma(
        self,
        number: int,
        a: Value,
        b: Value,
        registers: Registers,
        n: int,
        offsets: tuple[int, int],
        transposes: tuple[bool, bool],
        dtype: np.dtype[Any],
        clear: bool,
        m: Mask,
    ) -> None:
        whole = self.collective(number, m)
        bits = [
            self._scalar(number, d, m) + (o >> 4) & (1 << 64) - 1
            for d, o in zip((a, b), offsets, strict=True)
        ]
        places = [
            self._operand_places(number, which, word, rows, transpose)
            for which, word, rows, transpose in zip("ab", bits, (64, n), transposes, strict=True)
        ]
        part = self.index % 4
        quarter = (
            slice(2 * part, 2 * part + 2) if transposes[0] else slice(16 * part, 16 * part + 16)
        )
        chunks = np.unique(np.concatenate([places[0][quarter].ravel(), places[1].ravel()]))
        order = np.concatenate([p.ravel() for p in places])
        terms = (number, tuple(bits), n, *transposes, dtype)
        made = WgmmaCall(self.cta.shared, self.op(number), terms, places[0], places[1])
        self._issue(number, registers, clear, chunks, order, made, whole)

    def wgmma_registers(
        self,
        number: int,
        left: Registers,
        b: Value,
        registers: Registers,
        n: int,
        numbers: tuple[int, int],
        transpose: bool,
        dtype: np.dtype[Any],
        clear: bool,
        m: Mask,
    ) -> None:
        """``wgmma`` whose left operand is in four of this warp's registers."""
        whole = self.collective(number, m)
        first, offset = numbers
        bits = self._scalar(number, b, m) + (offset >> 4) & (1 << 64) - 1
        places = self._operand_places(number, "b", bits, n, transpose)
        self._written(number, left, left.initialised[first : first + 4], None)
        if left.touched >= self.fenced:
            self.find(
                number,
                "WgmmaFence",
                f"wgmma reads {left.name}, which code touched since the last wgmma.fence of the "
                "warp",
                space="register",
            )
        left.reader = self.closed + 1
        terms = (number, (bits,), n, False, transpose, dtype)
        made = WgmmaCall(self.cta.shared, self.op(number), terms, places, places)
        made.first = first
        chunks = np.unique(places)
        self._issue(number, registers, clear, chunks, places.ravel(), made, whole, left)

    def _operand_places(
        self, number: int, which: str, bits: int, rows: int, transpose: bool
    ) -> Array:
        """Where an operand's 16-byte chunks lie in the CTA's shared memory."""
        descriptor = fragments.decode_descriptor(bits)
        fault = fragments.descriptor_fault(descriptor)
        if fault is not None:
            self.find(
                number,
                "DescriptorMisaligned",
                f"the descriptor of operand {which} {fault}",
                space="shared",
                address=descriptor.start,
            )
        found = fragments.operand_addresses(descriptor, rows, transpose) - WINDOW
        if (found < 0).any() or (found > self.cta.shared.size - 16).any():
            bad = int(found[(found < 0) | (found > self.cta.shared.size - 16)].flat[0])
            self.find(
                number,
                "OutOfBounds",
                f"operand {which} of wgmma reaches byte {bad} of shared memory, and the CTA "
                f"has {self.cta.shared.size}",
                space="shared",
                address=bad + WINDOW,
            )
            found = np.clip(found, 0, max(0, self.cta.shared.size - 16) // 16 * 16)
        return found

    def _issue(
        self,
        number: int,
        registers: Registers,
        clear: bool,
        chunks: Array,
        order: Array,
        made: WgmmaCall,
        whole: bool,
        left: Registers | None = None,
    ) -> None:
        """This warp's part of a wgmma; the last of the four warps sets it off."""
        part = self.index % 4
        self._check_accumulator(number, registers, clear)
        self.counters.wgmma += 1 if part == 0 else 0
        self.products += 1
        self._read_operands(number, chunks)
        granules = self.shadow.granules(chunks, 16)
        self._trace(number, self.threads, order, reads=granules)
        self.counters.wgmma_shared_bytes += int(chunks.size) * 16
        group = self.closed + 1
        self.open += 1
        registers.group = group
        terms = made.terms
        calls = self.cta.calls[self.group]
        if self.issued == len(calls):
            made.clear = clear
            calls.append(made)
        call = calls[self.issued]
        self.issued += 1
        if call.terms != terms or not whole:
            self.find(
                number,
                "WgmmaGroup",
                f"warp {self.index} issues another wgmma than the other warps of warpgroup "
                f"{self.group}",
                other=call.op,
            )
        call.registers[part] = registers
        call.left[part] = left
        call.groups[part] = group
        if call.issued:
            call.agent = f"tensor core {self.group}"
            self.cta.launch(call)

    def _check_accumulator(self, number: int, registers: Registers, clear: bool) -> None:
        if clear:  # What was written before does not count.
            registers.initialised[...] = True
            registers.written = -1
        if not registers.full:
            self._written(number, registers, registers.initialised, None)
        if registers.touched >= self.fenced:
            self.find(
                number,
                "WgmmaFence",
                f"wgmma accumulates in {registers.name}, which code touched since the last "
                "wgmma.fence of the warp",
                space="register",
            )
        elif registers.written >= 0 and (
            registers.written >= registers.fenced
            or (registers.written >= registers.issued and registers.fenced > self.fenced)
        ):
            self.find(
                number,
                "RegisterFence",
                f"nothing keeps the compiler from moving writes of {registers.name} past "
                "wgmma.fence; put gpu.register_fence between them and the fence",
                space="register",
            )
        registers.issued = self.moment

    def _read_operands(self, number: int, chunks: Array) -> None:
        """This warp's part of a wgmma reads ``chunks`` of 16 bytes, from now until its wait."""
        granules = self.shadow.granules(chunks, 16).ravel()
        component = self.clocks.components.first_warp + self.number
        now = self.clocks.now[self.threads].max(axis=0)
        proxied = self.clocks.proxied[self.threads].max(axis=0)
        found = self.shadow.read_async(now, proxied, component, self.closed + 1, granules, number)
        if found is not None:
            who = self.cta.components.who(component)
            self.cta.conflict(found, self.op(number), who, self.threads, False, True)
        self._uninitialised(number, granules, self.threads, "wgmma")

    def wgmma_commit(self, number: int, m: Mask) -> None:
        self.collective(number, m)
        self.closed += 1
        self.open = 0

    def wgmma_wait(self, number: int, pending: int, m: Mask) -> Steps:
        self.collective(number, m)
        done = max(0, self.closed - pending)
        part = self.index % 4
        calls = self.cta.calls[self.group]

        def unfinished() -> WgmmaCall | None:
            for call in calls[self.seen : self.issued]:
                if call.groups[part] <= done and not call.done:
                    return call
            return None

        def text() -> str:
            call = unfinished()
            if call is None or call.issued:
                return f"wgmma groups up to {done}"
            missing = [4 * self.group + i for i, r in enumerate(call.registers) if r is None]
            return f"a wgmma that warps {missing} of the warpgroup have not issued"

        if unfinished() is not None:
            yield Wait(self.op(number), lambda: unfinished() is None, text)
        self.moment += 1
        mates = self.cta.kernel.warps - 4 * self.group
        first = self.clocks.components.first_warp + self.number - part
        now = self.clocks.now
        while self.seen < self.issued and calls[self.seen].groups[part] <= done:
            call = calls[self.seen]
            for sibling, group in enumerate(call.groups[:mates]):
                column = first + sibling
                now[self.threads, column] = np.maximum(now[self.threads, column], group)
            self.seen += 1
        if done > self.settled:
            for registers in self.accumulators:
                if self.settled < registers.group <= done:
                    registers.issued = self.moment
            self.settled = done
        yield None

    def finish(self) -> None:
        """The warp's threads have ended."""
        for copy in self.pending:
            copy.complete()
        if self.last_copy is not None:
            columns = self.clocks.components.threads + self.threads
            late = np.nonzero(self.clocks.now[self.threads, columns] < self.copied)[0]
            if late.size:
                self.report.add(
                    "Unfinished",
                    "the kernel ends with cp.async that their threads have not waited for",
                    self.op(self.last_copy),
                    None,
                    self.threads[late].tolist(),
                )
        if self.last_store is not None:
            columns = self.clocks.components.first_bulk + self.threads
            late = np.nonzero(self.clocks.now[self.threads, columns] < self.bulk_used)[0]
            if late.size:
                self.find(
                    self.last_store,
                    "Unfinished",
                    "the kernel ends while TMA stores may still read its shared memory",
                    self.threads[late],
                )
        if self.settled < self.closed:
            self.report.add(
                "Unfinished",
                f"warp {self.index} ends without waiting for its wgmma groups from "
                f"{self.settled + 1} on",
                self.cta.calls[self.group][-1].op,
                None,
                self.threads.tolist(),
            )
        if self.open:
            self.report.add(
                "WgmmaGroup",
                f"warp {self.index} ends with {self.open} wgmma in a group that was never closed",
                self.cta.calls[self.group][-1].op,
                None,
                self.threads.tolist(),
            )
