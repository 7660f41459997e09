// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of the gathers; the message says which, with the values.

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected clamp, or fill and a number: what a place outside reads
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f32> {
  %r = frontend.gather %x, %i axis 0 wrap : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f32>
  frontend.output %r : !frontend.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[NotConstant]: N is symbolic, and the axis of a gather is a number
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f32> {
  %r = frontend.gather %x, %i axis N clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f32>
  frontend.output %r : !frontend.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the indices of a gather are of an integer type, not f32; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], f32>) -> !frontend.tensor<[N, D], f32> {
  %r = frontend.gather %x, %i axis 0 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[N, D], f32>
  frontend.output %r : !frontend.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the indices of a gather_nd are of an integer type, not i1; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, 1], i1>) -> !frontend.tensor<[N, D], f32> {
  %r = frontend.gather_nd %x, %i batch 0 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, 1], i1>) -> !frontend.tensor<[N, D], f32>
  frontend.output %r : !frontend.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of a gather has element type f32, not f16; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f16> {
  %r = frontend.gather %x, %i axis 0 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f16>
  frontend.output %r : !frontend.tensor<[N, D], f16>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis 2 of a gather is not an axis of [V, D], which are 0 to 1
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f32> {
  %r = frontend.gather %x, %i axis 2 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f32>
  frontend.output %r : !frontend.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis -1 of a gather_elements is not an axis of [V, D], which are 0 to 1
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[V, N], i64>) -> !frontend.tensor<[V, N], f32> {
  %r = frontend.gather_elements %x, %i axis -1 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[V, N], i64>) -> !frontend.tensor<[V, N], f32>
  frontend.output %r : !frontend.tensor<[V, N], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather is along an axis of its operand, and [] has none; reshape it to [1]
frontend.graph @f(%x: !frontend.tensor<[], f32>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N], f32> {
  %r = frontend.gather %x, %i axis 0 clamp : (!frontend.tensor<[], f32>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N], f32>
  frontend.output %r : !frontend.tensor<[N], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather of [V, D] at [N] is [N, D]; the result says [V, D]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.gather %x, %i axis 0 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather_elements of [V, D] at [V, N] is [V, N]; the result says [V, D]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[V, N], i64>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.gather_elements %x, %i axis 1 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[V, N], i64>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather_nd of [V, D] at [N, 1] is [N, D]; the result says [N, 1]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, 1], i64>) -> !frontend.tensor<[N, 1], f32> {
  %r = frontend.gather_nd %x, %i batch 0 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, 1], i64>) -> !frontend.tensor<[N, 1], f32>
  frontend.output %r : !frontend.tensor<[N, 1], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather_elements of [V, D] has indices of its rank, not [N]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N], f32> {
  %r = frontend.gather_elements %x, %i axis 0 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N], f32>
  frontend.output %r : !frontend.tensor<[N], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather_elements along axis 1 has N indices along axis 0, where the operand has V; slice the indices, or assume it
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, 3], i64>) -> !frontend.tensor<[N, 3], f32> {
  %r = frontend.gather_elements %x, %i axis 1 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, 3], i64>) -> !frontend.tensor<[N, 3], f32>
  frontend.output %r : !frontend.tensor<[N, 3], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the last axis of the indices of a gather_nd has a known number of indices, 1 or more, and they are [N, K]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, K], i64>) -> !frontend.tensor<[N, D], f32> {
  %r = frontend.gather_nd %x, %i batch 0 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, K], i64>) -> !frontend.tensor<[N, D], f32>
  frontend.output %r : !frontend.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the last axis of the indices of a gather_nd has a known number of indices, 1 or more, and they are [N, 0]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, 0], i64>) -> !frontend.tensor<[N, V, D], f32> {
  %r = frontend.gather_nd %x, %i batch 0 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, 0], i64>) -> !frontend.tensor<[N, V, D], f32>
  frontend.output %r : !frontend.tensor<[N, V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the last axis of the indices of a gather_nd has a known number of indices, 1 or more, and they are []
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[], i64>) -> !frontend.tensor<[D], f32> {
  %r = frontend.gather_nd %x, %i batch 0 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[], i64>) -> !frontend.tensor<[D], f32>
  frontend.output %r : !frontend.tensor<[D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather_nd of [V, D] with 0 batch axes has up to 2 indices a tuple, behind these axes; they are [N, 3]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, 3], i64>) -> !frontend.tensor<[N], f32> {
  %r = frontend.gather_nd %x, %i batch 0 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, 3], i64>) -> !frontend.tensor<[N], f32>
  frontend.output %r : !frontend.tensor<[N], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather_nd at [1] has 0 to 0 batch axes, not 1; the last axis is that of the tuples
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[1], i64>) -> !frontend.tensor<[D], f32> {
  %r = frontend.gather_nd %x, %i batch 1 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[1], i64>) -> !frontend.tensor<[D], f32>
  frontend.output %r : !frontend.tensor<[D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: batch axis 0 of a gather_nd has V elements and N indices; it is the same in both
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, 1], i64>) -> !frontend.tensor<[N], f32> {
  %r = frontend.gather_nd %x, %i batch 1 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, 1], i64>) -> !frontend.tensor<[N], f32>
  frontend.output %r : !frontend.tensor<[N], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the fill of a gather: 256 is no i8, which holds integers from -128 to 127
frontend.graph @f(%x: !frontend.tensor<[V, D], i8>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], i8> {
  %r = frontend.gather %x, %i axis 0 fill 256 : (!frontend.tensor<[V, D], i8>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], i8>
  frontend.output %r : !frontend.tensor<[N, D], i8>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the fill of a gather: 0.5 is no i32, which holds integers from -2147483648 to 2147483647
frontend.graph @f(%x: !frontend.tensor<[V, D], i32>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], i32> {
  %r = frontend.gather %x, %i axis 0 fill 0.5 : (!frontend.tensor<[V, D], i32>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], i32>
  frontend.output %r : !frontend.tensor<[N, D], i32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the fill of a gather_nd: -1 is no ui8, which holds integers from 0 to 255
frontend.graph @f(%x: !frontend.tensor<[V, D], ui8>, %i: !frontend.tensor<[N, 1], i64>) -> !frontend.tensor<[N, D], ui8> {
  %r = frontend.gather_nd %x, %i batch 0 fill -1 : (!frontend.tensor<[V, D], ui8>, !frontend.tensor<[N, 1], i64>) -> !frontend.tensor<[N, D], ui8>
  frontend.output %r : !frontend.tensor<[N, D], ui8>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the fill of a gather: 2.0 is no i1, which holds 0 and 1
frontend.graph @f(%x: !frontend.tensor<[V, D], i1>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], i1> {
  %r = frontend.gather %x, %i axis 0 fill 2 : (!frontend.tensor<[V, D], i1>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], i1>
  frontend.output %r : !frontend.tensor<[N, D], i1>
}
