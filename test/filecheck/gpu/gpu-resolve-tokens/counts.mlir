// RUN: polyc-opt %s -p gpu-resolve-tokens | filecheck %s

// Awaits by name become awaits by count, and say whose registers may be touched.
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @two(%n: index = symbol M) threads 128 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128>
    %s = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %o = gpu.fragment : !gpu.fragment<[64, 64], f32>
    // CHECK: gpu.contract {{.*}} into %s clear {{.*}} !gpu.fragment<[64, 64], f32>
    // CHECK-NEXT: gpu.contract {{.*}} into %o mma {{.*}} !gpu.fragment<[64, 64], f32>
    // CHECK-NEXT: gpu.await pending 1 ready %s : !gpu.fragment<[64, 64], f32>
    // CHECK-NEXT: gpu.await pending 0 ready %o : !gpu.fragment<[64, 64], f32>
    %t = gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
        into %s clear mma "wgmma" warp_tile <64, 64>
        : !gpu.shared<[64, 64], f16, swizzle 128>, !gpu.shared<[64, 64], f16, swizzle 128>,
          !gpu.fragment<[64, 64], f32> -> !gpu.token
    %u = gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
        into %o mma "wgmma" warp_tile <64, 64>
        : !gpu.shared<[64, 64], f16, swizzle 128>, !gpu.shared<[64, 64], f16, swizzle 128>,
          !gpu.fragment<[64, 64], f32> -> !gpu.token
    gpu.await %t
    gpu.await %u
    // A loop carries the contract of the iteration before: one may stay under way.
    // CHECK: scf.for %{{.*}} = %c0 to %n step %c1 {
    // CHECK-NEXT: gpu.contract
    // CHECK-NEXT: gpu.await pending 1
    // CHECK-NEXT: }
    // CHECK-NEXT: gpu.await pending 0 ready %o : !gpu.fragment<[64, 64], f32>
    %first = gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
        into %o mma "wgmma" warp_tile <64, 64>
        : !gpu.shared<[64, 64], f16, swizzle 128>, !gpu.shared<[64, 64], f16, swizzle 128>,
          !gpu.fragment<[64, 64], f32> -> !gpu.token
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%before = %first) -> (!gpu.token) {
      %new = gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
          into %o mma "wgmma" warp_tile <64, 64>
          : !gpu.shared<[64, 64], f16, swizzle 128>, !gpu.shared<[64, 64], f16, swizzle 128>,
            !gpu.fragment<[64, 64], f32> -> !gpu.token
      gpu.await %before
      scf.yield %new : !gpu.token
    }
    gpu.await %last
    gpu.return
  }

  // A copy by cp.async closes a group of its own; who waits for it meets the other threads.
  // CHECK: gpu.kernel @copies
  gpu.kernel @copies(%A: !gpu.global<[M, 64], f16, align 16> = tensor 0, %n: index = symbol M) threads 128 {
    %c0 = arith.constant 0 : index
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // CHECK: gpu.copy %A[%c0, %c0] to %a loader "cp_async"
    // CHECK-NEXT: gpu.cp_async_commit
    // CHECK-NEXT: gpu.copy %A[%n, %c0] to %b loader "cp_async"
    // CHECK-NEXT: gpu.cp_async_commit
    // CHECK-NEXT: gpu.cp_async_wait 1
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: gpu.cp_async_wait 0
    // CHECK-NEXT: gpu.barrier
    %t = gpu.copy %A[%c0, %c0] to %a loader "cp_async"
        : !gpu.global<[M, 64], f16, align 16>, !gpu.shared<[64, 64], f16> -> !gpu.token
    %u = gpu.copy %A[%n, %c0] to %b loader "cp_async"
        : !gpu.global<[M, 64], f16, align 16>, !gpu.shared<[64, 64], f16> -> !gpu.token
    gpu.await %t
    gpu.await %u
    gpu.return
  }

  // A store by TMA has been read: the thread that stored waits, and the others meet it.
  // CHECK: gpu.kernel @stores
  gpu.kernel @stores(%A: !gpu.global<[M, 64], f16, align 16> = tensor 0, %n: index = symbol M) threads 128 {
    %c0 = arith.constant 0 : index
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // CHECK:      gpu.copy %a to %A[%c0, %c0] loader "tma" store_groups 1
    // CHECK-NEXT: gpu.copy %b to %A[%n, %c0] loader "tma" store_groups 1
    // CHECK:      [[LEADS:%.*]] = arith.cmpi eq, %thread
    // CHECK-NEXT: scf.if [[LEADS]] {
    // CHECK-NEXT:   gpu.bulk_wait read 1
    // CHECK-NEXT: }
    // CHECK-NEXT: gpu.barrier
    // CHECK:        gpu.bulk_wait read 0
    %t = gpu.copy %a to %A[%c0, %c0] loader "tma"
        : !gpu.shared<[64, 64], f16>, !gpu.global<[M, 64], f16, align 16> -> !gpu.token
    %u = gpu.copy %b to %A[%n, %c0] loader "tma"
        : !gpu.shared<[64, 64], f16>, !gpu.global<[M, 64], f16, align 16> -> !gpu.token
    gpu.await %t
    gpu.await %u
    gpu.return
  }
}
