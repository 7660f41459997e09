// C = A · B on SM90, the form that gpu-warp-specialize takes: what an author of a first kernel
// writes.  A producer's TMA loads run up to three steps ahead of two warpgroups' wgmma; who does
// what, the barriers, the swizzles and the predicates of the tail are inferred.
//
//   polyc run examples/tile/gemm_pipelined.mlir --set M=200 --set N=264 --set K=136

gpu.module @gemm_pipelined arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @gemm_pipelined_tma(
      %A: !gpu.global<[M, K], f16> = tensor 0, %B: !gpu.global<[K, N], f16> = tensor 1,
      %C: !gpu.global<[M, N], f16> = tensor 2,
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N)
      threads 384 registers [40, 232] {
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <128, 256> raster "grouped" 8
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[128, 256], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[128, 256], f32>
    %a = gpu.shared_tile : !gpu.shared<[128, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 256], f16>
    gpu.pipeline %k0, %i = to %K step 64 stages 4 {
      gpu.copy %A[%m0, %k0] to %a loader "tma"
          : !gpu.global<[M, K], f16>, !gpu.shared<[128, 64], f16>
      gpu.copy %B[%k0, %n0] to %b loader "tma"
          : !gpu.global<[K, N], f16>, !gpu.shared<[64, 256], f16>
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
    gpu.launch @gemm_pipelined_tma when (K mod 8 == 0, N mod 8 == 0, K >= 1) align [16, 16, 16]
        grid [(M + 127) floordiv 128, (N + 255) floordiv 256]
  }
}
