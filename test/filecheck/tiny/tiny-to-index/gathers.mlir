// RUN: polyc-opt %s -p tiny-to-index | filecheck %s
// RUN: polyc-opt %s -p tiny-to-index | polyc-opt | filecheck %s
// Of an axis that indices are along a gather reads the one place that its data says: the book records
// it beside the value's, with the operand's own id gone, and every map is affine.

// CHECK-LABEL: tiny.graph @rows
// CHECK-NEXT: index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
// CHECK-NEXT: index.value %i axes [i0(2): N] box : !tiny.tensor<[N], i64>
// CHECK-NEXT: %e = tiny.expand %i dims [0] : !tiny.tensor<[N], i64> -> !tiny.tensor<[N, D], i64>
// CHECK-NEXT: index.value %e axes [i0(2): N, i1(3): D broadcast] box from [affine_map<(d0, d1)[s0, s1, s2] -> (d0)>] : !tiny.tensor<[N, D], i64>
// CHECK-NEXT: %y = tiny.gather %x at [%e] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
// CHECK-NEXT: index.value %y axes [i0(4): N, i1(5): D] gather [v(6): V] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>] : !tiny.tensor<[N, D], f32>
// CHECK-NEXT: tiny.output %y : !tiny.tensor<[N, D], f32>
tiny.graph @rows(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N], i64>) -> !tiny.tensor<[N, D], f32> {
  %e = tiny.expand %i dims [0] : !tiny.tensor<[N], i64> -> !tiny.tensor<[N, D], i64>
  %y = tiny.gather %x at [%e] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  tiny.output %y : !tiny.tensor<[N, D], f32>
}

// CHECK-LABEL: tiny.graph @tuples
// CHECK-NEXT: index.value %x axes [i0(0): 4, i1(1): 5, i2(2): C] box : !tiny.tensor<[4, 5, C], f32>
// CHECK-NEXT: index.value %i axes [i0(3): N, i1(4): 1, i2(5): C] box : !tiny.tensor<[N, 1, C], i32>
// CHECK-NEXT: index.value %j axes [i0(6): N, i1(7): 1, i2(8): C] box : !tiny.tensor<[N, 1, C], i32>
// CHECK-NEXT: %y = tiny.gather %x at [%i, %j] axes [0, 1] fill 0.0 : (!tiny.tensor<[4, 5, C], f32>, !tiny.tensor<[N, 1, C], i32>, !tiny.tensor<[N, 1, C], i32>) -> !tiny.tensor<[N, 1, C], f32>
// CHECK-NEXT: index.value %y axes [i0(9): N, i1(10): 1, i2(11): C] gather [r0(12): 4, r1(13): 5] box from [affine_map<(d0, d1, d2, d3, d4)[s0, s1] -> (d3, d4, d2)>, affine_map<(d0, d1, d2, d3, d4)[s0, s1] -> (d0, d1, d2)>, affine_map<(d0, d1, d2, d3, d4)[s0, s1] -> (d0, d1, d2)>] : !tiny.tensor<[N, 1, C], f32>
// CHECK-NEXT: tiny.output %y : !tiny.tensor<[N, 1, C], f32>
tiny.graph @tuples(%x: !tiny.tensor<[4, 5, C], f32>, %i: !tiny.tensor<[N, 1, C], i32>, %j: !tiny.tensor<[N, 1, C], i32>) -> !tiny.tensor<[N, 1, C], f32> {
  %y = tiny.gather %x at [%i, %j] axes [0, 1] fill 0.0 : (!tiny.tensor<[4, 5, C], f32>, !tiny.tensor<[N, 1, C], i32>, !tiny.tensor<[N, 1, C], i32>) -> !tiny.tensor<[N, 1, C], f32>
  tiny.output %y : !tiny.tensor<[N, 1, C], f32>
}

// What neither the operand nor an index varies along repeats.

// CHECK-LABEL: tiny.graph @repeated
// CHECK-NEXT: index.value %x axes [i0(0): V] box : !tiny.tensor<[V], f32>
// CHECK-NEXT: index.value %i axes [i0(1): N] box : !tiny.tensor<[N], i64>
// CHECK-NEXT: %s = tiny.expand %x dims [0] : !tiny.tensor<[V], f32> -> !tiny.tensor<[V, D], f32>
// CHECK-NEXT: index.value %s axes [i0(0): V, i1(2): D broadcast] box from [affine_map<(d0, d1)[s0, s1, s2] -> (d0)>] : !tiny.tensor<[V, D], f32>
// CHECK-NEXT: %e = tiny.expand %i dims [0] : !tiny.tensor<[N], i64> -> !tiny.tensor<[N, D], i64>
// CHECK-NEXT: index.value %e axes [i0(1): N, i1(3): D broadcast] box from [affine_map<(d0, d1)[s0, s1, s2] -> (d0)>] : !tiny.tensor<[N, D], i64>
// CHECK-NEXT: %y = tiny.gather %s at [%e] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
// CHECK-NEXT: index.value %y axes [i0(4): N, i1(5): D broadcast] gather [v(6): V] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>] : !tiny.tensor<[N, D], f32>
// CHECK-NEXT: tiny.output %y : !tiny.tensor<[N, D], f32>
tiny.graph @repeated(%x: !tiny.tensor<[V], f32>, %i: !tiny.tensor<[N], i64>) -> !tiny.tensor<[N, D], f32> {
  %s = tiny.expand %x dims [0] : !tiny.tensor<[V], f32> -> !tiny.tensor<[V, D], f32>
  %e = tiny.expand %i dims [0] : !tiny.tensor<[N], i64> -> !tiny.tensor<[N, D], i64>
  %y = tiny.gather %s at [%e] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  tiny.output %y : !tiny.tensor<[N, D], f32>
}

// An operand with an axis of factors is read as it lies in memory.

// CHECK-LABEL: tiny.graph @factors
// CHECK-NEXT: index.value %x axes [i0(0): A, i1(1): B, i2(2): C] box : !tiny.tensor<[A, B, C], f32>
// CHECK-NEXT: index.value %i axes [i0(3): N, i1(4): C] box : !tiny.tensor<[N, C], i64>
// CHECK-NEXT: %m = tiny.reshape %x : !tiny.tensor<[A, B, C], f32> -> !tiny.tensor<[A * B, C], f32>
// CHECK-NEXT: index.value %m axes [(i0(0): A, i1(1): B), i2(2): C] box from [affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)>] : !tiny.tensor<[A * B, C], f32>
// CHECK-NEXT: %0 = tiny.reshape %m : !tiny.tensor<[A * B, C], f32> -> !tiny.tensor<[A * B, C], f32>
// CHECK-NEXT: index.value %0 axes [i0(5): A * B, i1(6): C] non_scop "the gather reads axis 0, which is the product A x B, so the operand is read as it lies in memory" : !tiny.tensor<[A * B, C], f32>
// CHECK-NEXT: %y = tiny.gather %0 at [%i] axes [0] clamp : (!tiny.tensor<[A * B, C], f32>, !tiny.tensor<[N, C], i64>) -> !tiny.tensor<[N, C], f32>
// CHECK-NEXT: index.value %y axes [i0(7): N, i1(8): C] gather [r0(9): A * B] box from [affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1)>] : !tiny.tensor<[N, C], f32>
// CHECK-NEXT: tiny.output %y : !tiny.tensor<[N, C], f32>
tiny.graph @factors(%x: !tiny.tensor<[A, B, C], f32>, %i: !tiny.tensor<[N, C], i64>) -> !tiny.tensor<[N, C], f32> {
  %m = tiny.reshape %x : !tiny.tensor<[A, B, C], f32> -> !tiny.tensor<[A * B, C], f32>
  %y = tiny.gather %m at [%i] axes [0] clamp : (!tiny.tensor<[A * B, C], f32>, !tiny.tensor<[N, C], i64>) -> !tiny.tensor<[N, C], f32>
  tiny.output %y : !tiny.tensor<[N, C], f32>
}
