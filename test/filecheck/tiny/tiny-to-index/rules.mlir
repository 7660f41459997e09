// RUN: polyc-opt %s -p tiny-to-index --allow-unregistered-dialect | filecheck %s
// One update rule at a time (S4.7).

// CHECK-LABEL: tiny.graph @permute
tiny.graph @permute(%x: !tiny.tensor<[A, B, C], f32>) -> (y: !tiny.tensor<[C, A, B], f32>) {
  // Ids go with their axes; the map is the inverse permutation.
  // CHECK: index.value %y axes [i0(2): C, i1(0): A, i2(1): B] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d1, d2, d0)>]
  %y = tiny.permute %x perm [2, 0, 1] : !tiny.tensor<[A, B, C], f32> -> !tiny.tensor<[C, A, B], f32>
  tiny.output %y : !tiny.tensor<[C, A, B], f32>
}

// CHECK-LABEL: tiny.graph @stretch
tiny.graph @stretch(%x: !tiny.tensor<[1, N], f32>) -> (y: !tiny.tensor<[M, N, 1], f32>) {
  // A size-1 axis that becomes M is read at the constant 0.
  // CHECK: index.value %y axes [i0(2): M broadcast, i1(1): N, i2(3): 1 broadcast] box from [affine_map<(d0, d1, d2)[s0, s1] -> (0, d1)>]
  %y = tiny.expand %x dims [0, 1] : !tiny.tensor<[1, N], f32> -> !tiny.tensor<[M, N, 1], f32>
  // What repeats still does after a unary; with something else it does not.
  // CHECK: index.value %z axes [i0(2): M broadcast, i1(1): N, i2(3): 1 broadcast]
  %z = tiny.unary exp %y : !tiny.tensor<[M, N, 1], f32>
  // CHECK: index.value %w axes [i0(4): M broadcast, i1(5): N, i2(6): 1 broadcast]
  %w = tiny.binary add %z, %y : !tiny.tensor<[M, N, 1], f32>
  tiny.output %w : !tiny.tensor<[M, N, 1], f32>
}

// CHECK-LABEL: tiny.graph @reduce_two
tiny.graph @reduce_two(%x: !tiny.tensor<[A, K, 3, K], f32>) -> (y: !tiny.tensor<[A], f32>) {
  // A reduced axis is named by its symbol where that is free, else r<n>.
  // CHECK: index.value %y axes [i0(0): A] reduce [k(1): K, r1(2): 3, r2(3): K] box from [affine_map<(d0, d1, d2, d3)[s0, s1] -> (d0, d1, d2, d3)>]
  %y = tiny.reduce max %x axes [1, 2, 3] : !tiny.tensor<[A, K, 3, K], f32> -> !tiny.tensor<[A], f32>
  tiny.output %y : !tiny.tensor<[A], f32>
}

// CHECK-LABEL: tiny.graph @select
tiny.graph @select(%x: !tiny.tensor<[N], f32>) -> (y: !tiny.tensor<[N], f32>) {
  %c = tiny.compare lt %x, %x : !tiny.tensor<[N], f32>
  // CHECK: index.value %y axes [i0(2): N] box from [affine_map<(d0)[s0] -> (d0)>, affine_map<(d0)[s0] -> (d0)>, affine_map<(d0)[s0] -> (d0)>]
  %y = tiny.select %c, %x, %x : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}

// An op that the book does not know reads at places that depend on data.
// CHECK-LABEL: tiny.graph @gather
tiny.graph @gather(%x: !tiny.tensor<[N], f32>) -> (y: !tiny.tensor<[N], f32>) {
  // CHECK: index.value %y axes [i0(1): N] non_scop : !tiny.tensor<[N], f32>
  %y = "other.gather"(%x) : (!tiny.tensor<[N], f32>) -> !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}
