// RUN: polyc-opt %s -p gpu-assumptions --split-input-file | filecheck %s

// An argument's alignment is what all launches of its kernel promise: the least of the
// base's and of the row length's, which isl takes from the conditions.

gpu.module @m arch "sm_90a" symbols [M, K, N] assuming (K mod 8 == 0) {
  // CHECK: gpu.kernel @wide(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %B: !gpu.global<[M, N + 4], f16, align 8> = tensor 1, %v: !gpu.global<[K], f16, align 16> = tensor 2, %M: index = symbol M)
  gpu.kernel @wide(%A: !gpu.global<[M, K], f16> = tensor 0, %B: !gpu.global<[M, N + 4], f16> = tensor 1, %v: !gpu.global<[K], f16> = tensor 2, %M: index = symbol M) threads 128 {
    gpu.return
  }
  // Two launches: the weaker one counts.
  // CHECK: gpu.kernel @both(%A: !gpu.global<[M, K], f16, align 4> = tensor 0, %B: !gpu.global<[M, N + 4], f16> = tensor 1)
  gpu.kernel @both(%A: !gpu.global<[M, K], f16> = tensor 0, %B: !gpu.global<[M, N + 4], f16> = tensor 1) threads 128 {
    gpu.return
  }
  // What the author promised is kept where the launches promise less; nothing launches this one.
  // CHECK: gpu.kernel @kept(%A: !gpu.global<[M, K], f16, align 32> = tensor 0, %B: !gpu.global<[M, N + 4], f16> = tensor 1)
  gpu.kernel @kept(%A: !gpu.global<[M, K], f16, align 32> = tensor 0, %B: !gpu.global<[M, N + 4], f16> = tensor 1) threads 128 {
    gpu.return
  }
  // A vector ends like a row: N is not known to be even.
  // CHECK: gpu.kernel @vector(%u: !gpu.global<[N], f16> = tensor 3)
  gpu.kernel @vector(%u: !gpu.global<[N], f16> = tensor 3) threads 128 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M, K], f16>, B: !gpu.global<[M, N + 4], f16>) -> (v: !gpu.global<[K], f16>, u: !gpu.global<[N], f16>) {
    gpu.launch @wide when (N mod 4 == 0) align [16, 16, 16, 16] grid [1]
    gpu.launch @both when (N mod 4 == 0) align [16, 16, 16, 16] grid [1]
    gpu.launch @both align [4, 2, 2, 2] grid [1]
    gpu.launch @vector align [16, 16, 16, 16] grid [1]
  }
}

// -----

// The launches of a sequence have its conditions; a workspace starts at a multiple of 256 bytes
// and its rows decide.
// CHECK-LABEL: gpu.module @sequence
gpu.module @sequence arch "sm_90a" symbols [M, K] {
  // CHECK: gpu.kernel @pad(%A: !gpu.global<[M, K], f16, align 4> = tensor 0, %P: !gpu.global<[M, 8 * ((K + 7) floordiv 8)], f16, align 16> = workspace "padded", %n: !gpu.global<[M, K], f32, align 8> = workspace "other")
  gpu.kernel @pad(%A: !gpu.global<[M, K], f16> = tensor 0, %P: !gpu.global<[M, (K + 7) floordiv 8 * 8], f16> = workspace "padded", %n: !gpu.global<[M, K], f32> = workspace "other") threads 128 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M, K], f16>) -> (C: !gpu.global<[M], f16>) {
    gpu.sequence @padded when (K mod 2 == 0) align [4, 2] {
      gpu.workspace "padded" : !gpu.global<[M, (K + 7) floordiv 8 * 8], f16>
      gpu.workspace "other" : !gpu.global<[M, K], f32>
      gpu.launch @pad grid [M]
    }
  }
}
