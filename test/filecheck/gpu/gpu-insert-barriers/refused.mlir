// RUN: not polyc-opt %s -p gpu-insert-barriers 2>&1 | filecheck %s

// Half of the threads fill a tile and read it: there is no place where all could meet.
!x = !gpu.global<[M, N], f16, align 16>
!s = !gpu.shared<[64, 64], f16, swizzle 0>
!f = !gpu.fragment<[64, 64], f16, #gpu.fragment_layout<threads 128, registers 32,
    affine_map<(t, r) -> (t floordiv 8 + r floordiv 8 * 16, t mod 8 * 8 + r mod 8)>>>
gpu.module @m arch "sm_80" symbols [M, N] {
  gpu.kernel @k(%X: !x = tensor 0, %Y: !x = tensor 1, %M: index = symbol M) threads 128 {
    %zero = arith.constant 0 : index
    %half = arith.constant 64 : index
    %s = gpu.shared_tile : !s
    %f = gpu.fragment : !f
    %thread = gpu.thread_id
    %low = arith.cmpi slt, %thread, %half : index
    scf.if %low {
      gpu.copy %X[%zero, %zero] to %s loader "register" : !x, !s
      // CHECK: refused.mlir:21:7: error[DivergentBarrier]: gpu.map reads elements of %s that other threads write
      // CHECK-SAME: in a branch that they do not take together
      // CHECK-NEXT: note: gpu.copy writes it before
      gpu.map %f : !f origin [] ins(%s : !s affine_map<(i, j) -> (j, i)>) outs(%Y : !x affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16, %v: f16):
        gpu.yield %v : f16
      }
    }
    gpu.return
  }
}
