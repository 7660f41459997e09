// RUN: polyc-opt %s -t cuda | filecheck %s

gpu.module @cluster arch "sm_90a" symbols [M] {
  gpu.kernel @every(%Y: !gpu.global<[M], f32> = tensor 0, %i: index = symbol M) threads 128 cluster 2 shared_bytes 64 {
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
// CHECK: asm volatile("barrier.cluster.arrive.release.aligned;\n"
// CHECK-NEXT: "barrier.cluster.wait.acquire.aligned;"
// CHECK: int rank = cluster_rank();
// CHECK: u32 far = map_shared(a, peer);
// CHECK-NEXT: store_cluster_f32(far, 1.0f);
// CHECK-NEXT: mbarrier_arrive_cluster(bars + 8, peer);
// CHECK-NEXT: cluster_barrier();
// CHECK-NEXT: float y = load_cluster_f32(far);
