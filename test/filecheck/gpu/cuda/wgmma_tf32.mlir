// RUN: polyc-opt %s -t cuda | filecheck %s
// RUN: polyc-opt %s | polyc-opt | filecheck %s --check-prefix=TEXT

// Operands of f32 are TF32 to wgmma: 8 of k at once, stored along it, with no word of transposing.
// TEXT: gpu.wgmma n 8 %d plus 32, %d plus 0, %acc clear element f32
gpu.module @wgmma arch "sm_90a" symbols [M] {
  gpu.kernel @warpgroup(%a: i32 = symbol M) threads 128 {
    %acc = memref.alloca() : memref<4xf32, #gpu<space register>>
    %d = gpu.wgmma_descriptor %a leading 16 stride 1024 swizzle 128
    gpu.wgmma_fence
    gpu.wgmma n 8 %d plus 32, %d plus 0, %acc clear element f32 : memref<4xf32, #gpu<space register>>
    gpu.wgmma_commit
    gpu.wgmma_wait 0
    gpu.return
  }
}

// CHECK: void wgmma_m64n8k8_tf32_clear(float (&d)[4], i64 a, i64 b) {
// CHECK-NEXT:   asm volatile("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32\n"
// CHECK-NEXT:       "{%0, %1, %2, %3},\n"
// CHECK-NEXT:       "%4, %5, 0, 1, 1;"
// CHECK: wgmma_m64n8k8_tf32_clear(acc, d + 2, d);
