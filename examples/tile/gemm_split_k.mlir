// C = A · B on SM90 with K cut into parts: for long K and an output whose tiles are too few for
// the chip.  Every CTA computes one tile of one part and leaves it in a workspace of f32; a second
// kernel adds the parts in an order of their own, so that every run gives the same bits.
//
//   polyc run examples/tile/gemm_split_k.mlir --set M=40 --set N=136 --set K=4168

// Four rows of a sum, a warp each; a lane has a column.
!sum = !gpu.fragment<[4, 32], f32, #gpu.fragment_layout<threads 128, registers 1,
        affine_map<(t, r) -> (t floordiv 32, t mod 32)>>>
!slots = !gpu.global<[128, 64, 64], f32>

gpu.module @gemm_split_k arch "sm_90a" symbols [M, K, N] {
  // As many CTAs as multiprocessors, nearly: 128 slots for a tile of 64 x 64 each.  Eight stages
  // leave no room for two on one multiprocessor.
  gpu.kernel @gemm_split_k_deep(
      %A: !gpu.global<[M, K], f16> = tensor 0, %B: !gpu.global<[K, N], f16> = tensor 1,
      %W: !slots = workspace "parts",
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
    // As many parts as there is room for, of at least 576: more than the eight steps that are on
    // their way at once.  Elements from K on are zeros, so that the last parts need no bound.
    %slots = arith.constant 128 : index
    %room = arith.divui %slots, %tiles : index
    %useful = affine.apply affine_map<()[k] -> (k ceildiv 576)> ()[%K]
    %parts = arith.minsi %room, %useful : index
    %all = affine.apply affine_map<(p)[k] -> (k ceildiv 64 + p - 1)> (%parts)[%K]
    %steps = arith.divui %all, %parts : index
    %length = affine.apply affine_map<(s) -> (s * 64)> (%steps)
    %first = arith.muli %part, %length : index
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[64, 64], f32>
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    gpu.pipeline %k0, %i = to %length step 64 stages 8 {
      %k = affine.apply affine_map<(f, k) -> (f + k)> (%first, %k0)
      gpu.copy %A[%m0, %k] to %a loader "tma"
          : !gpu.global<[M, K], f16>, !gpu.shared<[64, 64], f16>
      gpu.copy %B[%k, %n0] to %b loader "tma"
          : !gpu.global<[K, N], f16>, !gpu.shared<[64, 64], f16>
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
          into %acc mma "wgmma" warp_tile <64, 64>
          : !gpu.shared<[64, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f32>
    }
    gpu.map %acc : !gpu.fragment<[64, 64], f32> origin [%block] ins()
        outs(%W : !slots affine_map<(i, j)[b] -> (b, i, j)>) {
    ^bb0(%x: f32):
      gpu.yield %x : f32
    }
    gpu.return
  }
  // The parts are added in their order, with 32 loads on their way at once.
  gpu.kernel @gemm_split_k_deep_sum(
      %W: !slots = workspace "parts", %C: !gpu.global<[M, N], f16> = tensor 2,
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N) threads 128 {
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <4, 32> raster "row" 1
    // Where the parts are: as above.
    %rows = affine.apply affine_map<()[m] -> (m ceildiv 64)> ()[%M]
    %columns = affine.apply affine_map<()[n] -> (n ceildiv 64)> ()[%N]
    %tiles = arith.muli %rows, %columns : index
    %slots = arith.constant 128 : index
    %room = arith.divui %slots, %tiles : index
    %useful = affine.apply affine_map<()[k] -> (k ceildiv 576)> ()[%K]
    %parts = arith.minsi %room, %useful : index
    %row = affine.apply affine_map<(m) -> (m floordiv 64)> (%m0)
    %column = affine.apply affine_map<(n) -> (n floordiv 64)> (%n0)
    %above = arith.muli %column, %rows : index
    %tile = arith.addi %above, %row : index
    %i0 = affine.apply affine_map<(m) -> (m mod 64)> (%m0)
    %j0 = affine.apply affine_map<(n) -> (n mod 64)> (%n0)
    %zero = arith.constant 0.0 : f32
    %sum = gpu.fragment : !sum
    gpu.fill %zero, %sum : !sum
    %first = arith.constant 0 : index
    %step = arith.constant 1 : index
    %many = arith.constant 32 : index
    scf.for %p0 = %first to %parts step %many {
      scf.for %p1 = %first to %many step %step {
        %p = affine.apply affine_map<(p, q) -> (p + q)> (%p0, %p1)
        // There is no slot 128: what is read there is 0.
        %before = arith.muli %p, %tiles : index
        %slot = arith.addi %before, %tile : index
        %there = arith.cmpi slt, %p, %parts : index
        %place = arith.select %there, %slot, %slots : index
        gpu.map %sum : !sum origin [%place, %i0, %j0]
            ins(%W : !slots affine_map<(i, j)[w, m, n] -> (w, i + m, j + n)>)
            outs(%sum : !sum affine_map<(i, j)[w, m, n] -> (i, j)>) {
        ^bb0(%s: f32, %w: f32):
          %more = arith.addf %s, %w : f32
          gpu.yield %more : f32
        }
      } {unroll}
    }
    gpu.map %sum : !sum origin [%m0, %n0] ins()
        outs(%C : !gpu.global<[M, N], f16> affine_map<(i, j)[m, n] -> (i + m, j + n)>) {
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
    // Elements from K on are zeros, so that the last part needs no bound of its own.
    %first = affine.apply affine_map<(p) -> (p * 2048)> (%part)
    %length = arith.constant 2048 : index
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[64, 128], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[64, 128], f32>
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 128], f16>
    gpu.pipeline %k0, %i = to %length step 64 stages 4 {
      %k = affine.apply affine_map<(f, k) -> (f + k)> (%first, %k0)
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
  // As above; the parts are whole matrices.
  gpu.kernel @gemm_split_k_wide_sum(
      %W: !gpu.global<[(K + 2047) floordiv 2048, M, N], f32> = workspace "parts",
      %C: !gpu.global<[M, N], f16> = tensor 2,
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N) threads 128 {
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <4, 32> raster "row" 1
    %parts = affine.apply affine_map<()[k] -> (k ceildiv 2048)> ()[%K]
    %zero = arith.constant 0.0 : f32
    %sum = gpu.fragment : !sum
    gpu.fill %zero, %sum : !sum
    %first = arith.constant 0 : index
    %step = arith.constant 1 : index
    %many = arith.constant 32 : index
    scf.for %p0 = %first to %parts step %many {
      scf.for %p1 = %first to %many step %step {
        %p = affine.apply affine_map<(p, q) -> (p + q)> (%p0, %p1)
        gpu.map %sum : !sum origin [%p, %m0, %n0]
            ins(%W : !gpu.global<[(K + 2047) floordiv 2048, M, N], f32>
                affine_map<(i, j)[p, m, n] -> (p, i + m, j + n)>)
            outs(%sum : !sum affine_map<(i, j)[p, m, n] -> (i, j)>) {
        ^bb0(%s: f32, %w: f32):
          %more = arith.addf %s, %w : f32
          gpu.yield %more : f32
        }
      } {unroll}
    }
    gpu.map %sum : !sum origin [%m0, %n0] ins()
        outs(%C : !gpu.global<[M, N], f16> affine_map<(i, j)[m, n] -> (i + m, j + n)>) {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M, K], f16>, B: !gpu.global<[K, N], f16>)
      -> (C: !gpu.global<[M, N], f16>) {
    // Parts of 576 leave slots free.
    gpu.sequence @gemm_split_k_short
        when (K mod 8 == 0, N mod 8 == 0, K >= 1, (M + 63) floordiv 64 * ((N + 63) floordiv 64) * ((K + 575) floordiv 576) <= 127)
        align [16, 16, 16] {
      gpu.workspace "parts" : !slots
      gpu.launch @gemm_split_k_deep
          grid [(K + 575) floordiv 576, (M + 63) floordiv 64, (N + 63) floordiv 64]
      gpu.launch @gemm_split_k_deep_sum grid [(M + 3) floordiv 4, (N + 31) floordiv 32]
    }
    // Longer ones take them all, or all but a few.  Of more tiles the loads of A and B would count.
    gpu.sequence @gemm_split_k_few
        when (K mod 8 == 0, N mod 8 == 0, K >= 1, (M + 63) floordiv 64 * ((N + 63) floordiv 64) <= 32)
        align [16, 16, 16] {
      gpu.workspace "parts" : !slots
      gpu.launch @gemm_split_k_deep grid [128]
      gpu.launch @gemm_split_k_deep_sum grid [(M + 3) floordiv 4, (N + 31) floordiv 32]
    }
    gpu.sequence @gemm_split_k_many when (K mod 8 == 0, N mod 8 == 0, K >= 1) align [16, 16, 16] {
      gpu.workspace "parts" : !gpu.global<[(K + 2047) floordiv 2048, M, N], f32>
      gpu.launch @gemm_split_k_wide
          grid [(K + 2047) floordiv 2048, (M + 63) floordiv 64, (N + 127) floordiv 128]
      gpu.launch @gemm_split_k_wide_sum grid [(M + 3) floordiv 4, (N + 31) floordiv 32]
    }
  }
}
