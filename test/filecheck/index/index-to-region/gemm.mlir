// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | polyc-opt | filecheck %s

// Every broadcast is written out; the index book is gone.
frontend.graph @gemm_bias_relu(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>, %bias: !frontend.tensor<[N], f16> {role = "param", storage = "const_pool", align = 32 : i64, noalias = false}) -> (C: !frontend.tensor<[M, N], f16>) assuming (K mod 8 == 0) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %1 = frontend.elementwise add %0, %bias : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16>
  %2 = frontend.elementwise relu %1 : !frontend.tensor<[M, N], f16>
  frontend.output %2 : !frontend.tensor<[M, N], f16>
}
// CHECK:       region.kernel @gemm_bias_relu iters [m: M, n: N]
// CHECK-NEXT:    ins(%A: !region.memref<[M, K], f16, align 16, noalias>, %B: !region.memref<[K, N], f16, align 16, noalias>, %bias: !region.memref<[N], f16, align 32> {role = "param", storage = "const_pool", align = 32 : i64, noalias = false})
// CHECK-NEXT:    outs(C: !region.memref<[M, N], f16, align 16, noalias> gmem)
// CHECK-NEXT:    assuming (K mod 8 == 0) {
// CHECK-NEXT:    %[[A:[a-zA-Z0-9_]+]] = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16, noalias> -> !region.val<[m: M, k: K], f16>
// CHECK-NEXT:    region.cast %[[A]] : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
// CHECK-NEXT:    region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : {{.*}} -> !region.val<[k: K, n: N], f16>
// CHECK-NEXT:    region.cast
// CHECK-NEXT:    region.broadcast_in_dim %{{.*}} dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
// CHECK-NEXT:    region.broadcast_in_dim %{{.*}} dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
// CHECK-NEXT:    region.binary mul %{{.*}}, %{{.*}} : !region.val<[m: M, k: K, n: N], f32>
// CHECK-NEXT:    %acc = region.reduce sum %{{.*}} over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT:    region.read %bias affine_map<(d0)[s0, s1, s2] -> (d0)> : {{.*}} -> !region.val<[n: N], f16>
// CHECK-NEXT:    region.cast
// CHECK-NEXT:    region.broadcast_in_dim %{{.*}} dims [1] : !region.val<[n: N], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT:    region.binary add %acc,
// CHECK-NEXT:    region.constant 0.0 : !region.val<[], f32>
// CHECK-NEXT:    region.broadcast_in_dim %{{.*}} dims [] : !region.val<[], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT:    region.binary max
// CHECK-NEXT:    region.cast %{{.*}} -> !region.val<[m: M, n: N], f16>
// CHECK-NEXT:    region.yield
// CHECK-NOT:   index.value

// A transposed operand is read as it lies; dims [1, 0] and [2, 1] turn it (S6.3).
// Two outputs share one accumulator.
frontend.graph @tt(%A: !frontend.tensor<[K, M], bf16>, %B: !frontend.tensor<[N, K], bf16>) -> (C: !frontend.tensor<[M, N], f32>, D: !frontend.tensor<[M, N], f32>) {
  %0 = frontend.gemm %A, %B {acc = f32, transpose_a, transpose_b} : (!frontend.tensor<[K, M], bf16>, !frontend.tensor<[N, K], bf16>) -> !frontend.tensor<[M, N], f32>
  %1 = frontend.elementwise silu %0 : !frontend.tensor<[M, N], f32>
  frontend.output %0, %1 : !frontend.tensor<[M, N], f32>, !frontend.tensor<[M, N], f32>
}
// CHECK:       region.kernel @tt iters [m: M, n: N]
// CHECK:         region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : {{.*}} -> !region.val<[k: K, m: M], bf16>
// CHECK:         region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : {{.*}} -> !region.val<[n: N, k: K], bf16>
// CHECK:         region.broadcast_in_dim %{{.*}} dims [1, 0] : !region.val<[k: K, m: M], f32> -> !region.val<[m: M, k: K, n: N], f32>
// CHECK:         region.broadcast_in_dim %{{.*}} dims [2, 1] : !region.val<[n: N, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
// CHECK:         %acc = region.reduce sum
// CHECK-NEXT:    %[[S:[a-zA-Z0-9_]+]] = region.unary sigmoid %acc
// CHECK-NEXT:    %[[D:[a-zA-Z0-9_]+]] = region.binary mul %acc, %[[S]]
// CHECK-NEXT:    region.yield %acc, %[[D]]

// Sizes that give no name of their own, or one that is taken.
frontend.graph @names(%A: !frontend.tensor<[K, 2 * K], f16>, %B: !frontend.tensor<[2 * K, K], f16>) -> (C: !frontend.tensor<[K, K], f32>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[K, 2 * K], f16>, !frontend.tensor<[2 * K, K], f16>) -> !frontend.tensor<[K, K], f32>
  frontend.output %0 : !frontend.tensor<[K, K], f32>
}
// CHECK:       region.kernel @names iters [k: K, i1: K]
// CHECK:         region.reduce sum %{{.*}} over [r0] init 0.0 acc f32 name "acc" : !region.val<[k: K, r0: 2 * K, i1: K], f32> -> !region.val<[k: K, i1: K], f32>
frontend.graph @square(%A: !frontend.tensor<[K, K], f16>) -> (C: !frontend.tensor<[K, K], f32>) {
  %0 = frontend.gemm %A, %A {acc = f32} : (!frontend.tensor<[K, K], f16>, !frontend.tensor<[K, K], f16>) -> !frontend.tensor<[K, K], f32>
  frontend.output %0 : !frontend.tensor<[K, K], f32>
}
// CHECK:       region.kernel @square iters [k: K, i1: K]
// CHECK:         region.read %A {{.*}} -> !region.val<[k: K, r0: K], f16>
// CHECK:         region.read %A {{.*}} -> !region.val<[r0: K, i1: K], f16>
// CHECK:         region.reduce sum %{{.*}} over [r0]
