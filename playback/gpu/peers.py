"""Other CTAs of the cluster: who reaches their shared memory, and whether they live."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from polyc.playback.gpu.core import WarpCore
from polyc.playback.gpu.cta import Cta, Reach
from polyc.playback.gpu.lanes import Array


class Peers:
    """The CTAs of a warp's cluster."""

    def __init__(self, core: WarpCore) -> None:
        self.core = core

    def reached(
        self, number: int, ranks: Array, lanes: Array, lasting: bool = True
    ) -> Iterator[tuple[Cta, Array]]:
        """The CTAs that lanes reach, each with its lanes; strangers and sleepers are findings.

        Where the access is ``lasting``, the peer must be known to outlive it.
        """
        ctas = self.core.cta.cluster.ctas
        named: list[int] = np.unique(ranks).tolist()
        for rank in named:
            who = lanes[ranks == rank]
            threads = self.core.threads[who]
            if not 0 <= rank < len(ctas):
                self.core.find(
                    number,
                    "OutOfBounds",
                    f"CTA {rank} of a cluster of {len(ctas)}",
                    threads=threads,
                    space="cluster",
                )
                continue
            peer = ctas[rank]
            if peer is not self.core.cta:
                known = self.core.clocks.now[threads][:, peer.threads].max(axis=1)
                if not known.all():
                    self.core.find(
                        number,
                        "PeerLifetime",
                        f"CTA {self.core.cta.block} reaches the shared memory of CTA {peer.block}, "
                        "which may not have started: a cluster barrier is missing before",
                        threads=threads[known == 0],
                        space="cluster",
                    )
                if lasting:
                    clocks, op = self.core.clocks.clock(threads), self.core.op(number)
                    peer.reached.append(Reach(threads, clocks, op, self.core.cta.block))
            yield peer, who
