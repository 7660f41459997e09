"""The printer: global and shared memory, cp.async and TMA (PTX ISA 9.7.9)."""

from __future__ import annotations

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.types import CACHE_HINTS
from polyc.lowering.gpu_to_cuda.accesses import fill_word, load, movable, pointer_to, store
from polyc.lowering.gpu_to_cuda.asm import ADDRESS, DeviceFunction, asm, define, device_function
from polyc.lowering.gpu_to_cuda.sync import barrier_at
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, not_lowered, prints


def _load_box(rank: int, several: bool, hint: str) -> DeviceFunction:
    names = [f"c{i}" for i in range(rank)]
    places = ", ".join(f"%{3 + i}" for i in range(rank))
    suffix, parameter, word, mask, operand = (
        ("_multicast", ", u32 mask", ".multicast::cluster", f", %{3 + rank}", ', "h"((u16)mask)')
        if several
        else ("", "", "", "", "")
    )
    policy, word_end, end = "", "", ""
    if hint:
        suffix, word_end, mask = f"{suffix}_{hint}", ".L2::cache_hint", f"{mask}, policy"
        policy = f"{{ .reg .b64 policy; createpolicy.fractional.L2::{hint}.b64 policy, 1.0; "
        end = " }"
    return device_function(
        f"void tma_load_{rank}d{suffix}(u32 address, const TensorMap* map, u32 barrier, "
        f"{', '.join(f'int {n}' for n in names)}{parameter})",
        asm(
            f"{policy}cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile"
            f".mbarrier::complete_tx::bytes{word}{word_end} "
            f"[%0], [%1, {{{places}}}], [%2]{mask};{end}",
            ins='"r"(address), "l"(map), "r"(barrier), '
            + ", ".join(f'"r"({n})' for n in names)
            + operand,
        ),
    )


def _store_box(rank: int) -> DeviceFunction:
    coordinates = ", ".join(f"%{i + 2}" for i in range(rank))
    names = [f"c{i}" for i in range(rank)]
    return device_function(
        f"void tma_store_{rank}d(u32 address, const TensorMap* map, "
        + ", ".join(f"int {n}" for n in names)
        + ")",
        asm(
            f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group "
            f"[%1, {{{coordinates}}}], [%0];",
            ins=", ".join(['"r"(address)', '"l"(map)', *(f'"r"({n})' for n in names)]),
        ),
    )


define(
    # cp.async: with a false predicate nothing is read and zeros arrive.
    *(
        device_function(
            f"void cp_async_{n}(u32 address, const void* source)",
            asm(
                f"cp.async.{'cg' if n == 16 else 'ca'}.shared.global [%0], [%1], {n};",
                ins=f'{ADDRESS}, "l"(source)',
            ),
        )
        for n in (4, 8, 16)
    ),
    *(
        device_function(
            f"void cp_async_{n}_if(u32 address, const void* source, bool valid)",
            asm(
                f"cp.async.{'cg' if n == 16 else 'ca'}.shared.global [%0], [%1], {n}, %2;",
                ins=f'{ADDRESS}, "l"(source), "r"(valid ? {n} : 0)',
            ),
        )
        for n in (4, 8, 16)
    ),
    device_function("void cp_async_commit()", asm("cp.async.commit_group;")),
    device_function(
        "void cp_async_wait()",
        asm("cp.async.wait_group %0;", ins='"n"(pending)'),
        "int pending",
    ),
    device_function(
        "void prefetch_tensor_map(const TensorMap* map)",
        asm("prefetch.tensormap [%0];", ins='"l"(map)'),
    ),
    *(
        _load_box(rank, several, hint)
        for rank in range(1, 6)
        for several in (False, True)
        for hint in ("", *CACHE_HINTS)
    ),
    *(_store_box(rank) for rank in range(1, 6)),
    device_function("void bulk_commit()", asm("cp.async.bulk.commit_group;")),
    *(
        device_function(
            f"void bulk_wait{suffix}()",
            asm(f"cp.async.bulk.wait_group{word} %0;", ins='"n"(pending)'),
            "int pending",
        )
        for suffix, word in (("", ""), ("_read", ".read"))
    ),
)


@prints(hw.LoadSharedOp, "loaded")
def _load_shared(w: KernelWriter, op: hw.LoadSharedOp) -> None:
    function = load("shared", movable(w, op, op.result))
    w.define(op.result, w.call(function, w.text(op.address)))


@prints(hw.StoreSharedOp)
def _store_shared(w: KernelWriter, op: hw.StoreSharedOp) -> None:
    function = store("shared", movable(w, op, op.value))
    w.run(function, w.text(op.address), w.text(op.value))


@prints(hw.LoadGlobalOp, "loaded")
def _load_global(w: KernelWriter, op: hw.LoadGlobalOp) -> None:
    space = "global" if op.tensor in w.stored else "global.nc"
    pointer = pointer_to(w, op, op.tensor, op.indices)
    t = movable(w, op, op.result)
    hint = "" if op.cache is None else op.cache.data
    if op.predicate is None:
        w.define(op.result, w.call(load(space, t, hint=hint), pointer))
        return
    if op.fill is None:
        function = load(space, t, True, hint=hint)
        w.define(op.result, w.call(function, pointer, w.text(op.predicate)))
        return
    function = load(space, t, True, True, hint)
    word = f"0x{fill_word(op.fill, t):x}{'ull' if t.word == 'i64' else 'u'}"
    w.define(op.result, w.call(function, pointer, w.text(op.predicate), word))


@prints(hw.StoreGlobalOp)
def _store_global(w: KernelWriter, op: hw.StoreGlobalOp) -> None:
    pointer = pointer_to(w, op, op.tensor, op.indices)
    function = store("global", movable(w, op, op.value))
    call = w.call(function, pointer, w.text(op.value))
    w.line(f"{call};" if op.predicate is None else f"if ({w.text(op.predicate)}) {call};")


@prints(hw.AddressRemainderOp, "remainder")
def _address_remainder(w: KernelWriter, op: hw.AddressRemainderOp) -> None:
    last = op.of.value.data - 1
    w.define(op.result, f"(int)((unsigned long long){w.text(op.tensor)} & {last}u)")


@prints(hw.CpAsyncOp)
def _cp_async(w: KernelWriter, op: hw.CpAsyncOp) -> None:
    name = f"cp_async_{op.bytes.value.data}"
    arguments = [w.text(op.address), pointer_to(w, op, op.tensor, op.indices)]
    if op.predicate is not None:
        name, arguments = f"{name}_if", [*arguments, w.text(op.predicate)]
    w.run(name, *arguments)


@prints(hw.CpAsyncCommitOp)
def _cp_async_commit(w: KernelWriter, op: hw.CpAsyncCommitOp) -> None:
    w.run("cp_async_commit")


@prints(hw.CpAsyncWaitOp)
def _cp_async_wait(w: KernelWriter, op: hw.CpAsyncWaitOp) -> None:
    w.run("cp_async_wait", template=str(op.pending.value.data))


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
        barrier_at(w, op.barrier, op.index),
        *inner_first,
        *([w.text(op.mask)] if op.mask is not None else []),
    )


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
