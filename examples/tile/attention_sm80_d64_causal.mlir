// O = softmax(mask(Q · Kᵀ / sqrt(64))) · V on SM80, where query i sees keys up to i + SK - SQ.
//
// Keys that no query of a CTA's tile sees are not read; the mask is applied in the steps where it
// cuts the tile.  The tiles with most keys come first.
//
// A CTA takes 128 queries, a warp 32 of them, and 128 keys a step; cp.async brings the keys and
// values of the next step meanwhile.  P = exp(S - max) stays in registers: the accumulator of S is,
// rounded, the left operand of P · V.  Each step keeps the rows' maxima and, a quarter of a row in a thread,
// their sums, both of scores that are scaled by log2(e) / sqrt(64) inside one fma.
//
//   polyc run examples/tile/attention_sm80_d64_causal.mlir --set BH=2 --set SQ=200 --set SK=300

gpu.module @attention_sm80_d64_causal arch "sm_80" symbols [BH, SQ, SK] {
  gpu.kernel @attention_sm80_d64_causal_cp_async(
      %Q: !gpu.global<[BH, SQ, 64], f16> = tensor 0, %K: !gpu.global<[BH, SK, 64], f16> = tensor 1,
      %V: !gpu.global<[BH, SK, 64], f16> = tensor 2, %O: !gpu.global<[BH, SQ, 64], f16> = tensor 3,
      %BH: index = symbol BH, %SQ: index = symbol SQ, %SK: index = symbol SK)
      threads 128 {
    %c0 = arith.constant 0 : index
    %width = arith.constant 128 : index
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %none = arith.constant 0xFF800000 : f32
    %scale = arith.constant 0.18033688011112042 : f32
    %less = arith.constant -0.18033688011112042 : f32
    %block = gpu.block_id
    %tiles = affine.apply affine_map<()[q] -> ((q + 127) floordiv 128)> ()[%SQ]
    %bh = arith.divui %block, %tiles : index
    %place = arith.remui %block, %tiles : index
    // The last tiles of queries first; they see keys up to %ends.
    %tile = affine.apply affine_map<(i)[n] -> (n - i - 1)> (%place)[%tiles]
    %q0 = affine.apply affine_map<(i) -> (i * 128)> (%tile)
    %shift = arith.subi %SK, %SQ : index
    %after = affine.apply affine_map<(q)[s] -> (q + s + 128)> (%q0)[%shift]
    %some = arith.maxsi %after, %c0 : index
    %ends = arith.minsi %some, %SK : index
    %q = gpu.shared_tile : !gpu.shared<[128, 64], f16>
    %k = gpu.shared_tile : !gpu.shared<[128, 64], f16>
    %v = gpu.shared_tile : !gpu.shared<[128, 64], f16>
    %s = gpu.fragment : !gpu.fragment<[128, 128], f32>
    %p = gpu.fragment : !gpu.fragment<[128, 128], f16>
    %o = gpu.fragment : !gpu.fragment<[128, 64], f32>
    %m = gpu.fragment : !gpu.fragment<[128], f32>
    %was = gpu.fragment : !gpu.fragment<[128], f32>
    %base = gpu.fragment : !gpu.fragment<[128], f32>
    %alpha = gpu.fragment : !gpu.fragment<[128], f32>
    %part = gpu.fragment : !gpu.fragment<[128], f32>
    %l = gpu.fragment : !gpu.fragment<[128], f32>
    gpu.fill %zero, %o : !gpu.fragment<[128, 64], f32>
    gpu.fill %zero, %l : !gpu.fragment<[128], f32>
    gpu.fill %none, %m : !gpu.fragment<[128], f32>
    gpu.fill %none, %was : !gpu.fragment<[128], f32>
    // It belongs to the first group of copies that the pipeline waits for.
    %any = arith.cmpi sgt, %ends, %c0 : index
    scf.if %any {
      gpu.copy %Q[%bh, %q0, %c0] to %q loader "cp_async"
          : !gpu.global<[BH, SQ, 64], f16>, !gpu.shared<[128, 64], f16>
    }
    gpu.pipeline %k0, %i = to %ends step 128 stages 2 {
      gpu.copy %K[%bh, %k0, %c0] to %k loader "cp_async"
          : !gpu.global<[BH, SK, 64], f16>, !gpu.shared<[128, 64], f16>
      gpu.copy %V[%bh, %k0, %c0] to %v loader "cp_async"
          : !gpu.global<[BH, SK, 64], f16>, !gpu.shared<[128, 64], f16>
      gpu.contract %q affine_map<(m, n, k) -> (m, k)>, %k affine_map<(m, n, k) -> (n, k)>
          into %s clear mma "mma.sync" warp_tile <32, 128>
              : !gpu.shared<[128, 64], f16>, !gpu.shared<[128, 64], f16>, !gpu.fragment<[128, 128], f32>
      // Keys that some query of the tile does not see, or that are none.
      %seen = affine.apply affine_map<(q, k)[s] -> (q + s - k + 1)> (%q0, %k0)[%shift]
      %left = arith.subi %SK, %k0 : index
      %least = arith.minsi %seen, %left : index
      %cut = arith.cmpi slt, %least, %width : index
      scf.if %cut {
        gpu.map %s : !gpu.fragment<[128, 128], f32> origin [] ins()
            outs(%s : !gpu.fragment<[128, 128], f32> affine_map<(i, j) -> (i, j)>) {
        ^bb0(%x: f32):
          %r = gpu.tile_index 0
          %column = gpu.tile_index 1
          %more = arith.addi %seen, %r : index
          %bound = arith.minsi %more, %left : index
          %visible = arith.cmpi slt, %column, %bound : index
          %y = arith.select %visible, %x, %none : f32
          gpu.yield %y : f32
        }
      }
      gpu.reduce max %s by affine_map<(i, j) -> (i)> into %m accumulate
          : !gpu.fragment<[128, 128], f32>, !gpu.fragment<[128], f32>
      gpu.map %m : !gpu.fragment<[128], f32> origin []
          ins(%was : !gpu.fragment<[128], f32> affine_map<(i) -> (i)>)
          outs(%base : !gpu.fragment<[128], f32> affine_map<(i) -> (i)>,
               %alpha : !gpu.fragment<[128], f32> affine_map<(i) -> (i)>,
               %was : !gpu.fragment<[128], f32> affine_map<(i) -> (i)>) {
      ^bb0(%new: f32, %old: f32):
        // Where nothing was visible yet, the maximum is -inf, and scores less that would be NaN.
        %dark = arith.cmpf oeq, %new, %none : f32
        %low = arith.mulf %new, %less : f32
        %down = arith.select %dark, %zero, %low : f32
        %d = math.fma %old, %scale, %down : f32
        %ratio = math.exp2 %d fastmath<afn> : f32
        gpu.yield %down, %ratio, %new : f32, f32, f32
      }
      gpu.map %s : !gpu.fragment<[128, 128], f32> origin []
          ins(%base : !gpu.fragment<[128], f32> affine_map<(i, j) -> (i)>)
              outs(%s : !gpu.fragment<[128, 128], f32> affine_map<(i, j) -> (i, j)>) {
      ^bb0(%x: f32, %down: f32):
        %y = math.fma %x, %scale, %down : f32
        %e = math.exp2 %y fastmath<afn> : f32
        gpu.yield %e : f32
      }
      gpu.reduce sum %s by affine_map<(i, j) -> (i)> into %part
          : !gpu.fragment<[128, 128], f32>, !gpu.fragment<[128], f32>
      gpu.map %l : !gpu.fragment<[128], f32> origin []
          ins(%part : !gpu.fragment<[128], f32> affine_map<(i) -> (i)>,
              %alpha : !gpu.fragment<[128], f32> affine_map<(i) -> (i)>)
          outs(%l : !gpu.fragment<[128], f32> affine_map<(i) -> (i)>) {
      ^bb0(%sum: f32, %new: f32, %ratio: f32):
        %y = math.fma %sum, %ratio, %new : f32
        gpu.yield %y : f32
      }
      gpu.map %s : !gpu.fragment<[128, 128], f32> origin [] ins()
          outs(%p : !gpu.fragment<[128, 128], f16> affine_map<(i, j) -> (i, j)>) {
      ^bb0(%x: f32):
        %y = arith.truncf %x : f32 to f16
        gpu.yield %y : f16
      }
      gpu.map %o : !gpu.fragment<[128, 64], f32> origin []
          ins(%alpha : !gpu.fragment<[128], f32> affine_map<(i, j) -> (i)>)
              outs(%o : !gpu.fragment<[128, 64], f32> affine_map<(i, j) -> (i, j)>) {
      ^bb0(%x: f32, %ratio: f32):
        %y = arith.mulf %x, %ratio : f32
        gpu.yield %y : f32
      }
      gpu.contract %p affine_map<(m, n, k) -> (m, k)>, %v affine_map<(m, n, k) -> (k, n)>
          into %o mma "mma.sync" warp_tile <32, 64>
              : !gpu.fragment<[128, 128], f16>, !gpu.shared<[128, 64], f16>, !gpu.fragment<[128, 64], f32>
    }
    gpu.map %l : !gpu.fragment<[128], f32> origin [] ins()
        outs(%alpha : !gpu.fragment<[128], f32> affine_map<(i) -> (i)>) {
    ^bb0(%sum: f32):
      %positive = arith.cmpf ogt, %sum, %zero : f32
      %inverse = arith.divf %one, %sum : f32
      %y = arith.select %positive, %inverse, %zero : f32
      gpu.yield %y : f32
    }
    gpu.map %o : !gpu.fragment<[128, 64], f32> origin [%bh, %q0]
        ins(%alpha : !gpu.fragment<[128], f32> affine_map<(i, j)[b, q] -> (i)>)
        outs(%O : !gpu.global<[BH, SQ, 64], f16> affine_map<(i, j)[b, q] -> (b, i + q, j)>) {
    ^bb0(%x: f32, %inverse: f32):
      %y = arith.mulf %x, %inverse : f32
      %z = arith.truncf %y : f32 to f16
      gpu.yield %z : f16
    }
    gpu.return
  }
  gpu.dispatch (Q: !gpu.global<[BH, SQ, 64], f16>, K: !gpu.global<[BH, SK, 64], f16>,
                V: !gpu.global<[BH, SK, 64], f16>)
      -> (O: !gpu.global<[BH, SQ, 64], f16>) {
    gpu.launch @attention_sm80_d64_causal_cp_async when (BH >= 1, SQ >= 1, SK >= 1) align [16, 16, 16, 16]
        grid [BH, (SQ + 127) floordiv 128]
  }
}
