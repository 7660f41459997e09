// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of tiny.sort or tiny.bitcast; the message says which, with the values.

// CHECK: invalid_sorting.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a sort is of integers, not of f32; make it one by a bitcast
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.sort %x axis 1 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_sorting.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis 2 of a sort is none of [M, N], which has 0 to 1
tiny.graph @f(%x: !tiny.tensor<[M, N], i64>) -> !tiny.tensor<[M, N], i64> {
  %r = tiny.sort %x axis 2 : !tiny.tensor<[M, N], i64> -> !tiny.tensor<[M, N], i64>
  tiny.output %x : !tiny.tensor<[M, N], i64>
}

// -----

// CHECK: invalid_sorting.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a sort keeps the element type; the operand has i64, the result i32
tiny.graph @f(%x: !tiny.tensor<[M, N], i64>) -> !tiny.tensor<[M, N], i64> {
  %r = tiny.sort %x axis 1 : !tiny.tensor<[M, N], i64> -> !tiny.tensor<[M, N], i32>
  tiny.output %x : !tiny.tensor<[M, N], i64>
}

// -----

// CHECK: invalid_sorting.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a sort gives the 4 least of N, which may be fewer; assume N >= 4
tiny.graph @f(%x: !tiny.tensor<[M, N], i64>) -> !tiny.tensor<[M, N], i64> {
  %r = tiny.sort %x axis 1 : !tiny.tensor<[M, N], i64> -> !tiny.tensor<[M, 4], i64>
  tiny.output %x : !tiny.tensor<[M, N], i64>
}

// -----

// CHECK: invalid_sorting.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a sort gives all N elements or a number of the least, not M
tiny.graph @f(%x: !tiny.tensor<[M, N], i64>) -> !tiny.tensor<[M, N], i64> {
  %r = tiny.sort %x axis 1 : !tiny.tensor<[M, N], i64> -> !tiny.tensor<[M, M], i64>
  tiny.output %x : !tiny.tensor<[M, N], i64>
}

// -----

// CHECK: invalid_sorting.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: [M, N] sorted along axis 1 is not [N, N]: the other axes stay as they are
tiny.graph @f(%x: !tiny.tensor<[M, N], i64>) -> !tiny.tensor<[M, N], i64> {
  %r = tiny.sort %x axis 1 : !tiny.tensor<[M, N], i64> -> !tiny.tensor<[N, N], i64>
  tiny.output %x : !tiny.tensor<[M, N], i64>
}

// -----

// CHECK: invalid_sorting.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a sort gives all of an axis or 1024 elements at most, not 2048 of 4096; sort it whole and slice it
tiny.graph @f(%x: !tiny.tensor<[M, 4096], i64>) -> !tiny.tensor<[M, 4096], i64> {
  %r = tiny.sort %x axis 1 : !tiny.tensor<[M, 4096], i64> -> !tiny.tensor<[M, 2048], i64>
  tiny.output %x : !tiny.tensor<[M, 4096], i64>
}

// -----

// CHECK: invalid_sorting.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a bitcast is from f32 to i32 or back, not from i64 to f32; cast before it
tiny.graph @f(%x: !tiny.tensor<[M, N], i64>) -> !tiny.tensor<[M, N], i64> {
  %r = tiny.bitcast %x : !tiny.tensor<[M, N], i64> -> !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], i64>
}

// -----

// CHECK: invalid_sorting.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: bitcast takes equal shapes, not [M, N] and [N, M]; insert a tiny.expand
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.bitcast %x : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N, M], i32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_sorting.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: by which a sort is: the bits 32 to 65 are none of i64, which has 0 to 64
tiny.graph @f(%x: !tiny.tensor<[M, N], i64>) -> !tiny.tensor<[M, N], i64> {
  %r = tiny.sort %x axis 1 by 32 to 65 : !tiny.tensor<[M, N], i64> -> !tiny.tensor<[M, N], i64>
  tiny.output %r : !tiny.tensor<[M, N], i64>
}
