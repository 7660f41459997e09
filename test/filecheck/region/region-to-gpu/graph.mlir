// RUN: polyc-opt %examples/mlp.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,plan-select{arch=sm_90a},region-to-gpu' | filecheck %s
// RUN: polyc-opt %examples/mlp.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,plan-select{arch=sm_90a},region-to-gpu' | polyc-opt | filecheck %s

// A graph of two kernels is one module: each variant is a sequence of both, with a workspace for
// what lies between them, under the conditions of both.
// CHECK-NOT:   region.
// CHECK:       gpu.module @mlp arch "sm_90a" symbols [M, K, L, N] {
// CHECK:         gpu.kernel @mlp_0_tma_small(
// CHECK:         gpu.kernel @mlp_0_tma(%X: !gpu.global<[M, K], f16> = tensor 0, %A: !gpu.global<[K, L], f16> = tensor 1, %v0: !gpu.global<[M, L], f16> = workspace "v0",
// CHECK:         gpu.kernel @mlp_1_tma(%B: !gpu.global<[L, N], f16> = tensor 2, %v0: !gpu.global<[M, L], f16> = workspace "v0", %Y: !gpu.global<[M, N], f16> = tensor 3,
// CHECK:         gpu.dispatch (X: !gpu.global<[M, K], f16>, A: {{.*}}, B: {{.*}}) -> (Y: !gpu.global<[M, N], f16>) {
// CHECK:           gpu.sequence @mlp_tma_small when (K mod 8 == 0, L mod 8 == 0, {{.*}}) align [16, 16, 16, 16] {
// CHECK-NEXT:        gpu.workspace "v0" : !gpu.global<[M, L], f16>
// CHECK-NEXT:        gpu.launch @mlp_0_tma_small grid [(M + 127) floordiv 128, (L + 127) floordiv 128] persistent
// CHECK-NEXT:        gpu.launch @mlp_1_tma_small grid [(M + 127) floordiv 128, (N + 127) floordiv 128] persistent
// CHECK-NEXT:      }
// CHECK:           gpu.sequence @mlp_tma when (K mod 8 == 0, L mod 8 == 0, K >= 1, N mod 8 == 0, L >= 1) align [16, 16, 16, 16] {
// CHECK-NEXT:        gpu.workspace "v0" : !gpu.global<[M, L], f16>
// CHECK-NEXT:        gpu.launch @mlp_0_tma grid [(M + 127) floordiv 128, (L + 255) floordiv 256] persistent
// CHECK-NEXT:        gpu.launch @mlp_1_tma grid [(M + 127) floordiv 128, (N + 255) floordiv 256] persistent
// CHECK-NEXT:      }
// CHECK:           gpu.sequence @mlp_cp_async when (K mod 2 == 0, L mod 2 == 0, N mod 2 == 0) align [4, 4, 4, 4] {
// CHECK:           gpu.sequence @mlp_scalar align [2, 2, 2, 2] {
// CHECK-NEXT:        gpu.workspace "v0" : !gpu.global<[M, L], f16>
// CHECK-NEXT:        gpu.launch @mlp_0_scalar
// CHECK-NEXT:        gpu.launch @mlp_1_scalar
