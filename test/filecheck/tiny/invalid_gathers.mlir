// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of tiny.gather; the message says which, with the values.

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected clamp, or fill and a number: what a place outside reads
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.gather %x at [%i] axes [0] nearest : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected the types of 2 operands and one !tiny.tensor result
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>) -> !tiny.tensor<[N, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[NotConstant]: N is symbolic, and an axis of a gather is a number
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.gather %x at [%i] axes [N] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of a gather has element type f32, not f16
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f16>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [2] of a gather are some axes of [V, D] in increasing order, 0 to 1
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.gather %x at [%i] axes [2] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [] of a gather are some axes of [V, D] in increasing order, 0 to 1
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.gather %x at [%i] axes [] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [1, 0] of a gather are some axes of [V, D] in increasing order, 0 to 1
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.gather %x at [%i, %i] axes [1, 0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather is along an axis of its operand, and [] has none; reshape it to [1]
tiny.graph @f(%x: !tiny.tensor<[], f32>, %i: !tiny.tensor<[], i64>) -> !tiny.tensor<[], f32> {
  %r = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[], f32>, !tiny.tensor<[], i64>) -> !tiny.tensor<[], f32>
  tiny.output %x : !tiny.tensor<[], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather along 2 axes has 1 indices; give one each
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.gather %x at [%i] axes [0, 1] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the indices of a gather are of an integer type, not f32; add a tiny.cast
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], f32>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>) -> !tiny.tensor<[N, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: the indices of a gather have the shape of its result, [N, D], not [N]; insert a tiny.expand
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N], i64>) -> !tiny.tensor<[N, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather along axes [0] keeps the other sizes of [V, D]; the result says [N, 4]
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, 4], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, 4], i64>) -> !tiny.tensor<[N, 4], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a gather along axes [0] keeps the other sizes of [V, D]; the result says [N]
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N], i64>) -> !tiny.tensor<[N], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the fill of a gather: 0.1 is no f16; give one that it holds
tiny.graph @f(%x: !tiny.tensor<[V, D], f16>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f16> {
  %r = tiny.gather %x at [%i] axes [0] fill 0.1 : (!tiny.tensor<[V, D], f16>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f16>
  tiny.output %x : !tiny.tensor<[V, D], f16>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the fill of a gather: 128 is no i8, which holds integers from -128 to 127
tiny.graph @f(%x: !tiny.tensor<[V, D], i8>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], i8> {
  %r = tiny.gather %x at [%i] axes [0] fill 128 : (!tiny.tensor<[V, D], i8>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], i8>
  tiny.output %x : !tiny.tensor<[V, D], i8>
}

// -----

// CHECK: invalid_gathers.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the fill of a gather: 3.0 is no i1, which holds 0 and 1
tiny.graph @f(%x: !tiny.tensor<[V, D], i1>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], i1> {
  %r = tiny.gather %x at [%i] axes [0] fill 3.0 : (!tiny.tensor<[V, D], i1>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], i1>
  tiny.output %x : !tiny.tensor<[V, D], i1>
}
