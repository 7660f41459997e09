// RUN: polyc-opt %s -p gpu-hoist-invariants | filecheck %s

// What uses nothing of a loop is computed before it, out of all loops at once; equal pure ops
// become one.  Two allocations are two, and what a loop changes stays.

gpu.module @m arch "sm_80" symbols [M] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%A: !gpu.global<[M], f32> = tensor 0, %n: index = symbol M) threads 32 {
    // CHECK-NEXT: %low = arith.constant 0 : index
    // CHECK-NEXT: %one = arith.constant 1 : index
    // CHECK-NEXT: %a = gpu.shared_tile : !gpu.shared<[16, 16], f16, swizzle 32>
    // CHECK-NEXT: %b = gpu.shared_tile : !gpu.shared<[16, 16], f16, swizzle 32>
    // CHECK-NEXT: %full = gpu.mbarrier : !gpu.mbarrier<2>
    // CHECK-NEXT: %empty = gpu.mbarrier : !gpu.mbarrier<2>
    // CHECK-NEXT: %registers = memref.alloca
    // CHECK-NEXT: %others = memref.alloca
    // CHECK-NEXT: %thread = gpu.thread_id
    // CHECK-NEXT: %warp = gpu.warp_uniform %thread
    // CHECK-NEXT: scf.for %i
    %low = arith.constant 0 : index
    %one = arith.constant 1 : index
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16, swizzle 32>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16, swizzle 32>
    %full = gpu.mbarrier : !gpu.mbarrier<2>
    %empty = gpu.mbarrier : !gpu.mbarrier<2>
    %registers = memref.alloca() : memref<8xf32, #gpu<space register>>
    %others = memref.alloca() : memref<8xf32, #gpu<space register>>
    scf.for %i = %low to %n step %one {
      // CHECK-NEXT: scf.for %j
      scf.for %j = %low to %n step %one {
        // CHECK-NEXT: %x = memref.load %registers[%warp]
        // CHECK-NEXT: memref.store %x, %others[%j]
        // CHECK-NEXT: %y = memref.load %others[%warp]
        // CHECK-NEXT: %sum = affine.apply affine_map<(d0, d1) -> ((d0 + d1))> (%i, %j)
        // CHECK-NEXT: gpu.store_global %y, %A[%sum : index]
        // CHECK-NEXT: gpu.barrier
        %thread = gpu.thread_id
        %again = gpu.thread_id
        %warp = gpu.warp_uniform %thread
        %zero = arith.constant 0 : index
        %x = memref.load %registers[%warp] : memref<8xf32, #gpu<space register>>
        memref.store %x, %others[%j] : memref<8xf32, #gpu<space register>>
        %y = memref.load %others[%warp] : memref<8xf32, #gpu<space register>>
        %sum = affine.apply affine_map<(d0, d1) -> (d0 + d1)> (%i, %j)
        gpu.store_global %y, %A[%sum : index] : f32, !gpu.global<[M], f32>
        gpu.barrier
      }
    }
    gpu.return
  }
}
