// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// The result says how many windows there are.

// CHECK: %0 = frontend.adaptive_pool mean %x axes [2, 3] {note = "kept"} : !frontend.tensor<[N, C, 50, 30], f16> -> !frontend.tensor<[N, C, 7, 5], f16>
// CHECK-NEXT: %1 = frontend.adaptive_pool max %0 axes [2] : !frontend.tensor<[N, C, 7, 5], f16> -> !frontend.tensor<[N, C, 9, 5], f16>
frontend.graph @images(%x: !frontend.tensor<[N, C, 50, 30], f16>) -> !frontend.tensor<[N, C, 9, 5], f16> {
  %0 = frontend.adaptive_pool mean %x axes [2, 3] {note = "kept"} : !frontend.tensor<[N, C, 50, 30], f16> -> !frontend.tensor<[N, C, 7, 5], f16>
  %1 = frontend.adaptive_pool max %0 axes [2] : !frontend.tensor<[N, C, 7, 5], f16> -> !frontend.tensor<[N, C, 9, 5], f16>
  frontend.output %1 : !frontend.tensor<[N, C, 9, 5], f16>
}

// CHECK: frontend.adaptive_pool sum %x axes [1] : !frontend.tensor<[M, 12], i32> -> !frontend.tensor<[M, 5], i32>
frontend.graph @integers(%x: !frontend.tensor<[M, 12], i32>) -> !frontend.tensor<[M, 5], i32> {
  %0 = frontend.adaptive_pool sum %x axes [1] : !frontend.tensor<[M, 12], i32> -> !frontend.tensor<[M, 5], i32>
  frontend.output %0 : !frontend.tensor<[M, 5], i32>
}
