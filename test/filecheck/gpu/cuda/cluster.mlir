// RUN: polyc-opt %s -t cuda | filecheck %s

gpu.module @cluster arch "sm_90a" symbols [M] {
  gpu.kernel @every(%Y: !gpu.global<[M], f32> = tensor 0, %i: index = symbol M, %map: !gpu.tensor_map<[8, 8], f16, swizzle 0> = tensor_map 0) threads 128 cluster 2 shared_bytes 64 {
    %tile = gpu.shared_tile at 0 : !gpu.shared<[1, 8], f32, swizzle 0>
    %bars = gpu.mbarrier at 32 : !gpu.mbarrier<2>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %rank = gpu.cluster_rank
    %a = gpu.shared_address %tile[%zero] : !gpu.shared<[1, 8], f32, swizzle 0>
    %peer = arith.subi %one, %rank : index
    %far = gpu.map_shared %a, %peer
    %x = arith.constant 1.0 : f32
    gpu.store_cluster %x, %far : f32
    gpu.mbarrier_arrive_cluster %bars[%one] rank %peer : !gpu.mbarrier<2>
    gpu.mbarrier_arrive_cluster %bars[%one] rank %peer reads : !gpu.mbarrier<2>
    gpu.mbarrier_wait %bars[%one] parity %zero cluster : !gpu.mbarrier<2>
    gpu.mbarrier_wait %bars[%one] parity %zero : !gpu.mbarrier<2>
    %all = arith.constant 3 : i32
    gpu.tma_load %map[%one, %rank] to %a, %bars[%one] multicast %all : !gpu.tensor_map<[8, 8], f16, swizzle 0>, !gpu.mbarrier<2>
    gpu.cluster_barrier
    %y = gpu.load_cluster %far : f32
    gpu.store_global %y, %Y[%rank : index] : f32, !gpu.global<[M], f32>
    gpu.cluster_barrier
    gpu.return
  }
}

// CHECK: asm("mov.u32 %0, %%cluster_ctarank;"
// CHECK: asm("mapa.shared::cluster.u32 %0, %1, %2;"
// CHECK: asm volatile("st.shared::cluster.f32 [%0], %1;"
// CHECK: "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n"
// CHECK: "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
// CHECK: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1
// CHECK: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1
// CHECK: void tma_load_2d_multicast(u32 address, const TensorMap* map, u32 barrier, int c0, int c1, u32 mask)
// CHECK: .multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
// CHECK: : "r"(address), "l"(map), "r"(barrier), "r"(c0), "r"(c1), "h"((u16)mask)
// CHECK: asm volatile("barrier.cluster.arrive.release.aligned;\n"
// CHECK-NEXT: "barrier.cluster.wait.acquire.aligned;"
// CHECK: int rank = cluster_rank();
// CHECK: u32 far = map_shared(a, peer);
// CHECK-NEXT: store_cluster_f32(far, 1.0f);
// CHECK-NEXT: mbarrier_arrive_cluster(bars + 8, peer);
// CHECK-NEXT: mbarrier_arrive_cluster_reads(bars + 8, peer);
// CHECK-NEXT: mbarrier_wait_cluster(bars + 8, 0);
// CHECK-NEXT: mbarrier_wait(bars + 8, 0);
// CHECK-NEXT: tma_load_2d_multicast(a, &map, bars + 8, rank, 1, 3u);
// CHECK-NEXT: cluster_barrier();
// CHECK-NEXT: float y = load_cluster_f32(far);
