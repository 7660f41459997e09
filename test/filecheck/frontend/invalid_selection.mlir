// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of frontend.arg_reduce or frontend.sort; the message says which, with the values.

// CHECK: invalid_selection.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: sum is not a function of frontend.arg_reduce; there are max, min
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %r = frontend.arg_reduce sum %x axis 1 : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M], i64>
  frontend.output %x : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_selection.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis 2 of an argmax is none of [M, N], which has 0 to 1
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %r = frontend.arg_reduce max %x axis 2 : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M], i64>
  frontend.output %x : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_selection.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: argmin of [M, 0] over axis 1 asks for a place among no elements; give the axis one or more
frontend.graph @f(%x: !frontend.tensor<[M, 0], f32>) -> !frontend.tensor<[M, 0], f32> {
  %r = frontend.arg_reduce min %x axis 1 : !frontend.tensor<[M, 0], f32> -> !frontend.tensor<[M], i64>
  frontend.output %x : !frontend.tensor<[M, 0], f32>
}

// -----

// CHECK: invalid_selection.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of this argmax is [M], not [N]
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %r = frontend.arg_reduce max %x axis 1 : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[N], i64>
  frontend.output %x : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_selection.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: an argmax has places of i64 or i32, not of f32; cast them
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %r = frontend.arg_reduce max %x axis 1 : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M], f32>
  frontend.output %x : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_selection.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: argmax computes with numbers, not i1; use frontend.select or a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, N], i1>) -> !frontend.tensor<[M, N], i1> {
  %r = frontend.arg_reduce max %x axis 1 : !frontend.tensor<[M, N], i1> -> !frontend.tensor<[M], i64>
  frontend.output %x : !frontend.tensor<[M, N], i1>
}

// -----

// CHECK: invalid_selection.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a sort gives 4 elements of N, which may be fewer; assume N >= 4
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %v, %p = frontend.sort %x axis 1 : (!frontend.tensor<[M, N], f32>) -> (!frontend.tensor<[M, 4], f32>, !frontend.tensor<[M, 4], i64>)
  frontend.output %x : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_selection.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a sort gives all N elements or a number of them, not M
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %v, %p = frontend.sort %x axis 1 : (!frontend.tensor<[M, N], f32>) -> (!frontend.tensor<[M, M], f32>, !frontend.tensor<[M, M], i64>)
  frontend.output %x : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_selection.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: [M, N] sorted along axis 1 is not [N, N]: the other axes stay as they are
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %v, %p = frontend.sort %x axis 1 : (!frontend.tensor<[M, N], f32>) -> (!frontend.tensor<[N, N], f32>, !frontend.tensor<[N, N], i64>)
  frontend.output %x : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_selection.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a sort has places of i64 or i32, not of ui8; cast them
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %v, %p = frontend.sort %x axis 0 : (!frontend.tensor<[M, N], f32>) -> (!frontend.tensor<[M, N], f32>, !frontend.tensor<[M, N], ui8>)
  frontend.output %x : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_selection.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: what a sort gives has element type f32, not f16; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %v, %p = frontend.sort %x axis 0 : (!frontend.tensor<[M, N], f32>) -> (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, N], i64>)
  frontend.output %x : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_selection.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: a sort gives elements and their places, not 1
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %v = frontend.sort %x axis 0 : (!frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32>
  frontend.output %x : !frontend.tensor<[M, N], f32>
}
