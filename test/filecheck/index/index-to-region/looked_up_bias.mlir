// RUN: polyc-opt %s -p 'frontend-to-tiny,tiny-to-index,index-to-region' | filecheck %s

// A bias that a table gives for the places of queries and keys lies in memory, heads outside as it is
// read, and the two products stay one kernel with the softmax between them.
frontend.graph @looked_up(%q: !frontend.tensor<[4, 8, 128, 64], f16>, %k: !frontend.tensor<[4, 8, 128, 64], f16>, %v: !frontend.tensor<[4, 8, 128, 64], f16>, %t: !frontend.tensor<[32, 8], f16>, %p: !frontend.tensor<[128, 128], i32>) -> (y: !frontend.tensor<[4, 8, 128, 64], f16>) {
  %0 = frontend.gather %t, %p axis 0 clamp : (!frontend.tensor<[32, 8], f16>, !frontend.tensor<[128, 128], i32>) -> !frontend.tensor<[128, 128, 8], f16>
  %1 = frontend.permute %0 perm [2, 0, 1] : !frontend.tensor<[128, 128, 8], f16> -> !frontend.tensor<[8, 128, 128], f16>
  %2 = frontend.attention %q, %k, %v mask %1 {acc = f32} : (!frontend.tensor<[4, 8, 128, 64], f16>, !frontend.tensor<[4, 8, 128, 64], f16>, !frontend.tensor<[4, 8, 128, 64], f16>, !frontend.tensor<[8, 128, 128], f16>) -> !frontend.tensor<[4, 8, 128, 64], f16>
  frontend.output %2 : !frontend.tensor<[4, 8, 128, 64], f16>
}
// CHECK:       region.kernel @looked_up_0 iters [i0: 8, i1: 128, i2: 128]
// CHECK-NEXT:    ins(%t: {{.*}}%p:
// CHECK-NEXT:    outs(v0: !region.memref<[8, 128, 128], f16, {{.*}}boundary = "it is read where data says, and what follows a product on tensor cores reads it from memory
// CHECK:         region.gather
// CHECK:       region.kernel @looked_up_1 iters [i0: 4, i1: 8, i2: 128, i3: 64]
// CHECK-NEXT:    ins(%q: {{.*}}%k: {{.*}}%v: {{.*}}%v0:
// CHECK-COUNT-4: region.reduce
// CHECK-NOT:   region.kernel
