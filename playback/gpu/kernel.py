"""What the machine must know of a kernel besides its code."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xdsl.ir import Operation

from polyc.playback.gpu.clocks import Components, of_cta
from polyc.playback.gpu.lanes import Array


@dataclass(frozen=True)
class Tile:
    """A shared tile for messages: its name, place and slot size in bytes."""

    name: str
    offset: int
    slot: int
    slots: int


@dataclass(frozen=True)
class BarrierArray:
    """An array of mbarriers: its place and its first number among the kernel's mbarriers."""

    name: str
    offset: int
    count: int
    first: int


@dataclass
class KernelInfo:
    """What the machine must know of a kernel besides its code.

    ``granule`` are the bytes of the smallest access of shared memory; ``copies``, ``bulk`` and
    ``wgmma`` say whether there is cp.async, a TMA store or wgmma, and ``stored`` which arguments
    it writes.  ``cluster`` CTAs run together; they are a cluster, or, as ``gang`` says, the grid.
    """

    name: str
    threads: int
    blocks_per_sm: int
    shared_bytes: int
    granule: int
    copies: bool
    bulk: bool
    wgmma: bool
    stored: frozenset[int]
    ops: list[Operation]
    tiles: list[Tile]
    barriers: list[BarrierArray]
    cluster: int = 1
    gang: str = "cluster"
    read_by: dict[tuple[int, tuple[Any, ...]], tuple[Array, Array]] = field(
        default_factory=dict[tuple[int, tuple[Any, ...]], tuple[Array, Array]]
    )
    """The chunks of shared memory that wgmma read, by the part of a warpgroup and its terms."""

    @property
    def warps(self) -> int:
        """Warps of a CTA."""
        return self.threads // 32

    @property
    def mbarriers(self) -> int:
        """Mbarriers of a CTA."""
        return sum(b.count for b in self.barriers)

    def components(self) -> Components:
        """The clocks' components of one cluster."""
        return Components(
            self.threads * self.cluster,
            self.copies,
            self.bulk,
            self.warps * self.cluster if self.wgmma else 0,
            tuple(
                f"{b.name}[{i}]{of_cta(rank, self.cluster, self.gang)}"
                for rank in range(self.cluster)
                for b in self.barriers
                for i in range(b.count)
            ),
            self.cluster,
            self.gang,
        )


@dataclass
class Wait:
    """A warp's reason to stand still at ``op``: until ``ready``, and ``text`` says for what.

    ``barrier`` is for waits at a barrier of the CTA, where a deadlock means missing threads.
    """

    op: Operation
    ready: Callable[[], bool]
    text: Callable[[], str]
    barrier: bool = False


Steps: TypeAlias = Generator["Wait | None", None, None]
