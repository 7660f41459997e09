// RUN: polyc-opt %s -p gpu-linearize-access | filecheck %s
// RUN: polyc-opt %s -p gpu-linearize-access,gpu-linearize-access | filecheck %s

// The coordinates of each word become its offset.

gpu.module @m arch "sm_80" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%w: !gpu.global<[M, N], i64> = workspace "words", %N: index = symbol N, %i: index = symbol M, %j: index = symbol M, %p: i1 = symbol M) threads 32 {
    %zero = arith.constant 0 : index
    %x = arith.constant 1.0 : f32
    %r = memref.alloca() : memref<2xf32, #gpu<space register>>
    // CHECK: [[ROW:%.*]] = arith.muli {{%.*}}, {{%.*}} : i64
    // CHECK: [[AT:%.*]] = arith.addi [[ROW]], {{%.*}} : i64
    // CHECK-NEXT: gpu.post_global %x, %w[[[AT]] : i64] if %p : f32, !gpu.global<[M, N], i64>
    gpu.post_global %x, %w[%i, %j : index, index] if %p : f32, !gpu.global<[M, N], i64>
    // CHECK: gpu.await_posts_global %w[{{%[^ ]*}}, {{%[^ ]*}} : i64, i64] if %p, %p to %r[%zero]
    gpu.await_posts_global %w[%i, %j, %j, %i : index, index, index, index] if %p, %p to %r[%zero] : !gpu.global<[M, N], i64>, memref<2xf32, #gpu<space register>>
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[M], f32>) {
    gpu.sequence @s align [4] {
      gpu.workspace "words" zeroed : !gpu.global<[M, N], i64>
      gpu.launch @k grid [M] cooperative
    }
  }
}
