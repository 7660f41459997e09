// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of frontend.scan; the message says which, with the values.

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: mean is not a function of frontend.scan; there are max, min, prod, sum
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %r = frontend.scan mean %x axis 1 : !frontend.tensor<[M, N], f32>
  frontend.output %x : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis 2 of a scan is not an axis of [M, N], which are 0 to 1
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %r = frontend.scan sum %x axis 2 : !frontend.tensor<[M, N], f32>
  frontend.output %x : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axis -1 of a scan is not an axis of [M, N], which are 0 to 1
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %r = frontend.scan sum %x axis -1 : !frontend.tensor<[M, N], f32>
  frontend.output %x : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scan goes along an axis, and a scalar has none; leave it out
frontend.graph @f(%x: !frontend.tensor<[], f32>) -> !frontend.tensor<[], f32> {
  %r = frontend.scan sum %x axis 0 : !frontend.tensor<[], f32>
  frontend.output %x : !frontend.tensor<[], f32>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scan computes with numbers, not i1; use frontend.select or a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M], i1>) -> !frontend.tensor<[M], i1> {
  %r = frontend.scan sum %x axis 0 : !frontend.tensor<[M], i1>
  frontend.output %x : !frontend.tensor<[M], i1>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scan keeps the element type; the operand has f32, the result i32
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %r = frontend.scan sum %x axis 0 : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M, N], i32>
  frontend.output %x : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: invalid_scans.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a scan keeps the shape; the operand is [M, N], the result [N, M]
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %r = frontend.scan sum %x axis 0 : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[N, M], f32>
  frontend.output %x : !frontend.tensor<[M, N], f32>
}
