// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of the dialect; the message says which, with the values.

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: median is not a function of frontend.reduce; there are max, mean, min, prod, sum of numbers and all, any of conditions
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.reduce median %x axes [1] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [2] of a reduce are different axes of [M, N] in increasing order, 0 to 1
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.reduce sum %x axes [2] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [1, 0] of a reduce are different axes of [M, N] in increasing order, 0 to 1
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.reduce sum %x axes [1, 0] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a reduce names at least one axis
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.reduce sum %x axes [] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of this reduce is [M], not [N]
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.reduce sum %x axes [1] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of this reduce is [M, 1], not [M]
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.reduce sum %x axes [1] keepdims : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of a reduce has element type f16, not f32; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.reduce sum %x axes [1] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M], f32>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: reduce computes with numbers, not i1; use frontend.select or a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, N], i1>) -> !frontend.tensor<[M, N], i1> {
  %r = frontend.reduce max %x axes [1] : !frontend.tensor<[M, N], i1> -> !frontend.tensor<[M], i1>
  frontend.output %x : !frontend.tensor<[M, N], i1>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [-1] of a softmax are different axes of [M, N] in increasing order, 0 to 1
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.softmax %x axes [-1] : !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of this softmax is [M, N], not [N, M]
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.softmax %x axes [1] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[N, M], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [0, 0] of a log_softmax are different axes of [M, N] in increasing order, 0 to 1
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.log_softmax %x axes [0, 0] : !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: weight of a layer_norm over axes [1] is [N], not [M]
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[M], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.layer_norm %x weight %w axes [1] eps 1.0e-05 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: bias of a layer_norm over axes [0, 1] is [M, N], not [N, M]
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[N, M], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.layer_norm %x bias %w axes [0, 1] eps 1.0e-05 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N, M], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: rms_norm computes with f16, bf16 or f32, not i1; use frontend.select or a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>, %w: !frontend.tensor<[N], i1>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.rms_norm %x weight %w axes [1] eps 1.0e-05 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], i1>) -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: 1e+39 is beyond the largest f32, 3.4028235e+38; write inf
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.rms_norm %x axes [1] eps 1.0e39 : !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: invalid_reductions.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: Expected 'eps'
frontend.graph @f(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %r = frontend.rms_norm %x axes [1] : !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, N], f16>
}
