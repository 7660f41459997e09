// RUN: polyc-opt %s -p gpu-wgmma-sync | filecheck %s
// RUN: polyc-opt %s -p gpu-wgmma-sync,gpu-wgmma-sync | filecheck %s

// Two contracts are two groups, also side by side.  What an await makes ready is settled there; an
// accumulator that the next contract clears need not be settled after code that sets it.

gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%a: i64 = symbol M, %b: i64 = symbol M, %n: index = symbol M) threads 128 {
    %low = arith.constant 0 : index
    %one = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %s = memref.alloca() : memref<8xf32, #gpu<space register>>
    %o = memref.alloca() : memref<8xf32, #gpu<space register>>
    %p = memref.alloca() : memref<4xi32, #gpu<space register>>
    scf.for %i = %low to %n step %one {
      // CHECK: gpu.wgmma_fence
      // CHECK-NEXT: gpu.wgmma n 16 %a plus 0, %b plus 0, %s clear
      // CHECK-NEXT: gpu.wgmma n 16 %a plus 32, %b plus 32, %s element
      // CHECK-NEXT: gpu.wgmma_commit
      // CHECK-NEXT: gpu.wgmma_fence
      // CHECK-NEXT: gpu.wgmma_registers n 16 %p from 0
      // CHECK-NEXT: gpu.wgmma_commit
      // CHECK-NEXT: gpu.wgmma_wait 1
      // CHECK-NEXT: gpu.register_fence %s
      gpu.wgmma n 16 %a plus 0, %b plus 0, %s clear element f16 : memref<8xf32, #gpu<space register>>
      gpu.wgmma n 16 %a plus 32, %b plus 32, %s element f16 : memref<8xf32, #gpu<space register>>
      gpu.wgmma_registers n 16 %p from 0, %b plus 0, %o element f16 : memref<4xi32, #gpu<space register>>, memref<8xf32, #gpu<space register>>
      gpu.await pending 1 ready %s : memref<8xf32, #gpu<space register>>
      // CHECK-NEXT: memref.store %zero, %s[%low]
      // CHECK-NEXT: gpu.wgmma_wait 0
      // CHECK-NEXT: gpu.register_fence %o
      // CHECK-NEXT: memref.store %zero, %o[%low]
      // CHECK-NEXT: gpu.register_fence %o
      // CHECK-NEXT: }
      memref.store %zero, %s[%low] : memref<8xf32, #gpu<space register>>
      gpu.await pending 0 ready %o : memref<8xf32, #gpu<space register>>
      memref.store %zero, %o[%low] : memref<8xf32, #gpu<space register>>
    }
    gpu.return
  }
}
