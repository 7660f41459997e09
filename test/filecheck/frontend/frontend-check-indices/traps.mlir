// RUN: polyc-opt %s -p frontend-check-indices | filecheck %s
// RUN: polyc-opt %s -p frontend-check-indices | polyc-opt | filecheck %s

// What traps has a report more for each axis, of the first index that is outside: its place, itself and
// the axis's size.

// CHECK: frontend.graph @f(%x: {{.*}}) -> (y: !frontend.tensor<[N, 4], f32>, trap0: !frontend.tensor<[3], i64>)
// CHECK-NEXT: %[[Y:.*]] = frontend.gather %x, %i axis 0 clamp : 
// CHECK: %[[WIDE:.*]] = frontend.cast {{.*}} -> !frontend.tensor<[N], i64>
// CHECK-NEXT: %[[SIZE:.*]] = frontend.dim V : !frontend.tensor<[], i64>
// CHECK-NEXT: %[[LOW:.*]] = frontend.constant 0
// CHECK-NEXT: %[[BELOW:.*]] = frontend.compare lt %[[WIDE]], %[[LOW]]
// CHECK-NEXT: %[[ABOVE:.*]] = frontend.compare ge %[[WIDE]], %[[SIZE]]
// CHECK: frontend.reduce min
// CHECK: %[[TRAP:.*]] = frontend.concat
// CHECK-NEXT: frontend.output %[[Y]], %[[TRAP]]
frontend.graph @f(%x: !frontend.tensor<[V, 4], f32>, %i: !frontend.tensor<[N], i32>) -> (y: !frontend.tensor<[N, 4], f32>) {
  %0 = frontend.gather %x, %i axis 0 clamp trap : (!frontend.tensor<[V, 4], f32>, !frontend.tensor<[N], i32>) -> !frontend.tensor<[N, 4], f32>
  frontend.output %0 : !frontend.tensor<[N, 4], f32>
}

// What does not, has none.

// CHECK: frontend.graph @g
// CHECK-SAME: -> (y: !frontend.tensor<[V], f32>)
frontend.graph @g(%x: !frontend.tensor<[V], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N], f32>) -> (y: !frontend.tensor<[V], f32>) {
  %0 = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[V], f32>
  frontend.output %0 : !frontend.tensor<[V], f32>
}
