// C = A · B on SM90, persistent and cooperative: two consumer warpgroups compute a tile of 128 x 256
// together, a third one loads, and each consumer stores its rows by TMA.
//
// The author says the loop over tiles, the pipeline and the way out.  Roles, ring, barriers, fences,
// waits and layouts are inferred (gpu-warp-specialize, gpu-store-waits, gpu-layout-inference).  The
// tile of C is half as wide as the accumulator, so that it fits beside four stages.
//
//   polyc run examples/tile/gemm_sm90_cooperative.mlir --set M=136 --set N=264 --set K=328

!A = !gpu.global<[M, K], f16>
!B = !gpu.global<[K, N], f16>
!C = !gpu.global<[M, N], f16>
!a = !gpu.shared<[128, 64], f16>
!b = !gpu.shared<[64, 256], f16>
!c = !gpu.shared<[128, 128], f16>
!acc = !gpu.fragment<[128, 256], f32>
!out = !gpu.fragment<[128, 256], f16>

gpu.module @gemm_sm90_cooperative arch "sm_90a" symbols [M, K, N]
    assuming (K mod 8 == 0, N mod 8 == 0) {
  gpu.kernel @gemm_sm90_cooperative(
      %A: !A = tensor 0, %B: !B = tensor 1, %C: !C = tensor 2,
      %M: index = symbol M, %N: index = symbol N, %K: index = symbol K)
      threads 384 registers [40, 232] {
    %zero = arith.constant 0.0 : f32
    %a = gpu.shared_tile : !a
    %b = gpu.shared_tile : !b
    %c = gpu.shared_tile : !c
    gpu.tile_loop (%row, %column, %n) = [%M, %N] tile <128, 256> raster "grouped" 16 {
      %acc = gpu.fragment : !acc
      %out = gpu.fragment : !out
      gpu.fill %zero, %acc : !acc
      gpu.pipeline %k, %i = to %K step 64 stages 4 {
        gpu.copy %A[%row, %k] to %a loader "tma" : !A, !a
        gpu.copy %B[%k, %column] to %b loader "tma" : !B, !b
        gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
            into %acc mma "wgmma" warp_tile <64, 256> : !a, !b, !acc
      }
      gpu.map %acc : !acc origin [] ins() outs(%out : !out affine_map<(i, j) -> (i, j)>) {
      ^bb0(%x: f32):
        %y = arith.truncf %x : f32 to f16
        gpu.yield %y : f16
      }
      gpu.copy %out to %c window <0, 0> : !out, !c
      gpu.copy %c to %C[%row, %column] loader "tma" : !c, !C
      %right = affine.apply affine_map<(j) -> (j + 128)> (%column)
      gpu.copy %out to %c window <0, 128> : !out, !c
      gpu.copy %c to %C[%row, %right] loader "tma" : !c, !C
    }
    gpu.return
  }
  gpu.dispatch (A: !A, B: !B) -> (C: !C) {
    gpu.launch @gemm_sm90_cooperative align [16, 16, 16] grid [M ceildiv 128, N ceildiv 256] persistent
  }
}
