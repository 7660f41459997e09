// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of tiny.scan; the message says which, with the values.

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: mean is not a function of tiny.scan; there are max, min, prod, sum
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.scan mean %x axis 1 : !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis 2 of a scan is not an axis of [M, N], which are 0 to 1
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.scan sum %x axis 2 : !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis -1 of a scan is not an axis of [M, N], which are 0 to 1
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.scan sum %x axis -1 : !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scan goes along an axis, and a scalar has none; leave it out
tiny.graph @f(%x: !tiny.tensor<[], f32>) -> !tiny.tensor<[], f32> {
  %r = tiny.scan sum %x axis 0 : !tiny.tensor<[], f32>
  tiny.output %x : !tiny.tensor<[], f32>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scan computes in f32 or an integer type; an operand has i1, add a tiny.cast
tiny.graph @f(%x: !tiny.tensor<[M], i1>) -> !tiny.tensor<[M], i1> {
  %r = tiny.scan sum %x axis 0 : !tiny.tensor<[M], i1>
  tiny.output %x : !tiny.tensor<[M], i1>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scan keeps the element type; the operand has f32, the result i32
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.scan sum %x axis 0 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], i32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scan keeps the shape; the operand is [M, N], the result [N, M]
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.scan sum %x axis 0 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N, M], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scan computes in f32 or an integer type; an operand has f16, add a tiny.cast
tiny.graph @f(%x: !tiny.tensor<[M], f16>) -> !tiny.tensor<[M], f16> {
  %r = tiny.scan sum %x axis 0 : !tiny.tensor<[M], f16>
  tiny.output %x : !tiny.tensor<[M], f16>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of a scan is stored as f16 or bf16, not own f32
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %r = tiny.scan sum %x axis 0 own f32 : !tiny.tensor<[M, N], f32>
  tiny.output %x : !tiny.tensor<[M, N], f32>
}
