// RUN: polyc-opt %s -p gpu-linearize-access | filecheck %s
// RUN: polyc-opt %s -p gpu-linearize-access,gpu-linearize-access | filecheck %s

// Coordinates become one offset; they are widened before they are multiplied.

gpu.module @m arch "sm_80" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%A: !gpu.global<[M, N], f32> = tensor 0, %N: index = symbol N, %i: index = symbol M, %j: index = symbol M, %p: i1 = symbol M) threads 32 {
    // CHECK-NEXT: [[I:%.*]] = arith.index_cast %i : index to i64
    // CHECK-NEXT: [[J:%.*]] = arith.index_cast %j : index to i64
    // CHECK-NEXT: [[SIZE:%.*]] = arith.index_cast %N : index to i64
    // CHECK-NEXT: [[ROW:%.*]] = arith.muli [[I]], [[SIZE]] : i64
    // CHECK-NEXT: [[AT:%.*]] = arith.addi [[ROW]], [[J]] : i64
    // CHECK-NEXT: [[X:%.*]] = gpu.load_global %A[[[AT]] : i64] if %p : !gpu.global<[M, N], f32> -> f32
    %x = gpu.load_global %A[%i, %j : index, index] if %p : !gpu.global<[M, N], f32> -> f32
    // CHECK: gpu.store_global [[X]], %A[{{%.*}} : i64] if %p : f32, !gpu.global<[M, N], f32>
    gpu.store_global %x, %A[%i, %j : index, index] if %p : f32, !gpu.global<[M, N], f32>
    gpu.return
  }
}
