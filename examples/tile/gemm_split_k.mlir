// C = A · B on SM90 with K cut into parts of 2048: for long K and an output whose tiles are too few
// for the chip.  Every CTA computes one tile of one part and leaves it in a workspace of f32; a
// second kernel adds the parts in an order of their own, so that every run gives the same bits.
//
//   polyc run examples/tile/gemm_split_k.mlir --set M=40 --set N=136 --set K=4168

// Four warps, a part each; a lane has a column.
!parts = !gpu.fragment<[4, 32], f32, #gpu.fragment_layout<threads 128, registers 1,
        affine_map<(t, r) -> (t floordiv 32, t mod 32)>>>

gpu.module @gemm_split_k arch "sm_90a" symbols [M, K, N] {
  // Few tiles: small ones, and 96 KB on its way to each multiprocessor.
  gpu.kernel @gemm_split_k_deep(
      %A: !gpu.global<[M, K], f16> = tensor 0, %B: !gpu.global<[K, N], f16> = tensor 1,
      %W: !gpu.global<[(K + 2047) floordiv 2048, M, N], f32> = workspace "parts",
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N)
      threads 256 {
    // Parts outermost: the CTAs that run together read the same columns of A and rows of B.
    %block = gpu.block_id
    %rows = affine.apply affine_map<()[m] -> (m ceildiv 64)> ()[%M]
    %columns = affine.apply affine_map<()[n] -> (n ceildiv 64)> ()[%N]
    %tiles = arith.muli %rows, %columns : index
    %part = arith.divui %block, %tiles : index
    %tile = arith.remui %block, %tiles : index
    %column = arith.divui %tile, %rows : index
    %row = arith.remui %tile, %rows : index
    %m0 = affine.apply affine_map<(r) -> (r * 64)> (%row)
    %n0 = affine.apply affine_map<(c) -> (c * 64)> (%column)
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[64, 64], f32>
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // Elements from K on are zeros, so that the last part needs no bound of its own.
    %length = arith.constant 2048 : index
    gpu.pipeline %k0, %i = to %length step 64 stages 6 {
      %k = affine.apply affine_map<(p, k) -> (p * 2048 + k)> (%part, %k0)
      gpu.copy %A[%m0, %k] to %a loader "tma"
          : !gpu.global<[M, K], f16>, !gpu.shared<[64, 64], f16>
      gpu.copy %B[%k, %n0] to %b loader "tma"
          : !gpu.global<[K, N], f16>, !gpu.shared<[64, 64], f16>
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
          into %acc mma "wgmma" warp_tile <64, 64>
          : !gpu.shared<[64, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f32>
    }
    gpu.map %acc : !gpu.fragment<[64, 64], f32> origin [%part, %m0, %n0] ins()
        outs(%W : !gpu.global<[(K + 2047) floordiv 2048, M, N], f32>
            affine_map<(i, j)[p, m, n] -> (p, i + m, j + n)>) {
    ^bb0(%x: f32):
      gpu.yield %x : f32
    }
    gpu.return
  }
  // Warp w adds parts w, w + 4, ..., with eight loads on their way at once; then the four are added.
  gpu.kernel @gemm_split_k_sum(
      %W: !gpu.global<[(K + 2047) floordiv 2048, M, N], f32> = workspace "parts",
      %C: !gpu.global<[M, N], f16> = tensor 2,
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N) threads 128 {
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <1, 32> raster "row" 1
    %zero = arith.constant 0.0 : f32
    %four = gpu.fragment : !parts
    gpu.fill %zero, %four : !parts
    %first = arith.constant 0 : index
    %step = arith.constant 4 : index
    %many = arith.constant 32 : index
    %parts = affine.apply affine_map<()[k] -> (k ceildiv 2048)> ()[%K]
    scf.for %p0 = %first to %parts step %many {
      scf.for %p1 = %first to %many step %step {
        %p = affine.apply affine_map<(p, q) -> (p + q)> (%p0, %p1)
        gpu.map %four : !parts origin [%p, %m0, %n0]
            ins(%W : !gpu.global<[(K + 2047) floordiv 2048, M, N], f32>
                affine_map<(i, j)[p, m, n] -> (i + p, m, j + n)>)
            outs(%four : !parts affine_map<(i, j)[p, m, n] -> (i, j)>) {
        ^bb0(%s: f32, %w: f32):
          %more = arith.addf %s, %w : f32
          gpu.yield %more : f32
        }
      } {unroll}
    }
    %sum = gpu.fragment : !gpu.fragment<[32], f32>
    gpu.reduce sum %four by affine_map<(i, j) -> (j)> into %sum : !parts, !gpu.fragment<[32], f32>
    gpu.map %sum : !gpu.fragment<[32], f32> origin [%m0, %n0] ins()
        outs(%C : !gpu.global<[M, N], f16> affine_map<(j)[m, n] -> (m, j + n)>) {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }
  // Tiles enough: wider ones, whose rows of B are longer.  Four stages leave room for a second CTA,
  // whose loads run on while this one begins or ends.
  gpu.kernel @gemm_split_k_wide(
      %A: !gpu.global<[M, K], f16> = tensor 0, %B: !gpu.global<[K, N], f16> = tensor 1,
      %W: !gpu.global<[(K + 2047) floordiv 2048, M, N], f32> = workspace "parts",
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N)
      threads 256 blocks_per_sm 2 {
    // Parts outermost: the CTAs that run together read the same columns of A and rows of B.
    %block = gpu.block_id
    %rows = affine.apply affine_map<()[m] -> (m ceildiv 64)> ()[%M]
    %columns = affine.apply affine_map<()[n] -> (n ceildiv 128)> ()[%N]
    %tiles = arith.muli %rows, %columns : index
    %part = arith.divui %block, %tiles : index
    %tile = arith.remui %block, %tiles : index
    %column = arith.divui %tile, %rows : index
    %row = arith.remui %tile, %rows : index
    %m0 = affine.apply affine_map<(r) -> (r * 64)> (%row)
    %n0 = affine.apply affine_map<(c) -> (c * 128)> (%column)
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[64, 128], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[64, 128], f32>
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 128], f16>
    // Elements from K on are zeros, so that the last part needs no bound of its own.
    %length = arith.constant 2048 : index
    gpu.pipeline %k0, %i = to %length step 64 stages 4 {
      %k = affine.apply affine_map<(p, k) -> (p * 2048 + k)> (%part, %k0)
      gpu.copy %A[%m0, %k] to %a loader "tma"
          : !gpu.global<[M, K], f16>, !gpu.shared<[64, 64], f16>
      gpu.copy %B[%k, %n0] to %b loader "tma"
          : !gpu.global<[K, N], f16>, !gpu.shared<[64, 128], f16>
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
          into %acc mma "wgmma" warp_tile <64, 128>
          : !gpu.shared<[64, 64], f16>, !gpu.shared<[64, 128], f16>, !gpu.fragment<[64, 128], f32>
    }
    gpu.map %acc : !gpu.fragment<[64, 128], f32> origin [%part, %m0, %n0] ins()
        outs(%W : !gpu.global<[(K + 2047) floordiv 2048, M, N], f32>
            affine_map<(i, j)[p, m, n] -> (p, i + m, j + n)>) {
    ^bb0(%x: f32):
      gpu.yield %x : f32
    }
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M, K], f16>, B: !gpu.global<[K, N], f16>)
      -> (C: !gpu.global<[M, N], f16>) {
    // As many tiles of 64 x 64 as 132 multiprocessors, or fewer.
    gpu.sequence @gemm_split_k_few when (K mod 8 == 0, N mod 8 == 0, K >= 1, M * N <= 540672)
        align [16, 16, 16] {
      gpu.workspace "parts" : !gpu.global<[(K + 2047) floordiv 2048, M, N], f32>
      gpu.launch @gemm_split_k_deep
          grid [(K + 2047) floordiv 2048, (M + 63) floordiv 64, (N + 63) floordiv 64]
      gpu.launch @gemm_split_k_sum grid [M, (N + 31) floordiv 32]
    }
    gpu.sequence @gemm_split_k_many when (K mod 8 == 0, N mod 8 == 0, K >= 1) align [16, 16, 16] {
      gpu.workspace "parts" : !gpu.global<[(K + 2047) floordiv 2048, M, N], f32>
      gpu.launch @gemm_split_k_wide
          grid [(K + 2047) floordiv 2048, (M + 63) floordiv 64, (N + 127) floordiv 128]
      gpu.launch @gemm_split_k_sum grid [M, (N + 31) floordiv 32]
    }
  }
}
