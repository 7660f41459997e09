// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s

// A layer takes rows of two texts as one matrix and gives them back: they stay two axes, and the
// residual follows the product.
frontend.graph @layer(%x: !frontend.tensor<[2, 3, 4], f16>, %w: !frontend.tensor<[4, 4], f16>, %b: !frontend.tensor<[4], f16>) -> (y: !frontend.tensor<[2, 3, 4], f16>) {
  %0 = frontend.reshape %x : !frontend.tensor<[2, 3, 4], f16> -> !frontend.tensor<[6, 4], f16>
  %1 = frontend.gemm %0, %w {acc = f32} : (!frontend.tensor<[6, 4], f16>, !frontend.tensor<[4, 4], f16>) -> !frontend.tensor<[6, 4], f16>
  %2 = frontend.elementwise add %1, %b : (!frontend.tensor<[6, 4], f16>, !frontend.tensor<[4], f16>) -> !frontend.tensor<[6, 4], f16>
  %3 = frontend.reshape %2 : !frontend.tensor<[6, 4], f16> -> !frontend.tensor<[2, 3, 4], f16>
  %4 = frontend.elementwise add %3, %x : (!frontend.tensor<[2, 3, 4], f16>, !frontend.tensor<[2, 3, 4], f16>) -> !frontend.tensor<[2, 3, 4], f16>
  frontend.output %4 : !frontend.tensor<[2, 3, 4], f16>
}
// CHECK-NOT: tiny.reshape
// CHECK:     tiny.reduce sum {{.*}} : !tiny.tensor<[2, 3, 4, 4], f32> -> !tiny.tensor<[2, 3, 4], f32>
// CHECK-NOT: tiny.reshape
