// RUN: polyc-opt %s -p gpu-insert-barriers | filecheck %s

// Threads that ask each other have met: what one wrote before, another reads after.
!x = !gpu.global<[M, N], f16, align 16>
!s = !gpu.shared<[64, 64], f16, swizzle 0>
!f = !gpu.fragment<[64, 64], f16, #gpu.fragment_layout<threads 128, registers 32,
    affine_map<(t, r) -> (t floordiv 8 + r floordiv 8 * 16, t mod 8 * 8 + r mod 8)>>>
!flag = !gpu.fragment<[128], i1, #gpu.fragment_layout<threads 128, registers 1, affine_map<(t, r) -> (t)>>>
gpu.module @m arch "sm_80" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @asked(
  gpu.kernel @asked(%X: !x = tensor 0, %Y: !x = tensor 1, %M: index = symbol M, %N: index = symbol N) threads 128 {
    %zero = arith.constant 0 : index
    %s = gpu.shared_tile : !s
    %f = gpu.fragment : !f
    %flag = gpu.fragment : !flag
    // CHECK: gpu.copy %X[%zero, %zero] to %s
    gpu.copy %X[%zero, %zero] to %s loader "register" : !x, !s
    // CHECK-NEXT: %any = gpu.any %flag
    %any = gpu.any %flag : !flag
    // CHECK-NEXT: gpu.map
    gpu.map %f : !f origin [] ins(%s : !s affine_map<(i, j) -> (j, i)>) outs(%Y : !x affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f16, %v: f16):
      gpu.yield %v : f16
    }
    // What is written later is not ordered by it; the answer is one that threads branch by together.
    // CHECK: gpu.barrier
    // CHECK-NEXT: gpu.copy %X[%zero, %N] to %s
    gpu.copy %X[%zero, %N] to %s loader "register" : !x, !s
    // CHECK-NEXT: scf.if %any {
    scf.if %any {
      // CHECK-NEXT: gpu.barrier
      // CHECK-NEXT: gpu.map
      gpu.map %f : !f origin [] ins(%s : !s affine_map<(i, j) -> (j, i)>) outs(%Y : !x affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16, %v: f16):
        gpu.yield %v : f16
      }
    }
    gpu.return
  }

  // CHECK-LABEL: gpu.kernel @asked_lowered(
  gpu.kernel @asked_lowered(%X: !x = tensor 0, %Y: !x = tensor 1, %M: index = symbol M, %in: i1 = symbol N) threads 128 {
    %zero = arith.constant 0 : index
    %s = gpu.shared_tile : !s
    %f = gpu.fragment : !f
    gpu.copy %X[%zero, %zero] to %s loader "register" : !x, !s
    // CHECK: %any = gpu.barrier_any %in at 0 threads 128
    // CHECK-NEXT: gpu.map
    %any = gpu.barrier_any %in at 0 threads 128
    gpu.map %f : !f origin [] ins(%s : !s affine_map<(i, j) -> (j, i)>) outs(%Y : !x affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f16, %v: f16):
      gpu.yield %v : f16
    }
    gpu.return
  }

  // Halves of the CTA that ask by themselves do not meet the other half.
  // CHECK-LABEL: gpu.kernel @some_asked(
  gpu.kernel @some_asked(%X: !x = tensor 0, %Y: !x = tensor 1, %M: index = symbol M, %in: i1 = symbol N) threads 128 {
    %zero = arith.constant 0 : index
    %s = gpu.shared_tile : !s
    %f = gpu.fragment : !f
    %thread = gpu.thread_id
    %half = affine.apply affine_map<(d0) -> (d0 floordiv 64)> (%thread)
    gpu.copy %X[%zero, %zero] to %s loader "register" : !x, !s
    // CHECK: %any = gpu.barrier_any %in at 1 plus %half threads 64
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: gpu.map
    %any = gpu.barrier_any %in at 1 plus %half threads 64
    gpu.map %f : !f origin [] ins(%s : !s affine_map<(i, j) -> (j, i)>) outs(%Y : !x affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f16, %v: f16):
      gpu.yield %v : f16
    }
    gpu.return
  }
}
