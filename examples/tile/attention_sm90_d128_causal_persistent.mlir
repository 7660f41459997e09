// O = softmax(Q · Kᵀ / sqrt(128)) · V on SM90, causal, by a persistent kernel: query i sees the keys
// up to i + SK - SQ, so that the last query sees all.  A query that sees none gives zeros.
//
// A CTA takes tiles of 128 queries one after another, those with most keys first, and loads the
// keys of the next one while it ends the last.  Tiles take different numbers of steps, and some none:
// gpu-warp-specialize lets each role's loop over the tiles carry how many steps there were, by which
// its rings count on.  A tile's work is that of attention_sm90_d128_causal.mlir.
//
//   polyc run examples/tile/attention_sm90_d128_causal_persistent.mlir --set BH=2 --set SQ=200 --set SK=300

gpu.module @attention_sm90_d128_causal_persistent arch "sm_90a" symbols [BH, SQ, SK] {
  gpu.kernel @attention_sm90_d128_causal_persistent_tma(
      %Q: !gpu.global<[BH, SQ, 128], f16> = tensor 0,
      %K: !gpu.global<[BH, SK, 128], f16> = tensor 1,
      %V: !gpu.global<[BH, SK, 128], f16> = tensor 2,
      %O: !gpu.global<[BH, SQ, 128], f16> = tensor 3,
      %BH: index = symbol BH, %SQ: index = symbol SQ, %SK: index = symbol SK)
      threads 384 registers [40, 232] {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %none = arith.constant 0xFF800000 : f32
    %one = arith.constant 1.0 : f32
    %scale = arith.constant 0.12751743082459868 : f32
    %less = arith.constant -0.12751743082459868 : f32
    %width = arith.constant 128 : index
    %q = gpu.shared_tile : !gpu.shared<[128, 128], f16>
    %k = gpu.shared_tile : !gpu.shared<[128, 128], f16>
    %v = gpu.shared_tile : !gpu.shared<[128, 128], f16>
    %s = gpu.fragment : !gpu.fragment<[128, 128], f32>
    %p = gpu.fragment : !gpu.fragment<[128, 128], f16>
    %o = gpu.fragment : !gpu.fragment<[128, 128], f32>
    %m = gpu.fragment : !gpu.fragment<[128], f32>
    %was = gpu.fragment : !gpu.fragment<[128], f32>
    %base = gpu.fragment : !gpu.fragment<[128], f32>
    %alpha = gpu.fragment : !gpu.fragment<[128], f32>
    %part = gpu.fragment : !gpu.fragment<[128], f32>
    %l = gpu.fragment : !gpu.fragment<[128], f32>
    %c4 = arith.constant 4 : index
    %groups = affine.apply affine_map<()[b] -> ((b + 3) floordiv 4)> ()[%BH]
    // Heads go by groups of 4, in a group tiles from the last queries to the first, heads fastest.
    gpu.tile_loop (%group, %q0, %head, %n) = [%groups, %SQ, %c4] tile <1, 128, 1> raster "row" 1
        reversed {
      %bh = affine.apply affine_map<(g, h) -> (g * 4 + h)> (%group, %head)
      // The keys that the tile's last query sees; none where a group has more heads than are left.
      %seen = affine.apply affine_map<(q)[sq, sk] -> (q + 128 + sk - sq)> (%q0)[%SQ, %SK]
      %some = arith.minsi %seen, %SK : index
      %there = arith.cmpi slt, %bh, %BH : index
      %keys = arith.select %there, %some, %c0 : index
      %any = arith.cmpi sgt, %keys, %c0 : index
      gpu.fill %zero, %o : !gpu.fragment<[128, 128], f32>
      gpu.fill %zero, %l : !gpu.fragment<[128], f32>
      gpu.fill %none, %m : !gpu.fragment<[128], f32>
      gpu.fill %none, %was : !gpu.fragment<[128], f32>
      scf.if %any {
        gpu.copy %Q[%bh, %q0, %c0] to %q loader "tma"
            : !gpu.global<[BH, SQ, 128], f16>, !gpu.shared<[128, 128], f16>
        // From the last keys to the first: what the mask or the end of the keys cuts comes first.
        %steps = affine.apply affine_map<(n) -> ((n + 127) floordiv 128)> (%keys)
        gpu.pipeline %position, %i = to %keys step 128 stages 2 {
          %k0 = affine.apply affine_map<(i)[n] -> ((n - i - 1) * 128)> (%i)[%steps]
          gpu.copy %K[%bh, %k0, %c0] to %k loader "tma"
              : !gpu.global<[BH, SK, 128], f16>, !gpu.shared<[128, 128], f16>
          gpu.copy %V[%bh, %k0, %c0] to %v loader "tma"
              : !gpu.global<[BH, SK, 128], f16>, !gpu.shared<[128, 128], f16>
          gpu.contract %q affine_map<(m, n, k) -> (m, k)>, %k affine_map<(m, n, k) -> (n, k)>
              into %s clear mma "wgmma" warp_tile <64, 128>
              : !gpu.shared<[128, 128], f16>, !gpu.shared<[128, 128], f16>,
                !gpu.fragment<[128, 128], f32>
          // Keys that some query of the tile does not see, or that are none.
          %left = arith.subi %SK, %k0 : index
          %short = arith.cmpi slt, %left, %width : index
          %slack = affine.apply
              affine_map<(q, k)[sq, sk] -> (q + sk - sq - k - 127)> (%q0, %k0)[%SQ, %SK]
          %hidden = arith.cmpi slt, %slack, %c0 : index
          %cut = arith.ori %short, %hidden : i1
          scf.if %cut {
            gpu.map %s : !gpu.fragment<[128, 128], f32> origin [] ins()
                outs(%s : !gpu.fragment<[128, 128], f32> affine_map<(i, j) -> (i, j)>) {
            ^bb0(%x: f32):
              %column = gpu.tile_index 1
              %exists = arith.cmpi slt, %column, %left : index
              %row = gpu.tile_index 0
              %reach = affine.apply
                  affine_map<(r, c)[q, k, sq, sk] -> (r + q + sk - sq - c - k)>
                  (%row, %column)[%q0, %k0, %SQ, %SK]
              %sees = arith.cmpi sge, %reach, %c0 : index
              %visible = arith.andi %exists, %sees : i1
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
            %shift = arith.select %dark, %zero, %low : f32
            %difference = math.fma %old, %scale, %shift : f32
            %ratio = math.exp2 %difference fastmath<afn> : f32
            gpu.yield %shift, %ratio, %new : f32, f32, f32
          }
          gpu.map %s : !gpu.fragment<[128, 128], f32> origin []
              ins(%base : !gpu.fragment<[128], f32> affine_map<(i, j) -> (i)>)
              outs(%s : !gpu.fragment<[128, 128], f32> affine_map<(i, j) -> (i, j)>) {
          ^bb0(%x: f32, %shift: f32):
            %y = math.fma %x, %scale, %shift : f32
            %weight = math.exp2 %y fastmath<afn> : f32
            gpu.yield %weight : f32
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
          // The first step has nothing to scale.
          %later = arith.cmpi sgt, %i, %c0 : index
          scf.if %later {
            gpu.map %o : !gpu.fragment<[128, 128], f32> origin []
                ins(%alpha : !gpu.fragment<[128], f32> affine_map<(i, j) -> (i)>)
                outs(%o : !gpu.fragment<[128, 128], f32> affine_map<(i, j) -> (i, j)>) {
            ^bb0(%x: f32, %ratio: f32):
              %y = arith.mulf %x, %ratio : f32
              gpu.yield %y : f32
            }
          }
          gpu.map %s : !gpu.fragment<[128, 128], f32> origin [] ins()
              outs(%p : !gpu.fragment<[128, 128], f16> affine_map<(i, j) -> (i, j)>) {
          ^bb0(%x: f32):
            %y = arith.truncf %x : f32 to f16
            gpu.yield %y : f16
          }
          gpu.contract %p affine_map<(m, n, k) -> (m, k)>, %v affine_map<(m, n, k) -> (k, n)>
              into %o mma "wgmma" warp_tile <64, 128>
              : !gpu.fragment<[128, 128], f16>, !gpu.shared<[128, 128], f16>,
                !gpu.fragment<[128, 128], f32>
        }
      }
      gpu.map %l : !gpu.fragment<[128], f32> origin [] ins()
          outs(%alpha : !gpu.fragment<[128], f32> affine_map<(i) -> (i)>) {
      ^bb0(%sum: f32):
        %positive = arith.cmpf ogt, %sum, %zero : f32
        %inverse = arith.divf %one, %sum : f32
        %y = arith.select %positive, %inverse, %zero : f32
        gpu.yield %y : f32
      }
      gpu.map %o : !gpu.fragment<[128, 128], f32> origin [%bh, %q0]
          ins(%alpha : !gpu.fragment<[128], f32> affine_map<(i, j)[b, q] -> (i)>)
          outs(%O : !gpu.global<[BH, SQ, 128], f16> affine_map<(i, j)[b, q] -> (b, i + q, j)>) {
      ^bb0(%x: f32, %inverse: f32):
        %y = arith.mulf %x, %inverse : f32
        %z = arith.truncf %y : f32 to f16
        gpu.yield %z : f16
      }
    }
    gpu.return
  }
  gpu.dispatch (Q: !gpu.global<[BH, SQ, 128], f16>, K: !gpu.global<[BH, SK, 128], f16>,
      V: !gpu.global<[BH, SK, 128], f16>) -> (O: !gpu.global<[BH, SQ, 128], f16>) {
    gpu.launch @attention_sm90_d128_causal_persistent_tma when (BH >= 1, SQ >= 1, SK >= 1)
        align [16, 16, 16, 16] grid [(BH + 3) floordiv 4, (SQ + 127) floordiv 128, 4]
        persistent
  }
}
