"""The simulator: who runs, where its data lies, and how it packs registers."""

from __future__ import annotations

import numpy as np

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.types import (
    SharedType,
)
from polyc.dialects.gpu.waiting import MBarrierType
from polyc.playback.gpu.arithmetic import dtype_of
from polyc.playback.gpu.core import WarpCore
from polyc.playback.gpu.kernel import BarrierArray, Tile
from polyc.playback.gpu.lanes import Array, Mask, Value, is_lanes, some
from polyc.playback.gpu.storage import WINDOW
from polyc.playback.gpu.translator import Translator, simulates


class Threads:
    """Who the threads of a warp are, and what they agree on."""

    def __init__(self, core: WarpCore) -> None:
        self.core = core
        self.thread_id = np.arange(32 * core.index, 32 * core.index + 32, dtype=np.int32)
        self.block_id = core.cta.block
        self.grid_size = core.cta.cluster.grid

    def uniform(self, number: int, value: Value, m: Mask) -> Value:
        if not is_lanes(value):
            return value
        if not self.core.collective(number, m):
            lanes = self.core.active(m)
            return int(value[lanes[0]])
        first = int(value[0])
        if some(value != first):
            self.core.find(
                number,
                "NotUniform",
                f"a value stated to be uniform is {first} in lane 0 of warp {self.core.index} and "
                f"{int(value[value != first][0])} in lane {int(np.nonzero(value != first)[0][0])}",
            )
        return first

    def elect(self, number: int, m: Mask) -> Array:
        self.core.collective(number, m)
        chosen = np.zeros(32, np.bool_)
        chosen[self.core.active(m)[0]] = True
        return chosen


@simulates(hw.ThreadIdOp)
def _thread_id(t: Translator, op: hw.ThreadIdOp) -> None:
    t.define(op.result, "w.threads.thread_id")


@simulates(hw.BlockIdOp)
def _block_id(t: Translator, op: hw.BlockIdOp) -> None:
    t.define(op.result, "w.threads.block_id")


@simulates(hw.GridSizeOp)
def _grid_size(t: Translator, op: hw.GridSizeOp) -> None:
    t.define(op.result, "w.threads.grid_size")


@simulates(hw.WarpUniformOp)
def _warp_uniform(t: Translator, op: hw.WarpUniformOp) -> None:
    t.define(op.result, f"w.threads.uniform({t.number(op)}, {t.name(op.value)}, {t.mask})")


@simulates(hw.OpaqueOp)
def _opaque(t: Translator, op: hw.OpaqueOp) -> None:
    t.define(op.result, t.name(op.value))


@simulates(hw.ElectOp)
def _elect(t: Translator, op: hw.ElectOp) -> None:
    t.define(op.result, f"w.threads.elect({t.number(op)}, {t.mask})")


def _placed(op: hw.SharedTileOp | hw.MBarrierOp) -> int:
    if op.offset is None:
        raise PolycError(
            "NotSimulated",
            f"{op.name} has no place in shared memory; run gpu-plan-shared-memory",
            op,
        )
    return op.offset.value.data


@simulates(hw.SharedTileOp)
def _shared_tile(t: Translator, op: hw.SharedTileOp) -> None:
    kind = op.tile.type
    assert isinstance(kind, SharedType)
    offset = _placed(op)
    name = op.tile.name_hint or "tile"
    t.tiles.append(Tile(name, offset, kind.slot_bytes, kind.ring.data))
    t.define(op.tile, str(WINDOW + offset))


@simulates(hw.MBarrierOp)
def _mbarrier(t: Translator, op: hw.MBarrierOp) -> None:
    assert isinstance(op.barrier.type, MBarrierType)
    first = sum(b.count for b in t.barriers)
    name = op.barrier.name_hint or "mbarrier"
    array = BarrierArray(name, _placed(op), op.barrier.type.count.data, first)
    t.barriers.append(array)
    t.define(op.barrier, t.object(array, "b"))


@simulates(hw.SharedAddressOp)
def _shared_address(t: Translator, op: hw.SharedAddressOp) -> None:
    assert isinstance(op.tile.type, SharedType)
    size = op.tile.type.slot_bytes
    t.define(op.result, f"w32({t.name(op.tile)} + {t.name(op.slot)} * {size})")


@simulates(hw.PackOp)
def _pack(t: Translator, op: hw.PackOp) -> None:
    dtype = t.object(dtype_of(op.result.type), "d")
    t.define(op.result, f"pack([{t.values(op.values)}], {dtype})")


@simulates(hw.UnpackOp)
def _unpack(t: Translator, op: hw.UnpackOp) -> None:
    t.define(op.result, f"{t.name(op.vector)}[:, {op.index.value.data}]")
