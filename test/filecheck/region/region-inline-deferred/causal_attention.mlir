// RUN: polyc-opt %examples/causal_attention.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region{split=contractions}' | filecheck %s --check-prefix=TWO
// RUN: polyc-opt %examples/causal_attention.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region{split=contractions},region-inline-deferred' | filecheck %s

// Causal attention as two regions, the scores and all that follows, joined by a deferred edge
// (S15.3): the scores stay f32 and are never in memory.

// TWO:       region.graph @causal_attention
// TWO-NEXT:      ins(Q: !region.memref<[B, H, M, 128], f16, align 16, noalias>, K: !region.memref<[B, H, N, 128], f16, align 16, noalias>, V: !region.memref<[B, H, N, 128], f16, align 16, noalias>)
// TWO-NEXT:      outs(O: !region.memref<[B, H, M, 128], f16, align 16, noalias> from @causal_attention_1::@O)
// TWO-NEXT:  region.kernel @causal_attention_0 iters [b: B, h: H, m: M, n: N]
// TWO-NEXT:      ins(%Q: {{.*}} {from = @causal_attention::@Q}, %K: {{.*}} {from = @causal_attention::@K})
// TWO-NEXT:      outs(v0: !region.memref<[B, H, M, N], f32, align 16, noalias> deferred {boundary = "a kernel for each contraction was asked for"}) {
// TWO:         region.reduce sum %{{[0-9]+}} over [r0]
// TWO-NOT:     region.reduce
// TWO:       region.kernel @causal_attention_1 iters [b: B, h: H, m: M, i3: 128]
// TWO-NEXT:      ins(%V: {{.*}} {from = @causal_attention::@V}, %v0: !region.memref<[B, H, M, N], f32, align 16, noalias> {from = @causal_attention_0::@v0})
// TWO-NEXT:      outs(O: !region.memref<[B, H, M, 128], f16, align 16, noalias> gmem)
// TWO:         region.reduce max %{{[0-9]+}} over [n]
// TWO:         region.reduce sum %{{[0-9]+}} over [n]
// TWO:         region.reduce sum %{{[0-9]+}} over [n]

// Merged they are the kernel that a graph without the edge becomes, under the graph's name.
// CHECK-NOT: region.graph
// CHECK:     region.kernel @causal_attention iters [b: B, h: H, m: M, i3: 128]
// CHECK-NEXT:    ins(%Q: !region.memref<[B, H, M, 128], f16, align 16, noalias>, %K: !region.memref<[B, H, N, 128], f16, align 16, noalias>, %V: !region.memref<[B, H, N, 128], f16, align 16, noalias>)
// CHECK-NEXT:    outs(O: !region.memref<[B, H, M, 128], f16, align 16, noalias> gmem) {
// CHECK:       %[[S:[a-z0-9_]+]] = region.reduce sum %{{[0-9]+}} over [r0] {{.*}} -> !region.val<[b: B, h: H, m: M, n: N], f32>
// CHECK:       %[[SCALED:[0-9]+]] = region.binary mul %[[S]], %{{[0-9]+}} : !region.val<[b: B, h: H, m: M, n: N], f32>
// CHECK:       %[[MASKED:[0-9]+]] = region.select %{{[0-9]+}}, %[[SCALED]], %{{[0-9]+}}
// CHECK-NEXT:  region.reduce max %[[MASKED]] over [n]
// CHECK:       region.reduce sum %{{[0-9]+}} over [n]
// CHECK:       region.reduce sum %{{[0-9]+}} over [n]
// CHECK-NOT:   region.kernel
