// RUN: polyc-opt %s --split-input-file -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,plan-select{arch=sm_90a}' | filecheck %s
// RUN: polyc-opt %s --split-input-file -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,plan-select{arch=sm_90a},region-to-gpu' | filecheck %s --check-prefix=GPU

// A batch has a tile of one point; of the small outputs' condition it is a factor.
// CHECK:      plan.schedule @batch variant "tma_small" when (K mod 8 == 0, N mod 8 == 0, {{.*}}((((M + 127) floordiv 128) * ((N + 127) floordiv 128) * B + 131) floordiv 132){{.*}}, K >= 1) {
// CHECK:        bind = {"b" = "block.x", "m.o" = "block.x", "n.o" = "block.x", "m.i.o" = "warpgroup"},
// CHECK:      plan.schedule @batch variant "scalar" {
// CHECK:        tile = [64, 64, 32],
// GPU:        gpu.kernel @batch_tma(%A: !gpu.global<[B, M, K], f16> = tensor 0, %W: !gpu.global<[B, K, N], f16> = tensor 1
// GPU:          gpu.tile_loop (%b, %m0, %n0, %tile) = [%B, %M, %N] tile <1, 128, 256> raster "grouped" 16 {
// GPU:            gpu.copy %A[%b, %m0, %k0] to %A_tile loader "tma"
// GPU-NEXT:       gpu.copy %W[%b, %k0, %n0] to %W_tile loader "tma"
// GPU:            gpu.copy %out_tile to %C[%b, %m0, %n0] loader "tma"
// GPU:        gpu.kernel @batch_cp_async(
// GPU-NEXT:     %b, %m0, %n0 = gpu.tile_coordinates[%B, %M, %N] tile <1, 64, 64> raster "grouped" 8
// GPU:        gpu.launch @batch_tma when {{.*}} grid [B, (M + 127) floordiv 128, (N + 255) floordiv 256] persistent
frontend.graph @batch(%A: !frontend.tensor<[B, M, K], f16>, %W: !frontend.tensor<[B, K, N], f16>) -> (C: !frontend.tensor<[B, M, N], f16>) {
  %0 = frontend.gemm %A, %W {acc = f32} : (!frontend.tensor<[B, M, K], f16>, !frontend.tensor<[B, K, N], f16>) -> !frontend.tensor<[B, M, N], f16>
  frontend.output %0 : !frontend.tensor<[B, M, N], f16>
}

// -----

// Rows of three axes are one: the kernel sees matrices, and the dispatch the tensors as they are.
// CHECK:      plan.schedule @rows variant "tma_small" when (C mod 8 == 0, F mod 8 == 0,
// CHECK:        bind = {"nhw.o" = "block.x", "f.o" = "block.x", "nhw.i.o" = "warpgroup"},
// GPU:        gpu.kernel @rows_tma(%X: !gpu.global<[H * N * W, C], f16> = tensor 0, %V: !gpu.global<[C, F], f16> = tensor 1, %b: !gpu.global<[F], f16> = tensor 2, %Y: !gpu.global<[H * N * W, F], f16> = tensor 3
// GPU:            gpu.copy %X[%nhw0, %c0] to %X_tile loader "tma"
// GPU:        gpu.dispatch (X: !gpu.global<[N, H, W, C], f16>, V: !gpu.global<[C, F], f16>, b: !gpu.global<[F], f16>) -> (Y: !gpu.global<[N, H, W, F], f16>) {
frontend.graph @rows(%X: !frontend.tensor<[N, H, W, C], f16>, %V: !frontend.tensor<[C, F], f16>, %b: !frontend.tensor<[F], f16>) -> (Y: !frontend.tensor<[N, H, W, F], f16>) {
  %0 = frontend.gemm %X, %V {acc = f32} : (!frontend.tensor<[N, H, W, C], f16>, !frontend.tensor<[C, F], f16>) -> !frontend.tensor<[N, H, W, F], f16>
  %1 = frontend.elementwise add %0, %b : (!frontend.tensor<[N, H, W, F], f16>, !frontend.tensor<[F], f16>) -> !frontend.tensor<[N, H, W, F], f16>
  frontend.output %1 : !frontend.tensor<[N, H, W, F], f16>
}

// -----

// Two tensors that the epilogue reads by rows leave the accumulators of 128x256 no registers.
// CHECK:      plan.schedule @crowded variant "tma_small" when (K mod 8 == 0, N mod 8 == 0, K >= 1) {
// CHECK-NOT:  variant "tma" when
// CHECK:      plan.schedule @crowded variant "cp_async"
// GPU:        gpu.kernel @crowded_tma_small(
frontend.graph @crowded(%A: !frontend.tensor<[M, K], f16>, %W: !frontend.tensor<[K, N], f16>, %R: !frontend.tensor<[M, N], f16>, %S: !frontend.tensor<[M, N], f16>) -> (C: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.gemm %A, %W {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %1 = frontend.elementwise add %0, %R : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16>
  %2 = frontend.elementwise mul %1, %S : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %2 : !frontend.tensor<[M, N], f16>
}
