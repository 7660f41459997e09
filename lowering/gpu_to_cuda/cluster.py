"""The printer: clusters of CTAs and each other's shared memory (PTX ISA 9.7.13)."""

from __future__ import annotations

from polyc.dialects.gpu import hardware as hw
from polyc.lowering.gpu_to_cuda.accesses import load, movable, store
from polyc.lowering.gpu_to_cuda.asm import ADDRESS, BARRIER, asm, define, device_function
from polyc.lowering.gpu_to_cuda.sync import barrier_at
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, prints

define(
    device_function(
        "int cluster_rank()",
        "u32 r;\n"
        + asm("mov.u32 %0, %%cluster_ctarank;", '"=r"(r)', volatile=False, memory=False)
        + "\nreturn (int)r;",
    ),
    device_function(
        "void cluster_barrier()",
        asm("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;"),
    ),
    device_function(
        "u32 map_shared(u32 address, u32 rank)",
        "u32 r;\n"
        + asm(
            "mapa.shared::cluster.u32 %0, %1, %2;",
            '"=r"(r)',
            f'{ADDRESS}, "r"(rank)',
            volatile=False,
            memory=False,
        )
        + "\nreturn r;",
    ),
    # The short form makes no fence over the cluster, which a ring would pay every stage.
    *(
        device_function(
            f"void mbarrier_arrive_cluster{suffix}(u32 barrier, u32 rank)",
            asm(
                "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
                f"mbarrier.arrive{release}.shared::cluster.b64 _, [remote];\n}}",
                ins=f'{BARRIER}, "r"(rank)',
            ),
        )
        for suffix, release in (("", ".release.cluster"), ("_reads", ""))
    ),
)


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
    function = load("cluster", movable(w, op, op.result))
    w.define(op.result, w.call(function, w.text(op.address)))


@prints(hw.StoreClusterOp)
def _store_cluster(w: KernelWriter, op: hw.StoreClusterOp) -> None:
    function = store("cluster", movable(w, op, op.value))
    w.run(function, w.text(op.address), w.text(op.value))


@prints(hw.MBarrierArriveClusterOp)
def _mbarrier_arrive_cluster(w: KernelWriter, op: hw.MBarrierArriveClusterOp) -> None:
    name = "mbarrier_arrive_cluster" if op.reads is None else "mbarrier_arrive_cluster_reads"
    w.run(name, barrier_at(w, op.barrier, op.index), w.text(op.rank))
