// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s
// An index.value stands beside each value, with its axes, its domain and its maps.

tiny.graph @product(%A: !tiny.tensor<[M, K], f32>, %B: !tiny.tensor<[K, N], f32>) -> (C: !tiny.tensor<[M, N], f32>) {
  // CHECK: index.value %A axes [i0(0): M, i1(1): K] box : !tiny.tensor<[M, K], f32>
  index.value %A axes [i0(0): M, i1(1): K] box : !tiny.tensor<[M, K], f32>
  index.value %B axes [i0(2): K, i1(3): N] box : !tiny.tensor<[K, N], f32>
  %a = tiny.expand %A dims [0, 1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, N], f32>
  // CHECK: index.value %a axes [i0(0): M, i1(1): K, i2(4): N broadcast] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>] : !tiny.tensor<[M, K, N], f32>
  index.value %a axes [i0(0): M, i1(1): K, i2(4): N broadcast] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>] : !tiny.tensor<[M, K, N], f32>
  %b = tiny.expand %B dims [1, 2] : !tiny.tensor<[K, N], f32> -> !tiny.tensor<[M, K, N], f32>
  index.value %b axes [i0(5): M broadcast, i1(2): K, i2(3): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d1, d2)>] : !tiny.tensor<[M, K, N], f32>
  %t = tiny.binary mul %a, %b : !tiny.tensor<[M, K, N], f32>
  // CHECK: index.value %t axes [i0(6): M, i1(7): K, i2(8): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)>]
  index.value %t axes [i0(6): M, i1(7): K, i2(8): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)>] : !tiny.tensor<[M, K, N], f32>
  %c = tiny.reduce sum %t axes [1] : !tiny.tensor<[M, K, N], f32> -> !tiny.tensor<[M, N], f32>
  // CHECK: index.value %c axes [i0(6): M, i1(8): N] reduce [k(7): K] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d2, d1)>] : !tiny.tensor<[M, N], f32>
  index.value %c axes [i0(6): M, i1(8): N] reduce [k(7): K] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d2, d1)>] : !tiny.tensor<[M, N], f32>
  tiny.output %c : !tiny.tensor<[M, N], f32>
}

// A stretched axis is read at the constant 0; a leaf of rank 0 has an empty box.
tiny.graph @stretched(%x: !tiny.tensor<[1, N], f32>) -> (y: !tiny.tensor<[M, N], f32>) {
  index.value %x axes [i0(0): 1, i1(1): N] box : !tiny.tensor<[1, N], f32>
  %y = tiny.expand %x dims [0, 1] : !tiny.tensor<[1, N], f32> -> !tiny.tensor<[M, N], f32>
  // CHECK: index.value %y axes [i0(2): M broadcast, i1(1): N] box from [affine_map<(d0, d1)[s0, s1] -> (0, d1)>]
  index.value %y axes [i0(2): M broadcast, i1(1): N] box from [affine_map<(d0, d1)[s0, s1] -> (0, d1)>] : !tiny.tensor<[M, N], f32>
  %z = tiny.constant 0.0 : !tiny.tensor<[], f32>
  // CHECK: index.value %z axes [] box : !tiny.tensor<[], f32>
  index.value %z axes [] box : !tiny.tensor<[], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}

// Pieces part the box; a piece fills what it does not read. Floors are in lowest terms.
tiny.graph @pieces(%x: !tiny.tensor<[N], f32>) -> (y: !tiny.tensor<[N], f32>) assuming (N >= 4) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  // CHECK: index.value %y axes [i0(0): N] pieces [affine_set<(d0)[s0] : ((d0 + -4) >= 0)> from [affine_map<(d0)[s0] -> (((d0 + 1) floordiv 2))>], affine_set<(d0)[s0] : (((d0 * -1) + 3) >= 0)> from [fill -inf]]
  index.value %y axes [i0(0): N] pieces [affine_set<(d0)[s0] : (d0 - 4 >= 0)> from [affine_map<(d0)[s0] -> ((d0 + 1) floordiv 2)>], affine_set<(d0)[s0] : (-d0 + 3 >= 0)> from [fill -inf]] : !tiny.tensor<[N], f32>
  %z = tiny.unary exp %y : !tiny.tensor<[N], f32>
  // CHECK: index.value %z axes [i0(1): N] non_scop : !tiny.tensor<[N], f32>
  index.value %z axes [i0(1): N] non_scop : !tiny.tensor<[N], f32>
  %w = tiny.unary exp %z : !tiny.tensor<[N], f32>
  // CHECK: index.value %w axes [i0(2): N] non_scop "it divides by M" {note} : !tiny.tensor<[N], f32>
  index.value %w axes [i0(2): N] non_scop "it divides by M" {note} : !tiny.tensor<[N], f32>
  tiny.output %w : !tiny.tensor<[N], f32>
}
