// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// Windows from each element on, a sample of these, and a mask where a window is shorter: 5 windows of
// 12 elements have 3, 4, 4, 4 and 3.

// CHECK-LABEL: tiny.graph @f
// CHECK: %0 = tiny.pad %x low [0, 0] high [0, 1] value -inf : !tiny.tensor<[M, 12], f32> -> !tiny.tensor<[M, 13], f32>
// CHECK-NEXT: %1 = tiny.window %0 axes [1] size [4] stride [1] dilation [1] : !tiny.tensor<[M, 13], f32> -> !tiny.tensor<[M, 10, 4], f32>
// CHECK-NEXT: %2 = tiny.sample %1 axis 1 step 12 offset 0 divisor 5 : !tiny.tensor<[M, 10, 4], f32> -> !tiny.tensor<[M, 5, 4], f32>
// CHECK-NEXT: %3 = tiny.mask %2 where
// CHECK-NEXT: %4 = tiny.reduce max %3 axes [2]
// CHECK-NEXT: tiny.output %4
frontend.graph @f(%x: !frontend.tensor<[M, 12], f32>) -> !frontend.tensor<[M, 5], f32> {
  %0 = frontend.adaptive_pool max %x axes [1] : !frontend.tensor<[M, 12], f32> -> !frontend.tensor<[M, 5], f32>
  frontend.output %0 : !frontend.tensor<[M, 5], f32>
}

// Windows that are all alike are not masked, and a mean divides by a number.

// CHECK-LABEL: tiny.graph @alike
// CHECK-NOT: tiny.mask
// CHECK: tiny.reduce sum
// CHECK-NEXT: tiny.constant 3.0
frontend.graph @alike(%x: !frontend.tensor<[M, 12], f32>) -> !frontend.tensor<[M, 4], f32> {
  %0 = frontend.adaptive_pool mean %x axes [1] : !frontend.tensor<[M, 12], f32> -> !frontend.tensor<[M, 4], f32>
  frontend.output %0 : !frontend.tensor<[M, 4], f32>
}
