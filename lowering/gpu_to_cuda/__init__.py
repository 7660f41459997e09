"""The printer: kernels at the hardware level of the gpu dialect as CUDA C (design rule 2).

One function an op, in the table of ``gpu_to_cuda_writer``; the upstream ops are in
``gpu_to_cuda_upstream``, the inline PTX in ``gpu_to_cuda_functions`` and ``gpu_to_cuda_families``.
The text includes no header, and the same IR gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import IO

from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator, is_side_effect_free

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.im2col import Im2colMapType
from polyc.dialects.gpu.kernel import KernelOp, ReturnOp
from polyc.dialects.gpu.module import ModuleOp, followers
from polyc.dialects.gpu.types import GlobalType, SharedType, TensorMapType
from polyc.lowering.gpu_to_cuda import families as gpu_to_cuda_families
from polyc.lowering.gpu_to_cuda import upstream as gpu_to_cuda_upstream
from polyc.lowering.gpu_to_cuda.asm import DeviceFunction
from polyc.lowering.gpu_to_cuda.families import can_move
from polyc.lowering.gpu_to_cuda.types import TENSOR_MAP, TYPEDEFS, CType
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, is_reserved, not_lowered, prints

UPSTREAM = gpu_to_cuda_upstream
"""Imported for what it enters into the table of printers."""


# Who and where -------------------------------------------------------------------------


@prints(hw.ThreadIdOp, "thread")
def _thread_id(w: KernelWriter, op: hw.ThreadIdOp) -> None:
    w.define(op.result, "(int)threadIdx.x")


@prints(hw.BlockIdOp, "block")
def _block_id(w: KernelWriter, op: hw.BlockIdOp) -> None:
    w.define(op.result, "(int)blockIdx.x")


@prints(hw.GridSizeOp, "grid")
def _grid_size(w: KernelWriter, op: hw.GridSizeOp) -> None:
    w.define(op.result, "(int)gridDim.x")


@prints(hw.WarpUniformOp, "uniform")
def _warp_uniform(w: KernelWriter, op: hw.WarpUniformOp) -> None:
    w.define(op.result, f"__shfl_sync(0xffffffffu, {w.text(op.value)}, 0)")


@prints(hw.ElectOp, "elected")
def _elect(w: KernelWriter, op: hw.ElectOp) -> None:
    w.define(op.result, w.call("elect"))


# Shared memory -------------------------------------------------------------------------


@prints(hw.SharedTileOp, "tile")
def _shared_tile(w: KernelWriter, op: hw.SharedTileOp) -> None:
    if op.offset is None:
        raise not_lowered(op, "has no offset", "run gpu-plan-shared-memory first")
    w.line(f"u32 {w.name(op.tile, 'tile')} = {_at('shared_base', '1', op.offset.value.data)};")


@prints(hw.MBarrierOp, "barriers")
def _mbarrier(w: KernelWriter, op: hw.MBarrierOp) -> None:
    if op.offset is None:
        raise not_lowered(op, "has no offset", "run gpu-plan-shared-memory first")
    name = w.name(op.barrier, "barriers")
    w.line(f"u32 {name} = {_at('shared_base', '1', op.offset.value.data)};")


def _at(base: str, index: str, size: int) -> str:
    """``base + index * size`` in bytes; a literal index is multiplied here."""
    if index.isdigit():
        return f"{base} + {int(index) * size}" if int(index) * size else base
    return f"{base} + {index} * {size}"


@prints(hw.SharedAddressOp, "address")
def _shared_address(w: KernelWriter, op: hw.SharedAddressOp) -> None:
    assert isinstance(op.tile.type, SharedType)
    w.define(op.result, _at(w.text(op.tile), w.text(op.slot), op.tile.type.slot_bytes))


@prints(hw.LoadSharedOp, "loaded")
def _load_shared(w: KernelWriter, op: hw.LoadSharedOp) -> None:
    function = gpu_to_cuda_families.load("shared", _movable(w, op, op.result))
    w.define(op.result, w.call(function, w.text(op.address)))


@prints(hw.StoreSharedOp)
def _store_shared(w: KernelWriter, op: hw.StoreSharedOp) -> None:
    function = gpu_to_cuda_families.store("shared", _movable(w, op, op.value))
    w.run(function, w.text(op.address), w.text(op.value))


# Registers and packing -----------------------------------------------------------------


@prints(hw.PackOp, "packed")
def _pack(w: KernelWriter, op: hw.PackOp) -> None:
    w.define(op.result, w.vector(w.type(op.result.type, op), [w.text(v) for v in op.values]))


@prints(hw.UnpackOp, "element")
def _unpack(w: KernelWriter, op: hw.UnpackOp) -> None:
    w.define(op.result, w.elements(op.vector)[op.index.value.data])


# Global memory -------------------------------------------------------------------------


def _movable(w: KernelWriter, op: Operation, value: SSAValue) -> CType:
    t = w.type(value.type, op)
    if not can_move(t):
        raise not_lowered(op, f"moves {value.type}", "one access is of 1, 2, 4, 8 or 16 bytes")
    return t


def _pointer(w: KernelWriter, op: Operation, tensor: SSAValue, indices: Sequence[SSAValue]) -> str:
    """The address of an element; several coordinates must have become one offset."""
    if not indices:
        return w.text(tensor)
    if len(indices) > 1:
        raise not_lowered(
            op,
            f"names {len(indices)} coordinates of a tensor",
            "run gpu-linearize-access first",
        )
    offset = w.text(indices[0])
    return w.text(tensor) if offset in ("0", "0ll") else f"{w.text(tensor)} + {offset}"


@prints(hw.LoadGlobalOp, "loaded")
def _load_global(w: KernelWriter, op: hw.LoadGlobalOp) -> None:
    space = "global" if op.tensor in w.stored else "global.nc"
    pointer = _pointer(w, op, op.tensor, op.indices)
    t = _movable(w, op, op.result)
    if op.predicate is None:
        w.define(op.result, w.call(gpu_to_cuda_families.load(space, t), pointer))
        return
    function = gpu_to_cuda_families.load(space, t, True)
    w.define(op.result, w.call(function, pointer, w.text(op.predicate)))


@prints(hw.StoreGlobalOp)
def _store_global(w: KernelWriter, op: hw.StoreGlobalOp) -> None:
    pointer = _pointer(w, op, op.tensor, op.indices)
    function = gpu_to_cuda_families.store("global", _movable(w, op, op.value))
    call = w.call(function, pointer, w.text(op.value))
    w.line(f"{call};" if op.predicate is None else f"if ({w.text(op.predicate)}) {call};")


@prints(hw.CpAsyncOp)
def _cp_async(w: KernelWriter, op: hw.CpAsyncOp) -> None:
    name = f"cp_async_{op.bytes.value.data}"
    arguments = [w.text(op.address), _pointer(w, op, op.tensor, op.indices)]
    if op.predicate is not None:
        name, arguments = f"{name}_if", [*arguments, w.text(op.predicate)]
    w.run(name, *arguments)


@prints(hw.CpAsyncCommitOp)
def _cp_async_commit(w: KernelWriter, op: hw.CpAsyncCommitOp) -> None:
    w.run("cp_async_commit")


@prints(hw.CpAsyncWaitOp)
def _cp_async_wait(w: KernelWriter, op: hw.CpAsyncWaitOp) -> None:
    w.run("cp_async_wait", template=str(op.pending.value.data))


# Barriers and fences -------------------------------------------------------------------


@prints(hw.BarrierOp)
def _barrier(w: KernelWriter, op: hw.BarrierOp) -> None:
    w.line("__syncthreads();")


@prints(hw.NamedBarrierOp)
def _named_barrier(w: KernelWriter, op: hw.NamedBarrierOp) -> None:
    id, threads = op.id.value.data, op.threads.value.data
    if op.offset is None:
        w.run("named_barrier", template=f"{id}, {threads}")
    else:
        w.run("named_barrier_at", f"{id} + {w.text(op.offset)}", template=str(threads))


@prints(hw.NamedBarrierArriveOp)
def _named_barrier_arrive(w: KernelWriter, op: hw.NamedBarrierArriveOp) -> None:
    id, threads = str(op.id.value.data), op.threads.value.data
    if op.offset is not None:
        id = f"{id} + {w.text(op.offset)}"
    w.run("named_barrier_arrive", id, template=str(threads))


def _barrier_at(w: KernelWriter, barrier: SSAValue, index: SSAValue) -> str:
    return _at(w.text(barrier), w.text(index), 8)


@prints(hw.MBarrierInitOp)
def _mbarrier_init(w: KernelWriter, op: hw.MBarrierInitOp) -> None:
    w.run("mbarrier_init", _barrier_at(w, op.barrier, op.index), str(op.count.value.data))


@prints(hw.MBarrierExpectOp)
def _mbarrier_expect(w: KernelWriter, op: hw.MBarrierExpectOp) -> None:
    w.run("mbarrier_expect", _barrier_at(w, op.barrier, op.index), str(op.bytes.value.data))


@prints(hw.MBarrierAnnounceOp)
def _mbarrier_announce(w: KernelWriter, op: hw.MBarrierAnnounceOp) -> None:
    w.run("mbarrier_announce", _barrier_at(w, op.barrier, op.index), str(op.bytes.value.data))


@prints(hw.MBarrierArriveOp)
def _mbarrier_arrive(w: KernelWriter, op: hw.MBarrierArriveOp) -> None:
    w.run("mbarrier_arrive", _barrier_at(w, op.barrier, op.index))


@prints(hw.MBarrierWaitOp)
def _mbarrier_wait(w: KernelWriter, op: hw.MBarrierWaitOp) -> None:
    w.run("mbarrier_wait", _barrier_at(w, op.barrier, op.index), w.text(op.parity))


@prints(hw.FenceMBarrierInitOp)
def _fence_mbarrier_init(w: KernelWriter, op: hw.FenceMBarrierInitOp) -> None:
    w.run("fence_mbarrier_init")


@prints(hw.FenceProxyAsyncOp)
def _fence_proxy_async(w: KernelWriter, op: hw.FenceProxyAsyncOp) -> None:
    w.run("fence_proxy_async")


@prints(hw.SetMaxRegistersOp)
def _set_max_registers(w: KernelWriter, op: hw.SetMaxRegistersOp) -> None:
    w.run(f"{op.direction.data}_registers", template=str(op.count.value.data))


# TMA -----------------------------------------------------------------------------------


@prints(hw.PrefetchTensorMapOp)
def _prefetch_tensor_map(w: KernelWriter, op: hw.PrefetchTensorMapOp) -> None:
    w.run("prefetch_tensor_map", f"&{w.text(op.map)}")


@prints(hw.TmaLoadOp)
def _tma_load(w: KernelWriter, op: hw.TmaLoadOp) -> None:
    inner_first = [w.text(c) for c in reversed(op.coordinates)]
    if len(inner_first) > 5:
        raise not_lowered(op, f"names {len(inner_first)} coordinates", "TMA takes up to 5")
    several = op.mask is not None
    hint = "" if op.cache is None else f"_{op.cache.data}"
    w.run(
        f"tma_load_{len(inner_first)}d{'_multicast' if several else ''}{hint}",
        w.text(op.address),
        f"&{w.text(op.map)}",
        _barrier_at(w, op.barrier, op.index),
        *inner_first,
        *([w.text(op.mask)] if op.mask is not None else []),
    )


@prints(hw.TmaLoadIm2colOp)
def _tma_load_im2col(w: KernelWriter, op: hw.TmaLoadIm2colOp) -> None:
    inner_first = [w.text(v) for v in (*reversed(op.coordinates), *reversed(op.offsets))]
    barrier = _barrier_at(w, op.barrier, op.index)
    w.run("tma_load_im2col", w.text(op.address), f"&{w.text(op.map)}", barrier, *inner_first)


@prints(hw.TmaStoreOp)
def _tma_store(w: KernelWriter, op: hw.TmaStoreOp) -> None:
    inner_first = [w.text(c) for c in reversed(op.coordinates)]
    if len(inner_first) > 5:
        raise not_lowered(op, f"names {len(inner_first)} coordinates", "TMA takes up to 5")
    name = f"tma_store_{len(inner_first)}d"
    w.run(name, w.text(op.address), f"&{w.text(op.map)}", *inner_first)


@prints(hw.BulkCommitOp)
def _bulk_commit(w: KernelWriter, op: hw.BulkCommitOp) -> None:
    w.run("bulk_commit")


@prints(hw.BulkWaitOp)
def _bulk_wait(w: KernelWriter, op: hw.BulkWaitOp) -> None:
    name = "bulk_wait" if op.read is None else "bulk_wait_read"
    w.run(name, template=str(op.pending.value.data))


# Clusters ------------------------------------------------------------------------------


@prints(hw.ClusterRankOp, "rank")
def _cluster_rank(w: KernelWriter, op: hw.ClusterRankOp) -> None:
    w.define(op.result, w.call("cluster_rank"))


@prints(hw.ClusterBarrierOp)
def _cluster_barrier(w: KernelWriter, op: hw.ClusterBarrierOp) -> None:
    w.run("cluster_barrier")


@prints(hw.MapSharedOp, "remote")
def _map_shared(w: KernelWriter, op: hw.MapSharedOp) -> None:
    w.define(op.result, w.call("map_shared", w.text(op.address), w.text(op.rank)))


@prints(hw.LoadClusterOp, "loaded")
def _load_cluster(w: KernelWriter, op: hw.LoadClusterOp) -> None:
    function = gpu_to_cuda_families.load("cluster", _movable(w, op, op.result))
    w.define(op.result, w.call(function, w.text(op.address)))


@prints(hw.StoreClusterOp)
def _store_cluster(w: KernelWriter, op: hw.StoreClusterOp) -> None:
    function = gpu_to_cuda_families.store("cluster", _movable(w, op, op.value))
    w.run(function, w.text(op.address), w.text(op.value))


@prints(hw.MBarrierArriveClusterOp)
def _mbarrier_arrive_cluster(w: KernelWriter, op: hw.MBarrierArriveClusterOp) -> None:
    name = "mbarrier_arrive_cluster" if op.reads is None else "mbarrier_arrive_cluster_reads"
    w.run(name, _barrier_at(w, op.barrier, op.index), w.text(op.rank))


# Between lanes, and atomics ------------------------------------------------------------


@prints(hw.ShuffleOp, "shuffled")
def _shuffle(w: KernelWriter, op: hw.ShuffleOp) -> None:
    name = {"xor": "__shfl_xor_sync", "up": "__shfl_up_sync", "down": "__shfl_down_sync"}.get(
        op.kind.data, "__shfl_sync"
    )
    w.define(op.result, f"{name}(0xffffffffu, {w.text(op.value)}, {w.text(op.lane)})")


@prints(hw.AtomicGlobalOp)
def _atomic_global(w: KernelWriter, op: hw.AtomicGlobalOp) -> None:
    pointer = _pointer(w, op, op.tensor, op.indices)
    name = gpu_to_cuda_families.reduction("global", op.function.data, str(op.value.type))
    call = w.call(name, pointer, w.text(op.value))
    w.line(f"{call};" if op.predicate is None else f"if ({w.text(op.predicate)}) {call};")


@prints(hw.AtomicSharedOp)
def _atomic_shared(w: KernelWriter, op: hw.AtomicSharedOp) -> None:
    name = gpu_to_cuda_families.reduction("shared", op.function.data, str(op.value.type))
    w.run(name, w.text(op.address), w.text(op.value))


@prints(hw.SignalGlobalOp)
def _signal_global(w: KernelWriter, op: hw.SignalGlobalOp) -> None:
    w.run("signal_global", _pointer(w, op, op.counters, op.indices))


@prints(hw.WaitGlobalOp)
def _wait_global(w: KernelWriter, op: hw.WaitGlobalOp) -> None:
    w.run("wait_global", _pointer(w, op, op.counters, op.indices), w.text(op.count))


# Tensor cores --------------------------------------------------------------------------


def _registers(w: KernelWriter, array: SSAValue, offset: SSAValue) -> str:
    start = w.text(offset)
    return w.text(array) if start == "0" else f"{w.text(array)} + {start}"


@prints(hw.LdmatrixOp)
def _ldmatrix(w: KernelWriter, op: hw.LdmatrixOp) -> None:
    name = "ldmatrix_x4" if op.transpose is None else "ldmatrix_x4_transposed"
    w.run(name, _registers(w, op.registers, op.offset), w.text(op.address))


@prints(hw.StmatrixOp)
def _stmatrix(w: KernelWriter, op: hw.StmatrixOp) -> None:
    name = "stmatrix_x4" if op.transpose is None else "stmatrix_x4_transposed"
    w.run(name, w.text(op.address), _registers(w, op.registers, op.offset))


@prints(hw.MmaSyncOp)
def _mma_sync(w: KernelWriter, op: hw.MmaSyncOp) -> None:
    w.run(
        f"mma_m16n8k16_{op.element}",
        _registers(w, op.acc, op.acc_offset),
        _registers(w, op.a, op.a_offset),
        _registers(w, op.b, op.b_offset),
    )


_SWIZZLE = {0: 0, 128: 1, 64: 2, 32: 3}
"""Bits 62 and 63 of a matrix descriptor (PTX ISA 9.7.16.5.1)."""


@prints(hw.WgmmaDescriptorOp, "descriptor")
def _wgmma_descriptor(w: KernelWriter, op: hw.WgmmaDescriptorOp) -> None:
    numbers = (op.leading.value.data, op.stride.value.data, _SWIZZLE[op.swizzle.value.data])
    w.define(op.result, w.call("wgmma_descriptor", w.text(op.address), *map(str, numbers)))


@prints(hw.WgmmaOp)
def _wgmma(w: KernelWriter, op: hw.WgmmaOp) -> None:
    function = gpu_to_cuda_families.wgmma(
        op.n.value.data,
        str(op.element),
        op.transpose_a is not None,
        op.transpose_b is not None,
        op.clear is not None,
    )
    a, b = (
        f"{w.text(d)} + {offset.value.data >> 4}" if offset.value.data else w.text(d)
        for d, offset in ((op.a, op.a_offset), (op.b, op.b_offset))
    )
    w.run(function, w.text(op.acc), a, b)


@prints(hw.WgmmaRegistersOp)
def _wgmma_registers(w: KernelWriter, op: hw.WgmmaRegistersOp) -> None:
    function = gpu_to_cuda_families.wgmma_registers(
        op.n.value.data, str(op.element), op.transpose_b is not None, op.clear is not None
    )
    first, offset = op.a_register.value.data, op.b_offset.value.data
    b = f"{w.text(op.b)} + {offset >> 4}" if offset else w.text(op.b)
    a = [f"{w.text(op.a)}[{first + i}]" for i in range(4)]
    w.run(function, w.text(op.acc), *a, b)


@prints(hw.RegisterFenceOp)
def _register_fence(w: KernelWriter, op: hw.RegisterFenceOp) -> None:
    w.run("register_fence", w.text(op.registers))


@prints(hw.WgmmaFenceOp)
def _wgmma_fence(w: KernelWriter, op: hw.WgmmaFenceOp) -> None:
    w.run("wgmma_fence")


@prints(hw.WgmmaCommitOp)
def _wgmma_commit(w: KernelWriter, op: hw.WgmmaCommitOp) -> None:
    w.run("wgmma_commit")


@prints(hw.WgmmaWaitOp)
def _wgmma_wait(w: KernelWriter, op: hw.WgmmaWaitOp) -> None:
    w.run("wgmma_wait", template=str(op.pending.value.data))


# Kernels and modules -------------------------------------------------------------------


@prints(ReturnOp)
def _return(w: KernelWriter, op: ReturnOp) -> None:
    """The end of the function's text."""


def _parameter(w: KernelWriter, value: SSAValue, op: KernelOp) -> str:
    t: Attribute = value.type
    match t:
        case GlobalType():
            element = w.type(t.element_type, op).name
            const = "" if value in w.stored else "const "
            return f"{const}{element}* __restrict__ {w.name(value, 'tensor')}"
        case TensorMapType() | Im2colMapType():
            return f"const __grid_constant__ TensorMap {w.name(value, 'map')}"
        case _:
            return f"{w.type(t, op).name} {w.name(value, 'size')}"


def _uses_shared(body: Block) -> bool:
    return any(isinstance(op, hw.SharedTileOp | hw.MBarrierOp) for op in body.walk())


def _overlaps(kernel: KernelOp) -> tuple[bool, bool]:
    """Whether a launch of the kernel overlaps the one ahead of it, and whether one overlaps it.

    What either asks of the kernel is harmless in launches that do not.
    """
    module = kernel.parent_op()
    if not isinstance(module, ModuleOp) or not module.has_dispatch():
        return False, False
    own = [x for x in module.dispatch().launches() if x.kernel_name == kernel.sym_name.data]
    return (
        any(x.overlapped is not None for x in own),
        any(y.overlapped is not None for x in own for y in followers(x)),
    )


def _touches_global(op: Operation) -> bool:
    """Whether an op, or one in its regions, takes a tensor or a workspace."""
    return any(
        isinstance(operand.type, GlobalType | TensorMapType | Im2colMapType)
        for inner in op.walk()
        if not isinstance(inner, hw.PrefetchTensorMapOp)
        for operand in inner.operands
    )


SET_UP = hw.MBarrierInitOp | hw.FenceMBarrierInitOp | hw.BarrierOp | hw.ClusterBarrierOp
"""What a kernel does while the launch ahead of it ends."""


def _place_to_wait(body: Block) -> Operation | None:
    """The op before which a kernel waits for the launch ahead of it.

    Its first access to global memory needs that launch to be done; barriers that are made and
    indices that are computed before it do not.  Accumulators are cleared behind the wait.
    """
    place = body.first_op
    for op in body.ops:
        if _touches_global(op):
            break
        if any(isinstance(inner, SET_UP) for inner in op.walk()):
            place = op.next_op
    while place is not None and (place.name.startswith("arith.") or is_side_effect_free(place)):
        if place.has_trait(IsTerminator):
            break
        place = place.next_op
    return place


def _body(w: KernelWriter, kernel: KernelOp) -> None:
    """The kernel's ops, with its place among launches that overlap.

    A kernel without accesses to global memory waits too, since who waits for it counts on that.
    The next launch may begin from there on: CTAs that come earlier would only take room from this
    one's.
    """
    waits, lets = _overlaps(kernel)
    body = kernel.body.block
    place = _place_to_wait(body)
    for op in body.ops:
        if op is place:
            if waits:
                w.run("wait_for_launch_before")
            if lets:
                w.run("let_next_launch_begin")
        w.op(op)


def kernel_text(
    kernel: KernelOp, functions: dict[str, DeviceFunction], types: dict[str, CType]
) -> str:
    """One kernel; what the prelude must define is added to ``functions`` and ``types``.

    Raises PolycError ``NotLowered`` for an op that is above the hardware level.
    """
    name = kernel.sym_name.data
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or is_reserved(name):
        raise PolycError(
            "BadName", f"kernel @{name} cannot have this name in CUDA C; rename it", kernel
        )
    w = KernelWriter(functions, types)
    w.fresh(name)
    body = kernel.body.block
    w.prepare(body)
    parameters = [_parameter(w, argument, kernel) for argument in body.args]
    if _uses_shared(body):
        w.line("extern __shared__ __align__(1024) unsigned char shared[];")
        w.line(f"u32 shared_base = {w.call('shared_window', 'shared')};")
    _body(w, kernel)
    bounds = f"{kernel.threads.value.data}, {kernel.blocks_per_sm.value.data}"
    size = kernel.cluster_size
    cluster = "" if size == 1 else f"__cluster_dims__({size}, 1, 1) "
    head = f'extern "C" __global__ void {cluster}__launch_bounds__({bounds})\n{name}('
    joined = ", ".join(parameters)
    if len(name) + len(joined) > 96:
        joined = "\n    " + ",\n    ".join(parameters)
    return "\n".join([f"{head}{joined}) {{", *w.lines, "}\n"])


def _prelude(text: str, functions: dict[str, DeviceFunction], types: dict[str, CType]) -> str:
    structs = [t.definition for _, t in sorted(types.items(), key=lambda i: (i[1].bytes, i[0]))]
    if "TensorMap" in text:
        structs.append(TENSOR_MAP)
    bodies = [f.text for f in functions.values()]
    words = set(re.findall(r"\w+", "\n".join([text, *structs, *bodies])))
    if words & {"f16", "bf16"}:
        words.add("u16")
    typedefs = "\n".join(line for name, line in TYPEDEFS.items() if name in words)
    return "".join(part + "\n\n" for part in [typedefs, *structs, *bodies] if part)


def _source(modules: Sequence[ModuleOp]) -> str:
    functions: dict[str, DeviceFunction] = {}
    types: dict[str, CType] = {}
    kernels = [kernel_text(k, functions, types) for m in modules for k in m.kernels()]
    head = "".join(f"// {m.sym_name.data} for {m.arch.data}\n" for m in modules)
    text = "\n".join(kernels)
    return f"{head}\n{_prelude(text, functions, types)}{text}"


def cuda_source(gpu_module: ModuleOp) -> str:
    """The CUDA C of all kernels of one ``gpu.module``.

    Raises PolycError: ``NotLowered`` for an op that has no printer, with the pass that
    lowers it, and ``BadName`` for a kernel whose name C cannot have.
    """
    return _source([gpu_module])


def print_cuda(module: BuiltinModuleOp, output: IO[str]) -> None:
    """Write the CUDA C of every ``gpu.module`` in ``module``, as one text.

    Raises PolycError as ``cuda_source``, and ``NotLowered`` when there is no ``gpu.module``.
    """
    modules = [op for op in module.ops if isinstance(op, ModuleOp)]
    if not modules:
        raise PolycError(
            "NotLowered", "there is no gpu.module to print; run lower-to-gpu first", module
        )
    output.write(_source(modules))
