// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s

// Functions that tiny has are its own; softplus and mod are compositions.

// CHECK: tiny.graph @composed
// CHECK-NEXT: %s = tiny.unary sin %x : !tiny.tensor<[M], f32>
// CHECK-NEXT: [[zero:%[0-9]+]] = tiny.constant 0.0
// CHECK-NEXT: [[z:%[0-9]+]] = tiny.expand [[zero]] dims []
// CHECK-NEXT: [[top:%[0-9]+]] = tiny.binary max %s, [[z]]
// CHECK-NEXT: [[size:%[0-9]+]] = tiny.unary abs %s
// CHECK-NEXT: [[below:%[0-9]+]] = tiny.unary neg [[size]]
// CHECK-NEXT: [[power:%[0-9]+]] = tiny.unary exp [[below]]
// CHECK-NEXT: [[tail:%[0-9]+]] = tiny.unary log1p [[power]]
// CHECK-NEXT: %p = tiny.binary add [[top]], [[tail]]
// CHECK-NEXT: [[rest:%[0-9]+]] = tiny.binary fmod %p, %y
// CHECK-NEXT: [[sign:%[0-9]+]] = tiny.unary sign %y
// CHECK-NEXT: [[side:%[0-9]+]] = tiny.binary mul [[rest]], [[sign]]
// CHECK-NEXT: [[nought:%[0-9]+]] = tiny.constant 0.0
// CHECK-NEXT: [[n:%[0-9]+]] = tiny.expand [[nought]] dims []
// CHECK-NEXT: [[other:%[0-9]+]] = tiny.compare lt [[side]], [[n]]
// CHECK-NEXT: [[more:%[0-9]+]] = tiny.binary add [[rest]], %y
// CHECK-NEXT: %m = tiny.select [[other]], [[more]], [[rest]]
frontend.graph @composed(%x: !frontend.tensor<[M], f32>, %y: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32> {
  %s = frontend.elementwise sin %x : !frontend.tensor<[M], f32>
  %p = frontend.elementwise softplus %s : !frontend.tensor<[M], f32>
  %m = frontend.elementwise mod %p, %y : (!frontend.tensor<[M], f32>, !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32>
  frontend.output %m : !frontend.tensor<[M], f32>
}
