// RUN: polyc-opt %s -t cuda | filecheck %s

// wgmma with its left operand in registers, and a barrier that some only arrive at.
gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK: left(
  gpu.kernel @left(%Y: !gpu.global<[M], f32> = tensor 0, %M: index = symbol M) threads 128 {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %none = arith.constant 0 : i32
    %nothing = arith.constant 0.0 : f32
    %address = arith.constant 1024 : i32
    %a = memref.alloca() : memref<4xi32, #gpu<space register>>
    %acc = memref.alloca() : memref<4xf32, #gpu<space register>>
    %four = arith.constant 4 : index
    scf.for %r = %zero to %four step %one {
      memref.store %none, %a[%r] : memref<4xi32, #gpu<space register>>
      memref.store %nothing, %acc[%r] : memref<4xf32, #gpu<space register>>
    } {unroll}
    %d = gpu.wgmma_descriptor %address leading 128 stride 256 swizzle 0
    gpu.register_fence %acc : memref<4xf32, #gpu<space register>>
    gpu.wgmma_fence
    // CHECK: wgmma_{{.*}}(acc, a[0], a[1], a[2], a[3], d);
    gpu.wgmma_registers n 8 %a from 0, %d plus 0 transpose_b, %acc element f16 : memref<4xi32, #gpu<space register>>, memref<4xf32, #gpu<space register>>
    gpu.wgmma_commit
    gpu.wgmma_wait 0
    gpu.register_fence %acc : memref<4xf32, #gpu<space register>>
    // CHECK: named_barrier_arrive<256>(1 + M);
    gpu.named_barrier_arrive 1 plus %M threads 256
    // CHECK: named_barrier_arrive<256>(2);
    gpu.named_barrier_arrive 2 threads 256
    %x = memref.load %acc[%zero] : memref<4xf32, #gpu<space register>>
    gpu.store_global %x, %Y[%zero : index] : f32, !gpu.global<[M], f32>
    gpu.return
  }
}
