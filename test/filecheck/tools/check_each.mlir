// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index --check-each | filecheck %s
// Playback before and after every pass agrees, and the output is that of the passes alone.

// CHECK: tiny.graph @relu
frontend.graph @relu(%A: !frontend.tensor<[M], f16>) -> (C: !frontend.tensor<[M], f16>) assuming (M mod 8 == 0) {
  %0 = frontend.elementwise relu %A : !frontend.tensor<[M], f16>
  frontend.output %0 : !frontend.tensor<[M], f16>
}
