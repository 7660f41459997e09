// RUN: polyc-opt %s -p "frontend-to-tiny,tiny-to-index,index-to-region{split=contractions},region-srnf,region-streaming-softmax,region-inline-deferred" --check-each 2>/dev/null | filecheck %s

// A kernel that streams may still take in the one that makes its scores; reductions in the chunk
// keep their names.
// CHECK:       region.kernel @attention iters
// CHECK:         region.reduce sum %{{.*}} over [{{.*}}] init 0.0 acc f32 name "acc3"
// CHECK:         region.reduce_together
// CHECK:           region.reduce max {{.*}} name "acc"
// CHECK-NOT:   region.kernel
frontend.graph @attention(%Q: !frontend.tensor<[B, 2, M, 16], f16>, %K: !frontend.tensor<[B, 2, N, 16], f16>, %V: !frontend.tensor<[B, 2, N, 16], f16>) -> (O: !frontend.tensor<[B, 2, M, 16], f16>) {
  %0 = frontend.attention %Q, %K, %V causal {acc = f32} : (!frontend.tensor<[B, 2, M, 16], f16>, !frontend.tensor<[B, 2, N, 16], f16>, !frontend.tensor<[B, 2, N, 16], f16>) -> !frontend.tensor<[B, 2, M, 16], f16>
  frontend.output %0 : !frontend.tensor<[B, 2, M, 16], f16>
}
