// RUN: polyc-opt %examples/layer_norm.mlir | polyc-opt | filecheck %s --check-prefix=FRONTEND
// RUN: polyc-opt %examples/layer_norm.mlir -p frontend-to-tiny | polyc-opt | filecheck %s

// The example at the frontend and at the tiny level, whole.

// FRONTEND: frontend.graph @layer_norm(%X: !frontend.tensor<[M, N], f16>, %gamma: !frontend.tensor<[N], f16> {role = "param", storage = "const_pool"}, %beta: !frontend.tensor<[N], f16> {role = "param", storage = "const_pool"}) -> (Y: !frontend.tensor<[M, N], f16>) {
// FRONTEND-NEXT: %0 = frontend.layer_norm %X weight %gamma bias %beta axes [1] eps 1.0e-05 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], f16>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16>
// FRONTEND-NEXT: frontend.output %0 : !frontend.tensor<[M, N], f16>

// CHECK: tiny.graph @layer_norm(%X: !tiny.tensor<[M, N], f16>, %gamma: !tiny.tensor<[N], f16> {role = "param", storage = "const_pool"}, %beta: !tiny.tensor<[N], f16> {role = "param", storage = "const_pool"}) -> (Y: !tiny.tensor<[M, N], f16>) {
// CHECK-NEXT: %X_f32 = tiny.cast %X : !tiny.tensor<[M, N], f16> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %gamma_f32 = tiny.cast %gamma : !tiny.tensor<[N], f16> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %beta_f32 = tiny.cast %beta : !tiny.tensor<[N], f16> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %0 = tiny.reduce sum %X_f32 axes [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: %1 = tiny.dim N : !tiny.tensor<[], f32>
// CHECK-NEXT: %2 = tiny.expand %1 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: %3 = tiny.binary div %0, %2 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %4 = tiny.expand %3 dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %5 = tiny.binary sub %X_f32, %4 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %6 = tiny.binary mul %5, %5 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %7 = tiny.reduce sum %6 axes [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: %8 = tiny.dim N : !tiny.tensor<[], f32>
// CHECK-NEXT: %9 = tiny.expand %8 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: %10 = tiny.binary div %7, %9 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %11 = tiny.constant 1.0e-05 : !tiny.tensor<[], f32>
// CHECK-NEXT: %12 = tiny.expand %11 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: %13 = tiny.binary add %10, %12 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %14 = tiny.unary rsqrt %13 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %15 = tiny.expand %14 dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %16 = tiny.binary mul %5, %15 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %17 = tiny.expand %gamma_f32 dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %18 = tiny.binary mul %16, %17 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %19 = tiny.expand %beta_f32 dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %20 = tiny.binary add %18, %19 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %21 = tiny.cast %20 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f16>
// CHECK-NEXT: tiny.output %21 : !tiny.tensor<[M, N], f16>
