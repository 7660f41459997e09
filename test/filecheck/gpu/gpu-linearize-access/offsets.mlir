// RUN: polyc-opt %s -p gpu-linearize-access | filecheck %s
// RUN: polyc-opt %s -p gpu-linearize-access,gpu-linearize-access | filecheck %s

// Coordinates become one offset; they are widened before they are multiplied.

gpu.module @m arch "sm_80" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%A: !gpu.global<[M, N], f32> = tensor 0, %N: index = symbol N, %i: index = symbol M, %j: index = symbol M, %p: i1 = symbol M) threads 32 {
    // CHECK-NEXT: [[I:%.*]] = arith.index_cast %i : index to i64
    // CHECK-NEXT: [[SIZE:%.*]] = arith.index_cast %N : index to i64
    // CHECK-NEXT: [[ROW:%.*]] = arith.muli [[I]], [[SIZE]] : i64
    // CHECK-NEXT: [[J:%.*]] = arith.index_cast %j : index to i64
    // CHECK-NEXT: [[AT:%.*]] = arith.addi [[ROW]], [[J]] : i64
    // CHECK-NEXT: [[X:%.*]] = gpu.load_global %A[[[AT]] : i64] if %p : !gpu.global<[M, N], f32> -> f32
    %x = gpu.load_global %A[%i, %j : index, index] if %p : !gpu.global<[M, N], f32> -> f32
    // CHECK: gpu.store_global [[X]], %A[{{%.*}} : i64] if %p : f32, !gpu.global<[M, N], f32>
    gpu.store_global %x, %A[%i, %j : index, index] if %p : f32, !gpu.global<[M, N], f32>
    gpu.return
  }

  // What an unrolled loop adds to a row has a product of its own; the other one is the same in all
  // of the loop.
  // CHECK-LABEL: gpu.kernel @unrolled
  gpu.kernel @unrolled(%A: !gpu.global<[M, N], f16, align 16> = tensor 0, %N: index = symbol N, %i: index = symbol M, %j: index = symbol M, %a: i32 = symbol M) threads 32 {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %four = arith.constant 4 : index
    // CHECK: scf.for %r
    // CHECK:      [[BASE:%.*]] = affine.apply affine_map<(d0) -> ((d0 + 1))> (%i)
    // CHECK-NEXT: [[STEP:%.*]] = affine.apply affine_map<(d0) -> ((d0 * 32))> (%r)
    // CHECK-NEXT: [[BASE64:%.*]] = arith.index_cast [[BASE]] : index to i64
    // CHECK-NEXT: [[STEP64:%.*]] = arith.index_cast [[STEP]] : index to i64
    // CHECK-NEXT: [[SIZE:%.*]] = arith.index_cast %N : index to i64
    // CHECK-NEXT: [[ROW:%.*]] = arith.muli [[BASE64]], [[SIZE]] : i64
    // CHECK-NEXT: [[J:%.*]] = arith.index_cast %j : index to i64
    // CHECK-NEXT: [[FIXED:%.*]] = arith.addi [[ROW]], [[J]] : i64
    // CHECK-NEXT: [[MOVING:%.*]] = arith.muli [[STEP64]], [[SIZE]] : i64
    // CHECK-NEXT: [[AT:%.*]] = arith.addi [[FIXED]], [[MOVING]] : i64
    // CHECK-NEXT: gpu.cp_async %a, %A[[[AT]] : i64] bytes 16
    scf.for %r = %zero to %four step %one {
      %row = affine.apply affine_map<(i, r) -> (i + r * 32 + 1)> (%i, %r)
      gpu.cp_async %a, %A[%row, %j : index, index] bytes 16 : !gpu.global<[M, N], f16, align 16>
    } {unroll}
    gpu.return
  }
}
