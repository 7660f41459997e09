// RUN: polyc-opt %s -p gpu-insert-barriers | filecheck %s

// Threads write a tile, and others read it: they meet in between, and in a loop before it is written
// again.
!x = !gpu.global<[M, N], f16, align 16>
!s = !gpu.shared<[64, 64], f16, swizzle 0>
!f = !gpu.fragment<[64, 64], f16, #gpu.fragment_layout<threads 128, registers 32,
    affine_map<(t, r) -> (t floordiv 8 + r floordiv 8 * 16, t mod 8 * 8 + r mod 8)>>>
gpu.module @m arch "sm_80" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @registers
  gpu.kernel @registers(%X: !x = tensor 0, %Y: !x = tensor 1, %M: index = symbol M, %N: index = symbol N) threads 128 {
    %zero = arith.constant 0 : index
    %step = arith.constant 64 : index
    %s = gpu.shared_tile : !s
    %f = gpu.fragment : !f
    // CHECK: scf.for
    scf.for %j = %zero to %N step %step {
      // CHECK-NEXT: gpu.barrier
      // CHECK-NEXT: gpu.copy %X[%zero, %j] to %s
      gpu.copy %X[%zero, %j] to %s loader "register" : !x, !s
      // CHECK-NEXT: gpu.barrier
      // CHECK-NEXT: gpu.map %f
      gpu.map %f : !f origin [%j] ins(%s : !s affine_map<(i, j)[n] -> (j, i)>) outs(%Y : !x affine_map<(i, j)[n] -> (i, j + n)>) {
      ^bb0(%e: f16, %v: f16):
        gpu.yield %v : f16
      }
    }
    gpu.return
  }

  // cp.async is waited for as well.  What a loop only reads is ordered in front of it.
  // CHECK-LABEL: gpu.kernel @asynchronous
  gpu.kernel @asynchronous(%X: !x = tensor 0, %Y: !x = tensor 1, %M: index = symbol M, %N: index = symbol N) threads 128 {
    %zero = arith.constant 0 : index
    %step = arith.constant 64 : index
    %s = gpu.shared_tile : !s
    %f = gpu.fragment : !f
    // CHECK: gpu.copy %X[%zero, %zero] to %s
    gpu.copy %X[%zero, %zero] to %s loader "cp_async" : !x, !s
    // CHECK-NEXT: gpu.cp_async_commit
    // CHECK-NEXT: gpu.cp_async_wait 0
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: scf.for
    // CHECK-NOT: gpu.barrier
    scf.for %j = %zero to %N step %step {
      gpu.map %f : !f origin [%j] ins(%s : !s affine_map<(i, j)[n] -> (j, i)>) outs(%Y : !x affine_map<(i, j)[n] -> (i, j + n)>) {
      ^bb0(%e: f16, %v: f16):
        gpu.yield %v : f16
      }
    }
    gpu.return
  }

  // Some threads read: all meet in front of their branch.
  // CHECK-LABEL: gpu.kernel @some
  gpu.kernel @some(%X: !x = tensor 0, %Y: !x = tensor 1, %M: index = symbol M) threads 128 {
    %zero = arith.constant 0 : index
    %half = arith.constant 64 : index
    %s = gpu.shared_tile : !s
    %thread = gpu.thread_id
    gpu.copy %X[%zero, %zero] to %s loader "register" : !x, !s
    %low = arith.cmpi slt, %thread, %half : index
    // CHECK: gpu.barrier
    // CHECK-NEXT: scf.if %low
    // CHECK-NOT: gpu.barrier
    scf.if %low {
      %address = gpu.element_address %s[%zero][%thread, %thread] : !s
      %v = gpu.load_shared %address : f16
      gpu.store_global %v, %Y[%thread, %zero : index, index] : f16, !x
    }
    gpu.return
  }
}

// What threads wrote is made visible to wgmma.
!a = !gpu.shared<[64, 64], f16, swizzle 128>
!acc = !gpu.fragment<[64, 64], f32, #gpu.fragment_layout<threads 128, registers 32,
    affine_map<(t, r) -> (t floordiv 32 * 16 + t mod 32 floordiv 4 + r floordiv 2 mod 2 * 8, r floordiv 4 * 8 + t mod 4 * 2 + r mod 2)>>>
gpu.module @n arch "sm_90a" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @fenced
  gpu.kernel @fenced(%X: !x = tensor 0, %M: index = symbol M) threads 128 {
    %zero = arith.constant 0 : index
    %a = gpu.shared_tile : !a
    %acc = gpu.fragment : !acc
    gpu.copy %X[%zero, %zero] to %a loader "register" : !x, !a
    // CHECK: gpu.fence_proxy_async
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: gpu.contract
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %a affine_map<(m, n, k) -> (k, n)> into %acc clear mma "wgmma" warp_tile <64, 64> : !a, !a, !acc
    // CHECK-NEXT: gpu.await pending 0
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: gpu.copy
    gpu.copy %X[%M, %zero] to %a loader "register" : !x, !a
    gpu.return
  }
}
