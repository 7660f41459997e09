// RUN: polyc-opt %s -p tiny-split-gates --check-each | filecheck %s

// The halves of a product with a bias, which are multiplied: a product of each half of the weight.

// CHECK-LABEL: tiny.graph @gated
// CHECK: tiny.slice %W [0:8, 0:5] : !tiny.tensor<[16, 5], f16> -> !tiny.tensor<[8, 5], f16>
// CHECK: tiny.reduce sum {{.*}} axes [1] own f16 : !tiny.tensor<[M, 5, 8], f32> -> !tiny.tensor<[M, 8], f32>
// CHECK-NEXT: tiny.slice %b [0:8] : !tiny.tensor<[16], f32> -> !tiny.tensor<[8], f32>
// CHECK: tiny.slice %W [8:16, 0:5] : !tiny.tensor<[16, 5], f16> -> !tiny.tensor<[8, 5], f16>
// CHECK: tiny.reduce sum {{.*}} axes [1] own f16 : !tiny.tensor<[M, 5, 8], f32> -> !tiny.tensor<[M, 8], f32>
// CHECK-NEXT: tiny.slice %b [8:16] : !tiny.tensor<[16], f32> -> !tiny.tensor<[8], f32>
// CHECK-NOT: tiny.tensor<[M, 16], f32>
tiny.graph @gated(%X: !tiny.tensor<[M, 5], f16>, %W: !tiny.tensor<[16, 5], f16>, %b: !tiny.tensor<[16], f32>) -> (Y: !tiny.tensor<[M, 8], f32>) {
  %x = tiny.cast %X : !tiny.tensor<[M, 5], f16> -> !tiny.tensor<[M, 5], f32>
  %w = tiny.cast %W : !tiny.tensor<[16, 5], f16> -> !tiny.tensor<[16, 5], f32>
  %0 = tiny.permute %w perm [1, 0] : !tiny.tensor<[16, 5], f32> -> !tiny.tensor<[5, 16], f32>
  %1 = tiny.expand %x dims [0, 1] : !tiny.tensor<[M, 5], f32> -> !tiny.tensor<[M, 5, 16], f32>
  %2 = tiny.expand %0 dims [1, 2] : !tiny.tensor<[5, 16], f32> -> !tiny.tensor<[M, 5, 16], f32>
  %3 = tiny.binary mul %1, %2 : !tiny.tensor<[M, 5, 16], f32>
  %4 = tiny.reduce sum %3 axes [1] own f16 : !tiny.tensor<[M, 5, 16], f32> -> !tiny.tensor<[M, 16], f32>
  %5 = tiny.expand %b dims [1] : !tiny.tensor<[16], f32> -> !tiny.tensor<[M, 16], f32>
  %6 = tiny.binary add %4, %5 : !tiny.tensor<[M, 16], f32>
  %7 = tiny.slice %6 [0:M, 0:8] : !tiny.tensor<[M, 16], f32> -> !tiny.tensor<[M, 8], f32>
  %8 = tiny.slice %6 [0:M, 8:16] : !tiny.tensor<[M, 16], f32> -> !tiny.tensor<[M, 8], f32>
  %9 = tiny.unary sigmoid %8 : !tiny.tensor<[M, 8], f32>
  %10 = tiny.binary mul %7, %9 : !tiny.tensor<[M, 8], f32>
  tiny.output %10 : !tiny.tensor<[M, 8], f32>
}

// Halves that nothing is computed of together, as queries and keys are: one product stays.

// CHECK-LABEL: tiny.graph @apart
// CHECK-COUNT-1: tiny.reduce
// CHECK: tiny.slice
// CHECK: tiny.slice
// CHECK-NOT: tiny.reduce
tiny.graph @apart(%X: !tiny.tensor<[M, 5], f16>, %W: !tiny.tensor<[5, 16], f16>) -> (Y: !tiny.tensor<[M, 8], f32>, Z: !tiny.tensor<[M, 8], f32>) {
  %x = tiny.cast %X : !tiny.tensor<[M, 5], f16> -> !tiny.tensor<[M, 5], f32>
  %w = tiny.cast %W : !tiny.tensor<[5, 16], f16> -> !tiny.tensor<[5, 16], f32>
  %1 = tiny.expand %x dims [0, 1] : !tiny.tensor<[M, 5], f32> -> !tiny.tensor<[M, 5, 16], f32>
  %2 = tiny.expand %w dims [1, 2] : !tiny.tensor<[5, 16], f32> -> !tiny.tensor<[M, 5, 16], f32>
  %3 = tiny.binary mul %1, %2 : !tiny.tensor<[M, 5, 16], f32>
  %4 = tiny.reduce sum %3 axes [1] : !tiny.tensor<[M, 5, 16], f32> -> !tiny.tensor<[M, 16], f32>
  %7 = tiny.slice %4 [0:M, 0:8] : !tiny.tensor<[M, 16], f32> -> !tiny.tensor<[M, 8], f32>
  %8 = tiny.slice %4 [0:M, 8:16] : !tiny.tensor<[M, 16], f32> -> !tiny.tensor<[M, 8], f32>
  tiny.output %7, %8 : !tiny.tensor<[M, 8], f32>, !tiny.tensor<[M, 8], f32>
}
