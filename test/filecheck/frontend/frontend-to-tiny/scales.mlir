// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// A number that an input is scaled by follows the product: tensor cores read the input (S0.6).
// CHECK:       tiny.graph @scaled(%q: {{.*}}, %k: {{.*}})
// CHECK-NOT:     tiny.cast {{.*}} -> !tiny.tensor<[M, 64], f16>
// CHECK:         %[[sum:.*]] = tiny.reduce sum
// CHECK:         %[[c:.*]] = tiny.constant 0.125
// CHECK-NEXT:    %[[all:.*]] = tiny.expand %[[c]] dims []
// CHECK-NEXT:    tiny.binary mul %[[sum]], %[[all]]
frontend.graph @scaled(%q: !frontend.tensor<[M, 64], f16>, %k: !frontend.tensor<[64, N], f16>) -> (y: !frontend.tensor<[M, N], f32>) {
  %0 = frontend.constant 0.125 : !frontend.tensor<[], f16>
  %1 = frontend.elementwise mul %q, %0 : (!frontend.tensor<[M, 64], f16>, !frontend.tensor<[], f16>) -> !frontend.tensor<[M, 64], f16>
  %2 = frontend.gemm %1, %k {acc = f32} : (!frontend.tensor<[M, 64], f16>, !frontend.tensor<[64, N], f16>) -> !frontend.tensor<[M, N], f32>
  frontend.output %2 : !frontend.tensor<[M, N], f32>
}

// What the user rounds is rounded.
// CHECK:       tiny.graph @rounded
// CHECK:         %[[number:.*]] = tiny.constant 0.3
// CHECK:         %[[scaled:.*]] = tiny.binary mul
// CHECK-NEXT:    tiny.cast %[[scaled]] : !tiny.tensor<[M, 64], f32> -> !tiny.tensor<[M, 64], f16>
// CHECK:         tiny.reduce sum
// CHECK-NEXT:    tiny.output
frontend.graph @rounded(%q: !frontend.tensor<[M, 64], f16>, %k: !frontend.tensor<[64, N], f16>) -> (y: !frontend.tensor<[M, N], f32>) {
  %0 = frontend.constant 0.3 : !frontend.tensor<[], f32>
  %1 = frontend.cast %q : !frontend.tensor<[M, 64], f16> -> !frontend.tensor<[M, 64], f32>
  %2 = frontend.elementwise mul %1, %0 : (!frontend.tensor<[M, 64], f32>, !frontend.tensor<[], f32>) -> !frontend.tensor<[M, 64], f32>
  %3 = frontend.cast %2 : !frontend.tensor<[M, 64], f32> -> !frontend.tensor<[M, 64], f16>
  %4 = frontend.gemm %3, %k {acc = f32} : (!frontend.tensor<[M, 64], f16>, !frontend.tensor<[64, N], f16>) -> !frontend.tensor<[M, N], f32>
  frontend.output %4 : !frontend.tensor<[M, N], f32>
}
