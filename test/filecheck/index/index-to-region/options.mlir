// RUN: polyc-opt %s -p 'frontend-to-tiny,tiny-to-index,index-to-region{fuse=none}' | filecheck %s --check-prefix=NONE
// RUN: polyc-opt %s -p 'frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal}' | filecheck %s --check-prefix=LEGAL
// RUN: polyc-opt %s -p 'frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal split=contractions}' | filecheck %s --check-prefix=SPLIT

// Three answers to how much is fused: nothing, what may be, and what may be but for a kernel a
// contraction. What may be stops at reductions that would all run in each other's steps.
frontend.graph @chain(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, L], f16>, %C: !frontend.tensor<[L, N], f16>) -> (D: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, L], f16>) -> !frontend.tensor<[M, L], f16>
  %1 = frontend.gemm %0, %C {acc = f32} : (!frontend.tensor<[M, L], f16>, !frontend.tensor<[L, N], f16>) -> !frontend.tensor<[M, N], f16>
  %2 = frontend.reduce max %1 axes [1] keepdims : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, 1], f16>
  %3 = frontend.elementwise sub %1, %2 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, 1], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %3 : !frontend.tensor<[M, N], f16>
}
// NONE:        region.kernel @chain_0
// NONE:          gmem {boundary = "nothing is fused"}
// NONE:        region.kernel @chain_1
// NONE:          gmem {boundary = "nothing is fused"}
// NONE:        region.kernel @chain_2
// NONE:          gmem {boundary = "nothing is fused"}
// NONE:        region.kernel @chain_3
// NONE-NOT:    boundary

// LEGAL:       region.kernel @chain_0 iters [m: M, n: N]
// LEGAL:         outs(v0: !region.memref<[M, N], f16, align 16, noalias> gmem {boundary = "it is reduced, and would be again in each step of another reduction
// LEGAL:       region.kernel @chain_1 iters [m: M, n: N]
// LEGAL-NOT:   region.kernel

// SPLIT:       region.kernel @chain_0
// SPLIT:         outs(v0: !region.memref<[M, L], f16, align 16, noalias> deferred {boundary = "a kernel for each contraction was asked for"})
// SPLIT:       region.kernel @chain_1
// SPLIT:         outs(v1: !region.memref<[M, N], f32, align 16, noalias> deferred
// SPLIT:       region.kernel @chain_2
// SPLIT-NOT:   region.kernel
