// O = softmax(Q · Kᵀ / sqrt(64)) · V on SM90, causal: query i sees the keys up to i + SK - SQ, so
// that the last query sees all.  A query that sees none gives zeros.
//
// One tile of 192 queries a CTA, a warpgroup of 64 each, and 128 keys a step.  Tiles with most keys
// come first, 8 heads side by side, so that the hardware's own order balances the CTAs while the
// heads' keys and values stay in the L2 cache.
//
// The scores of the next keys are computed while the values of the last ones are still being added
// up (one step of skew): S = Q · Kᵀ and O += P · V are under way together, and the softmax of S
// runs while the tensor cores work for this or, by turns, for another warpgroup.  P stays in
// registers.  Each step keeps the rows' maxima m and, a quarter of a row in a thread, their sums l;
// scores are scaled by log2(e) / sqrt(64) in the fma before exp2.
//
//   polyc run examples/tile/attention_sm90_d64_causal.mlir --set BH=2 --set SQ=200 --set SK=300

gpu.module @attention_sm90_d64_causal arch "sm_90a" symbols [BH, SQ, SK] {
  gpu.kernel @attention_sm90_d64_causal_tma(
      %Q: !gpu.global<[BH, SQ, 64], f16> = tensor 0,
      %K: !gpu.global<[BH, SK, 64], f16> = tensor 1,
      %V: !gpu.global<[BH, SK, 64], f16> = tensor 2,
      %O: !gpu.global<[BH, SQ, 64], f16> = tensor 3,
      %BH: index = symbol BH, %SQ: index = symbol SQ, %SK: index = symbol SK)
      threads 512 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %q = gpu.shared_tile : !gpu.shared<[64, 64], f16, ring 3>
    %k = gpu.shared_tile : !gpu.shared<[128, 64], f16, ring 2>
    %v = gpu.shared_tile : !gpu.shared<[128, 64], f16, ring 2>
    %rq = gpu.ring consumers 3 : !gpu.ring<1>
    %rk = gpu.ring consumers 3 : !gpu.ring<2>
    %rv = gpu.ring consumers 3 : !gpu.ring<2>
    %turn = gpu.order_barrier : !gpu.order<3>
    // Heads go by groups of 8, in a group tiles from the last queries to the first, heads fastest.
    %tiles = affine.apply affine_map<()[sq] -> ((sq + 191) floordiv 192)> ()[%SQ]
    %of_group = affine.apply affine_map<(t) -> (t * 8)> (%tiles)
    %block = gpu.block_id
    %group = arith.divui %block, %of_group : index
    %rest = arith.remui %block, %of_group : index
    %bh = affine.apply affine_map<(g, r) -> (g * 8 + r mod 8)> (%group, %rest)
    %q0 = affine.apply affine_map<(r)[t] -> ((t - r floordiv 8 - 1) * 192)> (%rest)[%tiles]
    // The keys that the tile's last query sees; none where a group has more heads than are left.
    %seen = affine.apply affine_map<(q)[sq, sk] -> (q + 192 + sk - sq)> (%q0)[%SQ, %SK]
    %some = arith.minsi %seen, %SK : index
    %there = arith.cmpi slt, %bh, %BH : index
    %keys = arith.select %there, %some, %c0 : index
    %steps = affine.apply affine_map<(n) -> ((n + 127) floordiv 128)> (%keys)
    %any = arith.cmpi sgt, %steps, %c0 : index
    gpu.roles consumers 3 independent registers [32, 160] single_thread producer {
      scf.if %any {
        gpu.ring_acquire %rq[%c0] : !gpu.ring<1>
        gpu.copy %Q[%bh, %q0, %c0] to %q slot %c0 loader "tma" signal %rq : !gpu.ring<1> at %c0
            : !gpu.global<[BH, SQ, 64], f16>, !gpu.shared<[64, 64], f16, ring 3>
        %q1 = affine.apply affine_map<(q) -> (q + 64)> (%q0)
        gpu.copy %Q[%bh, %q1, %c0] to %q slot %c1 loader "tma" signal %rq : !gpu.ring<1> at %c0
            : !gpu.global<[BH, SQ, 64], f16>, !gpu.shared<[64, 64], f16, ring 3>
        %q2 = affine.apply affine_map<(q) -> (q + 128)> (%q0)
        %c2 = arith.constant 2 : index
        gpu.copy %Q[%bh, %q2, %c0] to %q slot %c2 loader "tma" signal %rq : !gpu.ring<1> at %c0
            : !gpu.global<[BH, SQ, 64], f16>, !gpu.shared<[64, 64], f16, ring 3>
        scf.for %i = %c0 to %steps step %c1 {
          %slot = affine.apply affine_map<(i) -> (i mod 2)> (%i)
          %k0 = affine.apply affine_map<(i)[n] -> ((n - i - 1) * 128)> (%i)[%steps]
          gpu.ring_acquire %rk[%i] : !gpu.ring<2>
          gpu.copy %K[%bh, %k0, %c0] to %k slot %slot loader "tma" signal %rk : !gpu.ring<2> at %i
              : !gpu.global<[BH, SK, 64], f16>, !gpu.shared<[128, 64], f16, ring 2>
          gpu.ring_acquire %rv[%i] : !gpu.ring<2>
          gpu.copy %V[%bh, %k0, %c0] to %v slot %slot loader "tma" signal %rv : !gpu.ring<2> at %i
              : !gpu.global<[BH, SK, 64], f16>, !gpu.shared<[128, 64], f16, ring 2>
        }
      }
      gpu.yield
    } consumer (%w) {
      %zero = arith.constant 0.0 : f32
      %none = arith.constant 0xFF800000 : f32
      %scale = arith.constant 0.18033688011112042 : f32
      %less = arith.constant -0.18033688011112042 : f32
      %one = arith.constant 1.0 : f32
      %s = gpu.fragment : !gpu.fragment<[64, 128], f32>
      %p = gpu.fragment : !gpu.fragment<[64, 128], f16>
      %o = gpu.fragment : !gpu.fragment<[64, 64], f32>
      %m = gpu.fragment : !gpu.fragment<[64], f32>
      %was = gpu.fragment : !gpu.fragment<[64], f32>
      %base = gpu.fragment : !gpu.fragment<[64], f32>
      %alpha = gpu.fragment : !gpu.fragment<[64], f32>
      %part = gpu.fragment : !gpu.fragment<[64, 4], f32>
      %l = gpu.fragment : !gpu.fragment<[64, 4], f32>
      %limit = gpu.fragment : !gpu.fragment<[64], index>
      %row = affine.apply affine_map<(q, w) -> (q + w * 64)> (%q0, %w)
      gpu.fill %zero, %o : !gpu.fragment<[64, 64], f32>
      gpu.fill %zero, %l : !gpu.fragment<[64, 4], f32>
      gpu.fill %none, %m : !gpu.fragment<[64], f32>
      gpu.fill %none, %was : !gpu.fragment<[64], f32>
      // The first key that a query does not see.
      %reach = affine.apply affine_map<(r)[sq, sk] -> (r + sk - sq + 1)> (%row)[%SQ, %SK]
      gpu.map %m : !gpu.fragment<[64], f32> origin [] ins()
          outs(%limit : !gpu.fragment<[64], index> affine_map<(i) -> (i)>) {
      ^bb0(%x: f32):
        %query = gpu.tile_index 0
        %reached = arith.addi %query, %reach : index
        %last = arith.minsi %reached, %SK : index
        gpu.yield %last : index
      }
      scf.if %any {
        %slot0 = affine.apply affine_map<(i) -> (i mod 2)> (%c0)
        %k0 = affine.apply affine_map<()[n] -> ((n - 1) * 128)> ()[%steps]
        gpu.ring_wait %rq[%c0] : !gpu.ring<1>
        gpu.ring_wait %rk[%c0] : !gpu.ring<2>
        %t0 = gpu.contract %q slot %w affine_map<(m, n, k) -> (m, k)>,
            %k slot %slot0 affine_map<(m, n, k) -> (n, k)>
                into %s clear mma "wgmma" warp_tile <64, 128>
            : !gpu.shared<[64, 64], f16, ring 3>, !gpu.shared<[128, 64], f16, ring 2>,
              !gpu.fragment<[64, 128], f32> -> !gpu.token
        gpu.await %t0
        gpu.ring_release %rk[%c0] : !gpu.ring<2>
        gpu.map %s : !gpu.fragment<[64, 128], f32> origin []
            ins(%limit : !gpu.fragment<[64], index> affine_map<(i, j) -> (i)>)
            outs(%s : !gpu.fragment<[64, 128], f32> affine_map<(i, j) -> (i, j)>) {
        ^bb0(%x: f32, %last: index):
          %column = gpu.tile_index 1
          %end0 = arith.subi %last, %k0 : index
          %over0 = arith.subi %column, %end0 : index
          %visible = arith.cmpi slt, %over0, %c0 : index
          %y = arith.select %visible, %x, %none : f32
          gpu.yield %y : f32
        }
        gpu.reduce max %s by affine_map<(i, j) -> (i)> into %m accumulate
            : !gpu.fragment<[64, 128], f32>, !gpu.fragment<[64], f32>
        gpu.map %m : !gpu.fragment<[64], f32> origin []
            ins(%was : !gpu.fragment<[64], f32> affine_map<(i) -> (i)>)
            outs(%base : !gpu.fragment<[64], f32> affine_map<(i) -> (i)>,
                 %alpha : !gpu.fragment<[64], f32> affine_map<(i) -> (i)>,
                 %was : !gpu.fragment<[64], f32> affine_map<(i) -> (i)>) {
        ^bb0(%new: f32, %old: f32):
          // Where nothing was visible yet, the maximum is -inf, and scores less that would be NaN.
          %dark = arith.cmpf oeq, %new, %none : f32
          %low = arith.mulf %new, %less : f32
          %shift = arith.select %dark, %zero, %low : f32
          %d = math.fma %old, %scale, %shift : f32
          %ratio = math.exp2 %d fastmath<afn> : f32
          gpu.yield %shift, %ratio, %new : f32, f32, f32
        }
        gpu.map %s : !gpu.fragment<[64, 128], f32> origin []
            ins(%base : !gpu.fragment<[64], f32> affine_map<(i, j) -> (i)>)
            outs(%s : !gpu.fragment<[64, 128], f32> affine_map<(i, j) -> (i, j)>) {
        ^bb0(%x: f32, %shift: f32):
          %y = math.fma %x, %scale, %shift : f32
          %e = math.exp2 %y fastmath<afn> : f32
          gpu.yield %e : f32
        }
        gpu.reduce sum %s by affine_map<(i, j) -> (i, j floordiv 2 mod 4)> into %part
            : !gpu.fragment<[64, 128], f32>, !gpu.fragment<[64, 4], f32>
        gpu.map %l : !gpu.fragment<[64, 4], f32> origin []
            ins(%part : !gpu.fragment<[64, 4], f32> affine_map<(i, j) -> (i, j)>,
                %alpha : !gpu.fragment<[64], f32> affine_map<(i, j) -> (i)>)
            outs(%l : !gpu.fragment<[64, 4], f32> affine_map<(i, j) -> (i, j)>) {
        ^bb0(%sum: f32, %new: f32, %ratio: f32):
          %y = math.fma %sum, %ratio, %new : f32
          gpu.yield %y : f32
        }
        gpu.map %s : !gpu.fragment<[64, 128], f32> origin [] ins()
            outs(%p : !gpu.fragment<[64, 128], f16> affine_map<(i, j) -> (i, j)>) {
        ^bb0(%x: f32):
          %y = arith.truncf %x : f32 to f16
          gpu.yield %y : f16
        }
        scf.for %i = %c1 to %steps step %c1 {
          %before = affine.apply affine_map<(i) -> (i - 1)> (%i)
          %ks = affine.apply affine_map<(i) -> (i mod 2)> (%i)
          %vs = affine.apply affine_map<(i) -> (i mod 2)> (%before)
          gpu.ring_wait %rk[%i] : !gpu.ring<2>
          gpu.order_enter %turn[%w] : !gpu.order<3>
          %ts = gpu.contract %q slot %w affine_map<(m, n, k) -> (m, k)>,
              %k slot %ks affine_map<(m, n, k) -> (n, k)>
                  into %s clear mma "wgmma" warp_tile <64, 128>
              : !gpu.shared<[64, 64], f16, ring 3>, !gpu.shared<[128, 64], f16, ring 2>,
                !gpu.fragment<[64, 128], f32> -> !gpu.token
          gpu.ring_wait %rv[%before] : !gpu.ring<2>
          %to = gpu.contract %p affine_map<(m, n, k) -> (m, k)>,
              %v slot %vs affine_map<(m, n, k) -> (k, n)> into %o mma "wgmma" warp_tile <64, 64>
              : !gpu.fragment<[64, 128], f16>, !gpu.shared<[128, 64], f16, ring 2>,
                !gpu.fragment<[64, 64], f32> -> !gpu.token
          gpu.order_leave %turn[%w] : !gpu.order<3>
          gpu.await %ts
          gpu.ring_release %rk[%i] : !gpu.ring<2>
          %at = affine.apply affine_map<(i)[n] -> ((n - i - 1) * 128)> (%i)[%steps]
          // Some query of the CTA does not see all of these keys: so it is in the first steps, and
          // gpu-split-steps makes a loop of those.
          %slack = affine.apply affine_map<(q, k)[sq, sk] -> (q + sk - sq - k - 127)>
              (%q0, %at)[%SQ, %SK]
          %cut = arith.cmpi slt, %slack, %c0 : index
          scf.if %cut {
            gpu.map %s : !gpu.fragment<[64, 128], f32> origin []
                ins(%limit : !gpu.fragment<[64], index> affine_map<(i, j) -> (i)>)
                outs(%s : !gpu.fragment<[64, 128], f32> affine_map<(i, j) -> (i, j)>) {
            ^bb0(%x: f32, %last: index):
              %column = gpu.tile_index 1
              %end = arith.subi %last, %at : index
              %over = arith.subi %column, %end : index
              %visible = arith.cmpi slt, %over, %c0 : index
              %y = arith.select %visible, %x, %none : f32
              gpu.yield %y : f32
            }
          }
          gpu.reduce max %s by affine_map<(i, j) -> (i)> into %m accumulate
              : !gpu.fragment<[64, 128], f32>, !gpu.fragment<[64], f32>
          gpu.map %m : !gpu.fragment<[64], f32> origin []
              ins(%was : !gpu.fragment<[64], f32> affine_map<(i) -> (i)>)
              outs(%base : !gpu.fragment<[64], f32> affine_map<(i) -> (i)>,
                   %alpha : !gpu.fragment<[64], f32> affine_map<(i) -> (i)>,
                   %was : !gpu.fragment<[64], f32> affine_map<(i) -> (i)>) {
          ^bb0(%new: f32, %old: f32):
            // Where nothing was visible yet, the maximum is -inf, and scores less that would be
            // NaN.
            %dark = arith.cmpf oeq, %new, %none : f32
            %low = arith.mulf %new, %less : f32
            %shift = arith.select %dark, %zero, %low : f32
            %d = math.fma %old, %scale, %shift : f32
            %ratio = math.exp2 %d fastmath<afn> : f32
            gpu.yield %shift, %ratio, %new : f32, f32, f32
          }
          gpu.map %s : !gpu.fragment<[64, 128], f32> origin []
              ins(%base : !gpu.fragment<[64], f32> affine_map<(i, j) -> (i)>)
              outs(%s : !gpu.fragment<[64, 128], f32> affine_map<(i, j) -> (i, j)>) {
          ^bb0(%x: f32, %shift: f32):
            %y = math.fma %x, %scale, %shift : f32
            %e = math.exp2 %y fastmath<afn> : f32
            gpu.yield %e : f32
          }
          gpu.reduce sum %s by affine_map<(i, j) -> (i, j floordiv 2 mod 4)> into %part
              : !gpu.fragment<[64, 128], f32>, !gpu.fragment<[64, 4], f32>
          gpu.map %l : !gpu.fragment<[64, 4], f32> origin []
              ins(%part : !gpu.fragment<[64, 4], f32> affine_map<(i, j) -> (i, j)>,
                  %alpha : !gpu.fragment<[64], f32> affine_map<(i, j) -> (i)>)
              outs(%l : !gpu.fragment<[64, 4], f32> affine_map<(i, j) -> (i, j)>) {
          ^bb0(%sum: f32, %new: f32, %ratio: f32):
            %y = math.fma %sum, %ratio, %new : f32
            gpu.yield %y : f32
          }
          gpu.await %to
          gpu.ring_release %rv[%before] : !gpu.ring<2>
          gpu.map %o : !gpu.fragment<[64, 64], f32> origin []
              ins(%alpha : !gpu.fragment<[64], f32> affine_map<(i, j) -> (i)>)
              outs(%o : !gpu.fragment<[64, 64], f32> affine_map<(i, j) -> (i, j)>) {
          ^bb0(%x: f32, %ratio: f32):
            %y = arith.mulf %x, %ratio : f32
            gpu.yield %y : f32
          }
          gpu.map %s : !gpu.fragment<[64, 128], f32> origin [] ins()
              outs(%p : !gpu.fragment<[64, 128], f16> affine_map<(i, j) -> (i, j)>) {
          ^bb0(%x: f32):
            %y = arith.truncf %x : f32 to f16
            gpu.yield %y : f16
          }
        }
        %end = affine.apply affine_map<()[n] -> (n - 1)> ()[%steps]
        %vs0 = affine.apply affine_map<(i) -> (i mod 2)> (%end)
        gpu.ring_release %rq[%c0] : !gpu.ring<1>
        gpu.ring_wait %rv[%end] : !gpu.ring<2>
        %t1 = gpu.contract %p affine_map<(m, n, k) -> (m, k)>,
            %v slot %vs0 affine_map<(m, n, k) -> (k, n)> into %o mma "wgmma" warp_tile <64, 64>
            : !gpu.fragment<[64, 128], f16>, !gpu.shared<[128, 64], f16, ring 2>,
              !gpu.fragment<[64, 64], f32> -> !gpu.token
        gpu.await %t1
        gpu.ring_release %rv[%end] : !gpu.ring<2>
      }
      gpu.reduce sum %l by affine_map<(i, j) -> (i)> into %was
          : !gpu.fragment<[64, 4], f32>, !gpu.fragment<[64], f32>
      gpu.map %was : !gpu.fragment<[64], f32> origin [] ins()
          outs(%alpha : !gpu.fragment<[64], f32> affine_map<(i) -> (i)>) {
      ^bb0(%sum: f32):
        %positive = arith.cmpf ogt, %sum, %zero : f32
        %inverse = arith.divf %one, %sum : f32
        %y = arith.select %positive, %inverse, %zero : f32
        gpu.yield %y : f32
      }
      gpu.map %o : !gpu.fragment<[64, 64], f32> origin [%bh, %row]
          ins(%alpha : !gpu.fragment<[64], f32> affine_map<(i, j)[b, r] -> (i)>)
          outs(%O : !gpu.global<[BH, SQ, 64], f16> affine_map<(i, j)[b, r] -> (b, i + r, j)>) {
      ^bb0(%x: f32, %inverse: f32):
        %y = arith.mulf %x, %inverse : f32
        %z = arith.truncf %y : f32 to f16
        gpu.yield %z : f16
      }
      gpu.yield
    }
    gpu.return
  }
  gpu.dispatch (Q: !gpu.global<[BH, SQ, 64], f16>, K: !gpu.global<[BH, SK, 64], f16>, V:
      !gpu.global<[BH, SK, 64], f16>)
      -> (O: !gpu.global<[BH, SQ, 64], f16>) {
    gpu.launch @attention_sm90_d64_causal_tma when (BH >= 1, SQ >= 1, SK >= 1) align [16, 16, 16,
        16]
        grid [(BH + 7) floordiv 8, (SQ + 191) floordiv 192, 8]
  }
}
