// RUN: polyc-opt %s -p gpu-inject-tma-barriers | filecheck %s
// RUN: polyc-opt %s -p gpu-inject-tma-barriers,gpu-inject-tma-barriers | filecheck %s

// Two loads share a barrier, and the threads wait behind them. In the loop the threads meet before
// the tile is overwritten, and the parity alternates.

gpu.module @m arch "sm_90a" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @k
  // CHECK:      %arrived = gpu.mbarrier : !gpu.mbarrier<1>
  // CHECK:      gpu.mbarrier_init %arrived[%{{.*}}] count 1
  // CHECK-NEXT: gpu.fence_mbarrier_init
  // CHECK:      %phase = memref.alloca
  // CHECK:      %{{arrived.*}} = gpu.mbarrier : !gpu.mbarrier<1>
  gpu.kernel @k(%X: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M, %N: index = symbol N) threads 128 {
    %zero = arith.constant 0 : index
    %step = arith.constant 64 : index
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128>
    %b = gpu.shared_tile : !gpu.shared<[32, 64], f16, swizzle 128>
    // CHECK:        gpu.mbarrier_expect %arrived_1[%{{.*}}] bytes 12288
    // CHECK-NEXT:   gpu.copy %X[%zero, %zero] to %a loader "tma" signal %arrived_1
    // CHECK-NEXT:   gpu.copy %X[%M, %zero] to %b loader "tma" signal %arrived_1
    // CHECK-NEXT: }
    // CHECK-NEXT: gpu.mbarrier_wait %arrived_1
    gpu.copy %X[%zero, %zero] to %a loader "tma" : !gpu.global<[M, N], f16, align 16>, !gpu.shared<[64, 64], f16, swizzle 128>
    gpu.copy %X[%M, %zero] to %b loader "tma" : !gpu.global<[M, N], f16, align 16>, !gpu.shared<[32, 64], f16, swizzle 128>
    // CHECK:      scf.for
    // CHECK:        gpu.barrier
    // CHECK:          gpu.mbarrier_expect %arrived[%{{.*}}] bytes 8192
    // CHECK-NEXT:     gpu.copy %X[%zero, %i] to %a
    // CHECK-NEXT:   }
    // CHECK:        memref.load %phase
    // CHECK:        arith.xori
    // CHECK:        gpu.mbarrier_wait %arrived
    scf.for %i = %zero to %N step %step {
      gpu.copy %X[%zero, %i] to %a loader "tma" : !gpu.global<[M, N], f16, align 16>, !gpu.shared<[64, 64], f16, swizzle 128>
    }
    gpu.return
  }
}
