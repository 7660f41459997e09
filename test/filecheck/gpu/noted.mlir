// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// What one pass tells another on an op.

// CHECK: gpu.module @m arch "sm_90a" symbols [M] assuming (M >= 1) target <shared_bytes 232448, registers 65536, threads 1024> attributes {note} {
gpu.module @m arch "sm_90a" symbols [M] assuming (M >= 1) target <shared_bytes 232448, registers 65536, threads 1024> attributes {note} {
  gpu.kernel @k(%A: !gpu.global<[M, M], f16> = tensor 0, %M: index = symbol M) threads 256 {
    %0 = arith.constant 0 : index
    %1 = arith.constant 1 : index
    // CHECK: gpu.named_barrier 9 plus %{{.*}} threads 256 paces {note}
    gpu.named_barrier 9 plus %0 threads 256 paces {note}
    // CHECK-NEXT: gpu.named_barrier 9 threads 256
    // CHECK-NOT: paces
    gpu.named_barrier 9 threads 256
    // CHECK: %p = gpu.fragment packed {note} : !gpu.fragment<[64, 64], bf16>
    %p = gpu.fragment packed {note} : !gpu.fragment<[64, 64], bf16>
    %t = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %acc = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.pipeline %k, %i = to %M step 64 stages 3 {
      // CHECK: gpu.copy %A[%k, %k] to %t loader "register" stage 0 {note} : !gpu.global<[M, M], f16>, !gpu.shared<[64, 64], f16>
      gpu.copy %A[%k, %k] to %t loader "register" stage 0 {note} : !gpu.global<[M, M], f16>, !gpu.shared<[64, 64], f16>
      // CHECK-NEXT: mma "mma.sync" warp_tile <32, 32> fragment_buffers 2 stage 2 {note} :
      gpu.contract %t affine_map<(m, n, k) -> (m, k)>, %t affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <32, 32> fragment_buffers 2 stage 2 {note} : !gpu.shared<[64, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f32>
    }
    scf.for %i = %0 to %M step %1 {
      // CHECK: } {unroll}
    } {unroll}
    gpu.return
  }
}
