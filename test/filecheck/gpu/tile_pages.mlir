// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

gpu.module @m arch "sm_80" symbols [P, N] {
  gpu.kernel @k(%A: !gpu.global<[P, 16, N, 64], f16, align 16> = tensor 0, %P: index = symbol P, %N: index = symbol N) threads 128 {
    %zero = arith.constant 0 : index
    %two = gpu.shared_tile : !gpu.shared<[32, 64], f16, ring 2>
    %three = gpu.shared_tile : !gpu.shared<[48, 64], f16>
    // CHECK: gpu.copy %A[%P, %zero, %N, %zero] to %two slot %zero axes <1, 3> pages [%N] across 0 loader "cp_async" : !gpu.global<[P, 16, N, 64], f16, align 16>, !gpu.shared<[32, 64], f16, ring 2>
    gpu.copy %A[%P, %zero, %N, %zero] to %two slot %zero axes <1, 3> pages [%N] across 0 loader "cp_async" : !gpu.global<[P, 16, N, 64], f16, align 16>, !gpu.shared<[32, 64], f16, ring 2>
    // CHECK-NEXT: gpu.copy %A[%P, %zero, %N, %zero] to %three axes <1, 3> pages [%N, %P] across 2 : !gpu.global<[P, 16, N, 64], f16, align 16>, !gpu.shared<[48, 64], f16>
    gpu.copy %A[%P, %zero, %N, %zero] to %three axes <1, 3> pages [%N, %P] across 2 : !gpu.global<[P, 16, N, 64], f16, align 16>, !gpu.shared<[48, 64], f16>
    gpu.return
  }
}
