// C = A · B on clusters of two CTAs, one above the other: each loads its own rows of A and half of
// the tile of B that both need, and sends that half to both.  A quarter of the traffic from the L2
// cache goes away.  The ring spans the cluster: a slot is free when the consumers of both CTAs have
// read it.  The rest is gemm_sm90_cooperative.
//
//   polyc run examples/tile/gemm_sm90_cluster.mlir --set M=136 --set N=264 --set K=328

!A = !gpu.global<[M, K], f16>
!B = !gpu.global<[K, N], f16>
!C = !gpu.global<[M, N], f16>
!a = !gpu.shared<[128, 64], f16>
!b = !gpu.shared<[64, 256], f16>
!c = !gpu.shared<[128, 128], f16>
!acc = !gpu.fragment<[128, 256], f32>
!out = !gpu.fragment<[128, 256], f16>

gpu.module @gemm_sm90_cluster arch "sm_90a" symbols [M, K, N]
    assuming (K mod 8 == 0, N mod 8 == 0) {
  gpu.kernel @gemm_sm90_cluster(
      %A: !A = tensor 0, %B: !B = tensor 1, %C: !C = tensor 2,
      %M: index = symbol M, %N: index = symbol N, %K: index = symbol K)
      threads 384 cluster 2 registers [56, 224] {
    %zero = arith.constant 0.0 : f32
    %a = gpu.shared_tile : !a
    %b = gpu.shared_tile : !b
    %c = gpu.shared_tile : !c
    gpu.tile_loop (%row, %column, %n) = [%M, %N] tile <128, 256> raster "grouped" 8 {
      %acc = gpu.fragment : !acc
      %out = gpu.fragment : !out
      gpu.fill %zero, %acc : !acc
      gpu.pipeline %k, %i = to %K step 64 stages 4 {
        gpu.copy %A[%row, %k] to %a loader "tma" : !A, !a
        gpu.copy %B[%k, %column] to %b loader "tma" multicast : !B, !b
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
    gpu.launch @gemm_sm90_cluster align [16, 16, 16] grid [2 * (M ceildiv 256), N ceildiv 256] persistent
  }
}
