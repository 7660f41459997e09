// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s
// The axes of the updates that indices are of are beside the value's, as those of a reduction, with ids
// of their own.

tiny.graph @rows(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[V, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %u axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], f32>
  index.value %i axes [i0(4): N, i1(5): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  // CHECK: index.value %y axes [i0(6): V, i1(7): D] scatter [n(8): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>] : !tiny.tensor<[V, D], f32>
  index.value %y axes [i0(6): V, i1(7): D] scatter [n(8): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>] : !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}
