// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// What an entry of a gather must be; each text breaks one rule.

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis i0 of the value cannot be of kind gather
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>) -> (y: !tiny.tensor<[V, D], f32>) {
  "index.value"(%x) <{axes = [#index.axis<i0(0): V gather>, #index.axis<i1(1): D>], reduced = [], pieces = [#index.piece<box>]}> : (!tiny.tensor<[V, D], f32>) -> ()
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis v(6): V is reduce, and not of kind gather
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[N, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %i axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  index.value %y axes [i0(4): N, i1(5): D] reduce [v(6): V] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>] : !tiny.tensor<[N, D], f32>
  tiny.output %y : !tiny.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis d(1): D is gather, and not of kind reduce
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>) -> (y: !tiny.tensor<[V], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  %y = tiny.reduce sum %x axes [1] : !tiny.tensor<[V, D], f32> -> !tiny.tensor<[V], f32>
  index.value %y axes [i0(0): V] gather [d(1): D] box from [affine_map<(d0, d1)[s0, s1] -> (d0, d1)>] : !tiny.tensor<[V], f32>
  tiny.output %y : !tiny.tensor<[V], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis r0(2): D is gather, and not of kind reduce
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>) -> (y: !tiny.tensor<[V, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[V, D], f32>
  index.value %y axes [i0(0): V, i1(1): D] gather [r0(2): D] box from [affine_map<(d0, d1, d2)[s0, s1] -> (d0, d2)>] : !tiny.tensor<[V, D], f32>
  tiny.output %y : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the op has indices along 1 axes, the entry records 0; record each of them
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[N, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %i axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  index.value %y axes [i0(4): N, i1(5): D] box from [affine_map<(d0, d1)[s0, s1, s2] -> (0, d1)>, affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)>] : !tiny.tensor<[N, D], f32>
  tiny.output %y : !tiny.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis v(6): D stands for axis 0 of the operand, whose size is V
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[N, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %i axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  index.value %y axes [i0(4): N, i1(5): D] gather [v(6): D] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>] : !tiny.tensor<[N, D], f32>
  tiny.output %y : !tiny.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: gathered axis i2 has the name of an axis of the value
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[N, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %i axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  index.value %y axes [i0(4): N, i1(5): D] gather [i2(6): V] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>] : !tiny.tensor<[N, D], f32>
  tiny.output %y : !tiny.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: (d0, d1, d2)[s0, s1, s2] -> (d0, d2) reads an index at a place that it says itself
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[N, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %i axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  index.value %y axes [i0(4): N, i1(5): D] gather [v(6): V] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d2)>] : !tiny.tensor<[N, D], f32>
  tiny.output %y : !tiny.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: result 0 of (d0, d1, d2)[s0, s1, s2] -> (0, d1) is where an index says; write d2
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[N, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %i axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  index.value %y axes [i0(4): N, i1(5): D] gather [v(6): V] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (0, d1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>] : !tiny.tensor<[N, D], f32>
  tiny.output %y : !tiny.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather reads its operand by a map, not as 0.0; its own fill is what is outside
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[N, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %i axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  index.value %y axes [i0(4): N, i1(5): D] gather [v(6): V] box from [fill 0.0, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>] : !tiny.tensor<[N, D], f32>
  tiny.output %y : !tiny.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[UnguardedAccess]: (d0, d1, d2)[s0, s1, s2] -> (d2, (d1 + 1)) leaves its operand !tiny.tensor<[V, D], f32> somewhere on the domain; guard it by a piece with a fill, or correct the map
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[N, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %i axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  index.value %y axes [i0(4): N, i1(5): D] gather [v(6): V] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d2, d1 + 1)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>] : !tiny.tensor<[N, D], f32>
  tiny.output %y : !tiny.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[NonSCoP]: a non_scop value has no affine maps; leave out its pieces and reduced axes, or drop non_scop
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> (y: !tiny.tensor<[N, D], f32>) {
  index.value %x axes [i0(0): V, i1(1): D] box : !tiny.tensor<[V, D], f32>
  index.value %i axes [i0(2): N, i1(3): D] box : !tiny.tensor<[N, D], i64>
  %y = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  index.value %y axes [i0(4): N, i1(5): D] gather [v(6): V] non_scop : !tiny.tensor<[N, D], f32>
  tiny.output %y : !tiny.tensor<[N, D], f32>
}
