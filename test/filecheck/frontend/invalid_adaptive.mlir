// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of frontend.adaptive_pool; the message says which, with the values.

// CHECK: invalid_adaptive.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: l2 is not a function of frontend.adaptive_pool; there are max, mean, min, sum
frontend.graph @f(%x: !frontend.tensor<[8], f32>) -> !frontend.tensor<[3], f32> {
  %r = frontend.adaptive_pool l2 %x axes [0] : !frontend.tensor<[8], f32> -> !frontend.tensor<[3], f32>
  frontend.output %r : !frontend.tensor<[3], f32>
}

// -----

// CHECK: invalid_adaptive.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: adaptive_pool mean computes with f16, bf16 or f32, not i32
frontend.graph @f(%x: !frontend.tensor<[8], i32>) -> !frontend.tensor<[3], i32> {
  %r = frontend.adaptive_pool mean %x axes [0] : !frontend.tensor<[8], i32> -> !frontend.tensor<[3], i32>
  frontend.output %r : !frontend.tensor<[3], i32>
}

// -----

// CHECK: invalid_adaptive.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: adaptive_pool makes 3 windows of axis 1, whose size is K; give numbers for both, or reshape an axis whose windows are alike
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, 3], f32> {
  %r = frontend.adaptive_pool max %x axes [1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, 3], f32>
  frontend.output %r : !frontend.tensor<[M, 3], f32>
}

// -----

// CHECK: invalid_adaptive.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: adaptive_pool makes 3 windows of axis 0, which has no element; give it one
frontend.graph @f(%x: !frontend.tensor<[0], f32>) -> !frontend.tensor<[3], f32> {
  %r = frontend.adaptive_pool max %x axes [0] : !frontend.tensor<[0], f32> -> !frontend.tensor<[3], f32>
  frontend.output %r : !frontend.tensor<[3], f32>
}

// -----

// CHECK: invalid_adaptive.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [2] of a adaptive_pool are different axes of [M, 8] in increasing order, 0 to 1
frontend.graph @f(%x: !frontend.tensor<[M, 8], f32>) -> !frontend.tensor<[M, 3], f32> {
  %r = frontend.adaptive_pool max %x axes [2] : !frontend.tensor<[M, 8], f32> -> !frontend.tensor<[M, 3], f32>
  frontend.output %r : !frontend.tensor<[M, 3], f32>
}

// -----

// CHECK: invalid_adaptive.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of this adaptive_pool is [M, 3], not [7, 3]
frontend.graph @f(%x: !frontend.tensor<[M, 8], f32>) -> !frontend.tensor<[7, 3], f32> {
  %r = frontend.adaptive_pool max %x axes [1] : !frontend.tensor<[M, 8], f32> -> !frontend.tensor<[7, 3], f32>
  frontend.output %r : !frontend.tensor<[7, 3], f32>
}
