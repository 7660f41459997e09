// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: invalid_functions.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: fmod takes 2 operands, not 1
frontend.graph @one_of_two(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32> {
  %0 = frontend.elementwise fmod %x : !frontend.tensor<[M], f32>
  frontend.output %0 : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid_functions.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: sin takes 1 operand, not 2
frontend.graph @two_of_one(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32> {
  %0 = frontend.elementwise sin %x, %x : (!frontend.tensor<[M], f32>, !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32>
  frontend.output %0 : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid_functions.mlir:{{[0-9]+:[0-9]+}}: error[{{.*}}]: floor {{.*}} i1
frontend.graph @condition(%x: !frontend.tensor<[M], i1>) -> !frontend.tensor<[M], i1> {
  %0 = frontend.elementwise floor %x : !frontend.tensor<[M], i1>
  frontend.output %0 : !frontend.tensor<[M], i1>
}

// -----

// CHECK: invalid_functions.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: iszero is not a question of frontend.classify; there are isfinite, isinf, isnan
frontend.graph @question(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], i1> {
  %0 = frontend.classify iszero %x : !frontend.tensor<[M], f32> -> !frontend.tensor<[M], i1>
  frontend.output %0 : !frontend.tensor<[M], i1>
}

// -----

// CHECK: isnan computes with f16, bf16 or f32, not i1
frontend.graph @of_a_condition(%x: !frontend.tensor<[M], i1>) -> !frontend.tensor<[M], i1> {
  %0 = frontend.classify isnan %x : !frontend.tensor<[M], i1> -> !frontend.tensor<[M], i1>
  frontend.output %0 : !frontend.tensor<[M], i1>
}

// -----

// CHECK: the result of isnan {{.*}}i1
frontend.graph @to_a_number(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32> {
  %0 = frontend.classify isnan %x : !frontend.tensor<[M], f32> -> !frontend.tensor<[M], f32>
  frontend.output %0 : !frontend.tensor<[M], f32>
}

// -----

// CHECK: isnan keeps the shape; the operand is [M, K], the result [M]
frontend.graph @another_shape(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M], i1> {
  %0 = frontend.classify isnan %x : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M], i1>
  frontend.output %0 : !frontend.tensor<[M], i1>
}

// -----

// CHECK: the operand of any {{.*}}i1
frontend.graph @any_of_numbers(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[], f32> {
  %0 = frontend.reduce any %x axes [0] : !frontend.tensor<[M], f32> -> !frontend.tensor<[], f32>
  frontend.output %0 : !frontend.tensor<[], f32>
}
