// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of tiny.scatter; the message says which, with the values.

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: sub is not a function of tiny.scatter; there are add, max, min, mul, set
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter sub %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected the types of 3 operands and one !tiny.tensor result
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>) -> !tiny.tensor<[V, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[NotConstant]: N is symbolic, and an axis of a scatter is a number
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter add %x, %u at [%i] axes [N] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: sub is not a function of tiny.scatter; there are add, max, min, mul, set
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = "tiny.scatter"(%x, %u, %i) <{fn = "sub", axes = array<i64: 0>}> : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter combines in f32 or an integer type; its operand has f16, add a tiny.cast
tiny.graph @f(%x: !tiny.tensor<[V, D], f16>, %u: !tiny.tensor<[N, D], f16>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f16> {
  %r = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f16>, !tiny.tensor<[N, D], f16>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f16>
  tiny.output %x : !tiny.tensor<[V, D], f16>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter combines in f32 or an integer type; its operand has i1, add a tiny.cast
tiny.graph @f(%x: !tiny.tensor<[V, D], i1>, %u: !tiny.tensor<[N, D], i1>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], i1> {
  %r = tiny.scatter set %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], i1>, !tiny.tensor<[N, D], i1>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], i1>
  tiny.output %x : !tiny.tensor<[V, D], i1>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: an update of a scatter has element type f32, not i32
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], i32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of a scatter has element type f32, not i32
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], i32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter keeps the shape [V, D], and its result says [N, D]
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [2] of a scatter are some axes of [V, D] in increasing order, 0 to 1
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter add %x, %u at [%i] axes [2] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [] of a scatter are some axes of [V, D] in increasing order, 0 to 1
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter add %x, %u at [%i] axes [] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [1, 0] of a scatter are some axes of [V, D] in increasing order, 0 to 1
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter add %x, %u at [%i, %i] axes [1, 0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter is along an axis of its operand, and [] has none; reshape it to [1]
tiny.graph @f(%x: !tiny.tensor<[], f32>, %u: !tiny.tensor<[], f32>, %i: !tiny.tensor<[], i64>) -> !tiny.tensor<[], f32> {
  %r = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[], f32>, !tiny.tensor<[], f32>, !tiny.tensor<[], i64>) -> !tiny.tensor<[], f32>
  tiny.output %x : !tiny.tensor<[], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter along 2 axes has 1 indices; give one each
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter add %x, %u at [%i] axes [0, 1] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter along axes [0] takes updates with the other sizes of [V, D], not [N, 4]
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, 4], f32>, %i: !tiny.tensor<[N, 4], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, 4], f32>, !tiny.tensor<[N, 4], i64>) -> !tiny.tensor<[V, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter along axes [0] takes updates with the other sizes of [V, D], not [N]
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N], f32>, %i: !tiny.tensor<[N], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N], f32>, !tiny.tensor<[N], i64>) -> !tiny.tensor<[V, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the indices of a scatter are of an integer type, not f32; add a tiny.cast
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], f32>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], f32>) -> !tiny.tensor<[V, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: the indices of a scatter have the shape of its updates, [N, D], not [N]; insert a tiny.expand
tiny.graph @f(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N], i64>) -> !tiny.tensor<[V, D], f32> {
  %r = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N], i64>) -> !tiny.tensor<[V, D], f32>
  tiny.output %x : !tiny.tensor<[V, D], f32>
}
