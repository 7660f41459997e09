// RUN: polyc-opt %s -p gpu-cache-hints | filecheck %s
// RUN: polyc-opt %s -p gpu-cache-hints,gpu-cache-hints | filecheck %s

// The tile of a CTA alone goes first, a table that all read goes last, rows that several CTAs read
// are left to the raster, and what the author says stays.

gpu.module @m arch "sm_90a" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%X: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M, %N: index = symbol N) threads 128 {
    %zero = arith.constant 0 : index
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128>
    gpu.tile_loop (%row, %column, %n) = [%M, %N] tile <64, 64> raster "row" 1 {
      %next = affine.apply affine_map<(d0) -> (d0 + 8)> (%column)
      // CHECK: gpu.copy %X[%row, %next] to %a loader "tma" cache "evict_first"
      gpu.copy %X[%row, %next] to %a loader "tma" : !gpu.global<[M, N], f16, align 16>, !gpu.shared<[64, 64], f16, swizzle 128>
      // CHECK-NEXT: gpu.copy %X[%zero, %zero] to %a loader "tma" cache "evict_last"
      gpu.copy %X[%zero, %zero] to %a loader "tma" : !gpu.global<[M, N], f16, align 16>, !gpu.shared<[64, 64], f16, swizzle 128>
      // CHECK-NEXT: gpu.copy %X[%row, %zero] to %a loader "tma" : !gpu.global
      gpu.copy %X[%row, %zero] to %a loader "tma" : !gpu.global<[M, N], f16, align 16>, !gpu.shared<[64, 64], f16, swizzle 128>
      // CHECK-NEXT: gpu.copy %X[%row, %column] to %a loader "tma" cache "evict_last"
      gpu.copy %X[%row, %column] to %a loader "tma" cache "evict_last" : !gpu.global<[M, N], f16, align 16>, !gpu.shared<[64, 64], f16, swizzle 128>
      // CHECK-NEXT: gpu.copy %X[%row, %column] to %a loader "cp_async" : !gpu.global
      gpu.copy %X[%row, %column] to %a loader "cp_async" : !gpu.global<[M, N], f16, align 16>, !gpu.shared<[64, 64], f16, swizzle 128>
    }
    gpu.return
  }
}
