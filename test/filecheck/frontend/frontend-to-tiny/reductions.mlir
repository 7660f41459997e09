// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// A mean divides by the size: a number where that is one, else a dim. Keepdims is an expand.

// CHECK: tiny.graph @reduce(%x: !tiny.tensor<[M, N, 4], f32>) -> (A: !tiny.tensor<[M], f32>, B: !tiny.tensor<[M, N, 1], f32>) {
// CHECK-NEXT: %0 = tiny.reduce sum %x axes [1, 2] : !tiny.tensor<[M, N, 4], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: %1 = tiny.dim 4 * N : !tiny.tensor<[], f32>
// CHECK-NEXT: %2 = tiny.expand %1 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M], f32>
// CHECK-NEXT: %3 = tiny.binary div %0, %2 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %4 = tiny.reduce sum %x axes [2] : !tiny.tensor<[M, N, 4], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %5 = tiny.constant 4.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %6 = tiny.expand %5 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %7 = tiny.binary div %4, %6 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %8 = tiny.expand %7 dims [0, 1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N, 1], f32>
// CHECK-NEXT: tiny.output %3, %8 : !tiny.tensor<[M], f32>, !tiny.tensor<[M, N, 1], f32>
frontend.graph @reduce(%x: !frontend.tensor<[M, N, 4], f32>) -> (A: !frontend.tensor<[M], f32>, B: !frontend.tensor<[M, N, 1], f32>) {
  %0 = frontend.reduce mean %x axes [1, 2] : !frontend.tensor<[M, N, 4], f32> -> !frontend.tensor<[M], f32>
  %1 = frontend.reduce mean %x axes [2] keepdims : !frontend.tensor<[M, N, 4], f32> -> !frontend.tensor<[M, N, 1], f32>
  frontend.output %0, %1 : !frontend.tensor<[M], f32>, !frontend.tensor<[M, N, 1], f32>
}

// CHECK: tiny.graph @extremes(%x: !tiny.tensor<[M, N], f32>) -> (A: !tiny.tensor<[N], f32>, B: !tiny.tensor<[1, 1], f32>) {
// CHECK-NEXT: %0 = tiny.reduce max %x axes [0] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %1 = tiny.reduce min %x axes [0, 1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[], f32>
// CHECK-NEXT: %2 = tiny.expand %1 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[1, 1], f32>
// CHECK-NEXT: tiny.output %0, %2 : !tiny.tensor<[N], f32>, !tiny.tensor<[1, 1], f32>
frontend.graph @extremes(%x: !frontend.tensor<[M, N], f32>) -> (A: !frontend.tensor<[N], f32>, B: !frontend.tensor<[1, 1], f32>) {
  %0 = frontend.reduce max %x axes [0] : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[N], f32>
  %1 = frontend.reduce min %x axes [0, 1] keepdims : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[1, 1], f32>
  frontend.output %0, %1 : !frontend.tensor<[N], f32>, !frontend.tensor<[1, 1], f32>
}

// CHECK: tiny.graph @log_softmax(%x: !tiny.tensor<[M, N], f32>) -> (C: !tiny.tensor<[M, N], f32>) {
// CHECK-NEXT: %0 = tiny.reduce max %x axes [0] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %1 = tiny.expand %0 dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %2 = tiny.binary sub %x, %1 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %3 = tiny.unary exp %2 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %4 = tiny.reduce sum %3 axes [0] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %5 = tiny.unary log %4 : !tiny.tensor<[N], f32>
// CHECK-NEXT: %6 = tiny.expand %5 dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %7 = tiny.binary sub %2, %6 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: tiny.output %7 : !tiny.tensor<[M, N], f32>
frontend.graph @log_softmax(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %0 = frontend.log_softmax %x axes [0] : !frontend.tensor<[M, N], f32>
  frontend.output %0 : !frontend.tensor<[M, N], f32>
}

// Weight and bias are expanded along the axes that are not normalised.

// CHECK: tiny.graph @layer_norm(%x: !tiny.tensor<[M, N, K], f32>, %w: !tiny.tensor<[M, K], f32>, %b: !tiny.tensor<[M, K], f16>) -> (C: !tiny.tensor<[M, N, K], f32>) {
// CHECK-NEXT: %b_f32 = tiny.cast %b : !tiny.tensor<[M, K], f16> -> !tiny.tensor<[M, K], f32>
// CHECK-NEXT: %0 = tiny.reduce sum %x axes [0, 2] : !tiny.tensor<[M, N, K], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %1 = tiny.dim K * M : !tiny.tensor<[], f32>
// CHECK-NEXT: %2 = tiny.expand %1 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %3 = tiny.binary div %0, %2 : !tiny.tensor<[N], f32>
// CHECK-NEXT: %4 = tiny.expand %3 dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N, K], f32>
// CHECK-NEXT: %5 = tiny.binary sub %x, %4 : !tiny.tensor<[M, N, K], f32>
// CHECK-NEXT: %6 = tiny.binary mul %5, %5 : !tiny.tensor<[M, N, K], f32>
// CHECK-NEXT: %7 = tiny.reduce sum %6 axes [0, 2] : !tiny.tensor<[M, N, K], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %8 = tiny.dim K * M : !tiny.tensor<[], f32>
// CHECK-NEXT: %9 = tiny.expand %8 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %10 = tiny.binary div %7, %9 : !tiny.tensor<[N], f32>
// CHECK-NEXT: %11 = tiny.constant 1.0e-05 : !tiny.tensor<[], f32>
// CHECK-NEXT: %12 = tiny.expand %11 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %13 = tiny.binary add %10, %12 : !tiny.tensor<[N], f32>
// CHECK-NEXT: %14 = tiny.unary rsqrt %13 : !tiny.tensor<[N], f32>
// CHECK-NEXT: %15 = tiny.expand %14 dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N, K], f32>
// CHECK-NEXT: %16 = tiny.binary mul %5, %15 : !tiny.tensor<[M, N, K], f32>
// CHECK-NEXT: %17 = tiny.expand %w dims [0, 2] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, N, K], f32>
// CHECK-NEXT: %18 = tiny.binary mul %16, %17 : !tiny.tensor<[M, N, K], f32>
// CHECK-NEXT: %19 = tiny.expand %b_f32 dims [0, 2] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, N, K], f32>
// CHECK-NEXT: %20 = tiny.binary add %18, %19 : !tiny.tensor<[M, N, K], f32>
// CHECK-NEXT: tiny.output %20 : !tiny.tensor<[M, N, K], f32>
frontend.graph @layer_norm(%x: !frontend.tensor<[M, N, K], f32>, %w: !frontend.tensor<[M, K], f32>, %b: !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, N, K], f32> {
  %0 = frontend.layer_norm %x weight %w bias %b axes [0, 2] eps 1.0e-05 : (!frontend.tensor<[M, N, K], f32>, !frontend.tensor<[M, K], f32>, !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, N, K], f32>
  frontend.output %0 : !frontend.tensor<[M, N, K], f32>
}
