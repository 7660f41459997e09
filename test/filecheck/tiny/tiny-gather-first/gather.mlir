// RUN: polyc-opt %s -p tiny-gather-first --check-each | filecheck %s

// An element of each row of a log-softmax: the row itself is gathered, and computed with after.

// CHECK-LABEL: tiny.graph @entropy
// CHECK: %[[G:.*]] = tiny.gather %x at [%i] axes [1] clamp : (!tiny.tensor<[M, 9], f32>, !tiny.tensor<[M, 1], i64>) -> !tiny.tensor<[M, 1], f32>
// CHECK-NEXT: %[[T:.*]] = tiny.expand %{{.*}} dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, 1], f32>
// CHECK-NEXT: %[[S:.*]] = tiny.binary sub %[[G]], %[[T]] : !tiny.tensor<[M, 1], f32>
// CHECK-NEXT: %[[L:.*]] = tiny.expand %{{.*}} dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, 1], f32>
// CHECK-NEXT: tiny.binary sub %[[S]], %[[L]] : !tiny.tensor<[M, 1], f32>
tiny.graph @entropy(%x: !tiny.tensor<[M, 9], f32>, %i: !tiny.tensor<[M, 1], i64>) -> (Y: !tiny.tensor<[M, 1], f32>) {
  %0 = tiny.reduce max %x axes [1] : !tiny.tensor<[M, 9], f32> -> !tiny.tensor<[M], f32>
  %1 = tiny.expand %0 dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, 9], f32>
  %2 = tiny.binary sub %x, %1 : !tiny.tensor<[M, 9], f32>
  %3 = tiny.unary exp %2 : !tiny.tensor<[M, 9], f32>
  %4 = tiny.reduce sum %3 axes [1] : !tiny.tensor<[M, 9], f32> -> !tiny.tensor<[M], f32>
  %5 = tiny.unary log %4 : !tiny.tensor<[M], f32>
  %6 = tiny.expand %5 dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, 9], f32>
  %7 = tiny.binary sub %2, %6 : !tiny.tensor<[M, 9], f32>
  %8 = tiny.gather %7 at [%i] axes [1] clamp : (!tiny.tensor<[M, 9], f32>, !tiny.tensor<[M, 1], i64>) -> !tiny.tensor<[M, 1], f32>
  tiny.output %8 : !tiny.tensor<[M, 1], f32>
}

// Nothing waits for a reduction: what is gathered is computed in the kernel before, as it stands.

// CHECK-LABEL: tiny.graph @plain
// CHECK: tiny.binary add
// CHECK-NEXT: tiny.gather
// CHECK-NEXT: tiny.output
tiny.graph @plain(%x: !tiny.tensor<[M, 9], f32>, %b: !tiny.tensor<[9], f32>, %i: !tiny.tensor<[M, 1], i64>) -> (Y: !tiny.tensor<[M, 1], f32>) {
  %0 = tiny.expand %b dims [1] : !tiny.tensor<[9], f32> -> !tiny.tensor<[M, 9], f32>
  %1 = tiny.binary add %x, %0 : !tiny.tensor<[M, 9], f32>
  %2 = tiny.gather %1 at [%i] axes [1] clamp : (!tiny.tensor<[M, 9], f32>, !tiny.tensor<[M, 1], i64>) -> !tiny.tensor<[M, 1], f32>
  tiny.output %2 : !tiny.tensor<[M, 1], f32>
}

// What is outside reads as a number that is not computed with.

// CHECK-LABEL: tiny.graph @filled
// CHECK: tiny.binary sub
// CHECK-NEXT: tiny.gather
// CHECK-NEXT: tiny.output
tiny.graph @filled(%x: !tiny.tensor<[M, 9], f32>, %i: !tiny.tensor<[M, 1], i64>) -> (Y: !tiny.tensor<[M, 1], f32>) {
  %0 = tiny.reduce max %x axes [1] : !tiny.tensor<[M, 9], f32> -> !tiny.tensor<[M], f32>
  %1 = tiny.expand %0 dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, 9], f32>
  %2 = tiny.binary sub %x, %1 : !tiny.tensor<[M, 9], f32>
  %3 = tiny.gather %2 at [%i] axes [1] fill 0.0 : (!tiny.tensor<[M, 9], f32>, !tiny.tensor<[M, 1], i64>) -> !tiny.tensor<[M, 1], f32>
  tiny.output %3 : !tiny.tensor<[M, 1], f32>
}
