// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// Grouped heads, both kinds of mask, an affine condition, and the log-sum-exp.

// CHECK: tiny.graph @all(%q: !tiny.tensor<[B, 8, M, D], f16>, %k: !tiny.tensor<[B, 2, N, D], f16>, %v: !tiny.tensor<[B, 2, N, E], f16>, %m: !tiny.tensor<[M, N], i1>, %bias: !tiny.tensor<[8, 1, N], f32>) -> (O: !tiny.tensor<[B, 8, M, E], f16>, L: !tiny.tensor<[B, 8, M], f32>) {
// CHECK-NEXT: %q_f32 = tiny.cast %q : !tiny.tensor<[B, 8, M, D], f16> -> !tiny.tensor<[B, 8, M, D], f32>
// CHECK-NEXT: %0 = tiny.expand %k dims [0, 1, 3, 4] : !tiny.tensor<[B, 2, N, D], f16> -> !tiny.tensor<[B, 2, 4, N, D], f16>
// CHECK-NEXT: %1 = tiny.reshape %0 : !tiny.tensor<[B, 2, 4, N, D], f16> -> !tiny.tensor<[B, 8, N, D], f16>
// CHECK-NEXT: %2 = tiny.cast %1 : !tiny.tensor<[B, 8, N, D], f16> -> !tiny.tensor<[B, 8, N, D], f32>
// CHECK-NEXT: %3 = tiny.expand %v dims [0, 1, 3, 4] : !tiny.tensor<[B, 2, N, E], f16> -> !tiny.tensor<[B, 2, 4, N, E], f16>
// CHECK-NEXT: %4 = tiny.reshape %3 : !tiny.tensor<[B, 2, 4, N, E], f16> -> !tiny.tensor<[B, 8, N, E], f16>
// CHECK-NEXT: %5 = tiny.cast %4 : !tiny.tensor<[B, 8, N, E], f16> -> !tiny.tensor<[B, 8, N, E], f32>
// CHECK-NEXT: %6 = tiny.expand %q_f32 dims [0, 1, 2, 4] : !tiny.tensor<[B, 8, M, D], f32> -> !tiny.tensor<[B, 8, M, N, D], f32>
// CHECK-NEXT: %7 = tiny.expand %2 dims [0, 1, 3, 4] : !tiny.tensor<[B, 8, N, D], f32> -> !tiny.tensor<[B, 8, M, N, D], f32>
// CHECK-NEXT: %8 = tiny.binary mul %6, %7 : !tiny.tensor<[B, 8, M, N, D], f32>
// CHECK-NEXT: %9 = tiny.reduce sum %8 axes [4] : !tiny.tensor<[B, 8, M, N, D], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %10 = tiny.constant 0.125 : !tiny.tensor<[], f32>
// CHECK-NEXT: %11 = tiny.expand %10 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %12 = tiny.binary mul %9, %11 : !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %13 = tiny.expand %m dims [2, 3] : !tiny.tensor<[M, N], i1> -> !tiny.tensor<[B, 8, M, N], i1>
// CHECK-NEXT: %14 = tiny.constant -inf : !tiny.tensor<[], f32>
// CHECK-NEXT: %15 = tiny.expand %14 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[8, 1, N], f32>
// CHECK-NEXT: %16 = tiny.compare ne %bias, %15 : !tiny.tensor<[8, 1, N], f32>
// CHECK-NEXT: %17 = tiny.expand %bias dims [1, 2, 3] : !tiny.tensor<[8, 1, N], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %18 = tiny.binary add %12, %17 : !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %19 = tiny.expand %16 dims [1, 2, 3] : !tiny.tensor<[8, 1, N], i1> -> !tiny.tensor<[B, 8, M, N], i1>
// CHECK-NEXT: %20 = tiny.mask %18 where affine_set<(d0, d1, d2, d3)[s0, s1, s2, s3, s4] : ((((d2 + (d3 * -1)) + (s1 * -1)) + s3) >= 0, (((((d2 * -1) + d3) + s1) + (s3 * -1)) + 127) >= 0)> fill -inf : !tiny.tensor<[B, 8, M, N], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %21 = tiny.constant -inf : !tiny.tensor<[], f32>
// CHECK-NEXT: %22 = tiny.expand %21 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %23 = tiny.select %13, %20, %22 : !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %24 = tiny.constant -inf : !tiny.tensor<[], f32>
// CHECK-NEXT: %25 = tiny.expand %24 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %26 = tiny.select %19, %23, %25 : !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %27 = tiny.reduce max %26 axes [3] : !tiny.tensor<[B, 8, M, N], f32> -> !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %28 = tiny.constant -inf : !tiny.tensor<[], f32>
// CHECK-NEXT: %29 = tiny.expand %28 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %30 = tiny.compare eq %27, %29 : !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %31 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %32 = tiny.expand %31 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %33 = tiny.select %30, %32, %27 : !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %34 = tiny.expand %33 dims [0, 1, 2] : !tiny.tensor<[B, 8, M], f32> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %35 = tiny.binary sub %26, %34 : !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %36 = tiny.unary exp %35 : !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %37 = tiny.reduce sum %36 axes [3] : !tiny.tensor<[B, 8, M, N], f32> -> !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %38 = tiny.expand %5 dims [0, 1, 3, 4] : !tiny.tensor<[B, 8, N, E], f32> -> !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %39 = tiny.mask %38 where affine_set<(d0, d1, d2, d3, d4)[s0, s1, s2, s3, s4] : ((((d2 + (d3 * -1)) + (s1 * -1)) + s3) >= 0, (((((d2 * -1) + d3) + s1) + (s3 * -1)) + 127) >= 0)> fill 0.0 : !tiny.tensor<[B, 8, M, N, E], f32> -> !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %40 = tiny.expand %13 dims [0, 1, 2, 3] : !tiny.tensor<[B, 8, M, N], i1> -> !tiny.tensor<[B, 8, M, N, E], i1>
// CHECK-NEXT: %41 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %42 = tiny.expand %41 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %43 = tiny.select %40, %39, %42 : !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %44 = tiny.expand %19 dims [0, 1, 2, 3] : !tiny.tensor<[B, 8, M, N], i1> -> !tiny.tensor<[B, 8, M, N, E], i1>
// CHECK-NEXT: %45 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %46 = tiny.expand %45 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %47 = tiny.select %44, %43, %46 : !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %48 = tiny.cast %36 : !tiny.tensor<[B, 8, M, N], f32> -> !tiny.tensor<[B, 8, M, N], f16>
// CHECK-NEXT: %49 = tiny.cast %48 : !tiny.tensor<[B, 8, M, N], f16> -> !tiny.tensor<[B, 8, M, N], f32>
// CHECK-NEXT: %50 = tiny.expand %49 dims [0, 1, 2, 3] : !tiny.tensor<[B, 8, M, N], f32> -> !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %51 = tiny.binary mul %50, %47 : !tiny.tensor<[B, 8, M, N, E], f32>
// CHECK-NEXT: %52 = tiny.reduce sum %51 axes [3] : !tiny.tensor<[B, 8, M, N, E], f32> -> !tiny.tensor<[B, 8, M, E], f32>
// CHECK-NEXT: %53 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %54 = tiny.expand %53 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %55 = tiny.compare eq %37, %54 : !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %56 = tiny.expand %37 dims [0, 1, 2] : !tiny.tensor<[B, 8, M], f32> -> !tiny.tensor<[B, 8, M, E], f32>
// CHECK-NEXT: %57 = tiny.binary div %52, %56 : !tiny.tensor<[B, 8, M, E], f32>
// CHECK-NEXT: %58 = tiny.expand %55 dims [0, 1, 2] : !tiny.tensor<[B, 8, M], i1> -> !tiny.tensor<[B, 8, M, E], i1>
// CHECK-NEXT: %59 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %60 = tiny.expand %59 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, 8, M, E], f32>
// CHECK-NEXT: %61 = tiny.select %58, %60, %57 : !tiny.tensor<[B, 8, M, E], f32>
// CHECK-NEXT: %62 = tiny.unary log %37 : !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %63 = tiny.binary add %33, %62 : !tiny.tensor<[B, 8, M], f32>
// CHECK-NEXT: %64 = tiny.cast %61 : !tiny.tensor<[B, 8, M, E], f32> -> !tiny.tensor<[B, 8, M, E], f16>
// CHECK-NEXT: tiny.output %64, %63 : !tiny.tensor<[B, 8, M, E], f16>, !tiny.tensor<[B, 8, M], f32>
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

// A cap: one factor before the tanh, also where the scale is known at launch only.

// CHECK-LABEL: tiny.graph @capped
// CHECK: %[[S:.*]] = tiny.reduce sum
// CHECK: %[[C:.*]] = tiny.constant 0.0025
// CHECK-NEXT: %[[E:.*]] = tiny.expand %[[C]]
// CHECK-NEXT: %[[X:.*]] = tiny.binary mul %[[S]], %[[E]]
// CHECK: %[[T:.*]] = tiny.unary tanh %[[X]]
// CHECK: %[[F:.*]] = tiny.constant 5.0e+01
// CHECK-NEXT: %[[G:.*]] = tiny.expand %[[F]]
// CHECK-NEXT: %[[Y:.*]] = tiny.binary mul %[[T]], %[[G]]
// CHECK: tiny.reduce max
frontend.graph @capped(%q: !frontend.tensor<[H, M, 64], f16>, %k: !frontend.tensor<[H, N, 64], f16>) -> !frontend.tensor<[H, M, 64], f16> {
  %0 = frontend.attention %q, %k, %k cap 50.0 {acc = f32} : (!frontend.tensor<[H, M, 64], f16>, !frontend.tensor<[H, N, 64], f16>, !frontend.tensor<[H, N, 64], f16>) -> !frontend.tensor<[H, M, 64], f16>
  frontend.output %0 : !frontend.tensor<[H, M, 64], f16>
}

// CHECK-LABEL: tiny.graph @capped_symbolic
// CHECK: tiny.unary rsqrt
// CHECK: tiny.constant 0.02
// CHECK: tiny.unary tanh
// CHECK: tiny.constant 5.0e+01
frontend.graph @capped_symbolic(%q: !frontend.tensor<[H, M, D], f16>, %k: !frontend.tensor<[H, N, D], f16>) -> !frontend.tensor<[H, M, D], f16> {
  %0 = frontend.attention %q, %k, %k cap 50.0 {acc = f32} : (!frontend.tensor<[H, M, D], f16>, !frontend.tensor<[H, N, D], f16>, !frontend.tensor<[H, N, D], f16>) -> !frontend.tensor<[H, M, D], f16>
  frontend.output %0 : !frontend.tensor<[H, M, D], f16>
}
