// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// Two elements of each place are gathered, in the type that they lie in, and weighed in f32.  What is
// outside is filled with 0, where the place is brought no nearer than that none of them is inside.

// CHECK: %[[LEAST:.*]] = tiny.constant -2.0 : !tiny.tensor<[], f32>
// CHECK: tiny.binary max
// CHECK: tiny.binary min
// CHECK: %[[BEFORE:.*]] = tiny.unary floor
// CHECK: %[[FIRST:.*]] = tiny.cast %[[BEFORE]] : !tiny.tensor<[N, P], f32> -> !tiny.tensor<[N, P], i32>
// CHECK: tiny.gather %x at [{{.*}}] axes [2] fill 0.0 : (!tiny.tensor<[N, C, W], f16>, !tiny.tensor<[N, C, P], i32>) -> !tiny.tensor<[N, C, P], f16>
// CHECK-NEXT: tiny.cast
// CHECK-NEXT: tiny.binary mul
// CHECK-NEXT: tiny.gather %x at [{{.*}}] axes [2] fill 0.0
frontend.graph @linear(%x: !frontend.tensor<[N, C, W], f16>, %g: !frontend.tensor<[N, P, 1], f32>) -> !frontend.tensor<[N, C, P], f16> {
  %0 = frontend.grid_sample linear %x, %g zeros : (!frontend.tensor<[N, C, W], f16>, !frontend.tensor<[N, P, 1], f32>) -> !frontend.tensor<[N, C, P], f16>
  frontend.output %0 : !frontend.tensor<[N, C, P], f16>
}

// The nearest has no weights; a coordinate that is NaN makes NaN by a choice.

// CHECK-LABEL: tiny.graph @nearest
// CHECK: %[[PLACE:.*]] = tiny.binary min
// CHECK: tiny.unary round %[[PLACE]]
// CHECK: tiny.gather
// CHECK: tiny.compare eq %[[PLACE]], %[[PLACE]]
// CHECK: tiny.select
// CHECK-NEXT: tiny.output
frontend.graph @nearest(%x: !frontend.tensor<[N, C, W], f32>, %g: !frontend.tensor<[N, P, 1], f32>) -> !frontend.tensor<[N, C, P], f32> {
  %0 = frontend.grid_sample nearest %x, %g border : (!frontend.tensor<[N, C, W], f32>, !frontend.tensor<[N, P, 1], f32>) -> !frontend.tensor<[N, C, P], f32>
  frontend.output %0 : !frontend.tensor<[N, C, P], f32>
}
