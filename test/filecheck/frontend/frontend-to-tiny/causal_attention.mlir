// RUN: polyc-opt %examples/causal_attention.mlir | polyc-opt | filecheck %s --check-prefix=FRONTEND
// RUN: polyc-opt %examples/causal_attention.mlir -p frontend-to-tiny | polyc-opt | filecheck %s

// The example at the frontend and at the tiny level, whole.

// FRONTEND: frontend.graph @causal_attention(%Q: !frontend.tensor<[B, H, M, 128], f16>, %K: !frontend.tensor<[B, H, N, 128], f16>, %V: !frontend.tensor<[B, H, N, 128], f16>) -> (O: !frontend.tensor<[B, H, M, 128], f16>) {
// FRONTEND-NEXT: %0 = frontend.attention %Q, %K, %V causal {acc = f32} : (!frontend.tensor<[B, H, M, 128], f16>, !frontend.tensor<[B, H, N, 128], f16>, !frontend.tensor<[B, H, N, 128], f16>) -> !frontend.tensor<[B, H, M, 128], f16>
// FRONTEND-NEXT: frontend.output %0 : !frontend.tensor<[B, H, M, 128], f16>

// CHECK: tiny.graph @causal_attention(%Q: !tiny.tensor<[B, H, M, 128], f16>, %K: !tiny.tensor<[B, H, N, 128], f16>, %V: !tiny.tensor<[B, H, N, 128], f16>) -> (O: !tiny.tensor<[B, H, M, 128], f16>) {
// CHECK-NEXT: %Q_f32 = tiny.cast %Q : !tiny.tensor<[B, H, M, 128], f16> -> !tiny.tensor<[B, H, M, 128], f32>
// CHECK-NEXT: %K_f32 = tiny.cast %K : !tiny.tensor<[B, H, N, 128], f16> -> !tiny.tensor<[B, H, N, 128], f32>
// CHECK-NEXT: %V_f32 = tiny.cast %V : !tiny.tensor<[B, H, N, 128], f16> -> !tiny.tensor<[B, H, N, 128], f32>
// CHECK-NEXT: %0 = tiny.expand %Q_f32 dims [0, 1, 2, 4] : !tiny.tensor<[B, H, M, 128], f32> -> !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK-NEXT: %1 = tiny.expand %K_f32 dims [0, 1, 3, 4] : !tiny.tensor<[B, H, N, 128], f32> -> !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK-NEXT: %2 = tiny.binary mul %0, %1 : !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK-NEXT: %3 = tiny.reduce sum %2 axes [4] : !tiny.tensor<[B, H, M, N, 128], f32> -> !tiny.tensor<[B, H, M, N], f32>
// CHECK-NEXT: %4 = tiny.constant 0.088388346 : !tiny.tensor<[], f32>
// CHECK-NEXT: %5 = tiny.expand %4 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, H, M, N], f32>
// CHECK-NEXT: %6 = tiny.binary mul %3, %5 : !tiny.tensor<[B, H, M, N], f32>
// CHECK-NEXT: %7 = tiny.mask %6 where affine_set<(d0, d1, d2, d3)[s0, s1, s2, s3] : ((d2 + (d3 * -1)) >= 0)> fill -inf : !tiny.tensor<[B, H, M, N], f32> -> !tiny.tensor<[B, H, M, N], f32>
// CHECK-NEXT: %8 = tiny.reduce max %7 axes [3] : !tiny.tensor<[B, H, M, N], f32> -> !tiny.tensor<[B, H, M], f32>
// CHECK-NEXT: %9 = tiny.constant -inf : !tiny.tensor<[], f32>
// CHECK-NEXT: %10 = tiny.expand %9 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, H, M], f32>
// CHECK-NEXT: %11 = tiny.compare eq %8, %10 : !tiny.tensor<[B, H, M], f32>
// CHECK-NEXT: %12 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %13 = tiny.expand %12 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, H, M], f32>
// CHECK-NEXT: %14 = tiny.select %11, %13, %8 : !tiny.tensor<[B, H, M], f32>
// CHECK-NEXT: %15 = tiny.expand %14 dims [0, 1, 2] : !tiny.tensor<[B, H, M], f32> -> !tiny.tensor<[B, H, M, N], f32>
// CHECK-NEXT: %16 = tiny.binary sub %7, %15 : !tiny.tensor<[B, H, M, N], f32>
// CHECK-NEXT: %17 = tiny.unary exp %16 : !tiny.tensor<[B, H, M, N], f32>
// CHECK-NEXT: %18 = tiny.reduce sum %17 axes [3] : !tiny.tensor<[B, H, M, N], f32> -> !tiny.tensor<[B, H, M], f32>
// CHECK-NEXT: %19 = tiny.expand %V_f32 dims [0, 1, 3, 4] : !tiny.tensor<[B, H, N, 128], f32> -> !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK-NEXT: %20 = tiny.mask %19 where affine_set<(d0, d1, d2, d3, d4)[s0, s1, s2, s3] : ((d2 + (d3 * -1)) >= 0)> fill 0.0 : !tiny.tensor<[B, H, M, N, 128], f32> -> !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK-NEXT: %21 = tiny.cast %17 : !tiny.tensor<[B, H, M, N], f32> -> !tiny.tensor<[B, H, M, N], f16>
// CHECK-NEXT: %22 = tiny.cast %21 : !tiny.tensor<[B, H, M, N], f16> -> !tiny.tensor<[B, H, M, N], f32>
// CHECK-NEXT: %23 = tiny.expand %22 dims [0, 1, 2, 3] : !tiny.tensor<[B, H, M, N], f32> -> !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK-NEXT: %24 = tiny.binary mul %23, %20 : !tiny.tensor<[B, H, M, N, 128], f32>
// CHECK-NEXT: %25 = tiny.reduce sum %24 axes [3] : !tiny.tensor<[B, H, M, N, 128], f32> -> !tiny.tensor<[B, H, M, 128], f32>
// CHECK-NEXT: %26 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %27 = tiny.expand %26 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, H, M], f32>
// CHECK-NEXT: %28 = tiny.compare eq %18, %27 : !tiny.tensor<[B, H, M], f32>
// CHECK-NEXT: %29 = tiny.expand %18 dims [0, 1, 2] : !tiny.tensor<[B, H, M], f32> -> !tiny.tensor<[B, H, M, 128], f32>
// CHECK-NEXT: %30 = tiny.binary div %25, %29 : !tiny.tensor<[B, H, M, 128], f32>
// CHECK-NEXT: %31 = tiny.expand %28 dims [0, 1, 2] : !tiny.tensor<[B, H, M], i1> -> !tiny.tensor<[B, H, M, 128], i1>
// CHECK-NEXT: %32 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %33 = tiny.expand %32 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[B, H, M, 128], f32>
// CHECK-NEXT: %34 = tiny.select %31, %33, %30 : !tiny.tensor<[B, H, M, 128], f32>
// CHECK-NEXT: %35 = tiny.cast %34 : !tiny.tensor<[B, H, M, 128], f32> -> !tiny.tensor<[B, H, M, 128], f16>
// CHECK-NEXT: tiny.output %35 : !tiny.tensor<[B, H, M, 128], f16>
