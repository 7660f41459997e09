// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of the dialect; the message says which, with the values.

// CHECK: invalid_conditions.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: less is not a relation; there are eq, ge, gt, le, lt, ne
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.compare less %x, %w : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], i1>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_conditions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of lt has element type i1, not f16; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.compare lt %x, %w : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_conditions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the right operand of lt has element type f16, not f32; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[N], f32>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.compare lt %x, %w : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[M, N], i1>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_conditions.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: lt cannot broadcast [M, N] and [M], aligned at the right; sizes there are equal or one of them is 1
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[M], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.compare lt %x, %w : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M], f16>) -> !frontend.tensor<[M, N], i1>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_conditions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: lt is no function of i1, which has eq, ne; add a cast
frontend.graph @f(%x: !frontend.tensor<[M], i1>, %w: !frontend.tensor<[M], i1>) -> !frontend.tensor<[M], i1> {
  %r = frontend.compare lt %x, %w : (!frontend.tensor<[M], i1>, !frontend.tensor<[M], i1>) -> !frontend.tensor<[M], i1>
  frontend.output %x : !frontend.tensor<[M], i1>
}

// -----

// CHECK: invalid_conditions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the condition of a select has element type i1, not f16; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[N], f16>, %y: !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.select %x, %w, %y : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], f16>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_conditions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: each branch of a select has element type f16, not f32; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, N], i1>, %w: !frontend.tensor<[N], f16>, %y: !frontend.tensor<[N], f32>) -> !frontend.tensor<[M, N], i1> {
  %r = frontend.select %x, %w, %y : (!frontend.tensor<[M, N], i1>, !frontend.tensor<[N], f16>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], i1>
}

// -----

// CHECK: invalid_conditions.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: select cannot broadcast [M, N] and [N] and [M], aligned at the right; sizes there are equal or one of them is 1
frontend.graph @f(%x: !frontend.tensor<[M, N], i1>, %w: !frontend.tensor<[N], f16>, %y: !frontend.tensor<[M], f16>) -> !frontend.tensor<[M, N], i1> {
  %r = frontend.select %x, %w, %y : (!frontend.tensor<[M, N], i1>, !frontend.tensor<[N], f16>, !frontend.tensor<[M], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], i1>
}

// -----

// CHECK: invalid_conditions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: Expected 3 operands, but got 2
frontend.graph @f(%x: !frontend.tensor<[M, N], i1>, %w: !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], i1> {
  %r = frontend.select %x, %w : (!frontend.tensor<[M, N], i1>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], i1>
}

// -----

// CHECK: invalid_conditions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: add is no function of i1, which has and, or, xor; add a cast
frontend.graph @f(%x: !frontend.tensor<[M], i1>, %w: !frontend.tensor<[M], i1>) -> !frontend.tensor<[M], i1> {
  %r = frontend.elementwise add %x, %w : (!frontend.tensor<[M], i1>, !frontend.tensor<[M], i1>) -> !frontend.tensor<[M], i1>
  frontend.output %x : !frontend.tensor<[M], i1>
}

// -----

// CHECK: invalid_conditions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a constant is a scalar, not !frontend.tensor<[M], f16>; it broadcasts, or use a frontend.expand
frontend.graph @f(%x: !frontend.tensor<[M], f16>) -> !frontend.tensor<[M], f16> {
  %r = frontend.constant 1.0 : !frontend.tensor<[M], f16>
  frontend.output %x : !frontend.tensor<[M], f16>
}

// -----

// CHECK: invalid_conditions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a constant computes with numbers, not i1; use frontend.select or a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M], f16>) -> !frontend.tensor<[M], f16> {
  %r = frontend.constant 1.0 : !frontend.tensor<[], i1>
  frontend.output %x : !frontend.tensor<[M], f16>
}

// -----

// CHECK: invalid_conditions.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: expected a !frontend.tensor, not f16
frontend.graph @f(%x: !frontend.tensor<[M], f16>) -> !frontend.tensor<[M], f16> {
  %r = frontend.constant 1.0 : f16
  frontend.output %x : !frontend.tensor<[M], f16>
}
