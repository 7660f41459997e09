// RUN: polyc-opt %s -p frontend-to-tiny,tiny-drop-value-masks --split-input-file 2>&1 | filecheck %s

// A mask of data: scores keep it, and the second product reads the values as they lie.

// CHECK: remark[finite-only]: values without a weight are not masked beside it
// CHECK: tiny.graph @data
// CHECK: tiny.select %{{.*}} : !tiny.tensor<[2, 3, 5, 7], f32>
// CHECK: %[[P:.*]] = tiny.unary exp
// CHECK: %[[V:.*]] = tiny.expand %v dims [0, 1, 3, 4] : !tiny.tensor<[2, 3, 7, 4], f32> -> !tiny.tensor<[2, 3, 5, 7, 4], f32>
// CHECK: %[[W:.*]] = tiny.expand %[[P]] dims [0, 1, 2, 3]
// CHECK-NEXT: %[[M:.*]] = tiny.binary mul %[[W]], %[[V]]
// CHECK-NEXT: tiny.reduce sum %[[M]] axes [3] precision tf32
frontend.graph @data(%q: !frontend.tensor<[2, 3, 5, 4], f32>, %k: !frontend.tensor<[2, 3, 7, 4], f32>, %v: !frontend.tensor<[2, 3, 7, 4], f32>, %m: !frontend.tensor<[2, 1, 5, 7], i1>) -> (O: !frontend.tensor<[2, 3, 5, 4], f32>) {
  %o = frontend.attention %q, %k, %v mask %m {acc = f32, precision = "tf32"} : (!frontend.tensor<[2, 3, 5, 4], f32>, !frontend.tensor<[2, 3, 7, 4], f32>, !frontend.tensor<[2, 3, 7, 4], f32>, !frontend.tensor<[2, 1, 5, 7], i1>) -> !frontend.tensor<[2, 3, 5, 4], f32>
  frontend.output %o : !frontend.tensor<[2, 3, 5, 4], f32>
}

// -----

// Exact products stay one kernel, which leaves out what is hidden.

// CHECK: tiny.graph @exact
// CHECK: tiny.mask %{{.*}} fill -inf
// CHECK: tiny.mask %{{.*}} fill 0.0
frontend.graph @exact(%q: !frontend.tensor<[3, 5, 4], f32>) -> (O: !frontend.tensor<[3, 5, 4], f32>) {
  %o = frontend.attention %q, %q, %q causal {acc = f32} : (!frontend.tensor<[3, 5, 4], f32>, !frontend.tensor<[3, 5, 4], f32>, !frontend.tensor<[3, 5, 4], f32>) -> !frontend.tensor<[3, 5, 4], f32>
  frontend.output %o : !frontend.tensor<[3, 5, 4], f32>
}
