// RUN: polyc-opt %s -p gpu-layout-inference,gpu-lower-tile-ops | filecheck %s

gpu.module @m arch "sm_90a" symbols [] {
  // Two steps of k.  The left tile is k-major: 32 bytes a step; the right one n-major: 16 rows.
  // CHECK-LABEL: gpu.kernel @wgmma
  gpu.kernel @wgmma() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[64, 32], f16>
    %b = gpu.shared_tile : !gpu.shared<[32, 128], f16>
    // CHECK: %acc = memref.alloca() : memref<64xf32, #gpu<space register>>
    %acc = gpu.fragment : !gpu.fragment<[64, 128], f32>
    // CHECK: gpu.wgmma_descriptor %{{.*}} leading 16 stride 512 swizzle 64
    // CHECK-NEXT: gpu.wgmma_descriptor %{{.*}} leading 4096 stride 1024 swizzle 128
    // CHECK-NEXT: gpu.wgmma n 128 %{{.*}} plus 0, %{{.*}} plus 0 transpose_b, %acc element f16
    // CHECK-NEXT: gpu.wgmma n 128 %{{.*}} plus 32, %{{.*}} plus 2048 transpose_b, %acc element f16
    // CHECK-NEXT: gpu.return
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %acc mma "wgmma" warp_tile <64, 128> : !gpu.shared<[64, 32], f16>, !gpu.shared<[32, 128], f16>, !gpu.fragment<[64, 128], f32>
    gpu.return
  }

  // Each warp: ldmatrix of both operands, then every pair of blocks.
  // CHECK-LABEL: gpu.kernel @mma
  gpu.kernel @mma() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32, 32], bf16>
    %b = gpu.shared_tile : !gpu.shared<[32, 32], bf16>
    %acc = gpu.fragment : !gpu.fragment<[32, 32], f32>
    // CHECK: %a_1 = memref.alloca() : memref<4xi32, #gpu<space register>>
    // CHECK-NEXT: %b_1 = memref.alloca() : memref<8xi32, #gpu<space register>>
    // CHECK: scf.for %kk
    // CHECK: scf.for %i
    // CHECK: gpu.ldmatrix %{{.*}} to %a_1
    // CHECK: scf.for %j
    // CHECK: gpu.ldmatrix transpose %{{.*}} to %b_1
    // CHECK: gpu.mma_sync %a_1[%{{.*}}], %b_1[%{{.*}}], %acc[%{{.*}}] element bf16
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <16, 32> : !gpu.shared<[32, 32], bf16>, !gpu.shared<[32, 32], bf16>, !gpu.fragment<[32, 32], f32>
    gpu.return
  }
}
