"""The simulator: matrix fragments to and from shared memory, mma.sync and wgmma."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyc.dialects.gpu import hardware as hw
from polyc.playback.gpu import fragments
from polyc.playback.gpu.accesses import SharedSpace
from polyc.playback.gpu.arithmetic import dtype_of
from polyc.playback.gpu.copies import WgmmaCall
from polyc.playback.gpu.core import WarpCore
from polyc.playback.gpu.kernel import Steps, Wait
from polyc.playback.gpu.lanes import LANES, Array, Mask, Value, is_lanes, some
from polyc.playback.gpu.registers import RegisterFile
from polyc.playback.gpu.storage import WINDOW, Registers
from polyc.playback.gpu.translator import TRACKED, Translator, simulates

TRACKED.update((hw.WgmmaOp, hw.WgmmaRegistersOp))


class TensorCores:
    """A warp's fragments and its products of them."""

    def __init__(self, core: WarpCore, registers: RegisterFile, shared: SharedSpace) -> None:
        self.core = core
        self.registers = registers
        self.shared = shared

    def ldmatrix(
        self,
        number: int,
        address: Value,
        registers: Registers,
        offset: Value,
        transpose: bool,
        m: Mask,
    ) -> None:
        lanes, relative = self.shared.addresses(number, address, LANES, 16)
        if lanes.size == 32:
            self.shared.read(number, lanes, relative, 16)
            rows = self.shared.memory.rows[16][relative >> 4]
        else:
            rows = np.zeros((32, 16), np.uint8)
        if not self.core.collective(number, m):
            return
        first = self.registers.first_of(number, registers, offset, 4, m)
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
        first = self.registers.first_of(number, registers, offset, 4, m)
        if first is not None:
            if not registers.full:
                self.registers.check_set(
                    number, registers, registers.initialised[first : first + 4], m
                )
            rows = fragments.stmatrix_rows(registers.data[first : first + 4], transpose)
            lanes, relative = self.shared.addresses(number, address, LANES, 16)
            if lanes.size:
                threads = self.core.threads[lanes]
                clocks = self.core.clocks.clock(threads)
                self.shared.write(number, lanes, relative, 16, threads, clocks, False)
                self.shared.memory.store(relative, rows[lanes])
        self.core.collective(number, m)

    def mma(
        self,
        number: int,
        a: tuple[Registers, Value],
        b: tuple[Registers, Value],
        acc: tuple[Registers, Value],
        dtype: np.dtype[Any],
        m: Mask,
    ) -> None:
        if not self.core.collective(number, m):
            return
        self.core.counters.mma += 1
        self.core.products += 1
        places: list[int] = []
        for (registers, offset), count in ((a, 4), (b, 2), (acc, 4)):
            first = self.registers.first_of(number, registers, offset, count, m)
            if first is None:
                return
            places.append(first)
            if registers.tracked:
                self.registers.touch(number, registers, registers is acc[0])
            if not registers.full:
                self.registers.check_set(
                    number, registers, registers.initialised[first : first + count], m
                )
        i, j, k = places
        product = fragments.mma_a(a[0].data[i : i + 4], dtype) @ fragments.mma_b(
            b[0].data[j : j + 2], dtype
        )
        target = acc[0].data
        target[k : k + 4] = fragments.mma_accumulate(target[k : k + 4], product)


class Wgmma:
    """A warp's part in the products of its warpgroup."""

    def __init__(self, core: WarpCore, registers: RegisterFile, shared: SharedSpace) -> None:
        self.core = core
        self.registers = registers
        self.shared = shared
        self.issued: int = 0
        """Calls issued."""
        self.closed: int = 0
        """Groups closed; ``open`` counts the calls of the one that is not."""
        self.open: int = 0
        self.seen: int = 0
        """Calls known complete."""
        self.fenced = -1

    def descriptor(
        self, number: int, address: Value, leading: int, stride: int, span: int, m: Mask
    ) -> Value:
        if is_lanes(address):
            address = self.core.scalar(number, address, m)
        if address % 16 or not 0 <= address < 1 << 18:
            self.core.find(
                number,
                "DescriptorMisaligned",
                f"a descriptor starts at {address:#x}; it holds multiples of 16 below 2^18",
                space="shared",
                address=int(address),
            )
        return fragments.encode_descriptor(int(address), leading, stride, span)

    def fence(self, number: int, m: Mask) -> None:
        self.core.collective(number, m)
        self.registers.moment += 1
        self.fenced = self.registers.moment

    def register_fence(self, registers: Registers) -> None:
        self.registers.moment += 1
        registers.fenced = self.registers.moment

    def of_shared(
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
        """``wgmma`` whose operands are in shared memory, where the descriptors say."""
        whole = self.core.collective(number, m)
        bits = [
            self.core.scalar(number, d, m) + (o >> 4) & (1 << 64) - 1
            for d, o in zip((a, b), offsets, strict=True)
        ]
        places = [
            self._operand_places(number, which, word, rows, transpose)
            for which, word, rows, transpose in zip("ab", bits, (64, n), transposes, strict=True)
        ]
        part = self.core.index % 4
        terms = (number, tuple(bits), n, *transposes, dtype)
        chunks, order = self._read_by(part, terms, places, transposes[0])
        made = WgmmaCall(self.shared.memory, self.core.op(number), terms, places[0], places[1])
        self._issue(number, registers, clear, chunks, order, made, whole)

    def _read_by(
        self, part: int, terms: tuple[Any, ...], places: list[Array], transpose: bool
    ) -> tuple[Array, Array]:
        """The chunks that a warp of a group reads, and all of both operands.

        Loops go round over the same descriptors, and blocks ask as others did.
        """
        known = self.core.cta.kernel.read_by
        if (part, terms) not in known:
            rows = slice(2 * part, 2 * part + 2) if transpose else slice(16 * part, 16 * part + 16)
            chunks = np.unique(np.concatenate([places[0][rows].ravel(), places[1].ravel()]))
            known[part, terms] = chunks, np.concatenate([p.ravel() for p in places])
        return known[part, terms]

    def of_registers(
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
        whole = self.core.collective(number, m)
        first, offset = numbers
        bits = self.core.scalar(number, b, m) + (offset >> 4) & (1 << 64) - 1
        places = self._operand_places(number, "b", bits, n, transpose)
        self.registers.check_set(number, left, left.initialised[first : first + 4], None)
        if left.touched >= self.fenced:
            self.core.find(
                number,
                "WgmmaFence",
                f"wgmma reads {left.name}, which code touched since the last wgmma.fence of the "
                "warp",
                space="register",
            )
        left.reader = self.closed + 1
        terms = (number, (bits,), n, False, transpose, dtype)
        made = WgmmaCall(self.shared.memory, self.core.op(number), terms, places, places)
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
            self.core.find(
                number,
                "DescriptorMisaligned",
                f"the descriptor of operand {which} {fault}",
                space="shared",
                address=descriptor.start,
            )
        found = fragments.operand_addresses(descriptor, rows, transpose) - WINDOW
        if some((found < 0) | (found > self.shared.memory.size - 16)):
            bad = int(found[(found < 0) | (found > self.shared.memory.size - 16)].flat[0])
            self.core.find(
                number,
                "OutOfBounds",
                f"operand {which} of wgmma reaches byte {bad} of shared memory, and the CTA "
                f"has {self.shared.memory.size}",
                space="shared",
                address=bad + WINDOW,
            )
            found = np.clip(found, 0, max(0, self.shared.memory.size - 16) // 16 * 16)
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
        part = self.core.index % 4
        self._check_accumulator(number, registers, clear)
        self.core.counters.wgmma += 1 if part == 0 else 0
        self.core.products += 1
        self._read_operands(number, chunks)
        granules = self.shared.shadow.granules(chunks, 16)
        self.core.cta.record(number, self.core.threads, order, reads=granules)
        self.core.counters.wgmma_shared_bytes += int(chunks.size) * 16
        group = self.closed + 1
        self.open += 1
        registers.group = group
        terms = made.terms
        calls = self.core.cta.calls[self.core.group]
        if self.issued == len(calls):
            made.clear = clear
            calls.append(made)
        call = calls[self.issued]
        self.issued += 1
        if call.terms != terms or not whole:
            self.core.find(
                number,
                "WgmmaGroup",
                f"warp {self.core.index} issues another wgmma than the other warps of warpgroup "
                f"{self.core.group}",
                other=call.op,
            )
        call.registers[part] = registers
        call.left[part] = left
        call.groups[part] = group
        if call.issued:
            call.agent = f"tensor core {self.core.group}"
            self.core.cta.launch(call)

    def _check_accumulator(self, number: int, registers: Registers, clear: bool) -> None:
        if clear:  # What was written before does not count.
            registers.initialised[...] = True
            registers.written = -1
        if not registers.full:
            self.registers.check_set(number, registers, registers.initialised, None)
        if registers.touched >= self.fenced:
            self.core.find(
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
            self.core.find(
                number,
                "RegisterFence",
                f"nothing keeps the compiler from moving writes of {registers.name} past "
                "wgmma.fence; put gpu.register_fence between them and the fence",
                space="register",
            )
        registers.issued = self.registers.moment

    def _read_operands(self, number: int, chunks: Array) -> None:
        """This warp's part of a wgmma reads ``chunks`` of 16 bytes, from now until its wait."""
        granules = self.shared.shadow.granules(chunks, 16).ravel()
        component = self.core.clocks.components.first_warp + self.core.number
        now = self.core.clocks.now[self.core.threads].max(axis=0)
        proxied = self.core.clocks.proxied[self.core.threads].max(axis=0)
        found = self.shared.shadow.read_async(
            now, proxied, component, self.closed + 1, granules, number
        )
        if found is not None:
            who = self.core.cta.components.who(component)
            self.core.cta.conflict(found, self.core.op(number), who, self.core.threads, False, True)
        self.shared.uninitialised(number, granules, self.core.threads, "wgmma")

    def commit(self, number: int, m: Mask) -> None:
        self.core.collective(number, m)
        self.closed += 1
        self.open = 0

    def wait(self, number: int, pending: int, m: Mask) -> Steps:
        self.core.collective(number, m)
        done = max(0, self.closed - pending)
        part = self.core.index % 4
        calls = self.core.cta.calls[self.core.group]

        def unfinished() -> WgmmaCall | None:
            for call in calls[self.seen : self.issued]:
                if call.groups[part] <= done and not call.done:
                    return call
            return None

        def text() -> str:
            call = unfinished()
            if call is None or call.issued:
                return f"wgmma groups up to {done}"
            missing = [4 * self.core.group + i for i, r in enumerate(call.registers) if r is None]
            return f"a wgmma that warps {missing} of the warpgroup have not issued"

        if unfinished() is not None:
            yield Wait(self.core.op(number), lambda: unfinished() is None, text)
        self.registers.moment += 1
        mates = self.core.cta.kernel.warps - 4 * self.core.group
        first = self.core.clocks.components.first_warp + self.core.number - part
        now = self.core.clocks.now
        while self.seen < self.issued and calls[self.seen].groups[part] <= done:
            call = calls[self.seen]
            for sibling, group in enumerate(call.groups[:mates]):
                column = first + sibling
                now[self.core.threads, column] = np.maximum(now[self.core.threads, column], group)
            self.seen += 1
        if done > self.registers.settled:
            for registers in self.registers.accumulators:
                if self.registers.settled < registers.group <= done:
                    registers.issued = self.registers.moment
            self.registers.settled = done
        yield None

    def finish(self) -> None:
        """The warp's threads have ended."""
        core = self.core
        if self.registers.settled < self.closed:
            core.report.add(
                "Unfinished",
                f"warp {core.index} ends without waiting for its wgmma groups from "
                f"{self.registers.settled + 1} on",
                core.cta.calls[core.group][-1].op,
                None,
                core.threads.tolist(),
            )
        if self.open:
            core.report.add(
                "WgmmaGroup",
                f"warp {core.index} ends with {self.open} wgmma in a group that was never closed",
                core.cta.calls[core.group][-1].op,
                None,
                core.threads.tolist(),
            )


@simulates(hw.LdmatrixOp)
def _ldmatrix(t: Translator, op: hw.LdmatrixOp) -> None:
    t.line(
        f"w.tensor_cores.ldmatrix({t.number(op)}, {t.name(op.address)}, {t.name(op.registers)}, "
        f"{t.name(op.offset)}, {op.transpose is not None}, {t.mask})"
    )


@simulates(hw.StmatrixOp)
def _stmatrix(t: Translator, op: hw.StmatrixOp) -> None:
    t.line(
        f"w.tensor_cores.stmatrix({t.number(op)}, {t.name(op.registers)}, {t.name(op.offset)}, "
        f"{t.name(op.address)}, {op.transpose is not None}, {t.mask})"
    )


@simulates(hw.MmaSyncOp)
def _mma_sync(t: Translator, op: hw.MmaSyncOp) -> None:
    a = f"({t.name(op.a)}, {t.name(op.a_offset)})"
    b = f"({t.name(op.b)}, {t.name(op.b_offset)})"
    acc = f"({t.name(op.acc)}, {t.name(op.acc_offset)})"
    dtype = t.object(dtype_of(op.element), "d")
    t.line(f"w.tensor_cores.mma({t.number(op)}, {a}, {b}, {acc}, {dtype}, {t.mask})")


@simulates(hw.WgmmaDescriptorOp)
def _wgmma_descriptor(t: Translator, op: hw.WgmmaDescriptorOp) -> None:
    fields = (op.leading.value.data, op.stride.value.data, op.swizzle.value.data)
    numbers = ", ".join(map(str, fields))
    t.define(
        op.result, f"w.wgmma.descriptor({t.number(op)}, {t.name(op.address)}, {numbers}, {t.mask})"
    )


@simulates(hw.WgmmaOp)
def _wgmma(t: Translator, op: hw.WgmmaOp) -> None:
    t.wgmma = True
    offsets = (op.a_offset.value.data, op.b_offset.value.data)
    transposes = (op.transpose_a is not None, op.transpose_b is not None)
    dtype = t.object(dtype_of(op.element), "d")
    t.line(
        f"w.wgmma.of_shared({t.number(op)}, {t.name(op.a)}, {t.name(op.b)}, {t.name(op.acc)}, "
        f"{op.n.value.data}, {offsets}, {transposes}, {dtype}, {op.clear is not None}, {t.mask})"
    )


@simulates(hw.WgmmaRegistersOp)
def _wgmma_registers(t: Translator, op: hw.WgmmaRegistersOp) -> None:
    t.wgmma = True
    numbers = (op.a_register.value.data, op.b_offset.value.data)
    transpose, clear = op.transpose_b is not None, op.clear is not None
    dtype = t.object(dtype_of(op.element), "d")
    t.line(
        f"w.wgmma.of_registers({t.number(op)}, {t.name(op.a)}, {t.name(op.b)}, {t.name(op.acc)}, "
        f"{op.n.value.data}, {numbers}, {transpose}, {dtype}, {clear}, {t.mask})"
    )


@simulates(hw.WgmmaFenceOp)
def _wgmma_fence(t: Translator, op: hw.WgmmaFenceOp) -> None:
    t.line(f"w.wgmma.fence({t.number(op)}, {t.mask})")


@simulates(hw.RegisterFenceOp)
def _register_fence(t: Translator, op: hw.RegisterFenceOp) -> None:
    t.line(f"w.wgmma.register_fence({t.name(op.registers)})")


@simulates(hw.WgmmaCommitOp)
def _wgmma_commit(t: Translator, op: hw.WgmmaCommitOp) -> None:
    t.line(f"w.wgmma.commit({t.number(op)}, {t.mask})")
    t.line("yield None")


@simulates(hw.WgmmaWaitOp)
def _wgmma_wait(t: Translator, op: hw.WgmmaWaitOp) -> None:
    t.line(f"yield from w.wgmma.wait({t.number(op)}, {op.pending.value.data}, {t.mask})")
