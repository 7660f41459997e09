// O = softmax(Q · Kᵀ / sqrt(128)) · V on SM90.
//
// Persistent: a CTA takes tiles of 128 queries, a warpgroup of 64 each, and 128 keys a step.
//
// The scores of the next keys are computed while the values of the last ones are still being added
// up (one step of skew): S = Q · Kᵀ and O += P · V are under way together, and the softmax of S
// runs while the tensor cores work for this or, by turns, for another warpgroup.  P stays in
// registers.  Each step keeps the rows' maxima m and, a quarter of a row in a thread, their sums l;
// scores are scaled by log2(e) / sqrt(128) in the fma before exp2.
//
//   polyc run examples/tile/attention_sm90_d128.mlir --set BH=2 --set SQ=200 --set SK=300

gpu.module @attention_sm90_d128 arch "sm_90a" symbols [BH, SQ, SK] {
  gpu.kernel @attention_sm90_d128_tma(
      %Q: !gpu.global<[BH, SQ, 128], f16> = tensor 0,
      %K: !gpu.global<[BH, SK, 128], f16> = tensor 1,
      %V: !gpu.global<[BH, SK, 128], f16> = tensor 2,
      %O: !gpu.global<[BH, SQ, 128], f16> = tensor 3,
      %BH: index = symbol BH, %SQ: index = symbol SQ, %SK: index = symbol SK)
      threads 384 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %q = gpu.shared_tile : !gpu.shared<[64, 128], f16, ring 2>
    %k = gpu.shared_tile : !gpu.shared<[128, 128], f16, ring 2>
    %v = gpu.shared_tile : !gpu.shared<[128, 128], f16, ring 2>
    %rq = gpu.ring consumers 2 : !gpu.ring<1>
    %rk = gpu.ring consumers 2 : !gpu.ring<2>
    %rv = gpu.ring consumers 2 : !gpu.ring<2>
    %turn = gpu.order_barrier : !gpu.order<2>
    %steps = affine.apply affine_map<()[sk] -> ((sk + 127) floordiv 128)> ()[%SK]
    gpu.roles consumers 2 independent registers [40, 232] single_thread producer {
      gpu.tile_loop (%bh, %q0, %n) = [%BH, %SQ] tile <1, 128> raster "row" 1 {
        gpu.ring_acquire %rq[%n] : !gpu.ring<1>
        gpu.copy %Q[%bh, %q0, %c0] to %q slot %c0 loader "tma" signal %rq : !gpu.ring<1> at %n
            : !gpu.global<[BH, SQ, 128], f16>, !gpu.shared<[64, 128], f16, ring 2>
        %q1 = affine.apply affine_map<(q) -> (q + 64)> (%q0)
        gpu.copy %Q[%bh, %q1, %c0] to %q slot %c1 loader "tma" signal %rq : !gpu.ring<1> at %n
            : !gpu.global<[BH, SQ, 128], f16>, !gpu.shared<[64, 128], f16, ring 2>
        %before = arith.muli %n, %steps : index
        scf.for %i = %c0 to %steps step %c1 {
          %it = arith.addi %before, %i : index
          %slot = affine.apply affine_map<(i) -> (i mod 2)> (%it)
          %k0 = affine.apply affine_map<(i)[n] -> ((n - i - 1) * 128)> (%i)[%steps]
          gpu.ring_acquire %rk[%it] : !gpu.ring<2>
          gpu.copy %K[%bh, %k0, %c0] to %k slot %slot loader "tma" signal %rk : !gpu.ring<2> at %it
              : !gpu.global<[BH, SK, 128], f16>, !gpu.shared<[128, 128], f16, ring 2>
          gpu.ring_acquire %rv[%it] : !gpu.ring<2>
          gpu.copy %V[%bh, %k0, %c0] to %v slot %slot loader "tma" signal %rv : !gpu.ring<2> at %it
              : !gpu.global<[BH, SK, 128], f16>, !gpu.shared<[128, 128], f16, ring 2>
        }
    }
    gpu.yield
  } consumer (%w) {
    %zero = arith.constant 0.0 : f32
    %none = arith.constant 0xFF800000 : f32
    %scale = arith.constant 0.12751743082459868 : f32
    %less = arith.constant -0.12751743082459868 : f32
    %one = arith.constant 1.0 : f32
    %s = gpu.fragment : !gpu.fragment<[64, 128], f32>
    %p = gpu.fragment : !gpu.fragment<[64, 128], f16>
    %o = gpu.fragment : !gpu.fragment<[64, 128], f32>
    %m = gpu.fragment : !gpu.fragment<[64], f32>
    %was = gpu.fragment : !gpu.fragment<[64], f32>
    %base = gpu.fragment : !gpu.fragment<[64], f32>
    %alpha = gpu.fragment : !gpu.fragment<[64], f32>
    %part = gpu.fragment : !gpu.fragment<[64, 4], f32>
    %l = gpu.fragment : !gpu.fragment<[64, 4], f32>
    gpu.tile_loop (%bh, %q0, %n) = [%BH, %SQ] tile <1, 128> raster "row" 1 {
      %row = affine.apply affine_map<(q, w) -> (q + w * 64)> (%q0, %w)
      gpu.fill %zero, %o : !gpu.fragment<[64, 128], f32>
      gpu.fill %zero, %l : !gpu.fragment<[64, 4], f32>
      gpu.fill %none, %m : !gpu.fragment<[64], f32>
      gpu.fill %none, %was : !gpu.fragment<[64], f32>
      %first = arith.muli %n, %steps : index
      %slot0 = affine.apply affine_map<(i) -> (i mod 2)> (%first)
      %k0 = affine.apply affine_map<()[n] -> ((n - 1) * 128)> ()[%steps]
      gpu.ring_wait %rq[%n] : !gpu.ring<1>
      gpu.ring_wait %rk[%first] : !gpu.ring<2>
      %t0 = gpu.contract %q slot %w affine_map<(m, n, k) -> (m, k)>,
          %k slot %slot0 affine_map<(m, n, k) -> (n, k)>
              into %s clear mma "wgmma" warp_tile <64, 128>
          : !gpu.shared<[64, 128], f16, ring 2>, !gpu.shared<[128, 128], f16, ring 2>,
            !gpu.fragment<[64, 128], f32> -> !gpu.token
      gpu.await %t0
      gpu.ring_release %rk[%first] : !gpu.ring<2>
      %left0 = arith.subi %SK, %k0 : index
      gpu.map %s : !gpu.fragment<[64, 128], f32> origin [] ins()
          outs(%s : !gpu.fragment<[64, 128], f32> affine_map<(i, j) -> (i, j)>) {
      ^bb0(%x: f32):
        %column = gpu.tile_index 1
        %visible = arith.cmpi slt, %column, %left0 : index
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
        %it = arith.addi %first, %i : index
        %before = affine.apply affine_map<(i) -> (i - 1)> (%it)
        %ks = affine.apply affine_map<(i) -> (i mod 2)> (%it)
        %vs = affine.apply affine_map<(i) -> (i mod 2)> (%before)
        gpu.ring_wait %rk[%it] : !gpu.ring<2>
        gpu.order_enter %turn[%w] : !gpu.order<2>
        %ts = gpu.contract %q slot %w affine_map<(m, n, k) -> (m, k)>,
            %k slot %ks affine_map<(m, n, k) -> (n, k)>
                into %s clear mma "wgmma" warp_tile <64, 128>
            : !gpu.shared<[64, 128], f16, ring 2>, !gpu.shared<[128, 128], f16, ring 2>,
              !gpu.fragment<[64, 128], f32> -> !gpu.token
        gpu.ring_wait %rv[%before] : !gpu.ring<2>
        %to = gpu.contract %p affine_map<(m, n, k) -> (m, k)>,
            %v slot %vs affine_map<(m, n, k) -> (k, n)> into %o mma "wgmma" warp_tile <64, 128>
            : !gpu.fragment<[64, 128], f16>, !gpu.shared<[128, 128], f16, ring 2>,
              !gpu.fragment<[64, 128], f32> -> !gpu.token
        gpu.order_leave %turn[%w] : !gpu.order<2>
        gpu.await %ts
        gpu.ring_release %rk[%it] : !gpu.ring<2>
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
        gpu.await %to
        gpu.ring_release %rv[%before] : !gpu.ring<2>
        gpu.map %o : !gpu.fragment<[64, 128], f32> origin []
            ins(%alpha : !gpu.fragment<[64], f32> affine_map<(i, j) -> (i)>)
            outs(%o : !gpu.fragment<[64, 128], f32> affine_map<(i, j) -> (i, j)>) {
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
      %end = affine.apply affine_map<(f)[n] -> (f + n - 1)> (%first)[%steps]
      %vs0 = affine.apply affine_map<(i) -> (i mod 2)> (%end)
      gpu.ring_release %rq[%n] : !gpu.ring<1>
      gpu.ring_wait %rv[%end] : !gpu.ring<2>
      %t1 = gpu.contract %p affine_map<(m, n, k) -> (m, k)>,
          %v slot %vs0 affine_map<(m, n, k) -> (k, n)> into %o mma "wgmma" warp_tile <64, 128>
          : !gpu.fragment<[64, 128], f16>, !gpu.shared<[128, 128], f16, ring 2>,
            !gpu.fragment<[64, 128], f32> -> !gpu.token
      gpu.await %t1
      gpu.ring_release %rv[%end] : !gpu.ring<2>
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
      gpu.map %o : !gpu.fragment<[64, 128], f32> origin [%bh, %row]
          ins(%alpha : !gpu.fragment<[64], f32> affine_map<(i, j)[b, r] -> (i)>)
          outs(%O : !gpu.global<[BH, SQ, 128], f16> affine_map<(i, j)[b, r] -> (b, i + r, j)>) {
      ^bb0(%x: f32, %inverse: f32):
        %y = arith.mulf %x, %inverse : f32
        %z = arith.truncf %y : f32 to f16
        gpu.yield %z : f16
      }
    }
    gpu.yield
  }
  gpu.return
}
gpu.dispatch (Q: !gpu.global<[BH, SQ, 128], f16>, K: !gpu.global<[BH, SK, 128], f16>, V:
    !gpu.global<[BH, SK, 128], f16>)
    -> (O: !gpu.global<[BH, SQ, 128], f16>) {
  gpu.launch @attention_sm90_d128_tma when (BH >= 1, SQ >= 1, SK >= 1) align [16, 16, 16, 16]
      grid [BH, (SQ + 127) floordiv 128] persistent
}
}
