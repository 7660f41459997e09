// C = A · B on SM90 for any K and N.  TMA needs rows that begin at multiples of 16 bytes; where K
// or N is no multiple of 8 the operands are copied to workspaces whose rows are, and the GEMM reads
// those.  The copies run at the memory's speed and cost what reading and writing A and B once costs.
// C is stored by the threads, which write what lies inside.
//
//   polyc run examples/tile/gemm_unaligned.mlir --set M=67 --set N=133 --set K=77

gpu.module @gemm_unaligned arch "sm_90a" symbols [M, K, N] {
  // A CTA copies 16 rows of 256 elements.  What lies beside A arrives as zeros, so that rows of the
  // workspace end in zeros.
  gpu.kernel @gemm_unaligned_pad_a(
      %A: !gpu.global<[M, K], f16> = tensor 0,
      %P: !gpu.global<[M, (K + 7) floordiv 8 * 8], f16> = workspace "A",
      %M: index = symbol M, %K: index = symbol K) threads 256 {
    %i, %j = gpu.tile_coordinates[%M, %K] tile <16, 256> raster "row" 1
    %x = gpu.fragment : !gpu.fragment<[16, 256], f16>
    gpu.copy %A[%i, %j] to %x : !gpu.global<[M, K], f16>, !gpu.fragment<[16, 256], f16>
    gpu.copy %x to %P[%i, %j]
        : !gpu.fragment<[16, 256], f16>, !gpu.global<[M, (K + 7) floordiv 8 * 8], f16>
    gpu.return
  }
  gpu.kernel @gemm_unaligned_pad_b(
      %B: !gpu.global<[K, N], f16> = tensor 1,
      %P: !gpu.global<[K, (N + 7) floordiv 8 * 8], f16> = workspace "B",
      %K: index = symbol K, %N: index = symbol N) threads 256 {
    %i, %j = gpu.tile_coordinates[%K, %N] tile <16, 256> raster "row" 1
    %x = gpu.fragment : !gpu.fragment<[16, 256], f16>
    gpu.copy %B[%i, %j] to %x : !gpu.global<[K, N], f16>, !gpu.fragment<[16, 256], f16>
    gpu.copy %x to %P[%i, %j]
        : !gpu.fragment<[16, 256], f16>, !gpu.global<[K, (N + 7) floordiv 8 * 8], f16>
    gpu.return
  }
  gpu.kernel @gemm_unaligned_tma(
      %A: !gpu.global<[M, (K + 7) floordiv 8 * 8], f16> = workspace "A",
      %B: !gpu.global<[K, (N + 7) floordiv 8 * 8], f16> = workspace "B",
      %C: !gpu.global<[M, N], f16> = tensor 2,
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N)
      threads 384 registers [40, 232] {
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <128, 256> raster "grouped" 16
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[128, 256], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[128, 256], f32>
    %a = gpu.shared_tile : !gpu.shared<[128, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 256], f16>
    gpu.pipeline %k0, %i = to %K step 64 stages 4 {
      gpu.copy %A[%m0, %k0] to %a loader "tma"
          : !gpu.global<[M, (K + 7) floordiv 8 * 8], f16>, !gpu.shared<[128, 64], f16>
      gpu.copy %B[%k0, %n0] to %b loader "tma"
          : !gpu.global<[K, (N + 7) floordiv 8 * 8], f16>, !gpu.shared<[64, 256], f16>
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
          into %acc mma "wgmma" warp_tile <64, 256>
          : !gpu.shared<[128, 64], f16>, !gpu.shared<[64, 256], f16>, !gpu.fragment<[128, 256], f32>
    }
    gpu.map %acc : !gpu.fragment<[128, 256], f32> origin [%m0, %n0] ins()
        outs(%C : !gpu.global<[M, N], f16> affine_map<(i, j)[m, n] -> (i + m, j + n)>) {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M, K], f16>, B: !gpu.global<[K, N], f16>)
      -> (C: !gpu.global<[M, N], f16>) {
    gpu.sequence @gemm_unaligned_padded when (K >= 1) align [2, 2, 2] {
      gpu.workspace "A" : !gpu.global<[M, (K + 7) floordiv 8 * 8], f16>
      gpu.workspace "B" : !gpu.global<[K, (N + 7) floordiv 8 * 8], f16>
      gpu.launch @gemm_unaligned_pad_a grid [(M + 15) floordiv 16, (K + 255) floordiv 256]
      gpu.launch @gemm_unaligned_pad_b grid [(K + 15) floordiv 16, (N + 255) floordiv 256]
      gpu.launch @gemm_unaligned_tma grid [(M + 127) floordiv 128, (N + 255) floordiv 256]
    }
  }
}
