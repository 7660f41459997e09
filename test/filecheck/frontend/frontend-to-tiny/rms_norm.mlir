// RUN: polyc-opt %examples/rms_norm.mlir | polyc-opt | filecheck %s --check-prefix=FRONTEND
// RUN: polyc-opt %examples/rms_norm.mlir -p frontend-to-tiny | polyc-opt | filecheck %s

// The example at the frontend and at the tiny level, whole.

// FRONTEND: frontend.graph @rms_norm(%X: !frontend.tensor<[M, N], f16>, %gamma: !frontend.tensor<[N], f16> {role = "param", storage = "const_pool"}) -> (Y: !frontend.tensor<[M, N], f16>) {
// FRONTEND-NEXT: %0 = frontend.rms_norm %X weight %gamma axes [1] eps 1.0e-06 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16>
// FRONTEND-NEXT: frontend.output %0 : !frontend.tensor<[M, N], f16>

// CHECK: tiny.graph @rms_norm(%X: !tiny.tensor<[M, N], f16>, %gamma: !tiny.tensor<[N], f16> {role = "param", storage = "const_pool"}) -> (Y: !tiny.tensor<[M, N], f16>) {
// CHECK-NEXT: %X_f32 = tiny.cast %X : !tiny.tensor<[M, N], f16> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %gamma_f32 = tiny.cast %gamma : !tiny.tensor<[N], f16> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %0 = tiny.binary mul %X_f32, %X_f32 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %1 = tiny.reduce sum %0 axes [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: %2 = tiny.dim N : !tiny.tensor<[], f32>
// CHECK-NEXT: %3 = tiny.expand %2 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: %4 = tiny.binary div %1, %3 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %5 = tiny.constant 1.0e-06 : !tiny.tensor<[], f32>
// CHECK-NEXT: %6 = tiny.expand %5 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: %7 = tiny.binary add %4, %6 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %8 = tiny.unary rsqrt %7 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %9 = tiny.expand %8 dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %10 = tiny.binary mul %X_f32, %9 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %11 = tiny.expand %gamma_f32 dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %12 = tiny.binary mul %10, %11 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %13 = tiny.cast %12 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f16>
// CHECK-NEXT: tiny.output %13 : !tiny.tensor<[M, N], f16>
