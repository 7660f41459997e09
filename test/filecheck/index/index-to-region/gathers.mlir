// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | polyc-opt | filecheck %s

// Rows at indices are read by one kernel, with what follows.  The axis that the data says has a name
// of its own.

// CHECK: region.kernel @rows iters [n: N, d: D]
// CHECK-NEXT: ins(%x: {{.*}}, %i: {{.*}})
// CHECK-NEXT: outs(C: !region.memref<[N, D], f16, align 16, noalias> gmem)
// CHECK-NEXT: %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : {{.*}} -> !region.val<[g0: V, d: D], f16>
// CHECK-NEXT: %1 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : {{.*}} -> !region.val<[n: N], i64>
// CHECK-NEXT: %2 = region.gather %0 at [%1] along [g0] clamp : !region.val<[g0: V, d: D], f16>, !region.val<[n: N], i64> -> !region.val<[n: N, d: D], f16>
// CHECK-NEXT: region.cast %2
frontend.graph @rows(%x: !frontend.tensor<[V, D], f16>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f16> {
  %0 = frontend.gather %x, %i axis 0 clamp : (!frontend.tensor<[V, D], f16>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f16>
  %1 = frontend.elementwise relu %0 : !frontend.tensor<[N, D], f16>
  frontend.output %1 : !frontend.tensor<[N, D], f16>
}

// What is reduced is reduced once, and lies in memory where a gather reads it.

// CHECK: region.kernel @reduced_0 iters [v: V]
// CHECK: outs(v0: {{.*}} gmem {boundary = "it is reduced, which is done once, and a gather reads it where its data says"})
// CHECK: region.kernel @reduced_1 iters [n: N]
// CHECK: %0 = region.read %v0 {{.*}} -> !region.val<[g0: V], f32>
// CHECK: region.gather %0 at [%1] along [g0] fill 0.0 : {{.*}} -> !region.val<[n: N], f32>
frontend.graph @reduced(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N], f32> {
  %0 = frontend.reduce sum %x axes [1] : !frontend.tensor<[V, D], f32> -> !frontend.tensor<[V], f32>
  %1 = frontend.gather %0, %i axis 0 fill 0.0 : (!frontend.tensor<[V], f32>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N], f32>
  frontend.output %1 : !frontend.tensor<[N], f32>
}

// Tensor cores read factors from memory, so that rows at indices go there first.

// CHECK: region.kernel @product_0 iters [m: M, k: K]
// CHECK: outs(v0: !region.memref<[M, K], f16, align 16, noalias> gmem {boundary = "a product on tensor cores reads it from memory; {{.*}}"})
// CHECK: region.gather
// CHECK: region.kernel @product_1 iters [m: M, n: N]
// CHECK: region.read %v0
// CHECK: region.reduce sum
frontend.graph @product(%x: !frontend.tensor<[V, K], f16>, %i: !frontend.tensor<[M], i64>, %w: !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %0 = frontend.gather %x, %i axis 0 clamp : (!frontend.tensor<[V, K], f16>, !frontend.tensor<[M], i64>) -> !frontend.tensor<[M, K], f16>
  %1 = frontend.gemm %0, %w {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %1 : !frontend.tensor<[M, N], f16>
}

// So does what an epilogue reads at indices.

// CHECK: region.kernel @beside_0 iters [m: M, n: N]
// CHECK: outs(v0: !region.memref<[M, N], f16, align 16, noalias> gmem {boundary = "it is read where data says, and what follows a product on tensor cores reads it from memory; {{.*}}"})
// CHECK: region.gather
// CHECK: region.kernel @beside_1 iters [m: M, n: N]
// CHECK: region.reduce sum
// CHECK: region.read %v0
// CHECK: region.binary add
frontend.graph @beside(%a: !frontend.tensor<[M, K], f16>, %w: !frontend.tensor<[K, N], f16>, %x: !frontend.tensor<[V, N], f16>, %i: !frontend.tensor<[M], i64>) -> !frontend.tensor<[M, N], f16> {
  %0 = frontend.gemm %a, %w {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %1 = frontend.gather %x, %i axis 0 clamp : (!frontend.tensor<[V, N], f16>, !frontend.tensor<[M], i64>) -> !frontend.tensor<[M, N], f16>
  %2 = frontend.elementwise add %0, %1 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %2 : !frontend.tensor<[M, N], f16>
}

// A pad is a fill of the read under the gather, whatever place of the axis the data says.

// CHECK: region.kernel @padded iters [n: N, i1: D + 1]
// CHECK: %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, (d1 + -1))> where affine_set<(d0, d1)[s0, s1, s2] : ((d1 + -1) >= 0)> else 2.0 : {{.*}} -> !region.val<[g0: V, i1: D + 1], f32>
// CHECK: region.gather %0 at [%1] along [g0] clamp : {{.*}} -> !region.val<[n: N, i1: D + 1], f32>
frontend.graph @padded(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D + 1], f32> {
  %0 = frontend.pad %x low [0, 1] high [0, 0] value 2.0 : !frontend.tensor<[V, D], f32> -> !frontend.tensor<[V, D + 1], f32>
  %1 = frontend.gather %0, %i axis 0 clamp : (!frontend.tensor<[V, D + 1], f32>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D + 1], f32>
  frontend.output %1 : !frontend.tensor<[N, D + 1], f32>
}
