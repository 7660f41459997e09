// RUN: polyc-opt %s -p gpu-lower-tile-ops | filecheck %s

// A tile of one panel that two CTAs load together: each takes half of the rows, and sends them to
// both; the box is 64 of the 128 rows, 8192 bytes on.

gpu.module @m arch "sm_90a" symbols [K, C] {
  // CHECK-LABEL: gpu.kernel @filters
  // CHECK-SAME: %F_map: !gpu.tensor_map<[64, 1, 64], f16, swizzle 128> = tensor_map 0
  gpu.kernel @filters(%F: !gpu.global<[K, 9, C], f16, align 16> = tensor 0, %k: index = symbol K, %c: index = symbol C) threads 32 cluster 2 {
    %full = gpu.mbarrier : !gpu.mbarrier<2>
    %f = gpu.shared_tile : !gpu.shared<[128, 64], f16, swizzle 128>
    // CHECK: %rank = gpu.cluster_rank
    // CHECK-NEXT: [[MASK:%.*]] = arith.constant 3 : i32
    // CHECK-NEXT: [[SHIFT:%.*]] = affine.apply affine_map<(d0) -> ((d0 * 8192))> (%rank)
    // CHECK: [[BASE:%.*]] = gpu.shared_address %f
    // CHECK: [[AT:%.*]] = arith.addi [[BASE]], {{.*}} : i32
    // CHECK-NEXT: [[ROW:%.*]] = affine.apply affine_map<(d0, d1) -> ((d0 + (d1 * 64)))> (%k, %rank)
    // CHECK-NEXT: gpu.tma_load %F_map{{\[}}[[ROW]], %k, %c] to [[AT]], %full[%k] multicast [[MASK]]
    gpu.copy %F[%k, %k, %c] to %f axes <0, 2> loader "tma" multicast signal %full : !gpu.mbarrier<2> at %k : !gpu.global<[K, 9, C], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128>
    gpu.return
  }
}
