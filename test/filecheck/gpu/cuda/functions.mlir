// RUN: polyc-opt %s -t cuda | filecheck %s

// C's own functions, which NVRTC compiles without fast math, or ways of our own; large angles too.
gpu.module @functions arch "sm_80" symbols [M] {
  gpu.kernel @each(%A: !gpu.global<[M], f32> = tensor 0, %B: !gpu.global<[M], f32> = tensor 1) threads 32 {
    %c0 = arith.constant 0 : index
    %x = gpu.load_global %A[%c0 : index] : !gpu.global<[M], f32> -> f32
    %v0 = math.acos %x : f32
    %v1 = math.acosh %v0 : f32
    %v2 = math.asin %v1 : f32
    %v3 = math.asinh %v2 : f32
    %v4 = math.atan %v3 : f32
    %v5 = math.atanh %v4 : f32
    %v6 = math.cbrt %v5 : f32
    %v7 = math.cos %v6 : f32
    %v8 = math.cosh %v7 : f32
    %v9 = math.expm1 %v8 : f32
    %v10 = math.log10 %v9 : f32
    %v11 = math.log1p %v10 : f32
    %v12 = math.sin %v11 : f32
    %v13 = math.sinh %v12 : f32
    %v14 = math.tan %v13 : f32
    %v15 = math.trunc %v14 : f32
    %angle = math.atan2 %v15, %x : f32
    %tail = gpu.erfc %angle : f32
    %rest = gpu.fmod %tail, %x : f32
    gpu.store_global %rest, %B[%c0 : index] : f32, !gpu.global<[M], f32>
    gpu.return
  }
}

// CHECK: float v0 = acosf(x);
// CHECK-NEXT: float v1 = acoshf(v0);
// CHECK-NEXT: float v2 = asinf(v1);
// CHECK-NEXT: float v3 = asinhf(v2);
// CHECK-NEXT: float v4 = atanf(v3);
// CHECK-NEXT: float v5 = atanhf(v4);
// CHECK-NEXT: float v6 = cbrtf(v5);
// CHECK-NEXT: float v7 = cosine_of(v6);
// CHECK-NEXT: float v8 = coshf(v7);
// CHECK-NEXT: float v9 = expm1f(v8);
// CHECK-NEXT: float v10 = log10f(v9);
// CHECK-NEXT: float v11 = log_of_one_more(v10);
// CHECK-NEXT: float v12 = sine_of(v11);
// CHECK-NEXT: float v13 = sinhf(v12);
// CHECK-NEXT: float v14 = tanf(v13);
// CHECK-NEXT: float v15 = truncf(v14);
// CHECK-NEXT: float angle = atan2f(v15, x);
// CHECK-NEXT: float tail = erfcf(angle);
// CHECK-NEXT: float rest = fmodf(tail, x);
