// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | polyc-opt | filecheck %s

// A product is not computed again in every tile of the next one: it is stored, rounded as the next
// product reads it, with its epilogue.
frontend.graph @chain(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, L], f16>, %C: !frontend.tensor<[L, N], f16>) -> (D: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, L], f16>) -> !frontend.tensor<[M, L], f16>
  %1 = frontend.elementwise relu %0 : !frontend.tensor<[M, L], f16>
  %2 = frontend.gemm %1, %C {acc = f32} : (!frontend.tensor<[M, L], f16>, !frontend.tensor<[L, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %2 : !frontend.tensor<[M, N], f16>
}
// CHECK:       region.graph @chain
// CHECK-NEXT:      ins(A: !region.memref<[M, K], f16, align 16, noalias>, B: {{.*}}, C: {{.*}})
// CHECK-NEXT:      outs(D: !region.memref<[M, N], f16, align 16, noalias> from @chain_1::@D)
// CHECK-NEXT:  region.kernel @chain_0 iters [m: M, l: L]
// CHECK-NEXT:      ins(%A: {{.*}} {from = @chain::@A}, %B: {{.*}} {from = @chain::@B})
// CHECK-NEXT:      outs(v0: !region.memref<[M, L], f16, align 16, noalias> gmem {boundary = "fused it would be computed 4 times, which takes as long as moving 41.6 bytes an element; storing it moves 4 (a size that is not known is taken as 1024)"})
// CHECK-NEXT:      symbols [M, K, L, N] {
// CHECK:         region.reduce sum
// CHECK:         region.binary max
// CHECK-NEXT:    region.cast {{.*}} -> !region.val<[m: M, l: L], f16>
// CHECK-NEXT:    region.yield
// CHECK:       region.kernel @chain_1 iters [m: M, n: N]
// CHECK-NEXT:      ins(%C: {{.*}} {from = @chain::@C}, %v0: !region.memref<[M, L], f16, align 16, noalias> {from = @chain_0::@v0})
// CHECK:         region.read %v0

// Where the second product has one tile in its width, the first would be computed inside it, but a
// kernel of two products has no tensor cores: they are two.
frontend.graph @narrow(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, L], f16>, %C: !frontend.tensor<[L, 64], f16>) -> (D: !frontend.tensor<[M, 64], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, L], f16>) -> !frontend.tensor<[M, L], f16>
  %1 = frontend.gemm %0, %C {acc = f32} : (!frontend.tensor<[M, L], f16>, !frontend.tensor<[L, 64], f16>) -> !frontend.tensor<[M, 64], f16>
  frontend.output %1 : !frontend.tensor<[M, 64], f16>
}
// CHECK:       region.graph @narrow
// CHECK:       region.kernel @narrow_0 iters [m: M, l: L]
// CHECK-NEXT:      ins(%A: {{.*}}, %B: {{.*}})
// CHECK-NEXT:      outs(v0: !region.memref<[M, L], f16, align 16, noalias> gmem {boundary = "a product on tensor cores, which holds no other reduction, ends with it; storing it takes about {{.*}} us{{.*}}"})
// CHECK:         %acc = region.reduce sum
// CHECK-NOT:     region.reduce
// CHECK:       region.kernel @narrow_1 iters [m: M, i1: 64]
// CHECK:         %acc = region.reduce sum
// CHECK-NOT:     region.reduce

// Products of f32 are kernels of their own too: threads multiply tiles of them.
frontend.graph @narrow_f32(%A: !frontend.tensor<[M, K], f32>, %B: !frontend.tensor<[K, L], f32>, %C: !frontend.tensor<[L, 64], f32>) -> (D: !frontend.tensor<[M, 64], f32>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f32>, !frontend.tensor<[K, L], f32>) -> !frontend.tensor<[M, L], f32>
  %1 = frontend.gemm %0, %C {acc = f32} : (!frontend.tensor<[M, L], f32>, !frontend.tensor<[L, 64], f32>) -> !frontend.tensor<[M, 64], f32>
  frontend.output %1 : !frontend.tensor<[M, 64], f32>
}
// CHECK:       region.kernel @narrow_f32_0 iters [m: M, l: L]
// CHECK:         boundary = "a product in tiles of f32, which holds no other reduction, ends with it; storing it takes about {{.*}} us, and the product in loops {{.*}} us
// CHECK:         %acc = region.reduce sum
// CHECK-NOT:     region.reduce
// CHECK:       region.kernel @narrow_f32_1 iters [m: M, i1: 64]
// CHECK:         %acc = region.reduce sum
// CHECK-NOT:     region.reduce

// A reduction that two points want is computed once, by a kernel of its own (S6.6).
frontend.graph @outer(%A: !frontend.tensor<[N, K], f32>) -> (C: !frontend.tensor<[N, N], f32>) {
  %0 = frontend.reduce max %A axes [1] : !frontend.tensor<[N, K], f32> -> !frontend.tensor<[N], f32>
  %1 = frontend.expand %0 dims [0] : !frontend.tensor<[N], f32> -> !frontend.tensor<[N, N], f32>
  %2 = frontend.elementwise sub %1, %0 : (!frontend.tensor<[N, N], f32>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[N, N], f32>
  frontend.output %2 : !frontend.tensor<[N, N], f32>
}
// CHECK:       region.graph @outer
// CHECK:       outs(v0: !region.memref<[N], f32, align 16, noalias> gmem {boundary = "it is reduced, which is done once, and is wanted at 2 points"})
// CHECK:       region.kernel @outer_1 iters [n: N, i1: N]
// CHECK:         region.read %v0 {{.*}} -> !region.val<[n: N], f32>
// CHECK:         region.read %v0 {{.*}} -> !region.val<[i1: N], f32>

// Windows of a small product want a value at several points: a reduction is stored, with two points that say so.
frontend.graph @halo(%X: !frontend.tensor<[1, 2, 8, 8, K], f32>, %F: !frontend.tensor<[4, 2, 3, 3], f32>) -> (Y: !frontend.tensor<[1, 4, 8, 8], f32>) {
  %0 = frontend.reduce sum %X axes [4] : !frontend.tensor<[1, 2, 8, 8, K], f32> -> !frontend.tensor<[1, 2, 8, 8], f32>
  %1 = frontend.conv2d nchw %0, %F stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[1, 2, 8, 8], f32>, !frontend.tensor<[4, 2, 3, 3], f32>) -> !frontend.tensor<[1, 4, 8, 8], f32>
  frontend.output %1 : !frontend.tensor<[1, 4, 8, 8], f32>
}
// CHECK:       region.graph @halo
// CHECK:       boundary = "it is reduced, which is done once, and element [{{.*}}] is wanted at [{{.*}}] and at [{{.*}}]"

// A reshape by a symbol is a view of a stored value; one of an input is a view of that.
frontend.graph @view(%X: !frontend.tensor<[M, N], f32>) -> (y: !frontend.tensor<[N, M], f32>) {
  %0 = frontend.elementwise exp %X : !frontend.tensor<[M, N], f32>
  %1 = frontend.reshape %0 : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[N, M], f32>
  %2 = frontend.reshape %X : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[N, M], f32>
  %3 = frontend.elementwise add %1, %2 : (!frontend.tensor<[N, M], f32>, !frontend.tensor<[N, M], f32>) -> !frontend.tensor<[N, M], f32>
  frontend.output %3 : !frontend.tensor<[N, M], f32>
}
// CHECK:       region.graph @view
// CHECK:       outs(v0: !region.memref<[M, N], f32, align 16, noalias> gmem {boundary = "a reshape of M x N to N x M divides by a symbol, which is a view of memory and not affine"})
// CHECK:       region.kernel @view_1 iters [n: N, m: M]
// CHECK-NEXT:      ins(%v0: !region.memref<[N, M], f32, align 16, noalias> {from = @view_0::@v0}, %X: !region.memref<[N, M], f32, align 16, noalias> {from = @view::@X})

// Outputs of unlike shapes: the row's maximum comes with its softmax where both share a reduction.
frontend.graph @shapes(%A: !frontend.tensor<[M, N], f32>, %B: !frontend.tensor<[K], f32>) -> (s: !frontend.tensor<[M], f32>, P: !frontend.tensor<[M, N], f32>, D: !frontend.tensor<[K], f32>) {
  %0 = frontend.reduce max %A axes [1] keepdims : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M, 1], f32>
  %1 = frontend.elementwise sub %A, %0 : (!frontend.tensor<[M, N], f32>, !frontend.tensor<[M, 1], f32>) -> !frontend.tensor<[M, N], f32>
  %2 = frontend.elementwise exp %B : !frontend.tensor<[K], f32>
  %3 = frontend.reshape %0 : !frontend.tensor<[M, 1], f32> -> !frontend.tensor<[M], f32>
  frontend.output %3, %1, %2 : !frontend.tensor<[M], f32>, !frontend.tensor<[M, N], f32>, !frontend.tensor<[K], f32>
}
// CHECK:       region.graph @shapes
// CHECK-NEXT:      ins
// CHECK-NEXT:      outs(s: {{.*}} from @shapes_0::@s, P: {{.*}} from @shapes_0::@P, D: {{.*}} from @shapes_1::@D)
// CHECK:       region.kernel @shapes_0 iters [m: M, n: N]
// CHECK:         outs(s: !region.memref<[M], f32, align 16, noalias> gmem, P: !region.memref<[M, N], f32, align 16, noalias> gmem)
// CHECK:         region.yield {{.*}} : !region.val<[m: M], f32>, !region.val<[m: M, n: N], f32>
// CHECK:       region.kernel @shapes_1 iters [k: K]
