// RUN: polyc-opt %s -p gpu-insert-barriers | filecheck %s

// Nothing is put where an author has ordered the accesses, where each thread meets its own elements,
// and between slots of a ring that differ.
!x = !gpu.global<[M, N], f16, align 16>
!s = !gpu.shared<[64, 64], f16, swizzle 0>
!ring = !gpu.shared<[64, 64], f16, swizzle 0, ring 3>
!f = !gpu.fragment<[64, 64], f16, #gpu.fragment_layout<threads 128, registers 32,
    affine_map<(t, r) -> (t floordiv 8 + r floordiv 8 * 16, t mod 8 * 8 + r mod 8)>>>
!t = !gpu.fragment<[64, 64], f16, #gpu.fragment_layout<threads 128, registers 32,
    affine_map<(t, r) -> (t floordiv 2, t mod 2 * 32 + r)>>>
gpu.module @m arch "sm_80" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @ordered
  gpu.kernel @ordered(%X: !x = tensor 0, %Y: !x = tensor 1, %M: index = symbol M) threads 128 {
    %zero = arith.constant 0 : index
    %s = gpu.shared_tile : !s
    %f = gpu.fragment : !f
    // CHECK: gpu.copy
    gpu.copy %X[%zero, %zero] to %s loader "cp_async" : !x, !s
    // CHECK-NEXT: gpu.cp_async_commit
    // CHECK-NEXT: gpu.cp_async_wait 0
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: gpu.map
    gpu.cp_async_commit
    gpu.cp_async_wait 0
    gpu.barrier
    gpu.map %f : !f origin [] ins(%s : !s affine_map<(i, j) -> (j, i)>) outs(%Y : !x affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f16, %v: f16):
      gpu.yield %v : f16
    }
    gpu.return
  }

  // CHECK-LABEL: gpu.kernel @own
  // CHECK-NOT: gpu.barrier
  gpu.kernel @own(%X: !x = tensor 0, %Y: !x = tensor 1, %M: index = symbol M) threads 128 {
    %zero = arith.constant 0 : index
    %s = gpu.shared_tile : !s
    %f = gpu.fragment : !f
    gpu.copy %X[%zero, %zero] to %s loader "register" : !x, !s
    gpu.copy %s to %f : !s, !f
    gpu.copy %f to %Y[%zero, %zero] : !f, !x
    gpu.return
  }

  // A slot is written two iterations before it is read, and one barrier an iteration is enough.
  // CHECK-LABEL: gpu.kernel @slots
  // CHECK: scf.for
  // CHECK-NEXT: gpu.barrier
  // CHECK-NOT: gpu.barrier
  // CHECK: gpu.kernel @two_slots
  gpu.kernel @slots(%X: !x = tensor 0, %Y: !x = tensor 1, %M: index = symbol M, %N: index = symbol N) threads 128 {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %s = gpu.shared_tile : !ring
    %t = gpu.fragment : !t
    gpu.copy %X[%zero, %zero] to %s slot %zero loader "register" : !x, !ring
    gpu.copy %X[%zero, %M] to %s slot %one loader "register" : !x, !ring
    scf.for %i = %zero to %N step %one {
      gpu.barrier
      %to = affine.apply affine_map<(i) -> ((i + 2) mod 3)> (%i)
      gpu.copy %X[%zero, %i] to %s slot %to loader "register" : !x, !ring
      %from = affine.apply affine_map<(i) -> (i mod 3)> (%i)
      gpu.copy %s slot %from to %t : !ring, !t
      gpu.copy %t to %Y[%zero, %i] : !t, !x
    }
    gpu.return
  }

  // As if the ring had two slots, the one that is written was read: another barrier.
  // CHECK: scf.for
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.copy %s slot %from to %t
  // CHECK: gpu.barrier
  // CHECK-NEXT: gpu.copy %X[%zero, %i] to %s slot %to
  gpu.kernel @two_slots(%X: !x = tensor 0, %Y: !x = tensor 1, %M: index = symbol M, %N: index = symbol N) threads 128 {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %s = gpu.shared_tile : !ring
    %t = gpu.fragment : !t
    gpu.copy %X[%zero, %zero] to %s slot %zero loader "register" : !x, !ring
    scf.for %i = %zero to %N step %one {
      gpu.barrier
      %from = affine.apply affine_map<(i) -> (i mod 2)> (%i)
      gpu.copy %s slot %from to %t : !ring, !t
      gpu.copy %t to %Y[%zero, %i] : !t, !x
      %to = affine.apply affine_map<(i) -> ((i + 2) mod 2)> (%i)
      gpu.copy %X[%zero, %i] to %s slot %to loader "register" : !x, !ring
    }
    gpu.return
  }
}
