// RUN: polyc-opt %s -t cuda | filecheck %s

// 16-bit elements are pairs in words; rounding takes two at once.
gpu.module @vectors arch "sm_80" symbols [M] {
  gpu.kernel @every(%A: !gpu.global<[M], f32, align 16> = tensor 0, %H: !gpu.global<[M], f16, align 16> = tensor 1, %B: !gpu.global<[M], bf16, align 16> = tensor 2) threads 32 {
    %c0 = arith.constant 0 : index
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %ramp = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : vector<4xf16>
    %x = gpu.load_global %H[%c0 : index] : !gpu.global<[M], f16, align 16> -> vector<4xf16>
    %f = arith.extf %x : vector<4xf16> to vector<4xf32>
    %g = arith.extf %ramp : vector<4xf16> to vector<4xf32>
    %sum = arith.addf %f, %g : vector<4xf32>
    %relu = arith.maximumf %sum, %zero : vector<4xf32>
    %r = arith.truncf %relu : vector<4xf32> to vector<4xbf16>
    gpu.store_global %r, %B[%c0 : index] : vector<4xbf16>, !gpu.global<[M], bf16, align 16>
    %e1 = gpu.unpack %x element 1 : vector<4xf16> -> f16
    %e2 = gpu.unpack %x element 2 : vector<4xf16> -> f16
    %p = gpu.pack %e2, %e1 : f16, f16 -> vector<2xf16>
    gpu.store_global %p, %H[%c0 : index] : vector<2xf16>, !gpu.global<[M], f16, align 16>
    %f0 = gpu.unpack %relu element 0 : vector<4xf32> -> f32
    %f3 = gpu.unpack %relu element 3 : vector<4xf32> -> f32
    %q = gpu.pack %f0, %f3, %f0, %f3, %f0, %f3, %f0, %f3 : f32, f32, f32, f32, f32, f32, f32, f32 -> vector<8xf32>
    %w = arith.truncf %q : vector<8xf32> to vector<8xf16>
    gpu.store_global %w, %H[%c0 : index] : vector<8xf16>, !gpu.global<[M], f16, align 16>
    gpu.store_global %ramp, %H[%c0 : index] : vector<4xf16>, !gpu.global<[M], f16, align 16>
    gpu.return
  }
}

// CHECK: struct __align__(4) f16x2 {
// CHECK-NEXT:   u32 v[1];
// CHECK-NEXT: };
// CHECK: struct __align__(8) bf16x4 {
// CHECK-NEXT:   u32 v[2];
// CHECK-NEXT: };
// CHECK: struct __align__(8) f16x4 {
// CHECK-NEXT:   u32 v[2];
// CHECK-NEXT: };
// CHECK: struct __align__(16) f16x8 {
// CHECK-NEXT:   u32 v[4];
// CHECK-NEXT: };
// CHECK: struct __align__(16) f32x4 {
// CHECK-NEXT:   float v[4];
// CHECK-NEXT: };
// CHECK: struct __align__(16) f32x8 {
// CHECK-NEXT:   float v[8];
// CHECK-NEXT: };
// CHECK: __device__ __forceinline__ u32 f32_to_bf16x2(float low, float high) {
// CHECK-NEXT:   u32 r;
// CHECK-NEXT:   asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
// CHECK-NEXT:       : "=r"(r)
// CHECK-NEXT:       : "f"(high), "f"(low));
// CHECK-NEXT:   return r;
// CHECK-NEXT: }
// CHECK: extern "C" __global__ void __launch_bounds__(32, 1)
// CHECK-NEXT: every(const float* __restrict__ A, f16* __restrict__ H, bf16* __restrict__ B) {
// CHECK-NEXT:   f16x4 x = load_global_f16x4(H);
// CHECK-NEXT:   f32x4 f = f32x4{{[{][{]}}f16_to_f32((f16)x.v[0]), f16_to_f32((f16)(x.v[0] >> 16)), f16_to_f32((f16)x.v[1]), f16_to_f32((f16)(x.v[1] >> 16))}};
// CHECK-NEXT:   f32x4 g = f32x4{{[{][{]}}f16_to_f32((f16)0x3c00), f16_to_f32((f16)0x4000), f16_to_f32((f16)0x4200), f16_to_f32((f16)0x4400)}};
// CHECK-NEXT:   f32x4 sum = f32x4{{[{][{]}}f.v[0] + g.v[0], f.v[1] + g.v[1], f.v[2] + g.v[2], f.v[3] + g.v[3]}};
// CHECK-NEXT:   f32x4 relu = f32x4{{[{][{]}}max_nan(sum.v[0], 0.0f), max_nan(sum.v[1], 0.0f), max_nan(sum.v[2], 0.0f), max_nan(sum.v[3], 0.0f)}};
// CHECK-NEXT:   bf16x4 r = bf16x4{{[{][{]}}f32_to_bf16x2(relu.v[0], relu.v[1]), f32_to_bf16x2(relu.v[2], relu.v[3])}};
// CHECK-NEXT:   store_global_bf16x4(B, r);
// CHECK-NEXT:   f16 e1 = (f16)(x.v[0] >> 16);
// CHECK-NEXT:   f16 e2 = (f16)x.v[1];
// CHECK-NEXT:   f16x2 p = f16x2{{[{][{]}}(u32)(e2) | (u32)(e1) << 16}};
// CHECK-NEXT:   store_global_f16x2(H, p);
// CHECK-NEXT:   float f0 = relu.v[0];
// CHECK-NEXT:   float f3 = relu.v[3];
// CHECK-NEXT:   f32x8 q = f32x8{{[{][{]}}f0, f3, f0, f3, f0, f3, f0, f3}};
// CHECK-NEXT:   f16x8 w = f16x8{{[{][{]}}f32_to_f16x2(q.v[0], q.v[1]), f32_to_f16x2(q.v[2], q.v[3]), f32_to_f16x2(q.v[4], q.v[5]), f32_to_f16x2(q.v[6], q.v[7])}};
// CHECK-NEXT:   store_global_f16x8(H, w);
// CHECK-NEXT:   store_global_f16x4(H, f16x4{{[{][{]}}(u32)((f16)0x3c00) | (u32)((f16)0x4000) << 16, (u32)((f16)0x4200) | (u32)((f16)0x4400) << 16}});
// CHECK-NEXT: }
