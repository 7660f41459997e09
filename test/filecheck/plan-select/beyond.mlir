// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,plan-select --split-input-file --verify-diagnostics | filecheck %s
// Regions that no kernel can compute yet: the op whose condition does not hold, and which.

// CHECK: beyond.mlir:{{[0-9]+}}:1: error[UnsupportedProgram]: output C is [M * N], a view of what is [M, N] in memory, and kernels take tensors as they lie; give it as an input or output of a graph of its own
frontend.graph @view(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>) -> (C: !frontend.tensor<[M * N], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %1 = frontend.reshape %0 : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M * N], f16>
  %2 = frontend.elementwise relu %1 : !frontend.tensor<[M * N], f16>
  frontend.output %2 : !frontend.tensor<[M * N], f16>
}

// -----

// CHECK: beyond.mlir:{{[0-9]+}}:3: error[UnsupportedProgram]: region @computed has no schedule: a factor of its sum is computed by region.binary, and tensor cores read memory; make that value an output of a graph of its own
frontend.graph @computed(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>) -> (C: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.elementwise relu %A : !frontend.tensor<[M, K], f16>
  %1 = frontend.gemm %0, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %1 : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: beyond.mlir:{{[0-9]+}}:3: error[UnsupportedProgram]: region @two has no schedule: it has 2 reductions
frontend.graph @two(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>) -> (C: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %1 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %2 = frontend.elementwise add %0, %1 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %2 : !frontend.tensor<[M, N], f16>
}
