// RUN: polyc-opt %s -p gpu-layout-inference,gpu-store-waits,gpu-lower-tile-ops | filecheck %s

// An accumulator's fragment goes to shared memory transposed, block by block of 8 by 8.
!f = !gpu.fragment<[128, 16], f16, #gpu.fragment_layout<threads 256, registers 8, affine_map<(d0, d1) -> (d0 floordiv 32 * 16 + d0 mod 32 floordiv 4 + d1 floordiv 2 mod 2 * 8, d1 floordiv 4 * 8 + d0 mod 4 * 2 + d1 mod 2)>>>
!s = !gpu.shared<[16, 128], f16, swizzle 128>
gpu.module @m arch "sm_90a" symbols [] {
  // CHECK: gpu.kernel @by_tma({{.*}}%Y_map: !gpu.tensor_map<[1, 16, 64], f16, swizzle 128> = tensor_map 0) threads 256 {
  gpu.kernel @by_tma(%Y: !gpu.global<[4, 32, 64], f16, align 16> = tensor 0, %row: index = symbol M) threads 256 {
    %s = gpu.shared_tile : !s
    %f = gpu.fragment : !f
    %zero = arith.constant 0 : index
    // CHECK: [[PIXEL:%.*]] = affine.apply affine_map<{{.*}}((d1 floordiv 8) mod 2) * 8)))> (%warp_thread, %lane)
    // CHECK: [[FILTER:%.*]] = affine.apply affine_map<{{.*}}(((d1 floordiv 16) * 8) + (d1 mod 8))))> (%warp_thread, %lane)
    // CHECK: gpu.element_address %s[%{{.*}}] [[[FILTER]], [[PIXEL]]]
    // CHECK: gpu.stmatrix transpose %words
    gpu.copy %f to %s turned : !f, !s
    // CHECK: gpu.fence_proxy_async
    // CHECK: [[IMAGE:%.*]] = affine.apply affine_map<(d0, d1) -> ((d0 + (d1 floordiv 64)))> (%zero, %row)
    // CHECK-NEXT: [[PLACE:%.*]] = affine.apply affine_map<(d0) -> ((d0 mod 64))> (%row)
    // CHECK: gpu.tma_store %{{.*}} to %Y_map[[[IMAGE]], %zero, [[PLACE]]]
    gpu.copy %s to %Y[%zero, %zero, %row] wraps 0 loader "tma" : !s, !gpu.global<[4, 32, 64], f16, align 16>
    gpu.return
  }

  // Where images end inside of a panel, threads store as many pixels as rows are aligned for.
  // CHECK: gpu.kernel @by_threads
  gpu.kernel @by_threads(%Y: !gpu.global<[4, 32, 196], f16, align 8> = tensor 0, %row: index = symbol M) threads 256 {
    %s = gpu.shared_tile : !s
    %zero = arith.constant 0 : index
    // CHECK: gpu.barrier
    // CHECK: affine.apply affine_map<(d0, d1) -> ((d0 + (d1 floordiv 196)))>
    // CHECK-NEXT: affine.apply affine_map<(d0) -> ((d0 mod 196))>
    // CHECK: gpu.load_shared %{{.*}} : vector<4xf16>
    // CHECK-NEXT: gpu.store_global %{{.*}}, %Y[%{{.*}}, %{{.*}}, %{{.*}}
    gpu.copy %s to %Y[%zero, %zero, %row] wraps 0 loader "register" : !s, !gpu.global<[4, 32, 196], f16, align 8>
    gpu.return
  }
}
