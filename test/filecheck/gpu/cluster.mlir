// RUN: polyc-opt %s | polyc-opt | filecheck %s

// CTAs of a cluster and each other's shared memory.
gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK: gpu.kernel @every_op(%i: index = symbol M, %map: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 0) threads 128 cluster 2 shared_bytes 64 {
  gpu.kernel @every_op(%i: index = symbol M, %map: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 0) threads 128 cluster 2 shared_bytes 64 {
    %a = arith.constant 0 : i32
    %bars = gpu.mbarrier at 32 : !gpu.mbarrier<2>
    // CHECK: %rank = gpu.cluster_rank
    %rank = gpu.cluster_rank
    // CHECK-NEXT: gpu.cluster_barrier
    gpu.cluster_barrier
    // CHECK-NEXT: %far = gpu.map_shared %a, %rank
    %far = gpu.map_shared %a, %rank
    // CHECK-NEXT: %x = gpu.load_cluster %far : vector<4xf32>
    %x = gpu.load_cluster %far : vector<4xf32>
    // CHECK-NEXT: gpu.store_cluster %x, %far : vector<4xf32>
    gpu.store_cluster %x, %far : vector<4xf32>
    // CHECK-NEXT: gpu.mbarrier_arrive_cluster %bars[%i] rank %rank : !gpu.mbarrier<2>
    gpu.mbarrier_arrive_cluster %bars[%i] rank %rank : !gpu.mbarrier<2>
    // CHECK-NEXT: gpu.mbarrier_arrive_cluster %bars[%i] rank %rank reads : !gpu.mbarrier<2>
    gpu.mbarrier_arrive_cluster %bars[%i] rank %rank reads : !gpu.mbarrier<2>
    %all = arith.constant 3 : i32
    // CHECK: gpu.tma_load %map[%i, %i] to %a, %bars[%i] multicast %all : !gpu.tensor_map<[64, 64], f16, swizzle 128>, !gpu.mbarrier<2>
    gpu.tma_load %map[%i, %i] to %a, %bars[%i] multicast %all : !gpu.tensor_map<[64, 64], f16, swizzle 128>, !gpu.mbarrier<2>
    gpu.return
  }
}
