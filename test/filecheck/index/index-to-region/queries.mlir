// RUN: polyc-opt %s -p 'frontend-to-tiny,tiny-to-index,index-to-region' | filecheck %s

// Queries that a bias is added to are made in the kernel of the attention, keys before it: each tile
// of queries would make them again.
frontend.graph @biased(%q: !frontend.tensor<[8, T, 128], f16>, %k: !frontend.tensor<[8, T, 128], f16>, %v: !frontend.tensor<[8, T, 128], f16>, %b: !frontend.tensor<[128], f16>) -> (y: !frontend.tensor<[8, T, 128], f16>) {
  %0 = frontend.elementwise add %q, %b : (!frontend.tensor<[8, T, 128], f16>, !frontend.tensor<[128], f16>) -> !frontend.tensor<[8, T, 128], f16>
  %1 = frontend.elementwise add %k, %b : (!frontend.tensor<[8, T, 128], f16>, !frontend.tensor<[128], f16>) -> !frontend.tensor<[8, T, 128], f16>
  %2 = frontend.attention %0, %1, %v {causal, acc = f32} : (!frontend.tensor<[8, T, 128], f16>, !frontend.tensor<[8, T, 128], f16>, !frontend.tensor<[8, T, 128], f16>) -> !frontend.tensor<[8, T, 128], f16>
  frontend.output %2 : !frontend.tensor<[8, T, 128], f16>
}
// CHECK:       region.kernel @biased_0 iters [i0: 8, t: T, i2: 128]
// CHECK-NEXT:    ins(%k:
// CHECK-NEXT:    outs(v0: {{.*}}boundary = "a product on tensor cores reads it from memory
// CHECK:       region.kernel @biased_1 iters [i0: 8, t: T, i2: 128]
// CHECK-NEXT:    ins(%q: {{.*}}%v: {{.*}}%b: {{.*}}%v0:
// CHECK:         region.read %q
// CHECK:         region.read %b
// CHECK:         region.binary add
// CHECK:         region.reduce sum
// CHECK-NOT:   region.kernel
