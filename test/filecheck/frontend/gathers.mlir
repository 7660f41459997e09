// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// An axis becomes those of the indices.

// CHECK: %0 = frontend.gather %x, %i axis 1 from_end clamp : (!frontend.tensor<[A, B, C], f16>, !frontend.tensor<[I, J], i64>) -> !frontend.tensor<[A, I, J, C], f16>
// CHECK-NEXT: %1 = frontend.gather %0, %k axis 0 fill 0.5 {note = "kept"} : (!frontend.tensor<[A, I, J, C], f16>, !frontend.tensor<[], ui8>) -> !frontend.tensor<[I, J, C], f16>
frontend.graph @rows(%x: !frontend.tensor<[A, B, C], f16>, %i: !frontend.tensor<[I, J], i64>, %k: !frontend.tensor<[], ui8>) -> !frontend.tensor<[I, J, C], f16> {
  %0 = frontend.gather %x, %i axis 1 from_end clamp : (!frontend.tensor<[A, B, C], f16>, !frontend.tensor<[I, J], i64>) -> !frontend.tensor<[A, I, J, C], f16>
  %1 = frontend.gather %0, %k axis 0 fill 0.5 {note = "kept"} : (!frontend.tensor<[A, I, J, C], f16>, !frontend.tensor<[], ui8>) -> !frontend.tensor<[I, J, C], f16>
  frontend.output %1 : !frontend.tensor<[I, J, C], f16>
}

// An index for each element, of no more than there are along other axes.

// CHECK: %0 = frontend.gather_elements %x, %i axis 1 clamp : (!frontend.tensor<[A, B], ui8>, !frontend.tensor<[A, J], i32>) -> !frontend.tensor<[A, J], ui8>
// CHECK-NEXT: %1 = frontend.gather_elements %0, %j axis 1 from_end fill 255 : (!frontend.tensor<[A, J], ui8>, !frontend.tensor<[K, 3], i8>) -> !frontend.tensor<[K, 3], ui8>
frontend.graph @elements(%x: !frontend.tensor<[A, B], ui8>, %i: !frontend.tensor<[A, J], i32>, %j: !frontend.tensor<[K, 3], i8>) -> !frontend.tensor<[K, 3], ui8> assuming (A >= K) {
  %0 = frontend.gather_elements %x, %i axis 1 clamp : (!frontend.tensor<[A, B], ui8>, !frontend.tensor<[A, J], i32>) -> !frontend.tensor<[A, J], ui8>
  %1 = frontend.gather_elements %0, %j axis 1 from_end fill 255 : (!frontend.tensor<[A, J], ui8>, !frontend.tensor<[K, 3], i8>) -> !frontend.tensor<[K, 3], ui8>
  frontend.output %1 : !frontend.tensor<[K, 3], ui8>
}

// Tuples of indices, behind the axes of a batch.

// CHECK: %0 = frontend.gather_nd %x, %i batch 0 clamp : (!frontend.tensor<[A, B, C], f32>, !frontend.tensor<[A, 2], i64>) -> !frontend.tensor<[A, C], f32>
// CHECK-NEXT: %1 = frontend.gather_nd %0, %j batch 1 from_end fill -inf : (!frontend.tensor<[A, C], f32>, !frontend.tensor<[A, K, 1], i16>) -> !frontend.tensor<[A, K], f32>
frontend.graph @tuples(%x: !frontend.tensor<[A, B, C], f32>, %i: !frontend.tensor<[A, 2], i64>, %j: !frontend.tensor<[A, K, 1], i16>) -> !frontend.tensor<[A, K], f32> {
  %0 = frontend.gather_nd %x, %i batch 0 clamp : (!frontend.tensor<[A, B, C], f32>, !frontend.tensor<[A, 2], i64>) -> !frontend.tensor<[A, C], f32>
  %1 = frontend.gather_nd %0, %j batch 1 from_end fill -inf : (!frontend.tensor<[A, C], f32>, !frontend.tensor<[A, K, 1], i16>) -> !frontend.tensor<[A, K], f32>
  frontend.output %1 : !frontend.tensor<[A, K], f32>
}

// What is outside may be a fault, beside what it reads where nothing is said.

// CHECK: frontend.gather %x, %i axis 0 from_end fill 0.0 trap : (!frontend.tensor<[A], f32>, !frontend.tensor<[I], i64>) -> !frontend.tensor<[I], f32>
frontend.graph @traps(%x: !frontend.tensor<[A], f32>, %i: !frontend.tensor<[I], i64>) -> !frontend.tensor<[I], f32> {
  %0 = frontend.gather %x, %i axis 0 from_end fill 0.0 trap : (!frontend.tensor<[A], f32>, !frontend.tensor<[I], i64>) -> !frontend.tensor<[I], f32>
  frontend.output %0 : !frontend.tensor<[I], f32>
}
