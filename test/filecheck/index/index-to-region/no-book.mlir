// RUN: polyc-opt %s -p index-to-region --verify-diagnostics | filecheck %s

// CHECK: error[MissingIndexBook]: %y has no index.value beside it; run tiny-to-index first
tiny.graph @plain(%x: !tiny.tensor<[N], f32>) -> (y: !tiny.tensor<[N], f32>) {
  %y = tiny.unary exp %x : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}
