// RUN: polyc-opt %s -p gpu-legalize-access | filecheck %s

// An access at coordinates is guarded by its tensor's sizes; a copy's zeros stand for the rest.

gpu.module @m arch "sm_80" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%A: !gpu.global<[M, N + 1], f32, align 16> = tensor 0, %M: index = symbol M, %N: index = symbol N, %i: index = symbol M, %j: index = symbol M) threads 32 {
    // CHECK-NEXT: %a = arith.constant 0 : i32
    %a = arith.constant 0 : i32
    // CHECK-NEXT: [[ROW:%.*]] = arith.cmpi slt, %i, %M : index
    // CHECK-NEXT: [[SIZE:%.*]] = affine.apply affine_map<()[s0] -> ((s0 + 1))> ()[%N]
    // CHECK-NEXT: [[COLUMN:%.*]] = arith.cmpi slt, %j, [[SIZE]] : index
    // CHECK-NEXT: [[INSIDE:%.*]] = arith.andi [[ROW]], [[COLUMN]] : i1
    // CHECK-NEXT: [[X:%.*]] = gpu.load_global %A[%i, %j : index, index] if [[INSIDE]] : !gpu.global<[M, N + 1], f32, align 16> -> vector<4xf32>
    %x = gpu.load_global %A[%i, %j : index, index] : !gpu.global<[M, N + 1], f32, align 16> -> vector<4xf32>
    // CHECK: gpu.cp_async %a, %A[%i, %j : index, index] bytes 16 if [[GUARD:%.*]] :
    gpu.cp_async %a, %A[%i, %j : index, index] bytes 16 : !gpu.global<[M, N + 1], f32, align 16>
    // CHECK: gpu.store_global [[X]], %A[%i, %j : index, index] if [[OTHER:%.*]] :
    gpu.store_global %x, %A[%i, %j : index, index] : vector<4xf32>, !gpu.global<[M, N + 1], f32, align 16>
    gpu.return
  }
}

// What may be negative is compared as an unsigned number, which bounds it below too: a column of a window that begins before the tensor.

gpu.module @below arch "sm_80" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @window
  gpu.kernel @window(%A: !gpu.global<[M, N], f32> = tensor 0, %M: index = symbol M, %N: index = symbol N) threads 32 {
    // CHECK: %j = affine.apply
    // CHECK-NEXT: [[ROW:%.*]] = arith.cmpi slt, %t, %M : index
    // CHECK-NEXT: [[COLUMN:%.*]] = arith.cmpi ult, %j, %N : index
    // CHECK-NEXT: [[INSIDE:%.*]] = arith.andi [[ROW]], [[COLUMN]] : i1
    // CHECK-NEXT: gpu.load_global %A[%t, %j : index, index] if [[INSIDE]] :
    %t = gpu.thread_id
    %j = affine.apply affine_map<(d0) -> (d0 - 2)> (%t)
    %x = gpu.load_global %A[%t, %j : index, index] : !gpu.global<[M, N], f32> -> f32
    gpu.return
  }
}
