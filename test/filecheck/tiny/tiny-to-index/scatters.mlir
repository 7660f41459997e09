// RUN: polyc-opt %s -p tiny-to-index | filecheck %s
// RUN: polyc-opt %s -p tiny-to-index | polyc-opt | filecheck %s
// Any update along the axes that indices are of may fall to an element: the book records them beside
// the value's, and every map is affine.

// CHECK-LABEL: tiny.graph @rows
// CHECK-NEXT: index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
// CHECK-NEXT: index.value %u axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], f32>
// CHECK-NEXT: index.value %i axes [i0(4): N] box : !tiny.tensor<[N], i64>
// CHECK-NEXT: %e = tiny.expand %i dims [0] : !tiny.tensor<[N], i64> -> !tiny.tensor<[N, D], i64>
// CHECK-NEXT: index.value %e axes [i0(4): N, i1(5): D broadcast] box from [affine_map<(d0, d1)[s0, s1, s2] -> (d0)>] : !tiny.tensor<[N, D], i64>
// CHECK-NEXT: %y = tiny.scatter add %x, %u at [%e] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
// CHECK-NEXT: index.value %y axes [i0(6): V, i1(7): D] scatter [n(8): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>] : !tiny.tensor<[V, D], f32>
// CHECK-NEXT: tiny.output %y : !tiny.tensor<[V, D], f32>
tiny.graph @rows(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N], i64>) -> !tiny.tensor<[V, D], f32> {
  %e = tiny.expand %i dims [0] : !tiny.tensor<[N], i64> -> !tiny.tensor<[N, D], i64>
  %y = tiny.scatter add %x, %u at [%e] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}

// CHECK-LABEL: tiny.graph @tuples
// CHECK-NEXT: index.value %x axes [i0(0): 4, i1(1): 5, i2(2): C] box : !tiny.tensor<[4, 5, C], f32>
// CHECK-NEXT: index.value %u axes [i0(3): N, i1(4): 1, i2(5): C] box : !tiny.tensor<[N, 1, C], f32>
// CHECK-NEXT: index.value %i axes [i0(6): N, i1(7): 1, i2(8): C] box : !tiny.tensor<[N, 1, C], i32>
// CHECK-NEXT: index.value %j axes [i0(9): N, i1(10): 1, i2(11): C] box : !tiny.tensor<[N, 1, C], i32>
// CHECK-NEXT: %y = tiny.scatter set %x, %u at [%i, %j] axes [0, 1] : (!tiny.tensor<[4, 5, C], f32>, !tiny.tensor<[N, 1, C], f32>, !tiny.tensor<[N, 1, C], i32>, !tiny.tensor<[N, 1, C], i32>) -> !tiny.tensor<[4, 5, C], f32>
// CHECK-NEXT: index.value %y axes [i0(12): 4, i1(13): 5, i2(14): C] scatter [n(15): N, r1(16): 1] box from [affine_map<(d0, d1, d2, d3, d4)[s0, s1] -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3, d4)[s0, s1] -> (d3, d4, d2)>, affine_map<(d0, d1, d2, d3, d4)[s0, s1] -> (d3, d4, d2)>, affine_map<(d0, d1, d2, d3, d4)[s0, s1] -> (d3, d4, d2)>] : !tiny.tensor<[4, 5, C], f32>
// CHECK-NEXT: tiny.output %y : !tiny.tensor<[4, 5, C], f32>
tiny.graph @tuples(%x: !tiny.tensor<[4, 5, C], f32>, %u: !tiny.tensor<[N, 1, C], f32>, %i: !tiny.tensor<[N, 1, C], i32>, %j: !tiny.tensor<[N, 1, C], i32>) -> !tiny.tensor<[4, 5, C], f32> {
  %y = tiny.scatter set %x, %u at [%i, %j] axes [0, 1] : (!tiny.tensor<[4, 5, C], f32>, !tiny.tensor<[N, 1, C], f32>, !tiny.tensor<[N, 1, C], i32>, !tiny.tensor<[N, 1, C], i32>) -> !tiny.tensor<[4, 5, C], f32>
  tiny.output %y : !tiny.tensor<[4, 5, C], f32>
}

// What repeats is combined at each element: a scatter has an axis of its own there.

// CHECK-LABEL: tiny.graph @repeated
// CHECK-NEXT: index.value %x axes [i0(0): V] box : !tiny.tensor<[V], f32>
// CHECK-NEXT: index.value %u axes [i0(1): N] box : !tiny.tensor<[N], f32>
// CHECK-NEXT: index.value %i axes [i0(2): N] box : !tiny.tensor<[N], i64>
// CHECK-NEXT: %s = tiny.expand %x dims [0] : !tiny.tensor<[V], f32> -> !tiny.tensor<[V, D], f32>
// CHECK-NEXT: index.value %s axes [i0(0): V, i1(3): D broadcast] box from [affine_map<(d0, d1)[s0, s1, s2] -> (d0)>] : !tiny.tensor<[V, D], f32>
// CHECK-NEXT: %t = tiny.expand %u dims [0] : !tiny.tensor<[N], f32> -> !tiny.tensor<[N, D], f32>
// CHECK-NEXT: index.value %t axes [i0(1): N, i1(4): D broadcast] box from [affine_map<(d0, d1)[s0, s1, s2] -> (d0)>] : !tiny.tensor<[N, D], f32>
// CHECK-NEXT: %e = tiny.expand %i dims [0] : !tiny.tensor<[N], i64> -> !tiny.tensor<[N, D], i64>
// CHECK-NEXT: index.value %e axes [i0(2): N, i1(5): D broadcast] box from [affine_map<(d0, d1)[s0, s1, s2] -> (d0)>] : !tiny.tensor<[N, D], i64>
// CHECK-NEXT: %y = tiny.scatter add %s, %t at [%e] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
// CHECK-NEXT: index.value %y axes [i0(6): V, i1(7): D] scatter [n(8): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>] : !tiny.tensor<[V, D], f32>
// CHECK-NEXT: tiny.output %y : !tiny.tensor<[V, D], f32>
tiny.graph @repeated(%x: !tiny.tensor<[V], f32>, %u: !tiny.tensor<[N], f32>, %i: !tiny.tensor<[N], i64>) -> !tiny.tensor<[V, D], f32> {
  %s = tiny.expand %x dims [0] : !tiny.tensor<[V], f32> -> !tiny.tensor<[V, D], f32>
  %t = tiny.expand %u dims [0] : !tiny.tensor<[N], f32> -> !tiny.tensor<[N, D], f32>
  %e = tiny.expand %i dims [0] : !tiny.tensor<[N], i64> -> !tiny.tensor<[N, D], i64>
  %y = tiny.scatter add %s, %t at [%e] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}

// Updates with an axis of factors are read as they lie in memory.

// CHECK-LABEL: tiny.graph @factors
// CHECK-NEXT: index.value %x axes [i0(0): A * B, i1(1): C] box : !tiny.tensor<[A * B, C], f32>
// CHECK-NEXT: index.value %u axes [i0(2): I, i1(3): J, i2(4): C] box : !tiny.tensor<[I, J, C], f32>
// CHECK-NEXT: index.value %i axes [i0(5): I * J, i1(6): C] box : !tiny.tensor<[I * J, C], i64>
// CHECK-NEXT: %m = tiny.reshape %u : !tiny.tensor<[I, J, C], f32> -> !tiny.tensor<[I * J, C], f32>
// CHECK-NEXT: index.value %m axes [(i0(2): I, i1(3): J), i2(4): C] box from [affine_map<(d0, d1, d2)[s0, s1, s2, s3, s4] -> (d0, d1, d2)>] : !tiny.tensor<[I * J, C], f32>
// CHECK-NEXT: %0 = tiny.reshape %m : !tiny.tensor<[I * J, C], f32> -> !tiny.tensor<[I * J, C], f32>
// CHECK-NEXT: index.value %0 axes [i0(7): I * J, i1(8): C] non_scop "the scatter reads axis 0, which is the product I x J, so the operand is read as it lies in memory" : !tiny.tensor<[I * J, C], f32>
// CHECK-NEXT: %y = tiny.scatter add %x, %0 at [%i] axes [0] : (!tiny.tensor<[A * B, C], f32>, !tiny.tensor<[I * J, C], f32>, !tiny.tensor<[I * J, C], i64>) -> !tiny.tensor<[A * B, C], f32>
// CHECK-NEXT: index.value %y axes [i0(9): A * B, i1(10): C] scatter [r0(11): I * J] box from [affine_map<(d0, d1, d2)[s0, s1, s2, s3, s4] -> (d0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2, s3, s4] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2, s3, s4] -> (d2, d1)>] : !tiny.tensor<[A * B, C], f32>
// CHECK-NEXT: tiny.output %y : !tiny.tensor<[A * B, C], f32>
tiny.graph @factors(%x: !tiny.tensor<[A * B, C], f32>, %u: !tiny.tensor<[I, J, C], f32>, %i: !tiny.tensor<[I * J, C], i64>) -> !tiny.tensor<[A * B, C], f32> {
  %m = tiny.reshape %u : !tiny.tensor<[I, J, C], f32> -> !tiny.tensor<[I * J, C], f32>
  %y = tiny.scatter add %x, %m at [%i] axes [0] : (!tiny.tensor<[A * B, C], f32>, !tiny.tensor<[I * J, C], f32>, !tiny.tensor<[I * J, C], i64>) -> !tiny.tensor<[A * B, C], f32>
  tiny.output %y : !tiny.tensor<[A * B, C], f32>
}
