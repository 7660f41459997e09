// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p gpu-lower-tile-ops | filecheck %s --check-prefix=LOWERED

// A kernel's tensor may be a view of what the host binds: consecutive axes are one.
// CHECK-LABEL: gpu.module @m
gpu.module @m arch "sm_90a" symbols [N, H, W, F] {
  // The output's pixels are rows, also where their sizes are divided; taps are one axis.
  // CHECK: gpu.kernel @k(%Y: !gpu.global<[(H floordiv 2) * N * W, F], f16> = tensor 1, %G: !gpu.global<[F, 9, 8], f16> = tensor 0, %s: !gpu.global<[F * N], f32> = workspace "sums") threads 128 {
  gpu.kernel @k(%Y: !gpu.global<[(H floordiv 2) * N * W, F], f16> = tensor 1, %G: !gpu.global<[F, 9, 8], f16> = tensor 0, %s: !gpu.global<[F * N], f32> = workspace "sums") threads 128 {
    gpu.return
  }
  // A tensor map says which sizes it sees.
  // CHECK: gpu.kernel @map(%Y: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 1 view [(H floordiv 2) * N * W, F], %s: !gpu.tensor_map<[32], f32, swizzle 128> = tensor_map "sums" view [F * N]) threads 128 {
  gpu.kernel @map(%Y: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 1 view [(H floordiv 2) * N * W, F], %s: !gpu.tensor_map<[32], f32, swizzle 128> = tensor_map "sums" view [F * N]) threads 128 {
    gpu.return
  }
  // A copy's map is over the view that its kernel has, and says so only where it has one.
  // LOWERED: gpu.kernel @store
  // LOWERED-SAME: %Y_map: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 1 view [(H floordiv 2) * N * W, F]
  // LOWERED-SAME: %Z_map: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 2) threads
  gpu.kernel @store(%Y: !gpu.global<[(H floordiv 2) * N * W, F], f16> = tensor 1, %Z: !gpu.global<[W, F], f16> = tensor 2, %N: index = symbol N) threads 128 {
    %i = arith.constant 0 : index
    %t = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128>
    gpu.copy %t to %Y[%i, %i] loader "tma" : !gpu.shared<[64, 64], f16, swizzle 128>, !gpu.global<[(H floordiv 2) * N * W, F], f16>
    gpu.copy %t to %Z[%i, %i] loader "tma" : !gpu.shared<[64, 64], f16, swizzle 128>, !gpu.global<[W, F], f16>
    gpu.return
  }
  gpu.dispatch (G: !gpu.global<[F, 3, 3, 8], f16>) -> (Y: !gpu.global<[N, H floordiv 2, W, F], f16>, Z: !gpu.global<[W, F], f16>) {
    gpu.sequence @all align [16, 16, 16] {
      gpu.workspace "sums" : !gpu.global<[N, F], f32>
      gpu.launch @k grid [N]
      gpu.launch @map grid [N]
      gpu.launch @store grid [N]
    }
  }
}
