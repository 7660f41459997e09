// RUN: polyc-opt %s -p gpu-inline-lets --verify-diagnostics | filecheck %s

// A map of a user's that divides by nothing is refused where it stands.
// CHECK: invalid.mlir:9:5: error[NonSCoP]: the divisor of ((d0 + 1) mod 0) is not a positive integer constant
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k(%A: !gpu.global<[K], f32> = tensor 0, %K: index = symbol K) threads 128 {
    %thread = gpu.thread_id
    %end = affine.apply affine_map<(d0) -> (d0 + 1)> (%thread)
    %i = affine.apply affine_map<(d0) -> (d0 mod 0)> (%end)
    %v = gpu.load_global %A[%i : index] : !gpu.global<[K], f32> -> f32
    gpu.store_global %v, %A[%thread : index] : f32, !gpu.global<[K], f32>
    gpu.return
  }
}
