// RUN: polyc-opt %s -p tiny-keep-groups --check-each | filecheck %s

// Groups of 3 channels, centred and merged: what follows is computed with the groups apart.

// CHECK-LABEL: tiny.graph @centred
// CHECK: %[[X:.*]] = tiny.binary sub
// CHECK-NOT: tiny.tensor<[M, 12], f32> -> !tiny.tensor<[M, 12], f32>
// CHECK: %[[W:.*]] = tiny.reshape %{{.*}} : !tiny.tensor<[M, 12], f32> -> !tiny.tensor<[M, 4, 3], f32>
// CHECK-NEXT: %[[Y:.*]] = tiny.binary mul %[[X]], %[[W]] : !tiny.tensor<[M, 4, 3], f32>
// CHECK-NEXT: %[[R:.*]] = tiny.unary tanh %[[Y]] : !tiny.tensor<[M, 4, 3], f32>
// CHECK-NEXT: %[[Z:.*]] = tiny.reshape %[[R]] : !tiny.tensor<[M, 4, 3], f32> -> !tiny.tensor<[M, 12], f32>
// CHECK-NEXT: tiny.output %[[Z]]
tiny.graph @centred(%x: !tiny.tensor<[M, 12], f32>, %w: !tiny.tensor<[12], f32>) -> (Y: !tiny.tensor<[M, 12], f32>) {
  %0 = tiny.reshape %x : !tiny.tensor<[M, 12], f32> -> !tiny.tensor<[M, 4, 3], f32>
  %1 = tiny.reduce max %0 axes [2] : !tiny.tensor<[M, 4, 3], f32> -> !tiny.tensor<[M, 4], f32>
  %2 = tiny.expand %1 dims [0, 1] : !tiny.tensor<[M, 4], f32> -> !tiny.tensor<[M, 4, 3], f32>
  %3 = tiny.binary sub %0, %2 : !tiny.tensor<[M, 4, 3], f32>
  %4 = tiny.reshape %3 : !tiny.tensor<[M, 4, 3], f32> -> !tiny.tensor<[M, 12], f32>
  %5 = tiny.expand %w dims [1] : !tiny.tensor<[12], f32> -> !tiny.tensor<[M, 12], f32>
  %6 = tiny.binary mul %4, %5 : !tiny.tensor<[M, 12], f32>
  %7 = tiny.unary tanh %6 : !tiny.tensor<[M, 12], f32>
  tiny.output %7 : !tiny.tensor<[M, 12], f32>
}

// Nothing of the groups is repeated: the merged axis stays.

// CHECK-LABEL: tiny.graph @plain
// CHECK: tiny.reshape
// CHECK-NEXT: tiny.unary tanh %{{.*}} : !tiny.tensor<[M, 12], f32>
tiny.graph @plain(%x: !tiny.tensor<[M, 4, 3], f32>) -> (Y: !tiny.tensor<[M, 12], f32>) {
  %0 = tiny.reshape %x : !tiny.tensor<[M, 4, 3], f32> -> !tiny.tensor<[M, 12], f32>
  %1 = tiny.unary tanh %0 : !tiny.tensor<[M, 12], f32>
  tiny.output %1 : !tiny.tensor<[M, 12], f32>
}
