// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// Grouped heads, both kinds of mask, an affine condition, and the log-sum-exp.

// CHECK: tiny.graph @all(%q: !tiny.tensor<[B, 8, M, D], f16>, %k: !tiny.tensor<[B, 2, N, D], f16>, %v: !tiny.tensor<[B, 2, N, E], f16>, %m: !tiny.tensor<[M, N], i1>, %bias: !tiny.tensor<[8, 1, N], f32>) -> (O: !tiny.tensor<[B, 8, M, E], f16>, L: !tiny.tensor<[B, 8, M], f32>) {
// CHECK-NEXT: %q_f32 = tiny.cast %q : !tiny.tensor<[B, 8, M, D], f16> -> !tiny.tensor<[B, 8, M, D], f32>
// CHECK-NEXT: %k_f32 = tiny.cast %k : !tiny.tensor<[B, 2, N, D], f16> -> !tiny.tensor<[B, 2, N, D], f32>
// CHECK-NEXT: %v_f32 = tiny.cast %v : !tiny.tensor<[B, 2, N, E], f16> -> !tiny.tensor<[B, 2, N, E], f32>
// CHECK-NEXT: %0 = tiny.expand %k_f32 dims [0, 1, 3, 4] : !tiny.tensor<[B, 2, N, D], f32> -> !tiny.tensor<[B, 2, 4, N, D], f32>
// CHECK-NEXT: %1 = tiny.reshape %0 : !tiny.tensor<[B, 2, 4, N, D], f32> -> !tiny.tensor<[B, 8, N, D], f32>
// CHECK-NEXT: %2 = tiny.expand %v_f32 dims [0, 1, 3, 4] : !tiny.tensor<[B, 2, N, E], f32> -> !tiny.tensor<[B, 2, 4, N, E], f32>
// CHECK-NEXT: %3 = tiny.reshape %2 : !tiny.tensor<[B, 2, 4, N, E], f32> -> !tiny.tensor<[B, 8, N, E], f32>
// CHECK-NEXT: %4 = tiny.expand %q_f32 dims [0, 1, 2, 4] : !tiny.tensor<[B, 8, M, D], f32> -> !tiny.tensor<[B, 8, M, N, D], f32>
// CHECK-NEXT: %5 = tiny.expand %1 dims [0, 1, 3, 4] : !tiny.tensor<[B, 8, N, D], f32> -> !tiny.tensor<[B, 8, M, N, D], f32>
// CHECK-NEXT: %6 = tiny.binary mul %4, %5 : !tiny.tensor<[B, 8, M, N, D], f32>
// CHECK-NEXT: %7 = tiny.reduce sum %6 axes [4] : !tiny.tensor<[B, 8, M, N, D], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %8 = tiny.constant 0.125 : !tiny.tensor<[], f32>
// CHECK-NEXT: %9 = tiny.expand %8 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %10 = tiny.binary mul %7, %9 : !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %11 = tiny.expand %m dims [2, 3] : !tiny.tensor<[M, N], i1> -> !tiny.tensor<[B, 8, M, N], i1>
// CHECK-NEXT: %12 = tiny.constant -inf : !tiny.tensor<[], f32>
// CHECK-NEXT: %13 = tiny.expand %12 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[8, 1, N], f32>
// CHECK-NEXT: %14 = tiny.compare ne %bias, %13 : !tiny.tensor<[8, 1, N], f32>
// CHECK-NEXT: %15 = tiny.expand %bias dims [1, 2, 3] : !tiny.tensor<[8, 1, N], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %16 = tiny.binary add %10, %15 : !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %17 = tiny.expand %14 dims [1, 2, 3] : !tiny.tensor<[8, 1, N], i1> -> !tiny.tensor<[B, 8, M, N], i1>
// CHECK-NEXT: %18 = tiny.mask %16 where affine_set<(d0, d1, d2, d3)[s0, s1, s2, s3, s4] : ((((d2 + (d3 * -1)) + (s1 * -1)) + s3) >= 0, (((((d2 * -1) + d3) + s1) + (s3 * -1)) + 127) >= 0)> fill -inf : !tiny.tensor<[B, 8, M, N], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %19 = tiny.constant -inf : !tiny.tensor<[], f32>
// CHECK-NEXT: %20 = tiny.expand %19 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %21 = tiny.select %11, %18, %20 : !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %22 = tiny.constant -inf : !tiny.tensor<[], f32>
// CHECK-NEXT: %23 = tiny.expand %22 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %24 = tiny.select %17, %21, %23 : !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %25 = tiny.reduce max %24 axes [3] : !tiny.tensor<[B, 8, M, N], f32> -> !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %26 = tiny.constant -inf : !tiny.tensor<[], f32>
// CHECK-NEXT: %27 = tiny.expand %26 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %28 = tiny.compare eq %25, %27 : !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %29 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %30 = tiny.expand %29 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %31 = tiny.select %28, %30, %25 : !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %32 = tiny.expand %31 dims [0, 1, 2] : !tiny.tensor<[B, 8, M], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %33 = tiny.binary sub %24, %32 : !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %34 = tiny.unary exp %33 : !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %35 = tiny.reduce sum %34 axes [3] : !tiny.tensor<[B, 8, M, N], f32> -> !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %36 = tiny.expand %3 dims [0, 1, 3, 4] : !tiny.tensor<[B, 8, N, E], f32> -> !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %37 = tiny.mask %36 where affine_set<(d0, d1, d2, d3, d4)[s0, s1, s2, s3, s4] : ((((d2 + (d3 * -1)) + (s1 * -1)) + s3) >= 0, (((((d2 * -1) + d3) + s1) + (s3 * -1)) + 127) >= 0)> fill 0.0 : !tiny.tensor<[B, 8, M, N, E], f32> -> !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %38 = tiny.expand %11 dims [0, 1, 2, 3] : !tiny.tensor<[B, 8, M, N], i1> -> !tiny.tensor<[B, 8, M, N, E], i1>
// CHECK-NEXT: %39 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %40 = tiny.expand %39 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %41 = tiny.select %38, %37, %40 : !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %42 = tiny.expand %17 dims [0, 1, 2, 3] : !tiny.tensor<[B, 8, M, N], i1> -> !tiny.tensor<[B, 8, M, N, E], i1>
// CHECK-NEXT: %43 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %44 = tiny.expand %43 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %45 = tiny.select %42, %41, %44 : !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %46 = tiny.cast %34 : !tiny.tensor<[B, 8, M, N], f32> -> !tiny.tensor<[B, 8, M, N], f16>
// CHECK-NEXT: %47 = tiny.cast %46 : !tiny.tensor<[B, 8, M, N], f16> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %48 = tiny.expand %47 dims [0, 1, 2, 3] : !tiny.tensor<[B, 8, M, N], f32> -> !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %49 = tiny.binary mul %48, %45 : !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %50 = tiny.reduce sum %49 axes [3] : !tiny.tensor<[B, 8, M, N, E], f32> -> !tiny.tensor<[B, 8, M, E], f32>
// CHECK-NEXT: %51 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %52 = tiny.expand %51 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %53 = tiny.compare eq %35, %52 : !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %54 = tiny.expand %35 dims [0, 1, 2] : !tiny.tensor<[B, 8, M], f32> -> !tiny.tensor<[B, 8, M, E], f32>
// CHECK-NEXT: %55 = tiny.binary div %50, %54 : !tiny.tensor<[B, 8, M, E], f32>
// CHECK-NEXT: %56 = tiny.expand %53 dims [0, 1, 2] : !tiny.tensor<[B, 8, M], i1> -> !tiny.tensor<[B, 8, M, E], i1>
// CHECK-NEXT: %57 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %58 = tiny.expand %57 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M, E], f32>
// CHECK-NEXT: %59 = tiny.select %56, %58, %55 : !tiny.tensor<[B, 8, M, E], f32>
// CHECK-NEXT: %60 = tiny.unary log %35 : !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %61 = tiny.binary add %31, %60 : !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %62 = tiny.cast %59 : !tiny.tensor<[B, 8, M, E], f32> -> !tiny.tensor<[B, 8, M, E], f16>
// CHECK-NEXT: tiny.output %62, %61 : !tiny.tensor<[B, 8, M, E], f16>, !tiny.tensor<[B, 8, M], f32>
frontend.graph @all(%q: !frontend.tensor<[B, 8, M, D], f16>, %k: !frontend.tensor<[B, 2, N, D], f16>, %v: !frontend.tensor<[B, 2, N, E], f16>, %m: !frontend.tensor<[M, N], i1>, %bias: !frontend.tensor<[8, 1, N], f32>) -> (O: !frontend.tensor<[B, 8, M, E], f16>, L: !frontend.tensor<[B, 8, M], f32>) {
  %0, %1 = frontend.attention %q, %k, %v mask %m, %bias scale 0.125 causal window [127, 3] offset N - M {acc = f32} : (!frontend.tensor<[B, 8, M, D], f16>, !frontend.tensor<[B, 2, N, D], f16>, !frontend.tensor<[B, 2, N, E], f16>, !frontend.tensor<[M, N], i1>, !frontend.tensor<[8, 1, N], f32>) -> (!frontend.tensor<[B, 8, M, E], f16>, !frontend.tensor<[B, 8, M], f32>)
  frontend.output %0, %1 : !frontend.tensor<[B, 8, M, E], f16>, !frontend.tensor<[B, 8, M], f32>
}

// A symbolic D makes the scale an rsqrt; one key head stretches; f32 rounds nothing.

// CHECK: tiny.graph @multi_query(%q: !tiny.tensor<[H, M, D], f32>, %k: !tiny.tensor<[1, N, D], f32>) -> (C: !tiny.tensor<[H, M, D], f32>) {
// CHECK-NEXT: %0 = tiny.expand %q dims [0, 1, 3] : !tiny.tensor<[H, M, D], f32> -> !tiny.tensor<[H, M, N, D], f32>
// CHECK-NEXT: %1 = tiny.expand %k dims [0, 2, 3] : !tiny.tensor<[1, N, D], f32> -> !tiny.tensor<[H, M, N, D], f32>
// CHECK-NEXT: %2 = tiny.binary mul %0, %1 : !tiny.tensor<[H, M, N, D], f32>
// CHECK-NEXT: %3 = tiny.reduce sum %2 axes [3] : !tiny.tensor<[H, M, N, D], f32> -> !tiny.tensor<[H, M, N], f32>
// CHECK-NEXT: %4 = tiny.dim D : !tiny.tensor<[], f32>
// CHECK-NEXT: %5 = tiny.unary rsqrt %4 : !tiny.tensor<[], f32>
// CHECK-NEXT: %6 = tiny.expand %5 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[H, M, N], f32>
// CHECK-NEXT: %7 = tiny.binary mul %3, %6 : !tiny.tensor<[H, M, N], f32>
// CHECK-NEXT: %8 = tiny.reduce max %7 axes [2] : !tiny.tensor<[H, M, N], f32> -> !tiny.tensor<[H, M], f32>
// CHECK-NEXT: %9 = tiny.constant -inf : !tiny.tensor<[], f32>
// CHECK-NEXT: %10 = tiny.expand %9 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[H, M], f32>
// CHECK-NEXT: %11 = tiny.compare eq %8, %10 : !tiny.tensor<[H, M], f32>
// CHECK-NEXT: %12 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %13 = tiny.expand %12 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[H, M], f32>
// CHECK-NEXT: %14 = tiny.select %11, %13, %8 : !tiny.tensor<[H, M], f32>
// CHECK-NEXT: %15 = tiny.expand %14 dims [0, 1] : !tiny.tensor<[H, M], f32> -> !tiny.tensor<[H, M, N], f32>
// CHECK-NEXT: %16 = tiny.binary sub %7, %15 : !tiny.tensor<[H, M, N], f32>
// CHECK-NEXT: %17 = tiny.unary exp %16 : !tiny.tensor<[H, M, N], f32>
// CHECK-NEXT: %18 = tiny.reduce sum %17 axes [2] : !tiny.tensor<[H, M, N], f32> -> !tiny.tensor<[H, M], f32>
// CHECK-NEXT: %19 = tiny.expand %k dims [0, 2, 3] : !tiny.tensor<[1, N, D], f32> -> !tiny.tensor<[H, M, N, D], f32>
// CHECK-NEXT: %20 = tiny.expand %17 dims [0, 1, 2] : !tiny.tensor<[H, M, N], f32> -> !tiny.tensor<[H, M, N, D], f32>
// CHECK-NEXT: %21 = tiny.binary mul %20, %19 : !tiny.tensor<[H, M, N, D], f32>
// CHECK-NEXT: %22 = tiny.reduce sum %21 axes [2] : !tiny.tensor<[H, M, N, D], f32> -> !tiny.tensor<[H, M, D], f32>
// CHECK-NEXT: %23 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %24 = tiny.expand %23 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[H, M], f32>
// CHECK-NEXT: %25 = tiny.compare eq %18, %24 : !tiny.tensor<[H, M], f32>
// CHECK-NEXT: %26 = tiny.expand %18 dims [0, 1] : !tiny.tensor<[H, M], f32> -> !tiny.tensor<[H, M, D], f32>
// CHECK-NEXT: %27 = tiny.binary div %22, %26 : !tiny.tensor<[H, M, D], f32>
// CHECK-NEXT: %28 = tiny.expand %25 dims [0, 1] : !tiny.tensor<[H, M], i1> -> !tiny.tensor<[H, M, D], i1>
// CHECK-NEXT: %29 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %30 = tiny.expand %29 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[H, M, D], f32>
// CHECK-NEXT: %31 = tiny.select %28, %30, %27 : !tiny.tensor<[H, M, D], f32>
// CHECK-NEXT: tiny.output %31 : !tiny.tensor<[H, M, D], f32>
frontend.graph @multi_query(%q: !frontend.tensor<[H, M, D], f32>, %k: !frontend.tensor<[1, N, D], f32>) -> !frontend.tensor<[H, M, D], f32> {
  %0 = frontend.attention %q, %k, %k {acc = f32} : (!frontend.tensor<[H, M, D], f32>, !frontend.tensor<[1, N, D], f32>, !frontend.tensor<[1, N, D], f32>) -> !frontend.tensor<[H, M, D], f32>
  frontend.output %0 : !frontend.tensor<[H, M, D], f32>
}
