// RUN: polyc-opt %examples/softmax.mlir | polyc-opt | filecheck %s --check-prefix=FRONTEND
// RUN: polyc-opt %examples/softmax.mlir -p frontend-to-tiny | polyc-opt | filecheck %s

// The example at the frontend and at the tiny level, whole.

// FRONTEND: frontend.graph @softmax(%X: !frontend.tensor<[M, N], f16>) -> (Y: !frontend.tensor<[M, N], f16>) {
// FRONTEND-NEXT: %0 = frontend.softmax %X axes [1] : !frontend.tensor<[M, N], f16>
// FRONTEND-NEXT: frontend.output %0 : !frontend.tensor<[M, N], f16>

// CHECK: tiny.graph @softmax(%X: !tiny.tensor<[M, N], f16>) -> (Y: !tiny.tensor<[M, N], f16>) {
// CHECK-NEXT: %X_f32 = tiny.cast %X : !tiny.tensor<[M, N], f16> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %0 = tiny.reduce max %X_f32 axes [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: %1 = tiny.expand %0 dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %2 = tiny.binary sub %X_f32, %1 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %3 = tiny.unary exp %2 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %4 = tiny.reduce sum %3 axes [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: %5 = tiny.expand %4 dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %6 = tiny.binary div %3, %5 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %7 = tiny.cast %6 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f16>
// CHECK-NEXT: tiny.output %7 : !tiny.tensor<[M, N], f16>
