"""What plays a tile program: CTAs, alone and in clusters, and what their values are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, Block, Operation, SSAValue

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import GlobalType, SharedType
from polyc.playback.estimate import Estimate
from polyc.playback.gpu import arithmetic
from polyc.playback.tile.roles import Floor

Array = NDArray[Any]


Values = dict[SSAValue, Any]


class Cluster:
    """CTAs that run side by side, and tell each other values."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.meeting = threading.Barrier(size)
        self.told: list[Array | None] = [None] * size

    def run(self, ctas: Sequence[Cta]) -> None:
        """Run all, each in a thread where there are several; raises what the first raised."""
        if len(ctas) == 1:
            ctas[0].run()
            return
        errors: list[BaseException] = []

        def one(cta: Cta) -> None:
            try:
                cta.run()
            except threading.BrokenBarrierError:
                pass  # Another CTA has an error to tell.
            except BaseException as error:
                errors.append(error)
                self.meeting.abort()

        threads = [threading.Thread(target=one, args=(cta,)) for cta in ctas]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def exchange(self, rank: int, value: Array) -> list[Array]:
        """The values of all CTAs by rank; every CTA calls this."""
        self.told[rank] = value
        self.meeting.wait()
        found = [t for t in self.told if t is not None]
        self.meeting.wait()
        return found


class Cta:
    """One block of a kernel in a launch.

    ``blocks`` is how many run, and ``cluster`` those beside it.  Those of a cooperative grid share
    the ``floor``, where they wait for each other.
    """

    def __init__(
        self,
        kernel: KernelOp,
        launch: LaunchOp,
        tensors: Sequence[Array],
        workspaces: Mapping[str, Array],
        symbols: Mapping[str, int],
        block: int,
        blocks: int,
        cluster: Cluster,
        plays: Plays,
        floor: Floor | None = None,
        read: dict[Operation, Any] | None = None,
    ) -> None:
        self.plays = plays
        self.read = {} if read is None else read
        """What is written in ops, as their plays have read it, for all blocks of a run."""
        self.kernel, self.block, self.blocks = kernel, block, blocks
        self.cluster = cluster
        self.floor = Floor() if floor is None else floor
        self.warpgroups = 1
        self.values: Values = {}
        self.known = any(isinstance(t, Estimate) for t in tensors)
        """Whether what is played are Estimates."""
        for arg, binding in zip(kernel.body.block.args, kernel.bindings, strict=True):
            bound = launch.bound(binding)
            if (symbol := bound.symbol_name) is not None:
                self.values[arg] = symbols[symbol]
            elif (index := bound.tensor_index) is not None:
                self.values[arg] = viewed(tensors[index], arg.type, symbols)
            elif (name := bound.workspace_name) is not None:
                self.values[arg] = viewed(workspaces[name], arg.type, symbols)

    def run(self) -> None:
        self.ops(self.kernel.body.block)

    def ops(self, block: Block) -> None:
        for op in block.ops:
            play = self.plays.get(type(op))
            if play is None:
                raise PolycError(
                    "NotPlayed",
                    f"{op.name} is not of the tile level; simulate the lowered kernel instead",
                    op,
                )
            play(self, op)

    def numbers(self, values: Sequence[SSAValue]) -> list[int]:
        return [int(self.values[v]) for v in values]

    def role(self, region: Block, warpgroups: int, *numbers: int) -> Callable[[], None]:
        """Play ``region`` with values of its own: what is made in it is not the others'.

        ``warpgroups`` of them play it together, or one, which is told its number.
        """
        mine = copy(self)
        mine.values = dict(self.values)
        mine.warpgroups = warpgroups
        mine.values.update(zip(region.args, numbers, strict=True))
        return lambda: mine.ops(region)


def viewed(memory: Array, kind: Attribute, symbols: Mapping[str, int]) -> Array:
    """The same elements in the sizes that a kernel's argument sees them in.

    Nothing of the tile level reads through a tensor map, whatever its sizes.
    """
    if not isinstance(kind, GlobalType):
        return memory
    return memory.reshape([size.evaluate(symbols) for size in kind.dims])


def undefined(shape: Sequence[int], element: Attribute, known: bool = False) -> Array:
    """What nobody has written: NaN, or -1 where there is no NaN; ``known`` with its errors."""
    found = np.empty(tuple(shape), arithmetic.dtype_of(element))
    found.reshape(-1).view(np.uint8).fill(0xFF)
    return cast(Array, Estimate.memory(found)) if known else found


def slot_of(cta: Cta, slot: SSAValue | None) -> int:
    return 0 if slot is None else int(cta.values[slot])


def tile_at(cta: Cta, value: SSAValue, slot: SSAValue | None) -> Array:
    """What a copy reads or writes: a tensor, a fragment, or a tile of a ring."""
    found: Array = cta.values[value]
    return found[slot_of(cta, slot)] if isinstance(value.type, SharedType) else found


Plays = Mapping[type[Operation], Callable[[Cta, Any], None]]
"""How ops of some kinds play."""
