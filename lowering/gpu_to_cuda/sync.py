"""The printer: barriers, mbarriers, fences and register budgets (PTX ISA 9.7.13 and 9.7.20)."""

from __future__ import annotations

from xdsl.ir import SSAValue

from polyc.dialects.gpu import hardware as hw
from polyc.lowering.gpu_to_cuda.asm import BARRIER, asm, at, define, device_function
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, prints

WARP = 32
"""Threads of a warp."""

_TRY_WAIT = """{{
.reg .pred done;
WAIT:
mbarrier.try_wait.parity{scope}.shared::cta.b64 done, [%0], %1, 0x989680;
@done bra DONE;
bra WAIT;
DONE:
}}"""


_ANY = """{
.reg .pred here, found;
setp.ne.u32 here, %1, 0;
bar.red.or.pred found, %2, %3, here;
selp.u32 %0, 1, 0, found;
}"""


define(
    device_function(
        "bool barrier_any(u32 id, bool condition)",
        "u32 found;\n"
        + asm(_ANY, outs='"=r"(found)', ins='"r"((u32)condition), "r"(id), "n"(threads)')
        + "\nreturn found != 0;",
        "int threads",
    ),
    device_function(
        "void named_barrier()",
        asm("bar.sync %0, %1;", ins='"n"(id), "n"(threads)'),
        "int id, int threads",
    ),
    device_function(
        "void named_barrier_at(u32 id)",
        asm("bar.sync %0, %1;", ins='"r"(id), "n"(threads)'),
        "int threads",
    ),
    device_function(
        "void named_barrier_arrive(u32 id)",
        asm("bar.arrive %0, %1;", ins='"r"(id), "n"(threads)'),
        "int threads",
    ),
    device_function(
        "void mbarrier_init(u32 barrier, u32 count)",
        asm("mbarrier.init.shared::cta.b64 [%0], %1;", ins=f'{BARRIER}, "r"(count)'),
    ),
    device_function(
        "void mbarrier_expect(u32 barrier, u32 bytes)",
        asm(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
            ins=f'{BARRIER}, "r"(bytes)',
        ),
    ),
    device_function(
        "void mbarrier_announce(u32 barrier, u32 bytes)",
        asm(
            "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;",
            ins=f'{BARRIER}, "r"(bytes)',
        ),
    ),
    device_function(
        "void mbarrier_arrive(u32 barrier)",
        asm("mbarrier.arrive.shared::cta.b64 _, [%0];", ins=BARRIER),
    ),
    *(
        device_function(
            f"void mbarrier_wait{suffix}(u32 barrier, u32 parity)",
            asm(_TRY_WAIT.format(scope=scope), ins=f'{BARRIER}, "r"(parity)'),
        )
        for suffix, scope in (("", ""), ("_cluster", ".acquire.cluster"))
    ),
    device_function(
        "void fence_mbarrier_init()",
        asm("fence.mbarrier_init.release.cluster;"),
    ),
    device_function("void fence_proxy_async()", asm("fence.proxy.async.shared::cta;")),
    *(
        device_function(
            f"void {word}_registers()",
            asm(f"setmaxnreg.{short}.sync.aligned.u32 %0;", ins='"n"(count)', memory=False),
            "int count",
        )
        for word, short in (("increase", "inc"), ("decrease", "dec"))
    ),
)


def barrier_at(w: KernelWriter, barrier: SSAValue, index: SSAValue) -> str:
    return at(w.text(barrier), w.text(index), 8)


def barrier_number(w: KernelWriter, op: hw.BarrierAnyOp | hw.NamedBarrierArriveOp) -> str:
    """Which hardware barrier an op names."""
    number = str(op.id.value.data)
    return number if op.offset is None else f"{number} + {w.text(op.offset)}"


@prints(hw.BarrierOp)
def _barrier(w: KernelWriter, op: hw.BarrierOp) -> None:
    w.line("__syncthreads();")


@prints(hw.NamedBarrierOp)
def _named_barrier(w: KernelWriter, op: hw.NamedBarrierOp) -> None:
    id, threads = op.id.value.data, op.threads.value.data
    if threads == WARP:  # Whole warps meet: it is one, which meets itself (``bar.warp.sync``).
        w.line("__syncwarp();")
    elif op.offset is None:
        w.run("named_barrier", template=f"{id}, {threads}")
    else:
        w.run("named_barrier_at", f"{id} + {w.text(op.offset)}", template=str(threads))


@prints(hw.BarrierAnyOp)
def _barrier_any(w: KernelWriter, op: hw.BarrierAnyOp) -> None:
    threads = str(op.threads.value.data)
    w.define(
        op.result,
        w.call("barrier_any", barrier_number(w, op), w.text(op.condition), template=threads),
    )


@prints(hw.NamedBarrierArriveOp)
def _named_barrier_arrive(w: KernelWriter, op: hw.NamedBarrierArriveOp) -> None:
    threads = str(op.threads.value.data)
    w.run("named_barrier_arrive", barrier_number(w, op), template=threads)


@prints(hw.MBarrierInitOp)
def _mbarrier_init(w: KernelWriter, op: hw.MBarrierInitOp) -> None:
    w.run("mbarrier_init", barrier_at(w, op.barrier, op.index), str(op.count.value.data))


@prints(hw.MBarrierExpectOp)
def _mbarrier_expect(w: KernelWriter, op: hw.MBarrierExpectOp) -> None:
    w.run("mbarrier_expect", barrier_at(w, op.barrier, op.index), str(op.bytes.value.data))


@prints(hw.MBarrierAnnounceOp)
def _mbarrier_announce(w: KernelWriter, op: hw.MBarrierAnnounceOp) -> None:
    w.run("mbarrier_announce", barrier_at(w, op.barrier, op.index), str(op.bytes.value.data))


@prints(hw.MBarrierArriveOp)
def _mbarrier_arrive(w: KernelWriter, op: hw.MBarrierArriveOp) -> None:
    w.run("mbarrier_arrive", barrier_at(w, op.barrier, op.index))


@prints(hw.MBarrierWaitOp)
def _mbarrier_wait(w: KernelWriter, op: hw.MBarrierWaitOp) -> None:
    name = "mbarrier_wait" if op.cluster is None else "mbarrier_wait_cluster"
    w.run(name, barrier_at(w, op.barrier, op.index), w.text(op.parity))


@prints(hw.FenceMBarrierInitOp)
def _fence_mbarrier_init(w: KernelWriter, op: hw.FenceMBarrierInitOp) -> None:
    w.run("fence_mbarrier_init")


@prints(hw.FenceProxyAsyncOp)
def _fence_proxy_async(w: KernelWriter, op: hw.FenceProxyAsyncOp) -> None:
    w.run("fence_proxy_async")


@prints(hw.SetMaxRegistersOp)
def _set_max_registers(w: KernelWriter, op: hw.SetMaxRegistersOp) -> None:
    w.run(f"{op.direction.data}_registers", template=str(op.count.value.data))
