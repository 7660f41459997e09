// C = A · B on SM90 for few rows of A, as in decoding: the weights B are read once, and that is all
// the time there is.  Each CTA has all of its shared memory on its way from the memory.
//
// Up to 16 tokens the operands are swapped, C^T = B^T · A^T, so that the tokens are the narrow side of
// the instruction (m64n16k16) and no row of a tile is empty; the accumulator goes out transposed.  From
// 64 tokens on, they fill the instruction's rows as they are, and the output leaves by TMA.
//
//   polyc run examples/tile/gemm_sm90_decode.mlir --set M=5 --set N=264 --set K=328

!A = !gpu.global<[M, K], f16>
!B = !gpu.global<[K, N], f16>
!C = !gpu.global<[M, N], f16>
!w = !gpu.shared<[64, 128], f16>
!x16 = !gpu.shared<[16, 64], f16>
!x64 = !gpu.shared<[64, 64], f16>
!x128 = !gpu.shared<[128, 64], f16>
!c64 = !gpu.shared<[64, 128], f16>
!c128 = !gpu.shared<[128, 128], f16>
!acc16 = !gpu.fragment<[128, 16], f32>
!acc64 = !gpu.fragment<[64, 128], f32>
!acc128 = !gpu.fragment<[128, 128], f32>
!out64 = !gpu.fragment<[64, 128], f16>
!out128 = !gpu.fragment<[128, 128], f16>

gpu.module @gemm_sm90_decode arch "sm_90a" symbols [M, K, N]
    assuming (K mod 8 == 0, N mod 8 == 0) {
  gpu.kernel @gemm_sm90_decode_16(
      %A: !A = tensor 0, %B: !B = tensor 1, %C: !C = tensor 2,
      %M: index = symbol M, %N: index = symbol N, %K: index = symbol K) threads 384 {
    %zero = arith.constant 0.0 : f32
    %w = gpu.shared_tile : !w
    %x = gpu.shared_tile : !x16
    %n0, %m0 = gpu.tile_coordinates[%N, %M] tile <128, 16> raster "row" 1
    %acc = gpu.fragment : !acc16
    gpu.fill %zero, %acc : !acc16
    gpu.pipeline %k, %i = to %K step 64 stages 8 {
      gpu.copy %B[%k, %n0] to %w loader "tma" : !B, !w
      gpu.copy %A[%m0, %k] to %x loader "tma" : !A, !x16
      gpu.contract %w affine_map<(n, m, k) -> (k, n)>, %x affine_map<(n, m, k) -> (m, k)>
          into %acc mma "wgmma" warp_tile <64, 16> : !w, !x16, !acc16
    }
    gpu.map %acc : !acc16 origin [%n0, %m0] ins()
        outs(%C : !C affine_map<(n, m)[n0, m0] -> (m + m0, n + n0)>) {
    ^bb0(%e: f32):
      %r = arith.truncf %e : f32 to f16
      gpu.yield %r : f16
    }
    gpu.return
  }
  gpu.kernel @gemm_sm90_decode_64(
      %A: !A = tensor 0, %B: !B = tensor 1, %C: !C = tensor 2,
      %M: index = symbol M, %N: index = symbol N, %K: index = symbol K) threads 256 {
    %zero = arith.constant 0.0 : f32
    %w = gpu.shared_tile : !w
    %x = gpu.shared_tile : !x64
    %c = gpu.shared_tile : !c64
    %n0, %m0 = gpu.tile_coordinates[%N, %M] tile <128, 64> raster "row" 1
    %acc = gpu.fragment : !acc64
    %out = gpu.fragment : !out64
    gpu.fill %zero, %acc : !acc64
    gpu.pipeline %k, %i = to %K step 64 stages 8 {
      gpu.copy %B[%k, %n0] to %w loader "tma" : !B, !w
      gpu.copy %A[%m0, %k] to %x loader "tma" : !A, !x64
      gpu.contract %x affine_map<(m, n, k) -> (m, k)>, %w affine_map<(m, n, k) -> (k, n)>
          into %acc mma "wgmma" warp_tile <64, 128> : !x64, !w, !acc64
    }
    gpu.map %acc : !acc64 origin [] ins() outs(%out : !out64 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32):
      %r = arith.truncf %e : f32 to f16
      gpu.yield %r : f16
    }
    gpu.copy %out to %c : !out64, !c64
    gpu.copy %c to %C[%m0, %n0] loader "tma" : !c64, !C
    gpu.return
  }
  gpu.kernel @gemm_sm90_decode_128(
      %A: !A = tensor 0, %B: !B = tensor 1, %C: !C = tensor 2,
      %M: index = symbol M, %N: index = symbol N, %K: index = symbol K) threads 384 {
    %zero = arith.constant 0.0 : f32
    %w = gpu.shared_tile : !w
    %x = gpu.shared_tile : !x128
    %c = gpu.shared_tile : !c128
    %n0, %m0 = gpu.tile_coordinates[%N, %M] tile <128, 128> raster "row" 1
    %acc = gpu.fragment : !acc128
    %out = gpu.fragment : !out128
    gpu.fill %zero, %acc : !acc128
    gpu.pipeline %k, %i = to %K step 64 stages 6 {
      gpu.copy %B[%k, %n0] to %w loader "tma" : !B, !w
      gpu.copy %A[%m0, %k] to %x loader "tma" : !A, !x128
      gpu.contract %x affine_map<(m, n, k) -> (m, k)>, %w affine_map<(m, n, k) -> (k, n)>
          into %acc mma "wgmma" warp_tile <64, 128> : !x128, !w, !acc128
    }
    gpu.map %acc : !acc128 origin [] ins() outs(%out : !out128 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32):
      %r = arith.truncf %e : f32 to f16
      gpu.yield %r : f16
    }
    gpu.copy %out to %c : !out128, !c128
    gpu.copy %c to %C[%m0, %n0] loader "tma" : !c128, !C
    gpu.return
  }
  gpu.dispatch (A: !A, B: !B) -> (C: !C) {
    gpu.launch @gemm_sm90_decode_16 when (M <= 16) align [16, 16, 16] grid [N ceildiv 128, M ceildiv 16]
    gpu.launch @gemm_sm90_decode_64 when (M <= 64) align [16, 16, 16] grid [N ceildiv 128, M ceildiv 64]
    gpu.launch @gemm_sm90_decode_128 align [16, 16, 16] grid [N ceildiv 128, M ceildiv 128]
  }
}
