// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK: frontend.graph @reduce(%x: !frontend.tensor<[M, N, K], f16>) -> (C: !frontend.tensor<[1, N, 1], f16>) {
// CHECK-NEXT: %0 = frontend.reduce sum %x axes [1] : !frontend.tensor<[M, N, K], f16> -> !frontend.tensor<[M, K], f16>
// CHECK-NEXT: %1 = frontend.reduce max %0 axes [0, 1] : !frontend.tensor<[M, K], f16> -> !frontend.tensor<[], f16>
// CHECK-NEXT: %2 = frontend.reduce min %x axes [0, 1, 2] keepdims : !frontend.tensor<[M, N, K], f16> -> !frontend.tensor<[1, 1, 1], f16>
// CHECK-NEXT: %3 = frontend.reduce mean %x axes [0, 2] keepdims {note = "kept"} : !frontend.tensor<[M, N, K], f16> -> !frontend.tensor<[1, N, 1], f16>
// CHECK-NEXT: frontend.output %3 : !frontend.tensor<[1, N, 1], f16>
frontend.graph @reduce(%x: !frontend.tensor<[M, N, K], f16>) -> !frontend.tensor<[1, N, 1], f16> {
  %0 = frontend.reduce sum %x axes [1] : !frontend.tensor<[M, N, K], f16> -> !frontend.tensor<[M, K], f16>
  %1 = frontend.reduce max %0 axes [0, 1] : !frontend.tensor<[M, K], f16> -> !frontend.tensor<[], f16>
  %2 = frontend.reduce min %x axes [0, 1, 2] keepdims : !frontend.tensor<[M, N, K], f16> -> !frontend.tensor<[1, 1, 1], f16>
  %3 = frontend.reduce mean %x axes [0, 2] keepdims {note = "kept"} : !frontend.tensor<[M, N, K], f16> -> !frontend.tensor<[1, N, 1], f16>
  frontend.output %3 : !frontend.tensor<[1, N, 1], f16>
}

// CHECK: frontend.graph @softmax(%x: !frontend.tensor<[M, N], f16>) -> (C: !frontend.tensor<[M, N], f16>) {
// CHECK-NEXT: %0 = frontend.softmax %x axes [1] : !frontend.tensor<[M, N], f16>
// CHECK-NEXT: %1 = frontend.log_softmax %0 axes [0, 1] : !frontend.tensor<[M, N], f16>
// CHECK-NEXT: frontend.output %1 : !frontend.tensor<[M, N], f16>
frontend.graph @softmax(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %0 = frontend.softmax %x axes [1] : !frontend.tensor<[M, N], f16>
  %1 = frontend.log_softmax %0 axes [0, 1] : !frontend.tensor<[M, N], f16>
  frontend.output %1 : !frontend.tensor<[M, N], f16>
}

// Weight and bias are optional, and have the sizes of the axes in order.

// CHECK: frontend.graph @norms(%x: !frontend.tensor<[M, N, K], f16>, %w: !frontend.tensor<[M, K], f32>, %b: !frontend.tensor<[M, K], f16>) -> (C: !frontend.tensor<[M, N, K], f16>) {
// CHECK-NEXT: %0 = frontend.layer_norm %x weight %w bias %b axes [0, 2] eps 1.0e-05 : (!frontend.tensor<[M, N, K], f16>, !frontend.tensor<[M, K], f32>, !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, N, K], f16>
// CHECK-NEXT: %1 = frontend.layer_norm %0 bias %b axes [0, 2] eps 0.0 : (!frontend.tensor<[M, N, K], f16>, !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, N, K], f16>
// CHECK-NEXT: %2 = frontend.layer_norm %1 axes [1] eps 0.5 : !frontend.tensor<[M, N, K], f16>
// CHECK-NEXT: %3 = frontend.rms_norm %2 weight %w axes [0, 2] eps 1.0e-06 : (!frontend.tensor<[M, N, K], f16>, !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, N, K], f16>
// CHECK-NEXT: %4 = frontend.rms_norm %3 axes [2] eps 1.0e-06 {note = "kept"} : !frontend.tensor<[M, N, K], f16>
// CHECK-NEXT: frontend.output %4 : !frontend.tensor<[M, N, K], f16>
frontend.graph @norms(%x: !frontend.tensor<[M, N, K], f16>, %w: !frontend.tensor<[M, K], f32>, %b: !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, N, K], f16> {
  %0 = frontend.layer_norm %x weight %w bias %b axes [0, 2] eps 1.0e-05 : (!frontend.tensor<[M, N, K], f16>, !frontend.tensor<[M, K], f32>, !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, N, K], f16>
  %1 = frontend.layer_norm %0 bias %b axes [0, 2] eps 0.0 : (!frontend.tensor<[M, N, K], f16>, !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[M, N, K], f16>
  %2 = frontend.layer_norm %1 axes [1] eps 0.5 : !frontend.tensor<[M, N, K], f16>
  %3 = frontend.rms_norm %2 weight %w axes [0, 2] eps 1.0e-06 : (!frontend.tensor<[M, N, K], f16>, !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, N, K], f16>
  %4 = frontend.rms_norm %3 axes [2] eps 1.0e-06 {note = "kept"} : !frontend.tensor<[M, N, K], f16>
  frontend.output %4 : !frontend.tensor<[M, N, K], f16>
}
