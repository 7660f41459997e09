// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// What an entry of a scatter must be; each text breaks one rule.

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis i0 of the value cannot be of kind scatter
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>) -> (y: !tiny.tensor<[V, D], f32>) {
  "index.value"(%x) <{axes = [#index.axis<i0(0): V scatter>, #index.axis<i1(1): D>], reduced = [], pieces = [#index.piece<box>]}> : (!tiny.tensor<[V, D], f32>) -> ()
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis n(8): N is reduce, and not of kind scatter
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[V, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %u axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], f32>
  index.value %i axes [i0(4): N, i1(5): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  index.value %y axes [i0(6): V, i1(7): D] reduce [n(8): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>] : !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis n(8): N is gather, and not of kind scatter
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[V, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %u axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], f32>
  index.value %i axes [i0(4): N, i1(5): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  index.value %y axes [i0(6): V, i1(7): D] gather [n(8): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>] : !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis d(1): D is scatter, and not of kind reduce
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>) -> (y: !tiny.tensor<[V], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  %y = tiny.reduce sum %x axes [1] : !tiny.tensor<[V, D], f32> -> !tiny.tensor<[V], f32>
  index.value %y axes [i0(0): V] scatter [d(1): D] box from [affine_map<(d0, d1)[s0, s1] -> (d0, d1)>] : !tiny.tensor<[V], f32>
  tiny.output %y : !tiny.tensor<[V], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the op has updates along axes [0] of their [N, D], the entry records []; record each of them
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[V, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %u axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], f32>
  index.value %i axes [i0(4): N, i1(5): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  index.value %y axes [i0(6): V, i1(7): D] box from [affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)>, affine_map<(d0, d1)[s0, s1, s2] -> (0, d1)>, affine_map<(d0, d1)[s0, s1, s2] -> (0, d1)>] : !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the op has updates along axes [0] of their [N, D], the entry records [v(8): V]; record each of them
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[V, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %u axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], f32>
  index.value %i axes [i0(4): N, i1(5): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  index.value %y axes [i0(6): V, i1(7): D] scatter [v(8): V] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>] : !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: scattered axis i1 has the name of an axis of the value
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[V, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %u axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], f32>
  index.value %i axes [i0(4): N, i1(5): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  index.value %y axes [i0(6): V, i1(7): D] scatter [i1(8): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>] : !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: (d0, d1, d2)[s0, s1, s2] -> (0, d1) is not how the scatter reads, which is at (d0, d1)
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[V, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %u axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], f32>
  index.value %i axes [i0(4): N, i1(5): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  index.value %y axes [i0(6): V, i1(7): D] scatter [n(8): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>] : !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: (d0, d1, d2)[s0, s1, s2] -> (0, d1) is not how the scatter reads, which is at (d2, d1)
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[V, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %u axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], f32>
  index.value %i axes [i0(4): N, i1(5): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  index.value %y axes [i0(6): V, i1(7): D] scatter [n(8): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>] : !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: (d0, d1, d2)[s0, s1, s2] -> (0, d1) is not how the scatter reads, which is at (d2, d1)
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[V, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %u axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], f32>
  index.value %i axes [i0(4): N, i1(5): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  index.value %y axes [i0(6): V, i1(7): D] scatter [n(8): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (0, d1)>] : !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: 0.0 is not how the scatter reads, which is at (d2, d1)
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[V, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %u axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], f32>
  index.value %i axes [i0(4): N, i1(5): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  index.value %y axes [i0(6): V, i1(7): D] scatter [n(8): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>, fill 0.0, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>] : !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[NonSCoP]: a non_scop value has no affine maps; leave out its pieces and reduced axes, or drop non_scop
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[V, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %u axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], f32>
  index.value %i axes [i0(4): N, i1(5): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  index.value %y axes [i0(6): V, i1(7): D] scatter [n(8): N] non_scop : !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}
