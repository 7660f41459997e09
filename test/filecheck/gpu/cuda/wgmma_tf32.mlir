// RUN: polyc-opt %s -t cuda | filecheck %s
// RUN: polyc-opt %s | polyc-opt | filecheck %s --check-prefix=TEXT

// Operands of f32 are TF32 to wgmma: 8 of k at once, stored along it, with no word of transposing.
// TEXT: gpu.wgmma n 8 %d plus 32, %d plus 0, %acc clear element f32
// TEXT: gpu.wgmma_registers n 8 %r from 4, %d plus 32, %acc element f32
gpu.module @wgmma arch "sm_90a" symbols [M] {
  gpu.kernel @warpgroup(%a: i32 = symbol M) threads 128 {
    %acc = memref.alloca() : memref<4xf32, #gpu<space register>>
    %r = memref.alloca() : memref<8xf32, #gpu<space register>>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %eight = arith.constant 8 : index
    %nothing = arith.constant 0.0 : f32
    scf.for %i = %zero to %eight step %one {
      memref.store %nothing, %r[%i] : memref<8xf32, #gpu<space register>>
    } {unroll}
    %d = gpu.wgmma_descriptor %a leading 16 stride 1024 swizzle 128
    gpu.wgmma_fence
    gpu.wgmma n 8 %d plus 32, %d plus 0, %acc clear element f32 : memref<4xf32, #gpu<space register>>
    gpu.wgmma_registers n 8 %r from 4, %d plus 32, %acc element f32 : memref<8xf32, #gpu<space register>>, memref<4xf32, #gpu<space register>>
    gpu.wgmma_commit
    gpu.wgmma_wait 0
    gpu.return
  }
}

// CHECK: void wgmma_m64n8k8_tf32_clear(float (&d)[4], i64 a, i64 b) {
// CHECK-NEXT:   asm volatile("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32\n"
// CHECK-NEXT:       "{%0, %1, %2, %3},\n"
// CHECK-NEXT:       "%4, %5, 0, 1, 1;"
// CHECK: void wgmma_m64n8k8_tf32_registers(float (&d)[4], float a0, float a1, float a2, float a3, i64 b) {
// CHECK-NEXT:   asm volatile("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32\n"
// CHECK-NEXT:       "{%0, %1, %2, %3},\n"
// CHECK-NEXT:       "{%4, %5, %6, %7}, %8, 1, 1, 1;"
// CHECK-NEXT:       : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
// CHECK-NEXT:       : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(a2)), "r"(__float_as_uint(a3)), "l"(b));
// CHECK: wgmma_m64n8k8_tf32_clear(acc, d + 2, d);
// CHECK-NEXT: wgmma_m64n8k8_tf32_registers(acc, r[4], r[5], r[6], r[7], d + 2);
