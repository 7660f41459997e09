// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region --split-input-file --verify-diagnostics | filecheck %s

// CHECK: error[UnsupportedProgram]: outputs C [M, N] and D [N] have different shapes, and a kernel has one output space; write a graph for each
frontend.graph @shapes(%A: !frontend.tensor<[M, N], f32>, %B: !frontend.tensor<[N], f32>) -> (C: !frontend.tensor<[M, N], f32>, D: !frontend.tensor<[N], f32>) {
  %0 = frontend.elementwise exp %A : !frontend.tensor<[M, N], f32>
  %1 = frontend.elementwise exp %B : !frontend.tensor<[N], f32>
  frontend.output %0, %1 : !frontend.tensor<[M, N], f32>, !frontend.tensor<[N], f32>
}
