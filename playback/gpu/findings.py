"""What the simulator finds: one record for each kind of fault at each pair of ops.

A finding is data first; ``error`` makes the diagnostic that the tools print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from polyc.dialects.common.diagnostic import PolycError, place_of

KINDS: dict[str, str] = {
    "DataRace": "two threads touch the same bytes, one of them writes, and nothing orders them",
    "UnwaitedCopy": "bytes are used before an asynchronous copy into them was waited for",
    "StageOverwritten": "bytes are overwritten while a reader of the old ones may still be at work",
    "ProxyFence": "a generic write reaches the async proxy without fence.proxy.async",
    "AccumulatorRace": "registers are touched while wgmma may still write or read them",
    "WgmmaFence": "wgmma follows an access of its registers without wgmma.fence",
    "RegisterFence": "code and wgmma share registers without a register fence between",
    "WgmmaGroup": "the warps of a warpgroup issue different wgmma, or a group is never closed",
    "MBarrierBytes": "an mbarrier expects other bytes than its copies deliver",
    "MBarrierCount": "an mbarrier gets more or fewer arrivals than it counts",
    "MBarrierInit": "an mbarrier is used before it is ready, or made ready twice",
    "MBarrierPhase": "an arrival or a wait may meet another phase than the one that it means",
    "MBarrierOverwritten": "the bytes of an mbarrier are written as data",
    "BarrierDivergence": "a part of a warp executes what the whole warp must execute",
    "BarrierMissing": "threads that a barrier waits for never come",
    "BarrierMismatch": "threads meet at one barrier with different numbers of threads, or "
    "some with a condition",
    "BarrierPhase": "threads may be counted at a barrier in place of others that meet there",
    "SignalCount": "a wait for a counter may be met by other signals than those that it means",
    "PostedTwice": "a word that threads wait for is posted again",
    "Deadlock": "no warp can go on",
    "NotUniform": "a value that the kernel states to be equal in a warp differs",
    "OutOfBounds": "an access outside a tensor, the shared memory or the registers",
    "Misaligned": "an address that is not a multiple of what the access needs",
    "DescriptorMisaligned": "a wgmma descriptor or a tensor map that the hardware misreads",
    "Uninitialised": "something is read that nothing has written",
    "Unwritten": "an output has elements that the kernel never wrote",
    "Unfinished": "the kernel ends while an asynchronous copy is on its way",
    "Registers": "setmaxnreg against its rules",
    "DivisionByZero": "an integer is divided by zero",
    "PeerLifetime": "shared memory of a CTA is reached that may not have started, or have ended",
}
"""The kinds of findings, with what each one means."""


@dataclass
class Finding:
    """One fault.

    ``op`` is the op that it was found at, ``other`` the op that it collides with, where there
    is one.  ``threads`` are thread numbers in the cluster of the CTA ``block``, which are those
    in the CTA where it is alone; ``address`` is a byte address in ``space`` (``shared``,
    ``global``, ``register``).  ``count`` says how often the same
    pair of ops was at fault; the rest describes the first time.
    """

    kind: str
    message: str
    op: Operation | None
    other: Operation | None = None
    kernel: str = ""
    block: int = 0
    threads: tuple[int, ...] = ()
    space: str = ""
    address: int | None = None
    count: int = 1

    def error(self) -> PolycError:
        """The finding as a diagnostic."""
        notes: list[str] = []
        if self.op is not None:
            notes.append(f"found at {describe(self.op)}")
        if self.other is not None:
            notes.append(f"with {describe(self.other)}")
        if self.threads:
            where = f"kernel @{self.kernel}, CTA {self.block}, {threads_text(self.threads)}"
            if self.address is not None:
                where += f", {self.space} address {self.address:#x}"
            notes.append(where)
        if self.count > 1:
            notes.append(f"{self.count} times; this is the first")
        return PolycError(self.kind, self.message, self.op, notes)

    def __str__(self) -> str:
        return self.error().format()

    def as_dict(self) -> dict[str, object]:
        """The finding as JSON data."""
        data = self.error().as_dict()
        data |= {
            "kernel": self.kernel,
            "block": self.block,
            "threads": list(self.threads),
            "space": self.space,
            "address": self.address,
            "count": self.count,
            "op": None if self.op is None else self.op.name,
            "other": None if self.other is None else self.other.name,
        }
        return data


def describe(op: Operation) -> str:
    """An op's name with its operands' names and its place."""
    names = ", ".join(f"%{v.name_hint}" for v in op.operands if v.name_hint is not None)
    place = place_of(op)
    text = op.name if not names else f"{op.name} ({names})"
    return text if place is None else f"{text} at {place}"


def threads_text(threads: Sequence[int]) -> str:
    """``thread 5``, ``threads 0 to 31`` or ``threads 0, 2, 4 and 29 more``."""
    found = sorted(set(threads))
    if len(found) == 1:
        return f"thread {found[0]}"
    if found[-1] - found[0] == len(found) - 1:
        return f"threads {found[0]} to {found[-1]}"
    shown = ", ".join(map(str, found[:3]))
    rest = len(found) - 3
    return f"threads {shown}" + (f" and {rest} more" if rest > 0 else "")


class Report:
    """Collects findings; the same pair of ops at the same fault is one finding."""

    LIMIT = 200

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._known: dict[tuple[str, int, int, str], Finding] = {}
        self.kernel = ""
        self.block = 0

    def of(self, kernel: str, block: int) -> Report:
        """The same report, for what CTA ``block`` finds."""
        part = Report()
        part.findings, part._known = self.findings, self._known
        part.kernel, part.block = kernel, block
        return part

    def add(
        self,
        kind: str,
        message: str,
        op: Operation | None,
        other: Operation | None = None,
        threads: Sequence[int] = (),
        space: str = "",
        address: int | None = None,
        times: int = 1,
    ) -> None:
        assert kind in KINDS, kind
        key = (kind, id(op), id(other), self.kernel)
        if (known := self._known.get(key)) is not None:
            known.count += times
            return
        if len(self.findings) >= self.LIMIT:
            return
        found = Finding(
            kind,
            message,
            op,
            other,
            self.kernel,
            self.block,
            tuple(int(t) for t in threads),
            space,
            address,
            times,
        )
        self._known[key] = found
        self.findings.append(found)
