// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p tiny-to-index | filecheck %s --check-prefix INDEX

// The book says that an element of the result is made of the whole axis; the others stay.

// CHECK: %0 = tiny.bitcast %x : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], i32>
// CHECK-NEXT: %1 = tiny.sort %0 axis 0 {note = "kept"} : !tiny.tensor<[M, N], i32> -> !tiny.tensor<[M, N], i32>
// CHECK-NEXT: %2 = tiny.sort %1 axis 1 : !tiny.tensor<[M, N], i32> -> !tiny.tensor<[M, 4], i32>
// CHECK-NEXT: %3 = tiny.bitcast %2 : !tiny.tensor<[M, 4], i32> -> !tiny.tensor<[M, 4], f32>
// INDEX: index.value %0 axes [i0(0): M, i1(1): N] box from [affine_map<(d0, d1)[s0, s1] -> (d0, d1)>] : !tiny.tensor<[M, N], i32>
// INDEX: index.value %1 axes [i0(2): M, i1(1): N] reduce [m(0): M] box from [affine_map<(d0, d1, d2)[s0, s1] -> (d2, d1)>] : !tiny.tensor<[M, N], i32>
// INDEX: index.value %2 axes [i0(2): M, i1(3): 4] reduce [n(1): N] box from [affine_map<(d0, d1, d2)[s0, s1] -> (d0, d2)>] : !tiny.tensor<[M, 4], i32>
tiny.graph @sorts(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, 4], f32> assuming (N >= 4) {
  %0 = tiny.bitcast %x : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], i32>
  %1 = tiny.sort %0 axis 0 {note = "kept"} : !tiny.tensor<[M, N], i32> -> !tiny.tensor<[M, N], i32>
  %2 = tiny.sort %1 axis 1 : !tiny.tensor<[M, N], i32> -> !tiny.tensor<[M, 4], i32>
  %3 = tiny.bitcast %2 : !tiny.tensor<[M, 4], i32> -> !tiny.tensor<[M, 4], f32>
  tiny.output %3 : !tiny.tensor<[M, 4], f32>
}

// An axis that is a product is sorted as it lies in memory.

// INDEX-LABEL: @parted
// INDEX: non_scop
// INDEX-SAME: sorts axis 0, which is the product M x K
tiny.graph @parted(%x: !tiny.tensor<[M, K], i64>) -> !tiny.tensor<[M * K], i64> {
  %0 = tiny.reshape %x : !tiny.tensor<[M, K], i64> -> !tiny.tensor<[M * K], i64>
  %1 = tiny.sort %0 axis 0 : !tiny.tensor<[M * K], i64> -> !tiny.tensor<[M * K], i64>
  tiny.output %1 : !tiny.tensor<[M * K], i64>
}

// Which bits decide is said.

// CHECK-LABEL: @decided
// CHECK: tiny.sort %x axis 1 by 32 to 48 : !tiny.tensor<[M, N], i64> -> !tiny.tensor<[M, N], i64>
// INDEX-LABEL: @decided
tiny.graph @decided(%x: !tiny.tensor<[M, N], i64>) -> !tiny.tensor<[M, N], i64> {
  %0 = tiny.sort %x axis 1 by 32 to 48 : !tiny.tensor<[M, N], i64> -> !tiny.tensor<[M, N], i64>
  tiny.output %0 : !tiny.tensor<[M, N], i64>
}
