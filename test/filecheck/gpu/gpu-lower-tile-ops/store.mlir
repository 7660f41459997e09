// RUN: polyc-opt %s -p gpu-store-waits,gpu-lower-tile-ops | filecheck %s

// An accumulator's fragment goes to shared memory by stmatrix, and each warpgroup stores its own rows by TMA.
!f = !gpu.fragment<[128, 16], f16, #gpu.fragment_layout<threads 256, registers 8, affine_map<(d0, d1) -> (d0 floordiv 32 * 16 + d0 mod 32 floordiv 4 + d1 floordiv 2 mod 2 * 8, d1 floordiv 4 * 8 + d0 mod 4 * 2 + d1 mod 2)>>>
!c = !gpu.shared<[128, 16], f16, swizzle 32>
gpu.module @m arch "sm_90a" symbols [M, N] {
  // CHECK: gpu.kernel @k({{.*}}%C_map: !gpu.tensor_map<[64, 16], f16, swizzle 32> = tensor_map 0) threads 256 {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M, %N: index = symbol N) threads 256 {
    %c = gpu.shared_tile : !c
    %f = gpu.fragment : !f
    // CHECK: gpu.bulk_wait read 0
    // CHECK: gpu.named_barrier 6 plus %{{.*}} threads 128
    // CHECK: [[PLACE:%.*]] = gpu.element_address %c
    // CHECK-COUNT-4: memref.store
    // CHECK: gpu.stmatrix %words[%{{.*}}] to [[PLACE]]
    gpu.copy %f to %c : !f, !c
    // CHECK: gpu.fence_proxy_async
    // CHECK: gpu.named_barrier 6 plus %{{.*}} threads 128
    // CHECK: scf.if
    // CHECK: gpu.tma_store %{{.*}} to %C_map[%{{.*}}, %N] : !gpu.tensor_map<[64, 16], f16, swizzle 32>
    // CHECK-NEXT: gpu.bulk_commit
    gpu.copy %c to %C[%M, %N] loader "tma" : !c, !gpu.global<[M, N], f16, align 16>
    // CHECK: gpu.bulk_wait read 0
    // CHECK: gpu.return
    gpu.return
  }

  // Without TMA the threads meet, and each brings chunks of 16 bytes to the tensor.
  // CHECK: gpu.kernel @threads
  gpu.kernel @threads(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M, %N: index = symbol N) threads 32 {
    %c = gpu.shared_tile : !c
    // CHECK:      gpu.barrier
    // CHECK:      scf.for %j = %{{.*}} to %{{.*}} step %{{.*}} {
    // CHECK:        [[FROM:%.*]] = gpu.element_address %c
    // CHECK-NEXT:   [[CHUNK:%.*]] = gpu.load_shared [[FROM]] : vector<8xf16>
    // CHECK-NEXT:   gpu.store_global [[CHUNK]], %C[%{{.*}}, %{{.*}} : index, index]
    gpu.copy %c to %C[%M, %N] loader "register" : !c, !gpu.global<[M, N], f16, align 16>
    gpu.return
  }
}
