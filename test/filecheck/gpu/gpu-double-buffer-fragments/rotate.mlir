// RUN: polyc-opt %s -p gpu-double-buffer-fragments | filecheck %s

// Four steps over k. The first load comes before the loop; in the loop every load stands before
// the product of the step before it, and the wait for the next tiles before the last product.

gpu.module @m arch "sm_80" symbols [M, K] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M, %n: index = symbol K) threads 32 {
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, ring 3>
    %acc = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    // CHECK:      [[A:%.*]] = memref.alloca() : memref<32xi32, #gpu<space register>>
    // CHECK-NEXT: [[B:%.*]] = memref.alloca() : memref<32xi32, #gpu<space register>>
    // CHECK-NEXT: gpu.cp_async_wait 1
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: [[SOME:%.*]] = arith.cmpi slt, %zero, %n : index
    // CHECK-NEXT: scf.if [[SOME]] {
    // CHECK-NEXT:   %slot = affine.apply affine_map<(d0) -> ((d0 mod 3))> (%zero)
    // CHECK-NEXT:   gpu.load_operands step 0 %a slot %slot {{.*}} to buffer 0 [[A]], [[B]]
    // CHECK-NEXT: }
    // CHECK:      scf.for %i = %zero to %n step %one {
    // CHECK-NEXT:   %ahead = affine.apply affine_map<(d0) -> ((d0 + 2))> (%i)
    // CHECK-NEXT:   %k = affine.apply affine_map<(d0) -> ((d0 * 64))> (%ahead)
    // CHECK-NEXT:   %slot_1 = affine.apply affine_map<(d0) -> ((d0 mod 3))> (%i)
    // CHECK-NEXT:   gpu.load_operands step 1 %a slot %slot_1 {{.*}} to buffer 1
    // CHECK-NEXT:   gpu.copy
    // CHECK-NEXT:   gpu.cp_async_commit
    // CHECK-NEXT:   gpu.multiply buffer 0 [[A]], [[B]] into %acc warp_tile <64, 64> element f16
    // CHECK-NEXT:   gpu.load_operands step 2 %a slot %slot_1 {{.*}} to buffer 0
    // CHECK-NEXT:   gpu.multiply buffer 1
    // CHECK-NEXT:   gpu.load_operands step 3 %a slot %slot_1 {{.*}} to buffer 1
    // CHECK-NEXT:   gpu.multiply buffer 0
    // CHECK-NEXT:   gpu.cp_async_wait 1
    // CHECK-NEXT:   gpu.barrier
    // CHECK-NEXT:   %next = arith.addi %i, {{%.*}} : index
    // CHECK-NEXT:   [[MORE:%.*]] = arith.cmpi slt, %next, %n : index
    // CHECK-NEXT:   %next_1 = arith.select [[MORE]], %next, %i : index
    // CHECK-NEXT:   %slot_2 = affine.apply affine_map<(d0) -> ((d0 mod 3))> (%next_1)
    // CHECK-NEXT:   gpu.load_operands step 0 %a slot %slot_2 {{.*}} to buffer 0
    // CHECK-NEXT:   gpu.multiply buffer 1
    // CHECK-NEXT: }
    scf.for %i = %zero to %n step %one {
      gpu.cp_async_wait 1
      gpu.barrier
      %ahead = affine.apply affine_map<(i) -> (i + 2)> (%i)
      %k = affine.apply affine_map<(i) -> (i * 64)> (%ahead)
      gpu.copy %A[%M, %k] to %a slot %zero loader "cp_async" : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[64, 64], f16, ring 3>
      gpu.cp_async_commit
      %slot = affine.apply affine_map<(i) -> (i mod 3)> (%i)
      gpu.contract %a slot %slot affine_map<(m, n, k) -> (m, k)>, %a slot %slot affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <64, 64> fragment_buffers 2 : !gpu.shared<[64, 64], f16, ring 3>, !gpu.shared<[64, 64], f16, ring 3>, !gpu.fragment<[64, 64], f32>
    }
    gpu.return
  }

  // One buffer, said or not, is what a contract does by itself.
  // CHECK-LABEL: gpu.kernel @one
  // CHECK: gpu.contract
  // CHECK: gpu.contract
  // CHECK-NOT: gpu.load_operands
  gpu.kernel @one(%n: index = symbol K) threads 32 {
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %acc = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %a affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <64, 64> : !gpu.shared<[64, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %a affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <64, 64> fragment_buffers 1 : !gpu.shared<[64, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f32>
    gpu.return
  }
}
