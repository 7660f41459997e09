// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Variants of several launches, the memory between them, and grids of persistent kernels.
gpu.module @m arch "sm_90a" symbols [M, K] assuming (K >= 1) {
  // CHECK: gpu.kernel @pad(%A: !gpu.global<[M, K], f16> = tensor 0, %P: !gpu.global<[M, 8 * ((K + 7) floordiv 8)], f16> = workspace "padded") threads 128 {
  gpu.kernel @pad(%A: !gpu.global<[M, K], f16> = tensor 0, %P: !gpu.global<[M, (K + 7) floordiv 8 * 8], f16> = workspace "padded") threads 128 {
    gpu.return
  }
  // CHECK: gpu.kernel @use(%P: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map "padded", %C: !gpu.global<[M], f32> = tensor 1, %n: !gpu.global<[1], i32> = workspace "count") threads 128 cluster 16 {
  gpu.kernel @use(%P: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map "padded", %C: !gpu.global<[M], f32> = tensor 1, %n: !gpu.global<[1], i32> = workspace "count") threads 128 cluster 16 {
    gpu.return
  }
  gpu.kernel @direct(%P: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 0) threads 128 blocks_per_sm 2 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M, K], f16>) -> (C: !gpu.global<[M], f32>) {
    // CHECK: gpu.launch @direct when (K mod 8 == 0) align [16, 4] grid [(M + 63) floordiv 64] persistent
    gpu.launch @direct when (K mod 8 == 0) align [16, 4] grid [(M + 63) floordiv 64] persistent
    // CHECK-NEXT: gpu.sequence @two when (M >= 2) align [2, 4] {
    gpu.sequence @two when (M >= 2) align [2, 4] {
      // CHECK-NEXT: gpu.workspace "padded" : !gpu.global<[M, 8 * ((K + 7) floordiv 8)], f16>
      gpu.workspace "padded" : !gpu.global<[M, (K + 7) floordiv 8 * 8], f16>
      // CHECK-NEXT: gpu.workspace "count" zeroed : !gpu.global<[1], i32>
      gpu.workspace "count" zeroed : !gpu.global<[1], i32>
      // CHECK-NEXT: gpu.launch @pad grid [M]
      gpu.launch @pad grid [M]
      // CHECK-NEXT: gpu.launch @use grid [16] persistent overlapped
      gpu.launch @use grid [16] persistent overlapped
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: gpu.sequence @copied align [2, 4] {
    gpu.sequence @copied align [2, 4] {
      // CHECK-NEXT: gpu.workspace "padded" : !gpu.global<[M, 8 * ((K + 7) floordiv 8)], f16> copies tensor 0
      gpu.workspace "padded" : !gpu.global<[M, (K + 7) floordiv 8 * 8], f16> copies tensor 0
      // CHECK-NEXT: gpu.workspace "again" : !gpu.global<[M, 8 * ((K + 7) floordiv 8)], f16>
      gpu.workspace "again" : !gpu.global<[M, (K + 7) floordiv 8 * 8], f16>
      // CHECK-NEXT: gpu.launch @pad grid [M] overlapped fills "padded"
      gpu.launch @pad grid [M] overlapped fills "padded"
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: gpu.sequence @one align [2, 4] {
    gpu.sequence @one align [2, 4] {
      gpu.workspace "padded" : !gpu.global<[M, (K + 7) floordiv 8 * 8], f16>
      gpu.launch @pad grid [M, 1]
    }
    // One kernel on other memory.
    // CHECK: gpu.launch @pad grid [M] rebinds [workspace "padded" : workspace "other"]
    gpu.sequence @elsewhere align [2, 4] {
      gpu.workspace "padded" : !gpu.global<[M, (K + 7) floordiv 8 * 8], f16>
      gpu.workspace "other" : !gpu.global<[M, (K + 7) floordiv 8 * 8], f16>
      gpu.launch @pad grid [M]
      gpu.launch @pad grid [M] rebinds [workspace "padded" : workspace "other"]
    }
  }
}
