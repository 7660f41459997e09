// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Updates have the axes of the indices where the operand has the axis.

// CHECK: %0 = frontend.scatter add %x, %i, %u axis 1 from_end : (!frontend.tensor<[A, B, C], f16>, !frontend.tensor<[I, J], i64>, !frontend.tensor<[A, I, J, C], f16>) -> !frontend.tensor<[A, B, C], f16>
// CHECK-NEXT: %1 = frontend.scatter set %0, %k, %v axis 0 {note = "kept"} : (!frontend.tensor<[A, B, C], f16>, !frontend.tensor<[], ui8>, !frontend.tensor<[B, C], f16>) -> !frontend.tensor<[A, B, C], f16>
frontend.graph @rows(%x: !frontend.tensor<[A, B, C], f16>, %i: !frontend.tensor<[I, J], i64>, %u: !frontend.tensor<[A, I, J, C], f16>, %k: !frontend.tensor<[], ui8>, %v: !frontend.tensor<[B, C], f16>) -> !frontend.tensor<[A, B, C], f16> {
  %0 = frontend.scatter add %x, %i, %u axis 1 from_end : (!frontend.tensor<[A, B, C], f16>, !frontend.tensor<[I, J], i64>, !frontend.tensor<[A, I, J, C], f16>) -> !frontend.tensor<[A, B, C], f16>
  %1 = frontend.scatter set %0, %k, %v axis 0 {note = "kept"} : (!frontend.tensor<[A, B, C], f16>, !frontend.tensor<[], ui8>, !frontend.tensor<[B, C], f16>) -> !frontend.tensor<[A, B, C], f16>
  frontend.output %1 : !frontend.tensor<[A, B, C], f16>
}

// An index for each update, of which there are no more than elements along other axes.

// CHECK: %0 = frontend.scatter_elements mul %x, %i, %u axis 1 : (!frontend.tensor<[A, B], ui8>, !frontend.tensor<[A, J], i32>, !frontend.tensor<[A, J], ui8>) -> !frontend.tensor<[A, B], ui8>
// CHECK-NEXT: %1 = frontend.scatter_elements max %0, %j, %v axis 1 from_end : (!frontend.tensor<[A, B], ui8>, !frontend.tensor<[K, 3], i8>, !frontend.tensor<[K, 3], ui8>) -> !frontend.tensor<[A, B], ui8>
frontend.graph @elements(%x: !frontend.tensor<[A, B], ui8>, %i: !frontend.tensor<[A, J], i32>, %u: !frontend.tensor<[A, J], ui8>, %j: !frontend.tensor<[K, 3], i8>, %v: !frontend.tensor<[K, 3], ui8>) -> !frontend.tensor<[A, B], ui8> assuming (A >= K) {
  %0 = frontend.scatter_elements mul %x, %i, %u axis 1 : (!frontend.tensor<[A, B], ui8>, !frontend.tensor<[A, J], i32>, !frontend.tensor<[A, J], ui8>) -> !frontend.tensor<[A, B], ui8>
  %1 = frontend.scatter_elements max %0, %j, %v axis 1 from_end : (!frontend.tensor<[A, B], ui8>, !frontend.tensor<[K, 3], i8>, !frontend.tensor<[K, 3], ui8>) -> !frontend.tensor<[A, B], ui8>
  frontend.output %1 : !frontend.tensor<[A, B], ui8>
}

// Tuples of indices, behind the axes of a batch.

// CHECK: %0 = frontend.scatter_nd min %x, %i, %u batch 0 : (!frontend.tensor<[A, B, C], f32>, !frontend.tensor<[I, 2], i64>, !frontend.tensor<[I, C], f32>) -> !frontend.tensor<[A, B, C], f32>
// CHECK-NEXT: %1 = frontend.scatter_nd add %0, %j, %v batch 1 from_end : (!frontend.tensor<[A, B, C], f32>, !frontend.tensor<[A, K, 1], i16>, !frontend.tensor<[A, K, C], f32>) -> !frontend.tensor<[A, B, C], f32>
frontend.graph @tuples(%x: !frontend.tensor<[A, B, C], f32>, %i: !frontend.tensor<[I, 2], i64>, %u: !frontend.tensor<[I, C], f32>, %j: !frontend.tensor<[A, K, 1], i16>, %v: !frontend.tensor<[A, K, C], f32>) -> !frontend.tensor<[A, B, C], f32> {
  %0 = frontend.scatter_nd min %x, %i, %u batch 0 : (!frontend.tensor<[A, B, C], f32>, !frontend.tensor<[I, 2], i64>, !frontend.tensor<[I, C], f32>) -> !frontend.tensor<[A, B, C], f32>
  %1 = frontend.scatter_nd add %0, %j, %v batch 1 from_end : (!frontend.tensor<[A, B, C], f32>, !frontend.tensor<[A, K, 1], i16>, !frontend.tensor<[A, K, C], f32>) -> !frontend.tensor<[A, B, C], f32>
  frontend.output %1 : !frontend.tensor<[A, B, C], f32>
}

// Conditions are set.

// CHECK: %0 = frontend.scatter set %x, %i, %u axis 0 : (!frontend.tensor<[V], i1>, !frontend.tensor<[N], i64>, !frontend.tensor<[N], i1>) -> !frontend.tensor<[V], i1>
frontend.graph @conditions(%x: !frontend.tensor<[V], i1>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N], i1>) -> !frontend.tensor<[V], i1> {
  %0 = frontend.scatter set %x, %i, %u axis 0 : (!frontend.tensor<[V], i1>, !frontend.tensor<[N], i64>, !frontend.tensor<[N], i1>) -> !frontend.tensor<[V], i1>
  frontend.output %0 : !frontend.tensor<[V], i1>
}

// What is outside may be a fault.

// CHECK: frontend.scatter add %x, %i, %u axis 0 from_end trap : (!frontend.tensor<[A], f32>, !frontend.tensor<[I], i64>, !frontend.tensor<[I], f32>) -> !frontend.tensor<[A], f32>
frontend.graph @traps(%x: !frontend.tensor<[A], f32>, %i: !frontend.tensor<[I], i64>, %u: !frontend.tensor<[I], f32>) -> !frontend.tensor<[A], f32> {
  %0 = frontend.scatter add %x, %i, %u axis 0 from_end trap : (!frontend.tensor<[A], f32>, !frontend.tensor<[I], i64>, !frontend.tensor<[I], f32>) -> !frontend.tensor<[A], f32>
  frontend.output %0 : !frontend.tensor<[A], f32>
}
