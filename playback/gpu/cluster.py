"""The simulator: a warp and its cluster, the barrier of all CTAs and peers' shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.hardware import access_bytes
from polyc.playback.gpu.accesses import GlobalSpace, SharedSpace
from polyc.playback.gpu.arithmetic import dtype_of
from polyc.playback.gpu.core import WarpCore
from polyc.playback.gpu.cta import Cta
from polyc.playback.gpu.kernel import BarrierArray, Steps
from polyc.playback.gpu.lanes import Array, Mask, Value, spread
from polyc.playback.gpu.memory import Memory
from polyc.playback.gpu.peers import Peers
from polyc.playback.gpu.storage import WINDOW_STRIDE
from polyc.playback.gpu.sync import MBarriers, Sync, barrier_at
from polyc.playback.gpu.translator import Translator, simulates, width_of


class ClusterAccess:
    """What reaches other CTAs.

    A cluster address is ``(rank + 1) * WINDOW_STRIDE`` above the CTA's own shared address, so
    that neither is taken for the other; a shared address of the own CTA is a cluster address
    too, as PTX has it.
    """

    def __init__(self, core: WarpCore, tensors: GlobalSpace, sync: Sync, peers: Peers) -> None:
        self.core = core
        self.rank = core.cta.rank
        self.tensors = tensors
        self.sync = sync
        self.peers = peers

    def _memory(self, peer: Cta) -> Memory:
        """This warp's accesses of the memory of ``peer``."""
        return Memory(self.core, self.tensors, SharedSpace(self.core, peer))

    def barrier(self, number: int, m: Mask) -> Steps:
        cluster = self.core.cta.cluster
        threads = 32 * cluster.kernel.warps * len(cluster.ctas)
        yield from self.sync.meet(number, cluster.barrier, threads, m)

    def map_shared(self, address: Value, rank: Value) -> Value:
        """The cluster address of a shared address in the CTA of ``rank``."""
        return address % WINDOW_STRIDE + (rank + 1) * WINDOW_STRIDE

    def _ranks(self, address: Value, lanes: Array) -> tuple[Array, Array]:
        """Of each lane's cluster address, the rank and the address in that CTA."""
        at = spread(address, lanes)
        ranks = at // WINDOW_STRIDE - 1
        return np.where(ranks < 0, self.rank, ranks), at % WINDOW_STRIDE

    def load(
        self,
        number: int,
        address: Value,
        dtype: np.dtype[Any],
        width: int,
        vector: bool,
        m: Mask,
    ) -> Array:
        lanes = self.core.active(m)
        ranks, local = self._ranks(address, lanes)
        result = np.zeros((32, width), dtype)
        for peer, who in self.peers.reached(number, ranks, lanes):
            places = np.zeros(32, np.int64)
            places[lanes] = local
            mask = np.zeros(32, np.bool_)
            mask[who] = True
            found = self._memory(peer).load_shared(number, places, dtype, width, True, mask)
            result[who] = found[who]
        return result if vector else result[:, 0]

    def store(
        self,
        number: int,
        value: Value,
        address: Value,
        dtype: np.dtype[Any],
        width: int,
        m: Mask,
    ) -> None:
        lanes = self.core.active(m)
        ranks, local = self._ranks(address, lanes)
        for peer, who in self.peers.reached(number, ranks, lanes):
            places = np.zeros(32, np.int64)
            places[lanes] = local
            mask = np.zeros(32, np.bool_)
            mask[who] = True
            self._memory(peer).store_shared(number, value, places, dtype, width, mask)

    def arrive(self, number: int, array: BarrierArray, index: Value, rank: Value, m: Mask) -> None:
        lanes = self.core.active(m)
        for peer, who in self.peers.reached(number, spread(rank, lanes), lanes):
            mask = np.zeros(32, np.bool_)
            mask[who] = True
            MBarriers(self.core, peer).arrive(number, array, index, 0, mask)


@simulates(hw.ClusterRankOp)
def _cluster_rank(t: Translator, op: hw.ClusterRankOp) -> None:
    t.define(op.result, "w.cluster.rank")


@simulates(hw.ClusterBarrierOp)
def _cluster_barrier(t: Translator, op: hw.ClusterBarrierOp) -> None:
    t.line(f"yield from w.cluster.barrier({t.number(op)}, {t.mask})")


@simulates(hw.MapSharedOp)
def _map_shared(t: Translator, op: hw.MapSharedOp) -> None:
    t.define(op.result, f"w.cluster.map_shared({t.name(op.address)}, {t.name(op.rank)})")


@simulates(hw.LoadClusterOp)
def _load_cluster(t: Translator, op: hw.LoadClusterOp) -> None:
    t.accesses_shared(access_bytes(op.result.type))
    width, vector = width_of(op.result.type)
    dtype = t.object(dtype_of(op.result.type), "d")
    what = f"{t.number(op)}, {t.name(op.address)}, {dtype}, {width}, {vector}, {t.mask}"
    t.define(op.result, f"w.cluster.load({what})")


@simulates(hw.StoreClusterOp)
def _store_cluster(t: Translator, op: hw.StoreClusterOp) -> None:
    t.accesses_shared(access_bytes(op.value.type))
    width, _ = width_of(op.value.type)
    dtype = t.object(dtype_of(op.value.type), "d")
    what = f"{t.number(op)}, {t.name(op.value)}, {t.name(op.address)}, {dtype}, {width}, {t.mask}"
    t.line(f"w.cluster.store({what})")
    t.line("yield None")


@simulates(hw.MBarrierArriveClusterOp)
def _arrive_cluster(t: Translator, op: hw.MBarrierArriveClusterOp) -> None:
    at = barrier_at(t, op, op.barrier, op.index)
    t.line(f"w.cluster.arrive({at}, {t.name(op.rank)}, {t.mask})")
    t.line("yield None")
