// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CTAs that tell each other numbers, each in a word: the ops of both levels.
gpu.module @m arch "sm_80" symbols [M, N] {
  gpu.kernel @k(%w: !gpu.global<[M, N], i64> = workspace "words", %M: index = symbol M) threads 64 {
    %one = arith.constant 1 : index
    %offset = arith.constant 3 : i64
    %yes = arith.constant true
    %number = arith.constant 7 : i32
    %f = gpu.fragment : !gpu.fragment<[1, 64], f32>
    // CHECK: gpu.post %f to %w[%one, %M] : !gpu.fragment<[1, 64], f32>, !gpu.global<[M, N], i64>
    gpu.post %f to %w[%one, %M] : !gpu.fragment<[1, 64], f32>, !gpu.global<[M, N], i64>
    // CHECK-NEXT: gpu.await_posts sum %w[%one, %M] axis 1 until %M to %f : !gpu.global<[M, N], i64>, !gpu.fragment<[1, 64], f32>
    gpu.await_posts sum %w[%one, %M] axis 1 until %M to %f : !gpu.global<[M, N], i64>, !gpu.fragment<[1, 64], f32>
    // CHECK-NEXT: gpu.post_global %number, %w[%one, %M : index, index] if %yes : i32, !gpu.global<[M, N], i64>
    gpu.post_global %number, %w[%one, %M : index, index] if %yes : i32, !gpu.global<[M, N], i64>
    // CHECK-NEXT: gpu.post_global %number, %w[%offset : i64] : i32, !gpu.global<[M, N], i64>
    gpu.post_global %number, %w[%offset : i64] : i32, !gpu.global<[M, N], i64>
    %r = memref.alloca() : memref<2xi32, #gpu<space register>>
    // CHECK: gpu.await_posts_global %w[%offset, %offset : i64, i64] if %yes, %yes to %r[%one] : !gpu.global<[M, N], i64>, memref<2xi32
    gpu.await_posts_global %w[%offset, %offset : i64, i64] if %yes, %yes to %r[%one] : !gpu.global<[M, N], i64>, memref<2xi32, #gpu<space register>>
    // CHECK-NEXT: gpu.await_posts_global %w[%one, %M : index, index] if %yes to %r[%one]
    gpu.await_posts_global %w[%one, %M : index, index] if %yes to %r[%one] : !gpu.global<[M, N], i64>, memref<2xi32, #gpu<space register>>
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[M], f32>) {
    gpu.sequence @s align [4] {
      gpu.workspace "words" zeroed : !gpu.global<[M, N], i64>
      gpu.launch @k grid [M] cooperative
    }
  }
}
