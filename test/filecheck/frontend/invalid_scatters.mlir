// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of the scatters; the message says which, with the values.

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: sub is no function of a scatter; there are add, max, min, mul, set
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter sub %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[NotConstant]: N is symbolic, and the axis of a scatter is a number
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter add %x, %i, %u axis N : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[NotConstant]: N is symbolic, and the batch of a scatter is a number
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, 1], i64>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter_nd add %x, %i, %u batch N : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, 1], i64>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: sub is no function of a scatter; there are add, max, min, mul, set
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = "frontend.scatter"(%x, %i, %u) <{fn = "sub", axis = 0 : i64}> : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter of i1 is set, not add; use a cast
frontend.graph @f(%x: !frontend.tensor<[V, D], i1>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], i1>) -> !frontend.tensor<[V, D], i1> {
  %r = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V, D], i1>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], i1>) -> !frontend.tensor<[V, D], i1>
  frontend.output %r : !frontend.tensor<[V, D], i1>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter_nd of i1 is set, not max; use a cast
frontend.graph @f(%x: !frontend.tensor<[V, D], i1>, %i: !frontend.tensor<[N, 1], i64>, %u: !frontend.tensor<[N, D], i1>) -> !frontend.tensor<[V, D], i1> {
  %r = frontend.scatter_nd max %x, %i, %u batch 0 : (!frontend.tensor<[V, D], i1>, !frontend.tensor<[N, 1], i64>, !frontend.tensor<[N, D], i1>) -> !frontend.tensor<[V, D], i1>
  frontend.output %r : !frontend.tensor<[V, D], i1>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the indices of a scatter are of an integer type, not f32; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], f32>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], f32>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the indices of a scatter_nd are of an integer type, not i1; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, 1], i1>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter_nd add %x, %i, %u batch 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, 1], i1>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: an update of a scatter has element type f32, not f16; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f16>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f16>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of a scatter has element type f32, not f16; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f16> {
  %r = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f16>
  frontend.output %r : !frontend.tensor<[V, D], f16>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of a scatter is [V, D], not [N, D]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[N, D], f32> {
  %r = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[N, D], f32>
  frontend.output %r : !frontend.tensor<[N, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis 2 of a scatter is not an axis of [V, D], which are 0 to 1
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter add %x, %i, %u axis 2 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis -1 of a scatter_elements is not an axis of [V, D], which are 0 to 1
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[V, N], i64>, %u: !frontend.tensor<[V, N], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter_elements add %x, %i, %u axis -1 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[V, N], i64>, !frontend.tensor<[V, N], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter is along an axis of its operand, and [] has none; reshape it to [1]
frontend.graph @f(%x: !frontend.tensor<[], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N], f32>) -> !frontend.tensor<[], f32> {
  %r = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[], f32>
  frontend.output %r : !frontend.tensor<[], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter into [V, D] at [N] takes updates [N, D], not [V, D]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[V, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[V, D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter_elements into [V, D] at [V, N] takes updates [V, N], not [V, D]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[V, N], i64>, %u: !frontend.tensor<[V, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter_elements add %x, %i, %u axis 1 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[V, N], i64>, !frontend.tensor<[V, D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter_nd into [V, D] at [N, 1] takes updates [N, D], not [N, 1]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, 1], i64>, %u: !frontend.tensor<[N, 1], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter_nd add %x, %i, %u batch 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, 1], i64>, !frontend.tensor<[N, 1], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter_elements of [V, D] has indices of its rank, not [N]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter_elements add %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter_elements along axis 1 has N indices along axis 0, where the operand has V; slice the indices, or assume it
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, 3], i64>, %u: !frontend.tensor<[N, 3], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter_elements add %x, %i, %u axis 1 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, 3], i64>, !frontend.tensor<[N, 3], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the last axis of the indices of a scatter_nd has a known number of indices, 1 or more, and they are [N, K]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, K], i64>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter_nd add %x, %i, %u batch 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, K], i64>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the last axis of the indices of a scatter_nd has a known number of indices, 1 or more, and they are [N, 0]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, 0], i64>, %u: !frontend.tensor<[N, V, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter_nd add %x, %i, %u batch 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, 0], i64>, !frontend.tensor<[N, V, D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the last axis of the indices of a scatter_nd has a known number of indices, 1 or more, and they are []
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[], i64>, %u: !frontend.tensor<[D], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter_nd add %x, %i, %u batch 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[], i64>, !frontend.tensor<[D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter_nd of [V, D] with 0 batch axes has up to 2 indices a tuple, behind these axes; they are [N, 3]
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, 3], i64>, %u: !frontend.tensor<[N], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter_nd add %x, %i, %u batch 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, 3], i64>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scatter_nd at [1] has 0 to 0 batch axes, not 1; the last axis is that of the tuples
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[1], i64>, %u: !frontend.tensor<[D], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter_nd add %x, %i, %u batch 1 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[1], i64>, !frontend.tensor<[D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}

// -----

// CHECK: invalid_scatters.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: batch axis 0 of a scatter_nd has V elements and N indices; it is the same in both
frontend.graph @f(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N, 1], i64>, %u: !frontend.tensor<[N], f32>) -> !frontend.tensor<[V, D], f32> {
  %r = frontend.scatter_nd add %x, %i, %u batch 1 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N, 1], i64>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %r : !frontend.tensor<[V, D], f32>
}
