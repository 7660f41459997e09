// RUN: polyc-opt %s -p gpu-layout-inference,gpu-lower-tile-ops | filecheck %s

// Each CTA of a cluster stores part c of its sums into a slot of CTA c, tells it, waits until all
// have told it, and adds the slots in their order.

gpu.module @m arch "sm_90a" symbols [M] {
  // The barrier is ready, and all CTAs have started, before anything else.
  // CHECK-LABEL: gpu.kernel @k
  // CHECK-NEXT: %combined = gpu.mbarrier : !gpu.mbarrier<1>
  // CHECK: gpu.mbarrier_init %combined[{{%.*}}] count 2 : !gpu.mbarrier<1>
  // CHECK-NEXT: gpu.fence_mbarrier_init
  // CHECK: gpu.cluster_barrier
  gpu.kernel @k(%M: index = symbol M) threads 256 cluster 2 {
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, ring 2>
    %b = gpu.shared_tile : !gpu.shared<[64, 16], f16, ring 2>
    gpu.roles consumers 1 registers [0, 0] producer {
      gpu.yield
    } consumer {
      %acc = gpu.fragment : !gpu.fragment<[64, 16], f32>
      %part = gpu.fragment : !gpu.fragment<[64, 8], f32>
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %acc clear mma "wgmma" warp_tile <64, 16>
          : !gpu.shared<[64, 64], f16, ring 2>, !gpu.shared<[64, 16], f16, ring 2>, !gpu.fragment<[64, 16], f32>
      // Room for the vectors of two CTAs' 128 consumers.
      // CHECK: %mail = gpu.shared_tile : !gpu.shared<[2, 512], f32, swizzle 0>
      // CHECK: %row = affine.apply
      // CHECK-NEXT: [[IN:%.*]] = arith.cmpi slt, %row, %M : index
      // Rows outside are not sent.
      // CHECK-NEXT: scf.if [[IN]] {
      // CHECK: gpu.element_address %mail[{{%.*}}] [{{%rank.*}}, %column]
      // CHECK-NEXT: gpu.map_shared
      // CHECK-NEXT: gpu.store_cluster {{%.*}} : vector<4xf32>
      // CHECK: gpu.map_shared
      // CHECK-NEXT: gpu.store_cluster {{%.*}} : vector<4xf32>
      // CHECK-NEXT: }
      // The consumers meet, and two of them tell the two CTAs.
      // CHECK-NEXT: gpu.named_barrier 1 threads 128
      // CHECK: gpu.mbarrier_arrive_cluster %combined[{{%.*}}] rank %thread{{.*}} : !gpu.mbarrier<1>
      // CHECK: gpu.mbarrier_wait %combined[{{%.*}}] parity {{%.*}} cluster : !gpu.mbarrier<1>
      // CHECK: scf.if {{%.*}} {
      // CHECK-COUNT-2: gpu.load_shared {{%.*}} : vector<4xf32>
      // CHECK-COUNT-4: arith.addf
      // CHECK-COUNT-4: memref.store {{%.*}}, %part
      gpu.reduce_scatter sum %acc rows %M into %part : !gpu.fragment<[64, 16], f32>, !gpu.fragment<[64, 8], f32>
      gpu.yield
    }
    gpu.return
  }
}
