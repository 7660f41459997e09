// RUN: polyc-opt %s -p tiny-split-reductions --check-each | filecheck %s

// Few elements of the inner axes lie together, reduced and kept in turn: outer axes are first.

// CHECK-LABEL: tiny.graph @turns
// CHECK: [[first:%[0-9]+]] = tiny.reduce sum %x axes [0] : !tiny.tensor<[512, 8, 4, 3, 2], f32> -> !tiny.tensor<[8, 4, 3, 2], f32>
// CHECK-NEXT: [[last:%[0-9]+]] = tiny.reduce sum [[first]] axes [1, 3] own f16 : !tiny.tensor<[8, 4, 3, 2], f32> -> !tiny.tensor<[8, 3], f32>
// CHECK-NEXT: tiny.output [[last]]
tiny.graph @turns(%x: !tiny.tensor<[512, 8, 4, 3, 2], f32>) -> (Y: !tiny.tensor<[8, 3], f32>) {
  %0 = tiny.reduce sum %x axes [0, 2, 4] own f16 : !tiny.tensor<[512, 8, 4, 3, 2], f32> -> !tiny.tensor<[8, 3], f32>
  tiny.output %0 : !tiny.tensor<[8, 3], f32>
}

// An outer axis of any length.

// CHECK-LABEL: tiny.graph @open
// CHECK: [[first:%[0-9]+]] = tiny.reduce max %x axes [0] : !tiny.tensor<[N, 8, 4], f32> -> !tiny.tensor<[8, 4], f32>
// CHECK-NEXT: tiny.reduce max [[first]] axes [1] : !tiny.tensor<[8, 4], f32> -> !tiny.tensor<[8], f32>
tiny.graph @open(%x: !tiny.tensor<[N, 8, 4], f32>) -> (Y: !tiny.tensor<[8], f32>) {
  %0 = tiny.reduce max %x axes [0, 2] : !tiny.tensor<[N, 8, 4], f32> -> !tiny.tensor<[8], f32>
  tiny.output %0 : !tiny.tensor<[8], f32>
}

// Rows of 64, and one run of reduced axes beside kept ones: threads part these as they are.

// CHECK-LABEL: tiny.graph @rows
// CHECK-COUNT-2: tiny.reduce
// CHECK-NOT: tiny.reduce
tiny.graph @rows(%x: !tiny.tensor<[512, 8, 64], f32>, %y: !tiny.tensor<[512, 64, 3], f32>) -> (Y: !tiny.tensor<[8], f32>, Z: !tiny.tensor<[3], f32>) {
  %0 = tiny.reduce sum %x axes [0, 2] : !tiny.tensor<[512, 8, 64], f32> -> !tiny.tensor<[8], f32>
  %1 = tiny.reduce sum %y axes [0, 1] : !tiny.tensor<[512, 64, 3], f32> -> !tiny.tensor<[3], f32>
  tiny.output %0, %1 : !tiny.tensor<[8], f32>, !tiny.tensor<[3], f32>
}
