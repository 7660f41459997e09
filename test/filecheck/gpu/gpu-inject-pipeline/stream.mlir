// RUN: polyc-opt %s -p gpu-inject-pipeline | filecheck %s

// Three stages: two copies ahead before the loop, then each iteration waits for its own group,
// meets the others, copies two ahead and computes.

gpu.module @m arch "sm_80" symbols [M, K] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M, %K: index = symbol K) threads 32 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16, ring 3>
    %acc = gpu.fragment : !gpu.fragment<[16, 16], f32>
    // CHECK: %iterations = affine.apply affine_map<(d0) -> (((d0 + 15) floordiv 16))> (%K)
    // CHECK: [[AHEAD:%.*]] = arith.constant 2 : index
    // CHECK: scf.for %i = %{{.*}} to [[AHEAD]] step %{{.*}} {
    // CHECK-NEXT:   [[MORE:%.*]] = arith.cmpi slt, %i, %iterations : index
    // CHECK-NEXT:   scf.if [[MORE]] {
    // CHECK:          gpu.copy %A[%M, %k] to %a slot %slot loader "cp_async"
    // CHECK-NEXT:   }
    // CHECK-NEXT:   gpu.cp_async_commit
    // CHECK-NEXT: } {unroll}
    // CHECK: scf.for %i_1 = %{{.*}} to %iterations step %{{.*}} {
    // CHECK-NEXT:   gpu.cp_async_wait 1
    // CHECK-NEXT:   gpu.barrier
    // CHECK-NEXT:   %ahead = affine.apply affine_map<(d0) -> ((d0 + 2))> (%i_1)
    // CHECK-NEXT:   [[MORE:%.*]] = arith.cmpi slt, %ahead, %iterations : index
    // CHECK-NEXT:   scf.if [[MORE]] {
    // CHECK:          gpu.copy
    // CHECK-NEXT:   }
    // CHECK-NEXT:   gpu.cp_async_commit
    // CHECK:        gpu.contract
    // CHECK-NEXT: }
    // CHECK-NEXT: gpu.return
    gpu.pipeline %k, %i = to %K step 16 stages 3 {
      %slot = affine.apply affine_map<(i) -> (i mod 3)> (%i)
      gpu.copy %A[%M, %k] to %a slot %slot loader "cp_async" : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 16], f16, ring 3>
      gpu.contract %a slot %slot affine_map<(m, n, k) -> (m, k)>, %a slot %slot affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16, 16], f16, ring 3>, !gpu.shared<[16, 16], f16, ring 3>, !gpu.fragment<[16, 16], f32>
    }
    gpu.return
  }

  // Copies through registers are finished when they are issued: there is no group to wait for.
  // CHECK-LABEL: gpu.kernel @register
  // CHECK-NOT: gpu.cp_async
  // CHECK: gpu.barrier
  // CHECK-NOT: gpu.cp_async
  // CHECK: gpu.return
  gpu.kernel @register(%A: !gpu.global<[M, K], f16> = tensor 0, %M: index = symbol M, %K: index = symbol K) threads 32 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16, ring 2>
    gpu.pipeline %k, %i = to %K step 16 stages 2 {
      %slot = affine.apply affine_map<(i) -> (i mod 2)> (%i)
      gpu.copy %A[%M, %k] to %a slot %slot loader "register" : !gpu.global<[M, K], f16>, !gpu.shared<[16, 16], f16, ring 2>
    }
    gpu.return
  }
}
