"""A warp of the machine: its core, and a part for each thing that its ops do.

A method of a part is what an op with an effect does; one that can block is a generator and yields a
``Wait``.  The scheduler in ``schedule`` decides who goes on.
"""

from __future__ import annotations

from polyc.playback.gpu.accesses import GlobalSpace, SharedSpace
from polyc.playback.gpu.cluster import ClusterAccess
from polyc.playback.gpu.core import WarpCore
from polyc.playback.gpu.cta import Cta
from polyc.playback.gpu.exchange import Exchange
from polyc.playback.gpu.grid import GridSignals
from polyc.playback.gpu.memory import CpAsyncGroups, Memory, Tma
from polyc.playback.gpu.peers import Peers
from polyc.playback.gpu.registers import RegisterFile
from polyc.playback.gpu.sync import MBarriers, Sync
from polyc.playback.gpu.tensor_cores import TensorCores, Wgmma
from polyc.playback.gpu.threads import Threads


class Warp:
    """Thirty-two threads of a CTA; translated kernels call its parts by these names."""

    def __init__(self, cta: Cta, index: int) -> None:
        self.core = core = WarpCore(cta, index)
        tensors, shared, peers = GlobalSpace(core), SharedSpace(core, cta), Peers(core)
        self.registers = RegisterFile(core)
        self.threads = Threads(core)
        self.sync = Sync(core)
        self.mbarriers = MBarriers(core, cta)
        self.memory = Memory(core, tensors, shared)
        self.cp_async = CpAsyncGroups(core, tensors, shared)
        self.tma = Tma(core, tensors, shared, self.mbarriers, peers)
        self.exchange = Exchange(core, tensors, shared)
        self.tensor_cores = TensorCores(core, self.registers, shared)
        self.wgmma = Wgmma(core, self.registers, shared)
        self.cluster = ClusterAccess(core, tensors, self.sync, peers)
        self.grid = GridSignals(core, tensors, self.registers)

    def finish(self) -> None:
        """The warp's threads have ended."""
        self.cp_async.finish()
        self.tma.finish()
        self.wgmma.finish()
