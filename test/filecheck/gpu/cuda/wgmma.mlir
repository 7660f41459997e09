// RUN: polyc-opt %s -t cuda | filecheck %s

// A descriptor advances in units of 16 bytes; the accumulator is one array.
gpu.module @wgmma arch "sm_90a" symbols [M] {
  gpu.kernel @warpgroup(%C: !gpu.global<[M], f32> = tensor 0, %a: i32 = symbol M, %b: i32 = symbol M, %in: i1 = symbol M) threads 128 {
    %c0 = arith.constant 0 : index
    scf.if %in {
      %other = memref.alloca() : memref<4xf32, #gpu<space register>>
      %d = gpu.wgmma_descriptor %a leading 0 stride 256 swizzle 32
      gpu.wgmma_fence
      gpu.wgmma n 8 %d plus 0 transpose_a, %d plus 0, %other element bf16 : memref<4xf32, #gpu<space register>>
    } else {
      %acc = memref.alloca() : memref<8xf32, #gpu<space register>>
      %da = gpu.wgmma_descriptor %a leading 16 stride 1024 swizzle 128
      %db = gpu.wgmma_descriptor %b leading 8192 stride 512 swizzle 64
      gpu.wgmma_fence
      gpu.wgmma n 16 %da plus 32, %db plus 2048 transpose_b, %acc element f16 : memref<8xf32, #gpu<space register>>
      gpu.wgmma_commit
      gpu.wgmma_wait 1
      gpu.wgmma_wait 0
      gpu.register_fence %acc : memref<8xf32, #gpu<space register>>
      %x = memref.load %acc[%c0] : memref<8xf32, #gpu<space register>>
      gpu.store_global %x, %C[%c0 : index] : f32, !gpu.global<[M], f32>
    }
    gpu.return
  }
}

// CHECK: __device__ __forceinline__ i64 wgmma_descriptor(u32 address, u32 leading, u32 stride, u32 swizzle) {
// CHECK-NEXT:   u32 low = (address & 0x3ffff) >> 4 | leading >> 4 << 16;
// CHECK-NEXT:   u32 high = stride >> 4 | swizzle << 30;
// CHECK-NEXT:   return (i64)((u64)high << 32 | low);
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void wgmma_m64n8k16_bf16_ta(float (&d)[4], i64 a, i64 b) {
// CHECK-NEXT:   asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16\n"
// CHECK-NEXT:       "{%0, %1, %2, %3},\n"
// CHECK-NEXT:       "%4, %5, 1, 1, 1, 1, 0;"
// CHECK-NEXT:       : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
// CHECK-NEXT:       : "l"(a), "l"(b));
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ void wgmma_m64n16k16_f16_tb(float (&d)[8], i64 a, i64 b) {
// CHECK-NEXT:   asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16\n"
// CHECK-NEXT:       "{%0, %1, %2, %3, %4, %5, %6, %7},\n"
// CHECK-NEXT:       "%8, %9, 1, 1, 1, 0, 1;"
// CHECK-NEXT:       : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
// CHECK-NEXT:       : "l"(a), "l"(b));
// CHECK-NEXT: }
// CHECK: template <int pending>
// CHECK-NEXT: __device__ __forceinline__ void wgmma_wait() {
// CHECK-NEXT:   asm volatile("wgmma.wait_group.sync.aligned %0;"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "n"(pending)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: template <int count>
// CHECK-NEXT: __device__ __forceinline__ void register_fence(float (&r)[count]) {
// CHECK-NEXT:   #pragma unroll
// CHECK-NEXT:   for (int i = 0; i < count; ++i)
// CHECK-NEXT:     asm volatile("" : "+f"(r[i]) : : "memory");
// CHECK-NEXT: }
// CHECK: extern "C" __global__ void __launch_bounds__(128, 1)
// CHECK-NEXT: warpgroup(float* __restrict__ C, u32 a, u32 b, bool in) {
// CHECK-NEXT:   if (in) {
// CHECK-NEXT:     float other[4];
// CHECK-NEXT:     i64 d = wgmma_descriptor(a, 0, 256, 3);
// CHECK-NEXT:     wgmma_fence();
// CHECK-NEXT:     wgmma_m64n8k16_bf16_ta(other, d, d);
// CHECK-NEXT:   } else {
// CHECK-NEXT:     float acc[8];
// CHECK-NEXT:     i64 da = wgmma_descriptor(a, 16, 1024, 1);
// CHECK-NEXT:     i64 db = wgmma_descriptor(b, 8192, 512, 2);
// CHECK-NEXT:     wgmma_fence();
// CHECK-NEXT:     wgmma_m64n16k16_f16_tb(acc, da + 2, db + 128);
// CHECK-NEXT:     wgmma_commit();
// CHECK-NEXT:     wgmma_wait<1>();
// CHECK-NEXT:     wgmma_wait<0>();
// CHECK-NEXT:     register_fence(acc);
// CHECK-NEXT:     float x = acc[0];
// CHECK-NEXT:     store_global_f32(C, x);
// CHECK-NEXT:   }
// CHECK-NEXT: }
