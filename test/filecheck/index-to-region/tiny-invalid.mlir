// RUN: polyc-opt %s -p tiny-to-index,index-to-region --split-input-file --verify-diagnostics | filecheck %s

// CHECK: error[UnsupportedProgram]: this max reduces what a contraction made, over tiles that several blocks hold; several kernels for one graph are not there yet: give the contraction as an output of a graph of its own
tiny.graph @rowmax(%A: !tiny.tensor<[M, K], f32>) -> (C: !tiny.tensor<[], f32>) {
  %t = tiny.binary mul %A, %A : !tiny.tensor<[M, K], f32>
  %s = tiny.reduce sum %t axes [1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M], f32>
  %e = tiny.unary exp %s : !tiny.tensor<[M], f32>
  %m = tiny.reduce max %e axes [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[], f32>
  tiny.output %m : !tiny.tensor<[], f32>
}

// -----

// CHECK: error[UnsupportedProgram]: the max is used at two indices, over [n: N] and over [i1: N], and a kernel computes a reduction once; give it as an output of a graph of its own
tiny.graph @outer(%A: !tiny.tensor<[N, K], f32>) -> (C: !tiny.tensor<[N, N], f32>) {
  %s = tiny.reduce max %A axes [1] : !tiny.tensor<[N, K], f32> -> !tiny.tensor<[N], f32>
  %a = tiny.expand %s dims [0] : !tiny.tensor<[N], f32> -> !tiny.tensor<[N, N], f32>
  %b = tiny.expand %s dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[N, N], f32>
  %y = tiny.binary sub %a, %b : !tiny.tensor<[N, N], f32>
  tiny.output %y : !tiny.tensor<[N, N], f32>
}
