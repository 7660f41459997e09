// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: posts are words of i64, and !gpu.global<[M, 2], i32> has none; post in one that has
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M, 2], i32> = tensor 0, %M: index = symbol M) threads 64 {
    %f = gpu.fragment : !gpu.fragment<[1, 2], f32>
    gpu.post %f to %w[%M, %M] : !gpu.fragment<[1, 2], f32>, !gpu.global<[M, 2], i32>
    gpu.return
  }
}

// -----

// CHECK: what is posted is an f32 or an i32, not of f16
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M, 2], i64> = tensor 0, %M: index = symbol M) threads 64 {
    %f = gpu.fragment : !gpu.fragment<[1, 2], f16>
    gpu.post %f to %w[%M, %M] : !gpu.fragment<[1, 2], f16>, !gpu.global<[M, 2], i64>
    gpu.return
  }
}

// -----

// CHECK: posts of !gpu.fragment<[2], f32> lie in words of as many axes, and !gpu.global<[M, 2], i64> has 2
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M, 2], i64> = tensor 0, %M: index = symbol M) threads 64 {
    %f = gpu.fragment : !gpu.fragment<[2], f32>
    gpu.post %f to %w[%M, %M] : !gpu.fragment<[2], f32>, !gpu.global<[M, 2], i64>
    gpu.return
  }
}

// -----

// CHECK: a tensor of rank 2 is accessed at 2 coordinates of type index, or at one i64 offset, not at (index)
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M, 2], i64> = tensor 0, %M: index = symbol M) threads 64 {
    %f = gpu.fragment : !gpu.fragment<[1, 2], f32>
    gpu.await_posts sum %w[%M] axis 1 until %M to %f : !gpu.global<[M, 2], i64>, !gpu.fragment<[1, 2], f32>
    gpu.return
  }
}

// -----

// CHECK: posts are awaited for a sum, prod, max, min, not for "mean"
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M, 2], i64> = tensor 0, %M: index = symbol M) threads 64 {
    %f = gpu.fragment : !gpu.fragment<[1, 2], f32>
    gpu.await_posts mean %w[%M, %M] axis 1 until %M to %f : !gpu.global<[M, 2], i64>, !gpu.fragment<[1, 2], f32>
    gpu.return
  }
}

// -----

// CHECK: axis 2 of posts is none of !gpu.fragment<[1, 2], f32>, which has 2
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M, 2], i64> = tensor 0, %M: index = symbol M) threads 64 {
    %f = gpu.fragment : !gpu.fragment<[1, 2], f32>
    gpu.await_posts sum %w[%M, %M] axis 2 until %M to %f : !gpu.global<[M, 2], i64>, !gpu.fragment<[1, 2], f32>
    gpu.return
  }
}

// -----

// CHECK: 2 predicates do not fit 3 indices: each word that is awaited has one
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M], i64> = tensor 0, %M: index = symbol M) threads 64 {
    %yes = arith.constant true
    %r = memref.alloca() : memref<4xi32, #gpu<space register>>
    gpu.await_posts_global %w[%M, %M, %M : index, index, index] if %yes, %yes to %r[%M] : !gpu.global<[M], i64>, memref<4xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: what is posted is an f32 or an i32, not of i64
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M], i64> = tensor 0, %M: index = symbol M) threads 64 {
    %number = arith.constant 1 : i64
    gpu.post_global %number, %w[%M : index] : i64, !gpu.global<[M], i64>
    gpu.return
  }
}
