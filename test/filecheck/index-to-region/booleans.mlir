// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region --split-input-file --verify-diagnostics | filecheck %s
// Kernels do not read or write tensors of conditions yet: refused, with the way out.

// CHECK: booleans.mlir:{{[0-9]+}}:1: error[UnsupportedProgram]: C of @f is a tensor of i1, and kernels read and write f16, bf16 and f32 only yet; cast it to one of these
frontend.graph @f(%x: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], i1> {
  %0 = frontend.cast %x : !frontend.tensor<[M], f32> -> !frontend.tensor<[M], i1>
  frontend.output %0 : !frontend.tensor<[M], i1>
}

// -----

// CHECK: booleans.mlir:{{[0-9]+}}:1: error[UnsupportedProgram]: m of @f is a tensor of i1, and kernels read and write f16, bf16 and f32 only yet; cast it to one of these
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %m: !frontend.tensor<[M], i1>) -> !frontend.tensor<[M], f32> {
  %0 = frontend.select %m, %x, %x : (!frontend.tensor<[M], i1>, !frontend.tensor<[M], f32>, !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32>
  frontend.output %0 : !frontend.tensor<[M], f32>
}
