// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Signatures: promises, assumptions, names.

// CHECK: frontend.graph @signature(%x_1: !frontend.tensor<[M, 4 * K + 2], f16> {role = "param", mutability = "immutable", storage = "const_pool", align = 16 : i64, noalias = true}, %y: !frontend.tensor<[M, 2], f32>) -> (left: !frontend.tensor<[M, 4 * K + 2], f16> {align = 8 : i64}, right: !frontend.tensor<[M, 2], f32>) assuming (K mod 8 == 0, M >= 1, K - M >= 0) {
// CHECK-NEXT: frontend.output %x_1, %y : !frontend.tensor<[M, 4 * K + 2], f16>, !frontend.tensor<[M, 2], f32>
frontend.graph @signature(
    %x_1: !frontend.tensor<[M, 2 * (K + 1) + 2 * K], f16> {role = "param", mutability = "immutable", storage = "const_pool", align = 16, noalias = true},
    %y: !frontend.tensor<[M, 2], f32>)
    -> (left: !frontend.tensor<[M, 4 * K + 2], f16> {align = 8}, right: !frontend.tensor<[M, 2], f32>)
    assuming (K mod 8 == 0, M > 0, M <= K) {
  frontend.output %x_1, %y : !frontend.tensor<[M, 4 * K + 2], f16>, !frontend.tensor<[M, 2], f32>
}

// An output without a name is C, or out<i> where that is taken; so is an input arg<i>.

// CHECK: frontend.graph @unnamed(%arg0: !frontend.tensor<[], f32>) -> (C: !frontend.tensor<[], f32>) {
frontend.graph @unnamed(%0: !frontend.tensor<[], f32>) -> !frontend.tensor<[], f32> {
  frontend.output %0 : !frontend.tensor<[], f32>
}

// CHECK: frontend.graph @taken(%C: !frontend.tensor<[0], f32>) -> (out0: !frontend.tensor<[0], f32>, out1: !frontend.tensor<[0], f32>) {
frontend.graph @taken(%C: !frontend.tensor<[0], f32>) -> (!frontend.tensor<[0], f32>, !frontend.tensor<[0], f32>) {
  frontend.output %C, %C : !frontend.tensor<[0], f32>, !frontend.tensor<[0], f32>
}

// CHECK: frontend.graph @gemm
// CHECK-NEXT: %{{.*}} = frontend.gemm %a, %b {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
// CHECK-NEXT: %{{.*}} = frontend.gemm %b, %a {transpose_a, transpose_b, acc = f32} : (!frontend.tensor<[K, N], f16>, !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[N, M], f32>
frontend.graph @gemm(%a: !frontend.tensor<[M, K], f16>, %b: !frontend.tensor<[K, N], f16>)
    -> (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N, M], f32>) {
  %0 = frontend.gemm %a, %b {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %1 = frontend.gemm %b, %a {transpose_a, transpose_b, acc = f32} : (!frontend.tensor<[K, N], f16>, !frontend.tensor<[M, K], f16>) -> !frontend.tensor<[N, M], f32>
  frontend.output %0, %1 : !frontend.tensor<[M, N], f16>, !frontend.tensor<[N, M], f32>
}

// Sizes are equal when isl says so under the assumptions, not when their text is.

// CHECK: frontend.graph @equal_sizes
// CHECK: frontend.gemm %a, %b {acc = f32} : (!frontend.tensor<[M, K], bf16>, !frontend.tensor<[8 * (K floordiv 8), N], bf16>) -> !frontend.tensor<[M, N], bf16>
frontend.graph @equal_sizes(%a: !frontend.tensor<[M, K], bf16>, %b: !frontend.tensor<[8 * (K floordiv 8), N], bf16>)
    -> !frontend.tensor<[M, N], bf16> assuming (K mod 8 == 0) {
  %0 = frontend.gemm %a, %b {acc = f32} : (!frontend.tensor<[M, K], bf16>, !frontend.tensor<[8 * (K floordiv 8), N], bf16>) -> !frontend.tensor<[M, N], bf16>
  frontend.output %0 : !frontend.tensor<[M, N], bf16>
}

// CHECK: frontend.graph @elementwise
// CHECK-NEXT: %{{.*}} = frontend.elementwise relu %x : !frontend.tensor<[M, N], f32>
// CHECK-NEXT: %{{.*}} = frontend.elementwise add %{{.*}}, %row : (!frontend.tensor<[M, N], f32>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[M, N], f32>
// CHECK-NEXT: %{{.*}} = frontend.elementwise mul %column, %{{.*}} {note = "kept"} : (!frontend.tensor<[M, 1], f32>, !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32>
// CHECK-NEXT: %{{.*}} = frontend.cast %{{.*}} : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M, N], f16>
frontend.graph @elementwise(%x: !frontend.tensor<[M, N], f32>, %row: !frontend.tensor<[N], f32>, %column: !frontend.tensor<[M, 1], f32>)
    -> !frontend.tensor<[M, N], f16> {
  %0 = frontend.elementwise relu %x : !frontend.tensor<[M, N], f32>
  %1 = frontend.elementwise add %0, %row : (!frontend.tensor<[M, N], f32>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[M, N], f32>
  %2 = frontend.elementwise mul %column, %1 {note = "kept"} : (!frontend.tensor<[M, 1], f32>, !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N], f32>
  %3 = frontend.cast %2 : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M, N], f16>
  frontend.output %3 : !frontend.tensor<[M, N], f16>
}
