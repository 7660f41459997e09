// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// wgmma takes f32 from shared memory along k alone.

// CHECK: wgmma takes operands of f32, as TF32, that are stored along k, and transposes none
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%d: i64 = symbol M) threads 128 {
    %acc = memref.alloca() : memref<4xf32, #gpu<space register>>
    gpu.wgmma n 8 %d plus 0, %d plus 0 transpose_b, %acc element f32 : memref<4xf32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: wgmma takes operands of f32, as TF32, from shared tiles that are stored along k, or the left one from a fragment; copy them so
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[64, 32], f32>
    %b = gpu.shared_tile : !gpu.shared<[32, 16], f32>
    %c = gpu.fragment : !gpu.fragment<[64, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "wgmma" warp_tile <64, 16> : !gpu.shared<[64, 32], f32>, !gpu.shared<[32, 16], f32>, !gpu.fragment<[64, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: a tile of 64x16x12 does not split into wgmma work of 64x16x8
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[64, 12], f32>
    %b = gpu.shared_tile : !gpu.shared<[16, 12], f32>
    %c = gpu.fragment : !gpu.fragment<[64, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (n, k)> into %c mma "wgmma" warp_tile <64, 16> : !gpu.shared<[64, 12], f32>, !gpu.shared<[16, 12], f32>, !gpu.fragment<[64, 16], f32>
    gpu.return
  }
}
