// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region --split-input-file --verify-diagnostics | filecheck %s

// CHECK: invalid.mlir:6:3: error[UnsupportedProgram]: this contraction multiplies a value that the graph computes (tiny.reduce); several kernels for one graph are not there yet: give that value as an output of a graph of its own and as an input of this one
frontend.graph @chain(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, K], f16>) -> (C: !frontend.tensor<[M, K], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, K], f16>) -> !frontend.tensor<[M, K], f16>
  %1 = frontend.gemm %0, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, K], f16>) -> !frontend.tensor<[M, K], f16>
  frontend.output %1 : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: error[UnsupportedProgram]: this contraction multiplies a value that the graph computes (tiny.binary)
frontend.graph @computed(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>) -> (C: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.elementwise relu %A : !frontend.tensor<[M, K], f16>
  %1 = frontend.gemm %0, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %1 : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: error[UnsupportedProgram]: the graph has 2 contractions and one kernel holds one; several kernels for one graph are not there yet: write a graph for each
frontend.graph @two(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>) -> (C: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %1 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %2 = frontend.elementwise add %0, %1 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %2 : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: error[UnsupportedProgram]: outputs C [M, N] and D [N] have different shapes, and a kernel has one output space; write a graph for each
frontend.graph @shapes(%A: !frontend.tensor<[M, N], f32>, %B: !frontend.tensor<[N], f32>) -> (C: !frontend.tensor<[M, N], f32>, D: !frontend.tensor<[N], f32>) {
  %0 = frontend.elementwise exp %A : !frontend.tensor<[M, N], f32>
  %1 = frontend.elementwise exp %B : !frontend.tensor<[N], f32>
  frontend.output %0, %1 : !frontend.tensor<[M, N], f32>, !frontend.tensor<[N], f32>
}
