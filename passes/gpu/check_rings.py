"""``gpu-check-rings``: every ring has a role that fills it and another that empties it (T2).

A kernel whose flow control is incomplete hangs, and a hung kernel says nothing.  What can be seen
from the text is refused here, at the op's line; the simulator finds the rest by running it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.guards import copies_into
from polyc.passes.support.gpu.scope import enclosing_role, in_loop, scope_of


def check_ring(op: tile.RingOp) -> None:
    """Raise PolycError where a ring's flow cannot go round.

    - ``RingNeverFilled``: a slot is waited for and no copy fills it, or a copy fills one that
      nobody acquired in its block or around the branches that it stands in, so that its bytes are
      never announced.
    - ``RingNeverRead``: slots are filled and nobody waits for them.
    - ``RingNeverReleased``: slots are acquired in a loop and never released; the second use of
      a slot waits for ever.
    - ``SelfWait``: one role both fills and waits, so that it waits for itself.
    - ``ManyProducers``: several threads would announce the bytes of a slot, of which none loads.
    """
    users = [use.operation for use in op.ring.uses]
    acquires = [u for u in users if isinstance(u, tile.RingAcquireOp)]
    waits = [u for u in users if isinstance(u, tile.RingWaitOp)]
    releases = [u for u in users if isinstance(u, tile.RingReleaseOp)]
    copies = [u for u in users if isinstance(u, tile.CopyOp)]
    depth = op.ring.type
    for wait in waits:
        if not acquires or not copies:
            missing = "fills" if not copies else "acquires"
            raise PolycError(
                "RingNeverFilled",
                f"this waits for a slot of {depth} and nothing {missing} one; in the producer, "
                "acquire the slot and let the copies signal the ring",
                wait,
            )
    for copy in copies:
        if not acquires:
            raise PolycError(
                "RingNeverFilled",
                f"this copy signals {depth}, of which no slot is acquired, so that its bytes "
                "are never announced; put a gpu.ring_acquire before it",
                copy,
            )
        if not any(copy in found for acquire in acquires for found in copies_into(acquire)):
            raise PolycError(
                "RingNeverFilled",
                f"this copy signals {depth} at an iteration that is not acquired in its block, so "
                "that its bytes are never announced; acquire the slot there, or around the "
                "branches that the copy stands in",
                copy,
            )
    for acquire in acquires:
        if not waits:
            raise PolycError(
                "RingNeverRead",
                f"slots of {depth} are filled and nobody waits for one; put a gpu.ring_wait "
                "before the ops that read the tiles",
                acquire,
            )
        if not releases and in_loop(acquire):
            raise PolycError(
                "RingNeverReleased",
                f"slots of {depth} are acquired in a loop and never released; put a "
                "gpu.ring_release after the last op that reads a slot",
                acquire,
            )
        threads = scope_of(acquire).threads
        if threads > 1 and not any(copy.planes is not None for copy in copies):
            raise PolycError(
                "ManyProducers",
                f"{threads} threads would announce the bytes of one slot; acquire it in a role "
                "that is single_thread",
                acquire,
            )
    for wait in waits:
        for acquire in acquires:
            if enclosing_role(wait)[0] is enclosing_role(acquire)[0]:
                raise PolycError(
                    "SelfWait",
                    f"this role waits for a slot of {depth} that it fills itself; fill it in the "
                    "producer and wait in the consumers",
                    wait,
                )


@dataclass(frozen=True)
class GpuCheckRings(ModulePass):
    """Refuse rings that would hang the kernel; changes nothing."""

    name = "gpu-check-rings"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for ring in op.walk():
            if isinstance(ring, tile.RingOp):
                check_ring(ring)
