// RUN: polyc-opt %s -p gpu-inline-lets | filecheck %s
// RUN: polyc-opt %s -p gpu-inline-lets,gpu-inline-lets | filecheck %s

// A place in two named steps is one expression; a step that something else uses stays.

gpu.module @m arch "sm_90a" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%X: !gpu.global<[M, N], f32> = tensor 0, %M: index = symbol M) threads 128 {
    // CHECK-NEXT: %block = gpu.block_id
    %block = gpu.block_id
    // CHECK-NEXT: %thread = gpu.thread_id
    %thread = gpu.thread_id
    // CHECK-NEXT: %row = affine.apply affine_map<(d0) -> ((d0 * 64))> (%block)
    %row = affine.apply affine_map<(d0) -> (d0 * 64)> (%block)
    %warp = affine.apply affine_map<(d0) -> (d0 floordiv 32)> (%thread)
    %part = affine.apply affine_map<(d0, d1) -> (d0 + d1 * 16)> (%row, %warp)
    // CHECK-NEXT: %place = affine.apply affine_map<(d0, d1) -> ((((d0 * 64) + ((d1 floordiv 32) * 16)) + (d1 mod 16)))> (%block, %thread)
    %place = affine.apply affine_map<(d0, d1) -> (d0 + d1 mod 16)> (%part, %thread)
    // CHECK-NEXT: gpu.load_global %X[%row, %place : index, index]
    %x = gpu.load_global %X[%row, %place : index, index] : !gpu.global<[M, N], f32> -> f32
    gpu.store_global %x, %X[%place, %row : index, index] : f32, !gpu.global<[M, N], f32>
    gpu.return
  }
}
