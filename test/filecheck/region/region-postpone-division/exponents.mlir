// RUN: polyc-opt %s -p "frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},region-srnf,region-postpone-division,region-streaming-softmax" 2>/dev/null | filecheck %s
// RUN: polyc-opt %s -p "frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},region-srnf,region-postpone-division" 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// A power of two below a maximum is an exponential, and streams with the maximum and the sum.
// CHECK:       region.kernel @power
// CHECK:         region.reduce_together
// CHECK:         %[[below:.*]] = region.binary sub
// CHECK:         %[[ln2:.*]] = region.constant 0.6931
// CHECK:         region.unary exp
// CHECK-NOT:     region.binary pow
frontend.graph @power(%s: !frontend.tensor<[M, N], f32>, %v: !frontend.tensor<[N, 64], f16>) -> (y: !frontend.tensor<[M, 64], f32>) {
  %c = frontend.constant 2.0 : !frontend.tensor<[], f32>
  %0 = frontend.reduce max %s axes [1] keepdims : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M, 1], f32>
  %1 = frontend.elementwise sub %s, %0 : (!frontend.tensor<[M, N], f32>, !frontend.tensor<[M, 1], f32>) -> !frontend.tensor<[M, N], f32>
  %2 = frontend.elementwise pow %c, %1 : (!frontend.tensor<[], f32>, !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32>
  %3 = frontend.reduce sum %2 axes [1] keepdims : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M, 1], f32>
  %4 = frontend.cast %2 : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M, N], f16>
  %5 = frontend.gemm %4, %v {acc = f32} : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N, 64], f16>) -> !frontend.tensor<[M, 64], f32>
  %6 = frontend.elementwise div %5, %3 : (!frontend.tensor<[M, 64], f32>, !frontend.tensor<[M, 1], f32>) -> !frontend.tensor<[M, 64], f32>
  frontend.output %6 : !frontend.tensor<[M, 64], f32>
}

// The scaled maximum is subtracted as it is, and the difference scaled.
// REMARK:      remark[finite-only]: a maximum is subtracted before exponents are scaled
// CHECK:       region.kernel @apart
// CHECK:         %[[d:.*]] = region.binary sub
// CHECK:         %[[scaled:.*]] = region.binary mul %[[d]],
// CHECK-NEXT:    region.unary exp %[[scaled]]
frontend.graph @apart(%s: !frontend.tensor<[M, N], f32>) -> (y: !frontend.tensor<[M], f32>) {
  %c = frontend.constant 0.5 : !frontend.tensor<[], f32>
  %0 = frontend.reduce max %s axes [1] keepdims : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M, 1], f32>
  %1 = frontend.elementwise mul %s, %c : (!frontend.tensor<[M, N], f32>, !frontend.tensor<[], f32>) -> !frontend.tensor<[M, N], f32>
  %2 = frontend.elementwise mul %0, %c : (!frontend.tensor<[M, 1], f32>, !frontend.tensor<[], f32>) -> !frontend.tensor<[M, 1], f32>
  %3 = frontend.elementwise sub %1, %2 : (!frontend.tensor<[M, N], f32>, !frontend.tensor<[M, 1], f32>) -> !frontend.tensor<[M, N], f32>
  %4 = frontend.elementwise exp %3 : !frontend.tensor<[M, N], f32>
  %5 = frontend.reduce sum %4 axes [1] : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M], f32>
  frontend.output %5 : !frontend.tensor<[M], f32>
}
