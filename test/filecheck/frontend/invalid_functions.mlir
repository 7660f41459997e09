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
