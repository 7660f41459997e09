// RUN: polyc-opt %s -t cuda | filecheck %s

// Everything is computed in f32 with C's accurate functions; max and min propagate NaN.
gpu.module @floats arch "sm_80" symbols [M] {
  gpu.kernel @every(%A: !gpu.global<[M], f32> = tensor 0, %H: !gpu.global<[M], f16> = tensor 1, %B: !gpu.global<[M], bf16> = tensor 2) threads 32 {
    %c0 = arith.constant 0 : index
    %tenth = arith.constant 0.1 : f32
    %minus0 = arith.constant -0.0 : f32
    %large = arith.constant 1.0e10 : f32
    %inf = arith.constant 0x7F800000 : f32
    %half = arith.constant 0.5 : f16
    %bhalf = arith.constant 0.1 : bf16
    %h = gpu.load_global %H[%c0 : index] : !gpu.global<[M], f16> -> f16
    %b = gpu.load_global %B[%c0 : index] : !gpu.global<[M], bf16> -> bf16
    %x = arith.extf %h : f16 to f32
    %y = arith.extf %b : bf16 to f32
    %k0 = arith.extf %half : f16 to f32
    %k1 = arith.extf %bhalf : bf16 to f32
    %0 = arith.addf %x, %y : f32
    %1 = arith.subf %0, %tenth : f32
    %2 = arith.mulf %1, %minus0 : f32
    %3 = arith.divf %2, %large : f32
    %4 = arith.negf %3 : f32
    %5 = arith.maximumf %4, %inf : f32
    %6 = arith.minimumf %5, %k0 : f32
    %7 = arith.maxnumf %6, %k1 : f32
    %8 = arith.minnumf %7, %x : f32
    %9 = math.exp %8 : f32
    %10 = math.log %9 : f32
    %11 = math.sqrt %10 : f32
    %12 = math.rsqrt %11 : f32
    %13 = math.tanh %12 : f32
    %14 = math.erf %13 : f32
    %15 = math.absf %14 : f32
    %16 = math.exp2 %15 : f32
    %17 = math.fma %16, %x, %y : f32
    %18 = math.powf %17, %x : f32
    %floor = math.floor %18 : f32
    %ceil = math.ceil %floor : f32
    %even = math.roundeven %ceil : f32
    %log2 = math.log2 %even : f32
    %lt = arith.cmpf olt, %18, %x : f32
    %ne = arith.cmpf une, %18, %x : f32
    %one = arith.cmpf one, %18, %x : f32
    %uge = arith.cmpf uge, %18, %x : f32
    %ord = arith.cmpf ord, %18, %x : f32
    %a0 = arith.andi %lt, %ne : i1
    %a1 = arith.andi %a0, %one : i1
    %a2 = arith.andi %a1, %uge : i1
    %a3 = arith.andi %a2, %ord : i1
    %19 = arith.select %a3, %18, %x : f32
    %bits = arith.bitcast %19 : f32 to i32
    %back = arith.bitcast %bits : i32 to f32
    %signed = arith.sitofp %bits : i32 to f32
    %unsigned = arith.uitofp %bits : i32 to f32
    %sum = math.fma %signed, %unsigned, %log2 : f32
    %20 = arith.addf %back, %sum : f32
    %21 = arith.divf %20, %y : f32
    %r = arith.truncf %21 : f32 to bf16
    gpu.store_global %21, %A[%c0 : index] : f32, !gpu.global<[M], f32>
    gpu.store_global %r, %B[%c0 : index] : bf16, !gpu.global<[M], bf16>
    gpu.return
  }
}

// CHECK: __device__ __forceinline__ float f16_to_f32(f16 x) {
// CHECK-NEXT:   float r;
// CHECK-NEXT:   asm("cvt.f32.f16 %0, %1;"
// CHECK-NEXT:       : "=f"(r)
// CHECK-NEXT:       : "h"(x));
// CHECK-NEXT:   return r;
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ float max_nan(float a, float b) {
// CHECK-NEXT:   float r;
// CHECK-NEXT:   asm("max.NaN.f32 %0, %1, %2;"
// CHECK-NEXT:       : "=f"(r)
// CHECK-NEXT:       : "f"(a), "f"(b));
// CHECK-NEXT:   return r;
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ float square_root(float x) {
// CHECK-NEXT:   bool is_low = x < 0x1p-100f;
// CHECK: __device__ __forceinline__ float divide(float a, float b) {
// CHECK-NEXT:   float quotient = (a == 0.0f ? 0x1p-30f : a) / b;
// CHECK-NEXT:   return a == 0.0f ? a * quotient : quotient;
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ bf16 f32_to_bf16(float x) {
// CHECK-NEXT:   bf16 r;
// CHECK-NEXT:   asm("{\n"
// CHECK-NEXT:       ".reg .b32 pair;\n"
// CHECK-NEXT:       ".reg .b16 high;\n"
// CHECK-NEXT:       "cvt.rn.bf16x2.f32 pair, %1, %2;\n"
// CHECK-NEXT:       "mov.b32 {%0, high}, pair;\n"
// CHECK-NEXT:       "}"
// CHECK-NEXT:       : "=h"(r)
// CHECK-NEXT:       : "f"(0.0f), "f"(x));
// CHECK-NEXT:   return r;
// CHECK-NEXT: }
// CHECK: extern "C" __global__ void __launch_bounds__(32, 1)
// CHECK-NEXT: every(float* __restrict__ A, const f16* __restrict__ H, bf16* __restrict__ B) {
// CHECK-NEXT:   f16 h = load_global_nc_f16(H);
// CHECK-NEXT:   bf16 b = load_global_bf16(B);
// CHECK-NEXT:   float x = f16_to_f32(h);
// CHECK-NEXT:   float y = bf16_to_f32(b);
// CHECK-NEXT:   float k0 = f16_to_f32((f16)0x3800);
// CHECK-NEXT:   float k1 = bf16_to_f32((bf16)0x3dcd);
// CHECK-NEXT:   float x_1 = x + y;
// CHECK-NEXT:   float x_2 = x_1 - 0.1f;
// CHECK-NEXT:   float x_3 = x_2 * -0.0f;
// CHECK-NEXT:   float x_4 = x_3 / 1e+10f;
// CHECK-NEXT:   float x_5 = -x_4;
// CHECK-NEXT:   float x_6 = max_nan(x_5, __uint_as_float(0x7f800000u));
// CHECK-NEXT:   float x_7 = min_nan(x_6, k0);
// CHECK-NEXT:   float x_8 = fmaxf(x_7, k1);
// CHECK-NEXT:   float x_9 = fminf(x_8, x);
// CHECK-NEXT:   float x_10 = expf(x_9);
// CHECK-NEXT:   float x_11 = logf(x_10);
// CHECK-NEXT:   float x_12 = square_root(x_11);
// CHECK-NEXT:   float x_13 = rsqrtf(x_12);
// CHECK-NEXT:   float x_14 = tanhf(x_13);
// CHECK-NEXT:   float x_15 = error_function(x_14);
// CHECK-NEXT:   float x_16 = fabsf(x_15);
// CHECK-NEXT:   float x_17 = exp2f(x_16);
// CHECK-NEXT:   float x_18 = fmaf(x_17, x, y);
// CHECK-NEXT:   float x_19 = powf(x_18, x);
// CHECK-NEXT:   float floor = floorf(x_19);
// CHECK-NEXT:   float ceil = ceilf(floor);
// CHECK-NEXT:   float even = rintf(ceil);
// CHECK-NEXT:   float log2 = log2f(even);
// CHECK-NEXT:   bool lt = x_19 < x;
// CHECK-NEXT:   bool ne = x_19 != x;
// CHECK-NEXT:   bool one = x_19 < x || x_19 > x;
// CHECK-NEXT:   bool uge = !(x_19 < x);
// CHECK-NEXT:   bool ord = x_19 == x_19 && x == x;
// CHECK-NEXT:   bool a0 = lt & ne;
// CHECK-NEXT:   bool a1 = a0 & one;
// CHECK-NEXT:   bool a2 = a1 & uge;
// CHECK-NEXT:   bool a3 = a2 & ord;
// CHECK-NEXT:   float chosen = a3 ? x_19 : x;
// CHECK-NEXT:   u32 bits = __float_as_uint(chosen);
// CHECK-NEXT:   float back = __uint_as_float(bits);
// CHECK-NEXT:   float signed_ = (float)(int)bits;
// CHECK-NEXT:   float unsigned_ = (float)bits;
// CHECK-NEXT:   float sum = fmaf(signed_, unsigned_, log2);
// CHECK-NEXT:   float x_20 = back + sum;
// CHECK-NEXT:   float x_21 = divide(x_20, y);
// CHECK-NEXT:   bf16 r = f32_to_bf16(x_21);
// CHECK-NEXT:   store_global_f32(A, x_21);
// CHECK-NEXT:   store_global_bf16(B, r);
// CHECK-NEXT: }
