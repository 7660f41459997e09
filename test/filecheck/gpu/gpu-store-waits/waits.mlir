// RUN: polyc-opt %s -p gpu-store-waits | filecheck %s

// A tile that TMA stores is filled again when its last store has read it, and the kernel ends then.
gpu.module @m arch "sm_90a" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M, %N: index = symbol N) threads 128 {
    %c = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128>
    // CHECK: gpu.tile_loop
    gpu.tile_loop (%i, %j, %n) = [%M, %N] tile <64, 64> raster "row" 1 {
      %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
      // CHECK: [[LEADS:%.*]] = arith.cmpi eq, %thread
      // CHECK-NEXT: scf.if [[LEADS]] {
      // CHECK-NEXT:   gpu.bulk_wait read 0
      // CHECK-NEXT: }
      // CHECK-NEXT: gpu.barrier
      // CHECK-NEXT: gpu.copy %f to %c
      gpu.copy %f to %c : !gpu.fragment<[64, 64], f16>, !gpu.shared<[64, 64], f16, swizzle 128>
      // CHECK-NEXT: gpu.copy %c to %C[%i, %j] loader "tma" store_groups 1
      gpu.copy %c to %C[%i, %j] loader "tma" : !gpu.shared<[64, 64], f16, swizzle 128>, !gpu.global<[M, N], f16, align 16>
      // CHECK-NEXT: }
    }
    // CHECK: scf.if
    // CHECK-NEXT:   gpu.bulk_wait read 0
    // CHECK-NEXT: }
    // CHECK-NEXT: gpu.return
    gpu.return
  }

  // A store that gives a token is its author's to await.
  // CHECK-LABEL: gpu.kernel @by_token
  // CHECK-NOT: gpu.bulk_wait
  gpu.kernel @by_token(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %c = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128>
    %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
    gpu.copy %f to %c : !gpu.fragment<[64, 64], f16>, !gpu.shared<[64, 64], f16, swizzle 128>
    %t = gpu.copy %c to %C[%M, %M] loader "tma" : !gpu.shared<[64, 64], f16, swizzle 128>, !gpu.global<[M, N], f16, align 16> -> !gpu.token
    gpu.return
  }
}
