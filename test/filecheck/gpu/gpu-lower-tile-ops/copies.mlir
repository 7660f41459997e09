// RUN: polyc-opt %s -p gpu-lower-tile-ops | filecheck %s

// One loader, one kind of access.

gpu.module @m arch "sm_90a" symbols [M, K] {
  // One box a panel; the kernel gets an argument for the tensor map.
  // CHECK-LABEL: gpu.kernel @tma
  // CHECK-SAME: %A_map: !gpu.tensor_map<[16, 64], f16, swizzle 128> = tensor_map 0
  gpu.kernel @tma(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 32 {
    %full = gpu.mbarrier : !gpu.mbarrier<4>
    %a = gpu.shared_tile : !gpu.shared<[16, 128], f16, swizzle 128, ring 4>
    // CHECK: [[AT:%.*]] = gpu.shared_address %a[%M]
    // CHECK-NEXT: gpu.tma_load %A_map[%M, %M] to [[AT]], %full[%M]
    // CHECK-NEXT: [[PANEL:%.*]] = arith.constant 2048 : i32
    // CHECK-NEXT: [[NEXT:%.*]] = arith.addi [[AT]], [[PANEL]] : i32
    // CHECK-NEXT: [[COLUMN:%.*]] = affine.apply affine_map<(d0) -> ((d0 + 64))> (%M)
    // CHECK-NEXT: gpu.tma_load %A_map[%M, [[COLUMN]]] to [[NEXT]], %full[%M]
    gpu.copy %A[%M, %M] to %a slot %M loader "tma" signal %full : !gpu.mbarrier<4> at %M : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 128], f16, swizzle 128, ring 4>
    gpu.return
  }

  // 16 rows of 8 chunks: 128 chunks for 96 threads take two rounds, the second one guarded.  Each
  // round is 12 whole rows, so that a thread stays in its column.
  // CHECK-LABEL: gpu.kernel @cp_async
  gpu.kernel @cp_async(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 96 {
    %a = gpu.shared_tile : !gpu.shared<[16, 64], f16, swizzle 128>
    // CHECK: %first_row = affine.apply affine_map<(d0) -> ((d0 floordiv 8))> (%thread)
    // CHECK-NEXT: %column = affine.apply affine_map<(d0) -> (((d0 mod 8) * 8))> (%thread)
    // CHECK: scf.for %j
    // CHECK-NEXT: %row = affine.apply affine_map<(d0, d1) -> ((d0 + (d1 * 12)))> (%first_row, %j)
    // CHECK: %chunk = affine.apply affine_map<(d0, d1) -> ((d0 + (d1 * 96)))> (%thread, %j)
    // CHECK: scf.if
    // CHECK-NEXT: [[AT:%.*]] = gpu.element_address %a[%{{.*}}] [%row, %column]
    // CHECK-NEXT: gpu.cp_async [[AT]], %A[%{{.*}}, %{{.*}} : index, index] bytes 16
    // CHECK: } {unroll}
    gpu.copy %A[%M, %M] to %a loader "cp_async" : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 64], f16, swizzle 128>
    gpu.return
  }

  // 32 threads for rows of 6 chunks: rounds are not whole rows, and both coordinates move on.
  // CHECK-LABEL: gpu.kernel @part_of_a_row
  gpu.kernel @part_of_a_row(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 32 {
    %a = gpu.shared_tile : !gpu.shared<[16, 48], f16, swizzle 32>
    // CHECK: scf.for %j
    // CHECK-NEXT: %row = affine.apply affine_map<(d0, d1) -> (((d0 + (d1 * 32)) floordiv 6))> (%thread, %j)
    // CHECK-NEXT: %column = affine.apply affine_map<(d0, d1) -> ((((d0 + (d1 * 32)) mod 6) * 8))> (%thread, %j)
    gpu.copy %A[%M, %M] to %a loader "cp_async" : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 48], f16, swizzle 32>
    gpu.return
  }

  // CHECK-LABEL: gpu.kernel @register
  gpu.kernel @register(%A: !gpu.global<[M, K], f16> = tensor 0, %M: index = symbol M) threads 32 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16, swizzle 32>
    // CHECK: scf.for %j
    // CHECK-NOT: scf.if
    // CHECK: gpu.load_global %A[%{{.*}}, %{{.*}} : index, index] : !gpu.global<[M, K], f16> -> f16
    // CHECK: [[CHUNK:%.*]] = gpu.pack {{.*}} -> vector<8xf16>
    // CHECK-NEXT: gpu.store_shared [[CHUNK]],
    gpu.copy %A[%M, %M] to %a loader "register" : !gpu.global<[M, K], f16>, !gpu.shared<[16, 16], f16, swizzle 32>
    gpu.return
  }
}
