"""A kernel's IR as the text of one Python function, which every warp runs as a coroutine.

Here are the translators of the gpu dialect's own ops, one entry of ``HARDWARE`` an op; those
of upstream ops are in ``upstream``.  Pure ops become expressions on numbers and
arrays of 32 lanes; ops with an effect call the ``Warp``; a divergent ``scf.if`` runs its
blocks one after another under masks.  Translating once keeps the dispatch on ops out of the
inner loops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.hardware import access_bytes, vector_length
from polyc.dialects.gpu.kernel import KernelOp, ReturnOp
from polyc.dialects.gpu.types import MBarrierType, SharedType
from polyc.playback.gpu.arithmetic import dtype_of
from polyc.playback.gpu.kernel import BarrierArray, KernelInfo, Tile
from polyc.playback.gpu.storage import WINDOW
from polyc.playback.gpu.translator import Table, Translator
from polyc.playback.gpu.upstream import UPSTREAM

Body = Callable[..., Any]
"""A translated kernel: called with a warp and the kernel's arguments, it is a generator."""

HARDWARE = Table()
"""How each op of the gpu dialect is translated."""

simulates = HARDWARE.simulates


@simulates(ReturnOp)
def _return(t: Translator, op: ReturnOp) -> None:
    """The end of the function."""


# Registers -----------------------------------------------------------------------------


@simulates(hw.PackOp)
def _pack(t: Translator, op: hw.PackOp) -> None:
    dtype = t.object(dtype_of(op.result.type), "d")
    t.define(op.result, f"pack([{t.values(op.values)}], {dtype})")


@simulates(hw.UnpackOp)
def _unpack(t: Translator, op: hw.UnpackOp) -> None:
    t.define(op.result, f"{t.name(op.vector)}[:, {op.index.value.data}]")


# Who and where -------------------------------------------------------------------------


@simulates(hw.ThreadIdOp)
def _thread_id(t: Translator, op: hw.ThreadIdOp) -> None:
    t.define(op.result, "w.thread_id")


@simulates(hw.GridSizeOp)
def _grid_size(t: Translator, op: hw.GridSizeOp) -> None:
    t.define(op.result, "w.cta.cluster.grid")


@simulates(hw.BlockIdOp)
def _block_id(t: Translator, op: hw.BlockIdOp) -> None:
    t.define(op.result, "w.block_id")


@simulates(hw.WarpUniformOp)
def _warp_uniform(t: Translator, op: hw.WarpUniformOp) -> None:
    t.define(op.result, f"w.uniform({t.number(op)}, {t.name(op.value)}, {t.mask})")


@simulates(hw.ElectOp)
def _elect(t: Translator, op: hw.ElectOp) -> None:
    t.define(op.result, f"w.elect({t.number(op)}, {t.mask})")


@simulates(hw.ShuffleOp)
def _shuffle(t: Translator, op: hw.ShuffleOp) -> None:
    value, lane = t.name(op.value), t.name(op.lane)
    t.define(op.result, f"w.shuffle({t.number(op)}, {op.kind.data!r}, {value}, {lane}, {t.mask})")


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


# Memory --------------------------------------------------------------------------------


def _predicate(t: Translator, value: SSAValue | None) -> str:
    return "None" if value is None else t.name(value)


def _width(kind: Attribute) -> tuple[int, bool]:
    return vector_length(kind), isinstance(kind, VectorType)


@simulates(hw.LoadGlobalOp)
def _load_global(t: Translator, op: hw.LoadGlobalOp) -> None:
    width, vector = _width(op.result.type)
    t.define(
        op.result,
        f"w.load_global({t.number(op)}, {t.name(op.tensor)}, ({t.values(op.indices)}), "
        f"{_predicate(t, op.predicate)}, {width}, {vector}, {t.mask})",
    )


@simulates(hw.StoreGlobalOp)
def _store_global(t: Translator, op: hw.StoreGlobalOp) -> None:
    t.line(
        f"w.store_global({t.number(op)}, {t.name(op.value)}, {t.name(op.tensor)}, "
        f"({t.values(op.indices)}), {_predicate(t, op.predicate)}, "
        f"{vector_length(op.value.type)}, {t.mask})"
    )


@simulates(hw.LoadSharedOp)
def _load_shared(t: Translator, op: hw.LoadSharedOp) -> None:
    width, vector = _width(op.result.type)
    dtype = t.object(dtype_of(op.result.type), "d")
    t.define(
        op.result,
        f"w.load_shared({t.number(op)}, {t.name(op.address)}, {dtype}, {width}, {vector}, "
        f"{t.mask})",
    )


@simulates(hw.StoreSharedOp)
def _store_shared(t: Translator, op: hw.StoreSharedOp) -> None:
    dtype = t.object(dtype_of(op.value.type), "d")
    t.line(
        f"w.store_shared({t.number(op)}, {t.name(op.value)}, {t.name(op.address)}, {dtype}, "
        f"{vector_length(op.value.type)}, {t.mask})"
    )


@simulates(hw.CpAsyncOp)
def _cp_async(t: Translator, op: hw.CpAsyncOp) -> None:
    t.line(
        f"w.cp_async({t.number(op)}, {t.name(op.address)}, {t.name(op.tensor)}, "
        f"({t.values(op.indices)}), {_predicate(t, op.predicate)}, {op.bytes.value.data}, "
        f"{t.mask})"
    )


@simulates(hw.CpAsyncCommitOp)
def _cp_async_commit(t: Translator, op: hw.CpAsyncCommitOp) -> None:
    t.line(f"w.cp_async_commit({t.mask})")
    t.line("yield None")


@simulates(hw.CpAsyncWaitOp)
def _cp_async_wait(t: Translator, op: hw.CpAsyncWaitOp) -> None:
    t.line(f"w.cp_async_wait({op.pending.value.data}, {t.mask})")
    t.line("yield None")


@simulates(hw.AtomicGlobalOp)
def _atomic_global(t: Translator, op: hw.AtomicGlobalOp) -> None:
    t.line(
        f"w.atomic_global({t.number(op)}, {op.function.data!r}, {t.name(op.value)}, "
        f"{t.name(op.tensor)}, ({t.values(op.indices)}), {_predicate(t, op.predicate)}, {t.mask})"
    )


@simulates(hw.AtomicSharedOp)
def _atomic_shared(t: Translator, op: hw.AtomicSharedOp) -> None:
    dtype = t.object(dtype_of(op.value.type), "d")
    t.line(
        f"w.atomic_shared({t.number(op)}, {op.function.data!r}, {t.name(op.value)}, "
        f"{t.name(op.address)}, {dtype}, {t.mask})"
    )


@simulates(hw.SignalGlobalOp)
def _signal_global(t: Translator, op: hw.SignalGlobalOp) -> None:
    t.line(
        f"w.signal_global({t.number(op)}, {t.name(op.counters)}, ({t.values(op.indices)}), "
        f"{t.mask})"
    )
    t.line("yield None")


@simulates(hw.WaitGlobalOp)
def _wait_global(t: Translator, op: hw.WaitGlobalOp) -> None:
    t.line(
        f"yield from w.wait_global({t.number(op)}, {t.name(op.counters)}, "
        f"({t.values(op.indices)}), {t.name(op.count)}, {t.mask})"
    )


# Barriers ------------------------------------------------------------------------------


@simulates(hw.BarrierOp)
def _barrier(t: Translator, op: hw.BarrierOp) -> None:
    threads = t.kernel.threads.value.data
    t.line(f"yield from w.barrier({t.number(op)}, 0, {threads}, {t.mask})")


@simulates(hw.NamedBarrierOp)
def _named_barrier(t: Translator, op: hw.NamedBarrierOp) -> None:
    which, threads = str(op.id.value.data), op.threads.value.data
    if op.offset is not None:
        which = f"{which} + {t.name(op.offset)}"
    t.line(f"yield from w.barrier({t.number(op)}, {which}, {threads}, {t.mask})")


@simulates(hw.NamedBarrierArriveOp)
def _named_barrier_arrive(t: Translator, op: hw.NamedBarrierArriveOp) -> None:
    which, threads = str(op.id.value.data), op.threads.value.data
    if op.offset is not None:
        which = f"{which} + {t.name(op.offset)}"
    t.line(f"w.barrier_arrive({t.number(op)}, {which}, {threads}, {t.mask})")
    t.line("yield None")


def _at(t: Translator, op: Operation, barrier: SSAValue, index: SSAValue) -> str:
    return f"{t.number(op)}, {t.name(barrier)}, {t.name(index)}"


@simulates(hw.MBarrierInitOp)
def _mbarrier_init(t: Translator, op: hw.MBarrierInitOp) -> None:
    at = _at(t, op, op.barrier, op.index)
    t.line(f"w.mbarrier_init({at}, {op.count.value.data}, {t.mask})")


@simulates(hw.MBarrierExpectOp)
def _mbarrier_expect(t: Translator, op: hw.MBarrierExpectOp) -> None:
    at = _at(t, op, op.barrier, op.index)
    t.line(f"w.mbarrier_arrive({at}, {op.bytes.value.data}, {t.mask})")
    t.line("yield None")


@simulates(hw.MBarrierAnnounceOp)
def _mbarrier_announce(t: Translator, op: hw.MBarrierAnnounceOp) -> None:
    at = _at(t, op, op.barrier, op.index)
    t.line(f"w.mbarrier_announce({at}, {op.bytes.value.data}, {t.mask})")


@simulates(hw.MBarrierArriveOp)
def _mbarrier_arrive(t: Translator, op: hw.MBarrierArriveOp) -> None:
    t.line(f"w.mbarrier_arrive({_at(t, op, op.barrier, op.index)}, 0, {t.mask})")
    t.line("yield None")


@simulates(hw.MBarrierWaitOp)
def _mbarrier_wait(t: Translator, op: hw.MBarrierWaitOp) -> None:
    at = _at(t, op, op.barrier, op.index)
    t.line(f"yield from w.mbarrier_wait({at}, {t.name(op.parity)}, {t.mask})")


@simulates(hw.FenceMBarrierInitOp)
def _fence_mbarrier_init(t: Translator, op: hw.FenceMBarrierInitOp) -> None:
    t.line(f"w.fence_mbarrier_init({t.mask})")


@simulates(hw.FenceProxyAsyncOp)
def _fence_proxy_async(t: Translator, op: hw.FenceProxyAsyncOp) -> None:
    t.line(f"w.fence_proxy_async({t.mask})")


@simulates(hw.SetMaxRegistersOp)
def _set_max_registers(t: Translator, op: hw.SetMaxRegistersOp) -> None:
    increase, count = op.direction.data == "increase", op.count.value.data
    t.line(f"yield from w.set_max_registers({t.number(op)}, {increase}, {count}, {t.mask})")


# TMA and tensor cores ------------------------------------------------------------------


@simulates(hw.PrefetchTensorMapOp)
def _prefetch_tensor_map(t: Translator, op: hw.PrefetchTensorMapOp) -> None:
    """No cache is modelled."""


@simulates(hw.TmaLoadOp)
def _tma_load(t: Translator, op: hw.TmaLoadOp) -> None:
    t.line(
        f"w.tma_load({t.number(op)}, {t.name(op.map)}, ({t.values(op.coordinates)}), "
        f"{t.name(op.address)}, {t.name(op.barrier)}, {t.name(op.index)}, {t.mask}"
        f"{'' if op.mask is None else ', ' + t.name(op.mask)})"
    )
    t.line("yield None")


@simulates(hw.TmaLoadIm2colOp)
def _tma_load_im2col(t: Translator, op: hw.TmaLoadIm2colOp) -> None:
    place = t.values([*op.coordinates, *op.offsets])
    t.line(
        f"w.tma_load({t.number(op)}, {t.name(op.map)}, ({place}), "
        f"{t.name(op.address)}, {t.name(op.barrier)}, {t.name(op.index)}, {t.mask})"
    )
    t.line("yield None")


@simulates(hw.TmaStoreOp)
def _tma_store(t: Translator, op: hw.TmaStoreOp) -> None:
    t.line(
        f"w.tma_store({t.number(op)}, {t.name(op.map)}, ({t.values(op.coordinates)}), "
        f"{t.name(op.address)}, {t.mask})"
    )
    t.line("yield None")


@simulates(hw.BulkCommitOp)
def _bulk_commit(t: Translator, op: hw.BulkCommitOp) -> None:
    t.line(f"w.bulk_commit({t.mask})")


@simulates(hw.BulkWaitOp)
def _bulk_wait(t: Translator, op: hw.BulkWaitOp) -> None:
    t.line(f"w.bulk_wait({op.pending.value.data}, {op.read is not None}, {t.mask})")
    t.line("yield None")


@simulates(hw.StmatrixOp)
def _stmatrix(t: Translator, op: hw.StmatrixOp) -> None:
    t.line(
        f"w.stmatrix({t.number(op)}, {t.name(op.registers)}, {t.name(op.offset)}, "
        f"{t.name(op.address)}, {op.transpose is not None}, {t.mask})"
    )


@simulates(hw.LdmatrixOp)
def _ldmatrix(t: Translator, op: hw.LdmatrixOp) -> None:
    t.line(
        f"w.ldmatrix({t.number(op)}, {t.name(op.address)}, {t.name(op.registers)}, "
        f"{t.name(op.offset)}, {op.transpose is not None}, {t.mask})"
    )


@simulates(hw.MmaSyncOp)
def _mma_sync(t: Translator, op: hw.MmaSyncOp) -> None:
    a = f"({t.name(op.a)}, {t.name(op.a_offset)})"
    b = f"({t.name(op.b)}, {t.name(op.b_offset)})"
    acc = f"({t.name(op.acc)}, {t.name(op.acc_offset)})"
    dtype = t.object(dtype_of(op.element), "d")
    t.line(f"w.mma({t.number(op)}, {a}, {b}, {acc}, {dtype}, {t.mask})")


@simulates(hw.WgmmaDescriptorOp)
def _wgmma_descriptor(t: Translator, op: hw.WgmmaDescriptorOp) -> None:
    fields = (op.leading.value.data, op.stride.value.data, op.swizzle.value.data)
    numbers = ", ".join(map(str, fields))
    t.define(op.result, f"w.descriptor({t.number(op)}, {t.name(op.address)}, {numbers}, {t.mask})")


@simulates(hw.WgmmaOp)
def _wgmma(t: Translator, op: hw.WgmmaOp) -> None:
    offsets = (op.a_offset.value.data, op.b_offset.value.data)
    transposes = (op.transpose_a is not None, op.transpose_b is not None)
    dtype = t.object(dtype_of(op.element), "d")
    t.line(
        f"w.wgmma({t.number(op)}, {t.name(op.a)}, {t.name(op.b)}, {t.name(op.acc)}, "
        f"{op.n.value.data}, {offsets}, {transposes}, {dtype}, {op.clear is not None}, {t.mask})"
    )


@simulates(hw.WgmmaRegistersOp)
def _wgmma_registers(t: Translator, op: hw.WgmmaRegistersOp) -> None:
    numbers = (op.a_register.value.data, op.b_offset.value.data)
    transpose, clear = op.transpose_b is not None, op.clear is not None
    dtype = t.object(dtype_of(op.element), "d")
    t.line(
        f"w.wgmma_registers({t.number(op)}, {t.name(op.a)}, {t.name(op.b)}, {t.name(op.acc)}, "
        f"{op.n.value.data}, {numbers}, {transpose}, {dtype}, {clear}, {t.mask})"
    )


@simulates(hw.WgmmaFenceOp)
def _wgmma_fence(t: Translator, op: hw.WgmmaFenceOp) -> None:
    t.line(f"w.wgmma_fence({t.number(op)}, {t.mask})")


@simulates(hw.RegisterFenceOp)
def _register_fence(t: Translator, op: hw.RegisterFenceOp) -> None:
    t.line(f"w.register_fence({t.name(op.registers)})")


@simulates(hw.WgmmaCommitOp)
def _wgmma_commit(t: Translator, op: hw.WgmmaCommitOp) -> None:
    t.line(f"w.wgmma_commit({t.number(op)}, {t.mask})")
    t.line("yield None")


@simulates(hw.WgmmaWaitOp)
def _wgmma_wait(t: Translator, op: hw.WgmmaWaitOp) -> None:
    t.line(f"yield from w.wgmma_wait({t.number(op)}, {op.pending.value.data}, {t.mask})")


# Clusters ------------------------------------------------------------------------------


@simulates(hw.ClusterRankOp)
def _cluster_rank(t: Translator, op: hw.ClusterRankOp) -> None:
    t.define(op.result, "w.cta.rank")


@simulates(hw.ClusterBarrierOp)
def _cluster_barrier(t: Translator, op: hw.ClusterBarrierOp) -> None:
    t.line(f"yield from w.cluster_barrier({t.number(op)}, {t.mask})")


@simulates(hw.MapSharedOp)
def _map_shared(t: Translator, op: hw.MapSharedOp) -> None:
    t.define(op.result, f"w.map_shared({t.name(op.address)}, {t.name(op.rank)})")


@simulates(hw.LoadClusterOp)
def _load_cluster(t: Translator, op: hw.LoadClusterOp) -> None:
    width, vector = _width(op.result.type)
    dtype = t.object(dtype_of(op.result.type), "d")
    what = f"{t.number(op)}, {t.name(op.address)}, {dtype}, {width}, {vector}, {t.mask}"
    t.define(op.result, f"w.load_cluster({what})")


@simulates(hw.StoreClusterOp)
def _store_cluster(t: Translator, op: hw.StoreClusterOp) -> None:
    width, _ = _width(op.value.type)
    dtype = t.object(dtype_of(op.value.type), "d")
    what = f"{t.number(op)}, {t.name(op.value)}, {t.name(op.address)}, {dtype}, {width}, {t.mask}"
    t.line(f"w.store_cluster({what})")
    t.line("yield None")


@simulates(hw.MBarrierArriveClusterOp)
def _arrive_cluster(t: Translator, op: hw.MBarrierArriveClusterOp) -> None:
    at = _at(t, op, op.barrier, op.index)
    t.line(f"w.arrive_cluster({at}, {t.name(op.rank)}, {t.mask})")
    t.line("yield None")


# Kernels -------------------------------------------------------------------------------


def _granule(kernel: KernelOp) -> int:
    """Bytes of the smallest access of shared memory."""
    least = 16
    for op in kernel.walk():
        match op:
            case hw.LoadSharedOp() | hw.LoadClusterOp():
                least = min(least, access_bytes(op.result.type))
            case hw.StoreSharedOp() | hw.StoreClusterOp():
                least = min(least, access_bytes(op.value.type))
            case hw.CpAsyncOp():
                least = min(least, op.bytes.value.data)
            case hw.AtomicSharedOp():
                least = min(least, 4)
            case _:
                pass
    return least


@lru_cache(maxsize=256)
def _compiled(text: str, name: str) -> CodeType:
    """The text as code; a kernel is run again and again, and compiling it takes long."""
    return compile(text, name, "exec")


def translate(kernel: KernelOp) -> tuple[Body, KernelInfo]:
    """The kernel as a Python function, and what the machine must know of it.

    Raises PolycError of kind ``NotSimulated`` for an op that the simulator does not have.
    """
    t = Translator(kernel, Table(UPSTREAM | HARDWARE))
    parameters = "".join(f", {t.name(a)}" for a in kernel.body.block.args)
    t.block(kernel.body.block)
    # A body without a yield is a generator too.
    text = "\n".join([f"def body(w{parameters}):", *t.lines, "    return", "    yield"])
    exec(_compiled(text, f"<{kernel.sym_name.data}>"), t.objects)
    kinds = {type(op) for op in kernel.walk()}
    info = KernelInfo(
        kernel.sym_name.data,
        kernel.threads.value.data,
        kernel.blocks_per_sm.value.data,
        0 if kernel.shared_bytes is None else kernel.shared_bytes.value.data,
        _granule(kernel),
        hw.CpAsyncOp in kinds,
        hw.TmaStoreOp in kinds,
        bool(kinds & {hw.WgmmaOp, hw.WgmmaRegistersOp}),
        t.ops,
        t.tiles,
        t.barriers,
        kernel.cluster_size,
    )
    return t.objects["body"], info
