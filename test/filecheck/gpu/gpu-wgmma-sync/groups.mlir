// RUN: polyc-opt %s -p gpu-wgmma-sync | filecheck %s
// RUN: polyc-opt %s -p gpu-wgmma-sync,gpu-wgmma-sync | filecheck %s

// A run of wgmma is a group between a fence and a commit, and awaiting contracts is waiting for
// groups.  Registers are settled where code sets them and after the last wait, not between.

gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%a: i64 = symbol M, %b: i64 = symbol M, %n: index = symbol M) threads 128 {
    %low = arith.constant 0 : index
    %one = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %acc = memref.alloca() : memref<8xf32, #gpu<space register>>
    %other = memref.alloca() : memref<8xf32, #gpu<space register>>
    // CHECK: scf.for %r
    scf.for %r = %low to %n step %one {
      memref.store %zero, %acc[%r] : memref<8xf32, #gpu<space register>>
      memref.store %zero, %other[%r] : memref<8xf32, #gpu<space register>>
    }
    // CHECK: }
    // CHECK-NEXT: gpu.register_fence %acc : memref<8xf32, #gpu<space register>>
    // CHECK-NEXT: scf.for %i
    scf.for %i = %low to %n step %one {
      // CHECK-NEXT: gpu.wgmma_fence
      // CHECK-NEXT: gpu.wgmma n 16 %a plus 0
      // CHECK-NEXT: gpu.wgmma n 16 %a plus 32
      // CHECK-NEXT: gpu.wgmma_commit
      // CHECK-NEXT: gpu.wgmma_wait 1
      gpu.wgmma n 16 %a plus 0, %b plus 0, %acc element f16 : memref<8xf32, #gpu<space register>>
      gpu.wgmma n 16 %a plus 32, %b plus 32, %acc element f16 : memref<8xf32, #gpu<space register>>
      gpu.await pending 1
      // An op between two wgmma makes two groups.
      // CHECK-NEXT: gpu.wgmma_fence
      // CHECK-NEXT: gpu.wgmma n 16 %a plus 64
      // CHECK-NEXT: gpu.wgmma_commit
      // CHECK-NEXT: gpu.barrier
      // CHECK-NEXT: gpu.wgmma_fence
      // CHECK-NEXT: gpu.wgmma n 16 %a plus 96
      // CHECK-NEXT: gpu.wgmma_commit
      gpu.wgmma n 16 %a plus 64, %b plus 64, %acc element f16 : memref<8xf32, #gpu<space register>>
      gpu.barrier
      gpu.wgmma n 16 %a plus 96, %b plus 96, %acc element f16 : memref<8xf32, #gpu<space register>>
    }
    // CHECK-NEXT: }
    // CHECK-NEXT: gpu.wgmma_wait 0
    // CHECK-NEXT: gpu.register_fence %acc
    // CHECK-NEXT: gpu.return
    gpu.await pending 0
    gpu.return
  }
}
