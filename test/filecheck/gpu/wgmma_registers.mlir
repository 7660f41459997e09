// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s -t cuda | filecheck %s --check-prefix CUDA

// The left operand of wgmma in registers, products that replace what was there, and arrivals that
// do not wait.

// CHECK: gpu.named_barrier_arrive 6 plus {{.*}} threads 256
// CHECK: gpu.wgmma n 64 {{.*}} plus 0, {{.*}} plus 0 transpose_b, {{.*}} clear element f16
// CHECK: gpu.wgmma_registers n 64 {{.*}} from 0, {{.*}} plus 0 transpose_b, {{.*}} clear element f16
// CHECK: gpu.wgmma_registers n 64 {{.*}} from 4, {{.*}} plus 2048 transpose_b, {{.*}} element f16 : memref<8xi32,

// CUDA: bar.arrive %0, %1;
// CUDA: %32, %33, 0, 1, 1, 0, 1;
// CUDA: {%32, %33, %34, %35}, %36, 0, 1, 1, 1;
// CUDA: {%32, %33, %34, %35}, %36, 1, 1, 1, 1;
// CUDA: wgmma_m64n64k16_f16_registers_tb(acc, p[4], p[5], p[6], p[7], descriptor + 128);
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k() threads 128 {
    %tile = gpu.shared_tile at 0 : !gpu.shared<[64, 64], f16, swizzle 128>
    %c0 = arith.constant 0 : index
    %thread = gpu.thread_id
    %group = affine.apply affine_map<(d0) -> (d0 floordiv 128)> (%thread)
    gpu.named_barrier_arrive 6 plus %group threads 256
    %address = gpu.shared_address %tile[%c0] : !gpu.shared<[64, 64], f16, swizzle 128>
    %descriptor = gpu.wgmma_descriptor %address leading 8192 stride 1024 swizzle 128
    %acc = memref.alloca() : memref<32xf32, #gpu<space register>>
    %p = memref.alloca() : memref<8xi32, #gpu<space register>>
    gpu.wgmma_fence
    gpu.wgmma n 64 %descriptor plus 0, %descriptor plus 0 transpose_b, %acc clear element f16 : memref<32xf32, #gpu<space register>>
    gpu.wgmma_registers n 64 %p from 0, %descriptor plus 0 transpose_b, %acc clear element f16 : memref<8xi32, #gpu<space register>>, memref<32xf32, #gpu<space register>>
    gpu.wgmma_registers n 64 %p from 4, %descriptor plus 2048 transpose_b, %acc element f16 : memref<8xi32, #gpu<space register>>, memref<32xf32, #gpu<space register>>
    gpu.wgmma_commit
    gpu.wgmma_wait 0
    gpu.return
  }
}
