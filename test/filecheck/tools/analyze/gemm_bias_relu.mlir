// RUN: polyc analyze %examples/gemm_bias_relu.mlir --tile m=64 | filecheck %s
// RUN: polyc analyze %examples/gemm_bias_relu_aligned.mlir | filecheck %s --check-prefix=ALIGNED

// CHECK: @gemm_bias_relu for sm_90a, symbols M, K, N
// CHECK: v3 = tiny.reduce sum  ({{.*}}gemm_bias_relu.mlir:8:3)
// CHECK-NEXT: matmul      [m, k] x [k, n] -> [m, n]
// CHECK-NEXT: axes        parallel m n; reduced k
// CHECK-NEXT: tile        m 64, n 128, k 64; tails along m n k
// CHECK-NEXT: reads       A: 64 x 64, 8192 bytes live, smem_ring of 3; ldmatrix takes 8 turns, 1 with swizzle 128
// CHECK-NEXT: reads       B: 64 x 128, 16384 bytes live, smem_ring of 3
// CHECK-NEXT: passes on   reg
// CHECK-NEXT: waits       3 full and 3 empty mbarriers, each full one expects 24576 bytes
// CHECK: v5 = tiny.binary add
// CHECK: compute at  v3 once at each m n
// CHECK: guards
// CHECK: kept        v3, tail of n: N mod 128 = 0
// CHECK-NEXT: false at N = 1
// CHECK: why not
// CHECK-NEXT: tma         v3: the stride of dimension 0 of A is 2 * K bytes, and TMA needs a multiple of 16; with K = 1 it is 2
// CHECK-NEXT: tma         v3: the stride of dimension 0 of B is 2 * N bytes
// CHECK: regions
// CHECK-NEXT: region      @gemm_bias_relu over m n, reduces k
// CHECK: kernel      @gemm_bias_relu tma_small: matmul tiled, wgmma, loader tma, tile 128x128x64
// CHECK-NEXT: kernel      @gemm_bias_relu tma: matmul tiled, wgmma, loader tma

// With K and N multiples of 8 nothing is refused.
// ALIGNED-NOT: why not
// ALIGNED: regions
