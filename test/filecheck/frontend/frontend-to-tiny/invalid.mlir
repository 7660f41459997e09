// RUN: not polyc-opt %s -p frontend-to-tiny 2>&1 | filecheck %s

// An op of another dialect has no form in tiny.

// CHECK: invalid.mlir:{{[0-9]+}}:3: error[UnsupportedProgram]: builtin.unrealized_conversion_cast has no form in tiny; run a pass before that replaces it
frontend.graph @f(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32> {
  %0 = "builtin.unrealized_conversion_cast"(%x) : (!frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32>
  frontend.output %0 : !frontend.tensor<[M], f32>
}
