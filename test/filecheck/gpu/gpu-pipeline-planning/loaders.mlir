// RUN: polyc-opt %s -p gpu-pipeline-planning | filecheck %s

// A copy without a loader gets the widest that its rows and the architecture allow; an
// author's is kept.  Copies run stages - 1 iterations before the contract.

gpu.module @new arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %B: !gpu.global<[M, K], f16, align 4> = tensor 0, %C: !gpu.global<[M, K], f16> = tensor 0, %M: index = symbol M) threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // CHECK: gpu.copy %A[%M, %M] to %t loader "tma" :
    gpu.copy %A[%M, %M] to %t : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[64, 64], f16>
    // CHECK-NEXT: gpu.copy %B[%M, %M] to %t loader "cp_async" :
    gpu.copy %B[%M, %M] to %t : !gpu.global<[M, K], f16, align 4>, !gpu.shared<[64, 64], f16>
    // CHECK-NEXT: gpu.copy %C[%M, %M] to %t loader "register" :
    gpu.copy %C[%M, %M] to %t : !gpu.global<[M, K], f16>, !gpu.shared<[64, 64], f16>
    // CHECK-NEXT: gpu.copy %A[%M, %M] to %t loader "register" :
    gpu.copy %A[%M, %M] to %t loader "register" : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

gpu.module @old arch "sm_80" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 32 {
    %t = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %acc = gpu.fragment : !gpu.fragment<[16, 16], f32>
    // CHECK: gpu.pipeline
    gpu.pipeline %k, %i = to %M step 16 stages 4 {
      // CHECK-NEXT: gpu.copy %A[%M, %k] to %t loader "cp_async" stage 0 :
      gpu.copy %A[%M, %k] to %t : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 16], f16>
      // CHECK-NEXT: gpu.contract
      // CHECK-SAME: stage 3
      gpu.contract %t affine_map<(m, n, k) -> (m, k)>, %t affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16, 16], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[16, 16], f32>
      // An author's stage is kept.
      // CHECK-NEXT: gpu.contract
      // CHECK-SAME: stage 1
      gpu.contract %t affine_map<(m, n, k) -> (m, k)>, %t affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <16, 16> stage 1 : !gpu.shared<[16, 16], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[16, 16], f32>
    }
    gpu.return
  }
}
