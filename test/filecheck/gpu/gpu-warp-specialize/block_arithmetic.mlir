// RUN: polyc-opt %s -p gpu-warp-specialize | filecheck %s

// Arithmetic on the block's number is for both roles: also remainders, which upstream does not
// call free of effects.
gpu.module @m arch "sm_90a" symbols [M, K] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%A: !gpu.global<[M, K], f16> = tensor 0, %K: index = symbol K) threads 256 {
    // CHECK: %part = arith.divui
    // CHECK-NEXT: %tile = arith.remui
    // CHECK: gpu.roles
    %block = gpu.block_id
    %part = arith.divui %block, %K : index
    %tile = arith.remui %block, %K : index
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[64, 64], f32>
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128, ring 2>
    gpu.pipeline %k0, %i = to %K step 64 stages 2 {
      gpu.copy %A[%tile, %k0] to %a slot %i loader "tma" stage 0 : !gpu.global<[M, K], f16>, !gpu.shared<[64, 64], f16, swizzle 128, ring 2>
      gpu.contract %a slot %i affine_map<(m, n, k) -> (m, k)>, %a slot %i affine_map<(m, n, k) -> (k, n)> into %acc mma "wgmma" warp_tile <64, 64> stage 1 : !gpu.shared<[64, 64], f16, swizzle 128, ring 2>, !gpu.shared<[64, 64], f16, swizzle 128, ring 2>, !gpu.fragment<[64, 64], f32>
    }
    gpu.return
  }
}
