"""A warp and its cluster: the barrier of all CTAs, and peers' shared memory."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from polyc.playback.gpu.cta import Cta, Reach
from polyc.playback.gpu.kernel import BarrierArray
from polyc.playback.gpu.lanes import Array, Mask, Value, spread
from polyc.playback.gpu.storage import WINDOW_STRIDE, TensorMap
from polyc.playback.gpu.sync import SyncWarp


class ClusterWarp(SyncWarp):
    """What reaches other CTAs.

    A cluster address is ``(rank + 1) * WINDOW_STRIDE`` above the CTA's own shared address, so
    that neither is taken for the other; a shared address of the own CTA is a cluster address
    too, as PTX has it.
    """

    def map_shared(self, address: Value, rank: Value) -> Value:
        return address % WINDOW_STRIDE + (rank + 1) * WINDOW_STRIDE

    @contextmanager
    def _at(self, peer: Cta) -> Generator[None]:
        """Shared memory and mbarriers are ``peer``'s while this lasts."""
        own = self.cta
        self.cta, self.shadow = peer, peer.shadow
        try:
            yield
        finally:
            self.cta, self.shadow = own, own.shadow

    def _peers(
        self, number: int, ranks: Array, lanes: Array, lasting: bool = True
    ) -> Iterator[tuple[Cta, Array]]:
        """The CTAs that lanes reach, each with its lanes; strangers and sleepers are findings.

        Where the access is ``lasting``, the peer must be known to outlive it.
        """
        ctas = self.cta.cluster.ctas
        named: list[int] = np.unique(ranks).tolist()
        for rank in named:
            who = lanes[ranks == rank]
            threads = self.threads[who]
            if not 0 <= rank < len(ctas):
                self.find(
                    number,
                    "OutOfBounds",
                    f"CTA {rank} of a cluster of {len(ctas)}",
                    threads=threads,
                    space="cluster",
                )
                continue
            peer = ctas[rank]
            if peer is not self.cta:
                known = self.clocks.now[threads][:, peer.threads].max(axis=1)
                if not known.all():
                    self.find(
                        number,
                        "PeerLifetime",
                        f"CTA {self.cta.block} reaches the shared memory of CTA {peer.block}, "
                        "which may not have started: a cluster barrier is missing before",
                        threads=threads[known == 0],
                        space="cluster",
                    )
                if lasting:
                    peer.reached.append(
                        Reach(threads, self.clocks.clock(threads), self.op(number), self.cta.block)
                    )
            yield peer, who

    def _ranks(self, address: Value, lanes: Array) -> tuple[Array, Array]:
        """Of each lane's cluster address, the rank and the address in that CTA."""
        at = spread(address, lanes)
        ranks = at // WINDOW_STRIDE - 1
        return np.where(ranks < 0, self.cta.rank, ranks), at % WINDOW_STRIDE

    def load_cluster(
        self,
        number: int,
        address: Value,
        dtype: np.dtype[Any],
        width: int,
        vector: bool,
        m: Mask,
    ) -> Array:
        lanes = self.active(m)
        ranks, local = self._ranks(address, lanes)
        result = np.zeros((32, width), dtype)
        for peer, who in self._peers(number, ranks, lanes):
            places = np.zeros(32, np.int64)
            places[lanes] = local
            mask = np.zeros(32, np.bool_)
            mask[who] = True
            with self._at(peer):
                found = self.load_shared(number, places, dtype, width, True, mask)
            result[who] = found[who]
        return result if vector else result[:, 0]

    def store_cluster(
        self,
        number: int,
        value: Value,
        address: Value,
        dtype: np.dtype[Any],
        width: int,
        m: Mask,
    ) -> None:
        lanes = self.active(m)
        ranks, local = self._ranks(address, lanes)
        for peer, who in self._peers(number, ranks, lanes):
            places = np.zeros(32, np.int64)
            places[lanes] = local
            mask = np.zeros(32, np.bool_)
            mask[who] = True
            with self._at(peer):
                self.store_shared(number, value, places, dtype, width, mask)

    def arrive_cluster(
        self, number: int, array: BarrierArray, index: Value, rank: Value, m: Mask
    ) -> None:
        lanes = self.active(m)
        for peer, who in self._peers(number, spread(rank, lanes), lanes):
            mask = np.zeros(32, np.bool_)
            mask[who] = True
            with self._at(peer):
                self.mbarrier_arrive(number, array, index, 0, mask)

    def tma_load(
        self,
        number: int,
        source: TensorMap,
        coordinates: Sequence[Value],
        address: Value,
        array: BarrierArray,
        index: Value,
        m: Mask,
        mask: Value | None = None,
        *,
        counted: bool = True,
    ) -> None:
        """A box, to this CTA or to every CTA of ``mask`` at the same place in each."""
        if mask is None:
            super().tma_load(number, source, coordinates, address, array, index, m)
            return
        lanes = self.active(m)
        bits = spread(mask, lanes)
        for rank in range(16):
            who = lanes[bits >> rank & 1 == 1]
            if not who.size:
                continue
            # The peer waits for the bytes on its own barrier, so it outlives the copy.
            for peer, some in self._peers(number, np.full(who.size, rank), who, lasting=False):
                only = np.zeros(32, np.bool_)
                only[some] = True
                with self._at(peer):
                    super().tma_load(
                        number, source, coordinates, address, array, index, only, counted=counted
                    )
                counted = False

    def cluster_barrier(self, number: int, m: Mask) -> Generator[Any, None, None]:
        cluster = self.cta.cluster
        threads = 32 * cluster.kernel.warps * len(cluster.ctas)
        yield from self.meet(number, cluster.barrier, threads, m)
