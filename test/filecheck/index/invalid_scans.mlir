// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// The axis that a scan goes along is in its entry twice: as the value's, and as what is read.

// CHECK: error[InvalidIR]: the op goes along one axis, the entry records 0; record it by the id that it had
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> (C: !tiny.tensor<[M, N], f32>) {
  index.value %x axes [i0(0): M, i1(1): N] box : !tiny.tensor<[M, N], f32>
  %y = tiny.scan sum %x axis 1 : !tiny.tensor<[M, N], f32>
  index.value %y axes [i0(0): M, i1(2): N] box from [affine_map<(d0, d1)[s0, s1] -> (d0, d1)>] : !tiny.tensor<[M, N], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: error[InvalidIR]: the op goes along the axis with id 1, the entry records [3]
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> (C: !tiny.tensor<[M, N], f32>) {
  index.value %x axes [i0(0): M, i1(1): N] box : !tiny.tensor<[M, N], f32>
  %y = tiny.scan sum %x axis 1 : !tiny.tensor<[M, N], f32>
  index.value %y axes [i0(0): M, i1(2): N] reduce [n(3): N] box from [affine_map<(d0, d1, d2)[s0, s1] -> (d0, d2)>] : !tiny.tensor<[M, N], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: error[InvalidIR]: the axes that it does not go along keep their ids [0], not [4]
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> (C: !tiny.tensor<[M, N], f32>) {
  index.value %x axes [i0(0): M, i1(1): N] box : !tiny.tensor<[M, N], f32>
  %y = tiny.scan sum %x axis 1 : !tiny.tensor<[M, N], f32>
  index.value %y axes [i0(4): M, i1(2): N] reduce [n(1): N] box from [affine_map<(d0, d1, d2)[s0, s1] -> (d0, d2)>] : !tiny.tensor<[M, N], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}

// -----

// What is read is up to the own place of an element, and one beyond that of the last is outside.
// CHECK: error[UnguardedAccess]: (d0, d1, d2)[s0, s1] -> (d0, (d2 + 1)) leaves its operand !tiny.tensor<[M, N], f32> somewhere on the domain; guard it by a piece with a fill, or correct the map
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> (C: !tiny.tensor<[M, N], f32>) {
  index.value %x axes [i0(0): M, i1(1): N] box : !tiny.tensor<[M, N], f32>
  %y = tiny.scan sum %x axis 1 : !tiny.tensor<[M, N], f32>
  index.value %y axes [i0(0): M, i1(2): N] reduce [n(1): N] box from [affine_map<(d0, d1, d2)[s0, s1] -> (d0, d2 + 1)>] : !tiny.tensor<[M, N], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}
