// Y = (X - mean(X)) / sqrt(var(X) + 1e-5) · W + B, by rows; the variance is that of the differences,
// so that a large mean costs no accuracy.  Each element is read once from global memory, whatever
// holds the row until it is written: a warp, a block, a block's shared memory, that of many CTAs of
// the grid or of a cluster.  The last variant takes rows of any length and alignment, and reads them
// three times.
//
//   polyc simulate examples/tile/layer_norm.mlir --set M=3 --set N=520

!matrix = !gpu.global<[M, N], f16>
!vector = !gpu.global<[N], f16>
!told = !gpu.global<[M, (N + 8191) floordiv 8192], f32>
!counters = !gpu.global<[M], i32>
!half1024 = !gpu.fragment<[1024], f16>
!half2048 = !gpu.fragment<[2048], f16>
!half8192 = !gpu.fragment<[8192], f16>
!half1x1024 = !gpu.fragment<[1, 1024], f16>
!half1x2048 = !gpu.fragment<[1, 2048], f16>
!half1x4096 = !gpu.fragment<[1, 4096], f16>
!half1x8192 = !gpu.fragment<[1, 8192], f16>
!half4x1024 = !gpu.fragment<[4, 1024], f16>
!wide1 = !gpu.fragment<[1], f32>
!wide4 = !gpu.fragment<[4], f32>
!wide256 = !gpu.fragment<[256], f32>
!wide1024 = !gpu.fragment<[1024], f32>
!wide1x1024 = !gpu.fragment<[1, 1024], f32>
!wide1x2048 = !gpu.fragment<[1, 2048], f32>
!wide1x4096 = !gpu.fragment<[1, 4096], f32>
!wide1x8192 = !gpu.fragment<[1, 8192], f32>
!wide4x1024 = !gpu.fragment<[4, 1024], f32>
!ring10x8192 = !gpu.shared<[1, 8192], f16, ring 10>
!ring16x2048 = !gpu.shared<[1, 2048], f16, ring 16>

gpu.module @layer_norm arch "sm_90a" symbols [M, N] {
  // A row a warp: nothing is exchanged but by shuffles.
  gpu.kernel @layer_norm_warp(
      %X: !matrix = tensor 0, %W: !vector = tensor 1, %B: !vector = tensor 2,
      %Y: !matrix = tensor 3, %M: index = symbol M, %N: index = symbol N)
      threads 128 blocks_per_sm 5 {
    %block = gpu.block_id
    %row = affine.apply affine_map<(d0) -> (d0 * 4)> (%block)
    %zero = arith.constant 0 : index
    %unit = arith.constant 1.0 : f32
    %epsilon = arith.constant 1.0e-05 : f32
    %nothing = arith.constant 0.0 : f32
    %whole = arith.index_cast %N : index to i32
    %length = arith.sitofp %whole : i32 to f32
    %half = gpu.fragment : !half4x1024
    %wide = gpu.fragment : !wide4x1024
    %mean = gpu.fragment : !wide4
    %sum = gpu.fragment : !wide4
    gpu.copy %X[%row, %zero] to %half : !matrix, !half4x1024
    %squares = gpu.fragment : !wide4x1024
    gpu.map %half : !half4x1024 origin []
        ins()
        outs(%wide : !wide4x1024 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f16):
      %f = arith.extf %e : f16 to f32
      gpu.yield %f : f32
    }
    gpu.reduce sum %wide by affine_map<(i, j) -> (i)> into %mean : !wide4x1024, !wide4
    gpu.map %mean : !wide4 origin []
        ins()
        outs(%mean : !wide4 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %m = arith.divf %e, %length : f32
      gpu.yield %m : f32
    }
    gpu.map %wide : !wide4x1024 origin []
        ins(%mean : !wide4 affine_map<(i, j) -> (i)>)
        outs(%wide : !wide4x1024 affine_map<(i, j) -> (i, j)>,
             %squares : !wide4x1024 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32, %m: f32):
      %d = arith.subf %e, %m : f32
      %at = gpu.tile_index 1
      %of = affine.apply affine_map<(d0) -> (d0 floordiv 8 * 8)> (%at)
      %inside = arith.cmpi slt, %of, %N : index
      %c = arith.select %inside, %d, %nothing : f32
      %p = arith.mulf %c, %c : f32
      gpu.yield %d, %p : f32, f32
    }
    gpu.reduce sum %squares by affine_map<(i, j) -> (i)> into %sum : !wide4x1024, !wide4
    gpu.map %sum : !wide4 origin []
        ins()
        outs(%sum : !wide4 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %v = arith.divf %e, %length : f32
      %a = arith.addf %v, %epsilon : f32
      %r = math.rsqrt %a : f32
      gpu.yield %r : f32
    }
    gpu.map %wide : !wide4x1024 origin [%row]
        ins(%sum : !wide4 affine_map<(i, j)[row] -> (i)>,
            %W : !vector affine_map<(i, j)[row] -> (j)>,
            %B : !vector affine_map<(i, j)[row] -> (j)>)
        outs(%Y : !matrix affine_map<(i, j)[row] -> (i + row, j)>) {
    ^bb0(%e: f32, %r: f32, %g: f16, %o: f16):
      %n = arith.mulf %e, %r : f32
      %k = arith.extf %g : f16 to f32
      %p = arith.mulf %n, %k : f32
      %z = arith.extf %o : f16 to f32
      %a = arith.addf %p, %z : f32
      %y = arith.truncf %a : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }

  // A row a block, 16 elements a thread.
  gpu.kernel @layer_norm_block(
      %X: !matrix = tensor 0, %W: !vector = tensor 1, %B: !vector = tensor 2,
      %Y: !matrix = tensor 3, %M: index = symbol M, %N: index = symbol N)
      threads 256 blocks_per_sm 5 {
    %block = gpu.block_id
    %zero = arith.constant 0 : index
    %unit = arith.constant 1.0 : f32
    %epsilon = arith.constant 1.0e-05 : f32
    %nothing = arith.constant 0.0 : f32
    %whole = arith.index_cast %N : index to i32
    %length = arith.sitofp %whole : i32 to f32
    %half = gpu.fragment : !half1x4096
    %wide = gpu.fragment : !wide1x4096
    %mean = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    gpu.copy %X[%block, %zero] to %half : !matrix, !half1x4096
    %squares = gpu.fragment : !wide1x4096
    gpu.map %half : !half1x4096 origin []
        ins()
        outs(%wide : !wide1x4096 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f16):
      %f = arith.extf %e : f16 to f32
      gpu.yield %f : f32
    }
    gpu.reduce sum %wide by affine_map<(i, j) -> (i)> into %mean : !wide1x4096, !wide1
    gpu.map %mean : !wide1 origin []
        ins()
        outs(%mean : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %m = arith.divf %e, %length : f32
      gpu.yield %m : f32
    }
    gpu.map %wide : !wide1x4096 origin []
        ins(%mean : !wide1 affine_map<(i, j) -> (i)>)
        outs(%wide : !wide1x4096 affine_map<(i, j) -> (i, j)>,
             %squares : !wide1x4096 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32, %m: f32):
      %d = arith.subf %e, %m : f32
      %at = gpu.tile_index 1
      %of = affine.apply affine_map<(d0) -> (d0 floordiv 8 * 8)> (%at)
      %inside = arith.cmpi slt, %of, %N : index
      %c = arith.select %inside, %d, %nothing : f32
      %p = arith.mulf %c, %c : f32
      gpu.yield %d, %p : f32, f32
    }
    gpu.reduce sum %squares by affine_map<(i, j) -> (i)> into %sum : !wide1x4096, !wide1
    gpu.map %sum : !wide1 origin []
        ins()
        outs(%sum : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %v = arith.divf %e, %length : f32
      %a = arith.addf %v, %epsilon : f32
      %r = math.rsqrt %a : f32
      gpu.yield %r : f32
    }
    gpu.map %wide : !wide1x4096 origin [%block]
        ins(%sum : !wide1 affine_map<(i, j)[row] -> (i)>,
            %W : !vector affine_map<(i, j)[row] -> (j)>,
            %B : !vector affine_map<(i, j)[row] -> (j)>)
        outs(%Y : !matrix affine_map<(i, j)[row] -> (i + row, j)>) {
    ^bb0(%e: f32, %r: f32, %g: f16, %o: f16):
      %n = arith.mulf %e, %r : f32
      %k = arith.extf %g : f16 to f32
      %p = arith.mulf %n, %k : f32
      %z = arith.extf %o : f16 to f32
      %a = arith.addf %p, %z : f32
      %y = arith.truncf %a : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }

  // A row a block, 32 elements a thread.
  gpu.kernel @layer_norm_wide(
      %X: !matrix = tensor 0, %W: !vector = tensor 1, %B: !vector = tensor 2,
      %Y: !matrix = tensor 3, %M: index = symbol M, %N: index = symbol N)
      threads 256 blocks_per_sm 3 {
    %block = gpu.block_id
    %zero = arith.constant 0 : index
    %unit = arith.constant 1.0 : f32
    %epsilon = arith.constant 1.0e-05 : f32
    %nothing = arith.constant 0.0 : f32
    %whole = arith.index_cast %N : index to i32
    %length = arith.sitofp %whole : i32 to f32
    %half = gpu.fragment : !half1x8192
    %wide = gpu.fragment : !wide1x8192
    %mean = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    gpu.copy %X[%block, %zero] to %half : !matrix, !half1x8192
    %squares = gpu.fragment : !wide1x8192
    gpu.map %half : !half1x8192 origin []
        ins()
        outs(%wide : !wide1x8192 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f16):
      %f = arith.extf %e : f16 to f32
      gpu.yield %f : f32
    }
    gpu.reduce sum %wide by affine_map<(i, j) -> (i)> into %mean : !wide1x8192, !wide1
    gpu.map %mean : !wide1 origin []
        ins()
        outs(%mean : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %m = arith.divf %e, %length : f32
      gpu.yield %m : f32
    }
    gpu.map %wide : !wide1x8192 origin []
        ins(%mean : !wide1 affine_map<(i, j) -> (i)>)
        outs(%wide : !wide1x8192 affine_map<(i, j) -> (i, j)>,
             %squares : !wide1x8192 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32, %m: f32):
      %d = arith.subf %e, %m : f32
      %at = gpu.tile_index 1
      %of = affine.apply affine_map<(d0) -> (d0 floordiv 8 * 8)> (%at)
      %inside = arith.cmpi slt, %of, %N : index
      %c = arith.select %inside, %d, %nothing : f32
      %p = arith.mulf %c, %c : f32
      gpu.yield %d, %p : f32, f32
    }
    gpu.reduce sum %squares by affine_map<(i, j) -> (i)> into %sum : !wide1x8192, !wide1
    gpu.map %sum : !wide1 origin []
        ins()
        outs(%sum : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %v = arith.divf %e, %length : f32
      %a = arith.addf %v, %epsilon : f32
      %r = math.rsqrt %a : f32
      gpu.yield %r : f32
    }
    gpu.map %wide : !wide1x8192 origin [%block]
        ins(%sum : !wide1 affine_map<(i, j)[row] -> (i)>,
            %W : !vector affine_map<(i, j)[row] -> (j)>,
            %B : !vector affine_map<(i, j)[row] -> (j)>)
        outs(%Y : !matrix affine_map<(i, j)[row] -> (i + row, j)>) {
    ^bb0(%e: f32, %r: f32, %g: f16, %o: f16):
      %n = arith.mulf %e, %r : f32
      %k = arith.extf %g : f16 to f32
      %p = arith.mulf %n, %k : f32
      %z = arith.extf %o : f16 to f32
      %a = arith.addf %p, %z : f32
      %y = arith.truncf %a : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }

  // A row a block, too long for registers: it waits in shared memory while it is read again.  Every
  // thread reads what it copied itself, in parts of 8 neighbours.
  gpu.kernel @layer_norm_shared(
      %X: !matrix = tensor 0, %W: !vector = tensor 1, %B: !vector = tensor 2,
      %Y: !matrix = tensor 3, %M: index = symbol M, %N: index = symbol N)
      threads 256 blocks_per_sm 3 {
    %row = gpu.block_id
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %nothing = arith.constant 0.0 : f32
    %epsilon = arith.constant 1.0e-05 : f32
    %whole = arith.index_cast %N : index to i32
    %length = arith.sitofp %whole : i32 to f32
    %chunks = arith.constant 16 : index
    %kept = gpu.shared_tile : !ring16x2048
    %half = gpu.fragment : !half1x2048
    %wide = gpu.fragment : !wide1x2048
    %part = gpu.fragment : !wide256
    %weight = gpu.fragment : !half2048
    %bias = gpu.fragment : !half2048
    %mean = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    scf.for %i = %zero to %chunks step %one {
      %j = affine.apply affine_map<(i) -> (i * 2048)> (%i)
      gpu.copy %X[%row, %j] to %kept slot %i loader "cp_async" : !matrix, !ring16x2048
    } {unroll}
    gpu.cp_async_commit
    gpu.cp_async_wait 0
    gpu.barrier
    gpu.fill %nothing, %part : !wide256
    scf.for %i = %zero to %chunks step %one {
      %j = affine.apply affine_map<(i) -> (i * 2048)> (%i)
      gpu.copy %kept slot %i to %half : !ring16x2048, !half1x2048
      gpu.map %half : !half1x2048 origin []
          ins()
          outs(%wide : !wide1x2048 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16):
        %f = arith.extf %e : f16 to f32
        gpu.yield %f : f32
      }
      gpu.reduce sum %wide by affine_map<(i, j) -> (j floordiv 8)> into %part accumulate : !wide1x2048, !wide256
    } {unroll}
    gpu.reduce sum %part by affine_map<(i) -> (0)> into %mean : !wide256, !wide1
    gpu.map %mean : !wide1 origin []
        ins()
        outs(%mean : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %m = arith.divf %e, %length : f32
      gpu.yield %m : f32
    }
    gpu.fill %nothing, %part : !wide256
    scf.for %i = %zero to %chunks step %one {
      %j = affine.apply affine_map<(i) -> (i * 2048)> (%i)
      gpu.copy %kept slot %i to %half : !ring16x2048, !half1x2048
      gpu.map %half : !half1x2048 origin []
          ins(%mean : !wide1 affine_map<(i, j) -> (i)>)
          outs(%wide : !wide1x2048 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16, %m: f32):
        %f = arith.extf %e : f16 to f32
        %d = arith.subf %f, %m : f32
        %at = gpu.tile_index 1
        %of = affine.apply affine_map<(d0) -> (d0 floordiv 8 * 8)> (%at)
        %place = arith.addi %of, %j : index
        %inside = arith.cmpi slt, %place, %N : index
        %c = arith.select %inside, %d, %nothing : f32
        %p = arith.mulf %c, %c : f32
        gpu.yield %p : f32
      }
      gpu.reduce sum %wide by affine_map<(i, j) -> (j floordiv 8)> into %part accumulate : !wide1x2048, !wide256
    } {unroll}
    gpu.reduce sum %part by affine_map<(i) -> (0)> into %sum : !wide256, !wide1
    gpu.map %sum : !wide1 origin []
        ins()
        outs(%sum : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %v = arith.divf %e, %length : f32
      %a = arith.addf %v, %epsilon : f32
      %r = math.rsqrt %a : f32
      gpu.yield %r : f32
    }
    scf.for %i = %zero to %chunks step %one {
      %j = affine.apply affine_map<(i) -> (i * 2048)> (%i)
      gpu.copy %kept slot %i to %half : !ring16x2048, !half1x2048
      gpu.copy %W[%j] to %weight : !vector, !half2048
      gpu.copy %B[%j] to %bias : !vector, !half2048
      gpu.map %half : !half1x2048 origin []
          ins(%mean : !wide1 affine_map<(i, j) -> (i)>,
              %sum : !wide1 affine_map<(i, j) -> (i)>,
              %weight : !half2048 affine_map<(i, j) -> (j)>,
              %bias : !half2048 affine_map<(i, j) -> (j)>)
          outs(%half : !half1x2048 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16, %m: f32, %r: f32, %g: f16, %o: f16):
        %f = arith.extf %e : f16 to f32
        %d = arith.subf %f, %m : f32
        %n = arith.mulf %d, %r : f32
        %k = arith.extf %g : f16 to f32
        %p = arith.mulf %n, %k : f32
        %z = arith.extf %o : f16 to f32
        %a = arith.addf %p, %z : f32
        %y = arith.truncf %a : f32 to f16
        gpu.yield %y : f16
      }
      gpu.copy %half to %Y[%row, %j] : !half1x2048, !matrix
    } {unroll}
    gpu.return
  }

  // A row a team of CTAs, 8192 columns each, and as many teams as run at once.  Each CTA tells the
  // others the statistics of its columns through a workspace, and counts itself in.  It writes the
  // row an iteration later, so that few have to wait; a ring of rows keeps the loads going.
  gpu.kernel @layer_norm_grid(
      %X: !matrix = tensor 0, %W: !vector = tensor 1, %B: !vector = tensor 2,
      %Y: !matrix = tensor 3, %means: !told = workspace "means",
      %sums: !told = workspace "sums", %arrived: !counters = workspace "arrived",
      %M: index = symbol M, %N: index = symbol N)
      threads 256 blocks_per_sm 3 {
    %block = gpu.block_id
    %grid = gpu.grid_size
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %nothing = arith.constant 0.0 : f32
    %epsilon = arith.constant 1.0e-05 : f32
    %whole = arith.index_cast %N : index to i32
    %length = arith.sitofp %whole : i32 to f32
    %chunks = arith.constant 4 : index
    %depth = arith.constant 4 : index
    %members = affine.apply affine_map<()[s0] -> ((s0 + 8191) floordiv 8192)> ()[%N]
    %member = arith.remui %block, %members : index
    %team = arith.divui %block, %members : index
    %teams = arith.divui %grid, %members : index
    %base = affine.apply affine_map<(d0) -> (d0 * 8192)> (%member)
    %end = arith.addi %M, %teams : index
    %kept = gpu.shared_tile : !ring16x2048
    %half = gpu.fragment : !half1x2048
    %wide = gpu.fragment : !wide1x2048
    %part = gpu.fragment : !wide256
    %weight = gpu.fragment : !half2048
    %bias = gpu.fragment : !half2048
    %mean = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    %all_means = gpu.fragment : !wide256
    %all_sums = gpu.fragment : !wide256
    // How many columns each CTA of a team has: the last one what is left.
    %final = arith.subi %members, %one : index
    %filled = affine.apply affine_map<(d0) -> (d0 * 8192)> (%final)
    %rest = arith.subi %N, %filled : index
    %few = arith.index_cast %rest : index to i32
    %fewer = arith.sitofp %few : i32 to f32
    %full = arith.constant 8192.0 : f32
    %early = arith.cmpi slt, %member, %final : index
    %own = arith.select %early, %full, %fewer : f32
    %columns = gpu.fragment : !wide256
    %weighted = gpu.fragment : !wide256
    gpu.map %columns : !wide256 origin []
        ins()
        outs(%columns : !wide256 affine_map<(i) -> (i)>) {
    ^bb0(%0: f32):
      %at = gpu.tile_index 0
      %before = arith.cmpi slt, %at, %final : index
      %there = arith.cmpi slt, %at, %members : index
      %least = arith.select %there, %fewer, %nothing : f32
      %n = arith.select %before, %full, %least : f32
      gpu.yield %n : f32
    }
    // Fill the ring: its slots are rows of this CTA's columns.
    scf.for %r = %zero to %depth step %one {
      %ahead = arith.muli %r, %teams : index
      %from = arith.addi %team, %ahead : index
      scf.for %i = %zero to %chunks step %one {
        %j = affine.apply affine_map<(d0, d1) -> (d0 * 2048 + d1)> (%i, %base)
        %slot = affine.apply affine_map<(d0, d1) -> (d0 * 4 + d1)> (%r, %i)
        gpu.copy %X[%from, %j] to %kept slot %slot loader "cp_async" : !matrix, !ring16x2048
      } {unroll}
      gpu.cp_async_commit
    }
    %last = scf.for %row = %team to %end step %teams iter_args(%turn = %zero) -> (index) {
      %more = arith.cmpi slt, %row, %M : index
      scf.if %more {
        gpu.cp_async_wait 2
        gpu.fill %nothing, %part : !wide256
        scf.for %i = %zero to %chunks step %one {
          %j = affine.apply affine_map<(d0, d1) -> (d0 * 2048 + d1)> (%i, %base)
          %slot = affine.apply affine_map<(d0, d1) -> (d0 mod 4 * 4 + d1)> (%turn, %i)
          gpu.copy %kept slot %slot to %half : !ring16x2048, !half1x2048
          gpu.map %half : !half1x2048 origin []
              ins()
              outs(%wide : !wide1x2048 affine_map<(i, j) -> (i, j)>) {
          ^bb0(%e: f16):
            %f = arith.extf %e : f16 to f32
            gpu.yield %f : f32
          }
          gpu.reduce sum %wide by affine_map<(i, j) -> (j floordiv 8)> into %part accumulate : !wide1x2048, !wide256
        } {unroll}
        gpu.reduce sum %part by affine_map<(i) -> (0)> into %mean : !wide256, !wide1
        gpu.map %mean : !wide1 origin []
            ins()
            outs(%mean : !wide1 affine_map<(i) -> (i)>) {
        ^bb0(%e: f32):
          %m = arith.divf %e, %own : f32
          gpu.yield %m : f32
        }
        gpu.fill %nothing, %part : !wide256
        scf.for %i = %zero to %chunks step %one {
          %j = affine.apply affine_map<(d0, d1) -> (d0 * 2048 + d1)> (%i, %base)
          %slot = affine.apply affine_map<(d0, d1) -> (d0 mod 4 * 4 + d1)> (%turn, %i)
          gpu.copy %kept slot %slot to %half : !ring16x2048, !half1x2048
          gpu.map %half : !half1x2048 origin []
              ins(%mean : !wide1 affine_map<(i, j) -> (i)>)
              outs(%wide : !wide1x2048 affine_map<(i, j) -> (i, j)>) {
          ^bb0(%e: f16, %m: f32):
            %f = arith.extf %e : f16 to f32
            %d = arith.subf %f, %m : f32
            %at = gpu.tile_index 1
            %of = affine.apply affine_map<(d0) -> (d0 floordiv 8 * 8)> (%at)
            %place = arith.addi %of, %j : index
            %inside = arith.cmpi slt, %place, %N : index
            %c = arith.select %inside, %d, %nothing : f32
            %p = arith.mulf %c, %c : f32
            gpu.yield %p : f32
          }
          gpu.reduce sum %wide by affine_map<(i, j) -> (j floordiv 8)> into %part accumulate : !wide1x2048, !wide256
        } {unroll}
        gpu.reduce sum %part by affine_map<(i) -> (0)> into %sum : !wide256, !wide1
        gpu.copy %mean to %means[%row, %member] : !wide1, !told
        gpu.copy %sum to %sums[%row, %member] : !wide1, !told
        gpu.grid_signal %arrived[%row] : !counters
      }
      %follows = arith.cmpi sgt, %turn, %zero : index
      scf.if %follows {
        %before = arith.subi %row, %teams : index
        gpu.grid_wait %arrived[%before] until %members : !counters
        gpu.copy %means[%before, %zero] to %all_means : !told, !wide256
        gpu.copy %sums[%before, %zero] to %all_sums : !told, !wide256
        gpu.map %all_means : !wide256 origin []
            ins(%columns : !wide256 affine_map<(i) -> (i)>)
            outs(%weighted : !wide256 affine_map<(i) -> (i)>) {
        ^bb0(%e: f32, %n: f32):
          %s = arith.mulf %e, %n : f32
          gpu.yield %s : f32
        }
        gpu.reduce sum %weighted by affine_map<(i) -> (0)> into %mean : !wide256, !wide1
        gpu.map %mean : !wide1 origin []
            ins()
            outs(%mean : !wide1 affine_map<(i) -> (i)>) {
        ^bb0(%e: f32):
          %m = arith.divf %e, %length : f32
          gpu.yield %m : f32
        }
        // Each CTA's squares are about its own mean (Chan, Golub and LeVeque).
        gpu.map %all_means : !wide256 origin []
            ins(%mean : !wide1 affine_map<(i) -> (0)>,
                %columns : !wide256 affine_map<(i) -> (i)>,
                %all_sums : !wide256 affine_map<(i) -> (i)>)
            outs(%all_sums : !wide256 affine_map<(i) -> (i)>) {
        ^bb0(%e: f32, %m: f32, %n: f32, %q: f32):
          %d = arith.subf %e, %m : f32
          %s = arith.mulf %d, %d : f32
          %p = arith.mulf %s, %n : f32
          %a = arith.addf %q, %p : f32
          gpu.yield %a : f32
        }
        gpu.reduce sum %all_sums by affine_map<(i) -> (0)> into %sum : !wide256, !wide1
        gpu.map %sum : !wide1 origin []
            ins()
            outs(%sum : !wide1 affine_map<(i) -> (i)>) {
        ^bb0(%e: f32):
          %v = arith.divf %e, %length : f32
          %a = arith.addf %v, %epsilon : f32
          %r = math.rsqrt %a : f32
          gpu.yield %r : f32
        }
        %later = affine.apply affine_map<(d0) -> (d0 * 3)> (%teams)
        %from = arith.addi %row, %later : index
        scf.for %i = %zero to %chunks step %one {
          %j = affine.apply affine_map<(d0, d1) -> (d0 * 2048 + d1)> (%i, %base)
          %slot = affine.apply affine_map<(d0, d1) -> ((d0 + 3) mod 4 * 4 + d1)> (%turn, %i)
          gpu.copy %kept slot %slot to %half : !ring16x2048, !half1x2048
          // What has been read makes room for the row that is a ring further on.
          gpu.copy %X[%from, %j] to %kept slot %slot loader "cp_async" : !matrix, !ring16x2048
          gpu.copy %W[%j] to %weight : !vector, !half2048
          gpu.copy %B[%j] to %bias : !vector, !half2048
          gpu.map %half : !half1x2048 origin []
              ins(%mean : !wide1 affine_map<(i, j) -> (i)>,
                  %sum : !wide1 affine_map<(i, j) -> (i)>,
                  %weight : !half2048 affine_map<(i, j) -> (j)>,
                  %bias : !half2048 affine_map<(i, j) -> (j)>)
              outs(%half : !half1x2048 affine_map<(i, j) -> (i, j)>) {
          ^bb0(%e: f16, %m: f32, %r: f32, %g: f16, %o: f16):
            %f = arith.extf %e : f16 to f32
            %d = arith.subf %f, %m : f32
            %n = arith.mulf %d, %r : f32
            %k = arith.extf %g : f16 to f32
            %p = arith.mulf %n, %k : f32
            %z = arith.extf %o : f16 to f32
            %a = arith.addf %p, %z : f32
            %y = arith.truncf %a : f32 to f16
            gpu.yield %y : f16
          }
          gpu.copy %half to %Y[%before, %j] : !half1x2048, !matrix
        } {unroll}
        gpu.cp_async_commit
      }
      %following = affine.apply affine_map<(d0) -> (d0 + 1)> (%turn)
      scf.yield %following : index
    }
    gpu.cp_async_wait 0
    gpu.return
  }

  // A row a cluster of 16, 8 chunks a CTA.  A ring of 10 chunks lets the next row's first
  // ones come while this row's sums are exchanged through distributed shared memory.
  gpu.kernel @layer_norm_cluster(
      %X: !matrix = tensor 0, %W: !vector = tensor 1, %B: !vector = tensor 2,
      %Y: !matrix = tensor 3, %M: index = symbol M, %N: index = symbol N)
      threads 1024 cluster 16 {
    %block = gpu.block_id
    %grid = gpu.grid_size
    %rank = gpu.cluster_rank
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %nothing = arith.constant 0.0 : f32
    %epsilon = arith.constant 1.0e-05 : f32
    %whole = arith.index_cast %N : index to i32
    %length = arith.sitofp %whole : i32 to f32
    %eight = arith.constant 8 : index
    %depth = arith.constant 10 : index
    %first = affine.apply affine_map<(d0) -> (d0 floordiv 16)> (%block)
    %step = affine.apply affine_map<(d0) -> (d0 floordiv 16)> (%grid)
    %base = affine.apply affine_map<(d0) -> (d0 * 65536)> (%rank)
    %kept = gpu.shared_tile : !ring10x8192
    %half = gpu.fragment : !half1x8192
    %wide = gpu.fragment : !wide1x8192
    %part = gpu.fragment : !wide1024
    %weight = gpu.fragment : !half8192
    %bias = gpu.fragment : !half8192
    %mean = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    // Fill the ring: chunk i is in this CTA's row of number i floordiv 8.
    scf.for %i = %zero to %depth step %one {
      %later = affine.apply affine_map<(d0) -> (d0 floordiv 8)> (%i)
      %ahead = arith.muli %later, %step : index
      %from = arith.addi %first, %ahead : index
      %j = affine.apply affine_map<(d0, d1) -> (d0 mod 8 * 8192 + d1)> (%i, %base)
      gpu.copy %X[%from, %j] to %kept slot %i loader "cp_async" : !matrix, !ring10x8192
      gpu.cp_async_commit
    }
    %end = scf.for %row = %first to %M step %step iter_args(%done = %zero) -> (index) {
      gpu.fill %nothing, %part : !wide1024
      scf.for %i = %zero to %eight step %one {
        %j = affine.apply affine_map<(d0, d1) -> (d0 * 8192 + d1)> (%i, %base)
        %slot = affine.apply affine_map<(d0, d1) -> ((d0 + d1) mod 10)> (%i, %done)
        // The chunk came a whole ring of groups ago; every chunk of a pass closes one.
        gpu.cp_async_wait 9
        gpu.cp_async_commit
        gpu.copy %kept slot %slot to %half : !ring10x8192, !half1x8192
        gpu.map %half : !half1x8192 origin []
            ins()
            outs(%wide : !wide1x8192 affine_map<(i, j) -> (i, j)>) {
        ^bb0(%e: f16):
          %f = arith.extf %e : f16 to f32
          gpu.yield %f : f32
        }
        gpu.reduce sum %wide by affine_map<(i, j) -> (j floordiv 8)> into %part accumulate : !wide1x8192, !wide1024
      } {unroll}
      gpu.reduce sum %part by affine_map<(i) -> (0)> into %mean cluster : !wide1024, !wide1
      gpu.map %mean : !wide1 origin []
          ins()
          outs(%mean : !wide1 affine_map<(i) -> (i)>) {
      ^bb0(%e: f32):
        %m = arith.divf %e, %length : f32
        gpu.yield %m : f32
      }
      gpu.fill %nothing, %part : !wide1024
      scf.for %i = %zero to %eight step %one {
        %j = affine.apply affine_map<(d0, d1) -> (d0 * 8192 + d1)> (%i, %base)
        %slot = affine.apply affine_map<(d0, d1) -> ((d0 + d1) mod 10)> (%i, %done)
        gpu.copy %kept slot %slot to %half : !ring10x8192, !half1x8192
        gpu.map %half : !half1x8192 origin []
            ins(%mean : !wide1 affine_map<(i, j) -> (i)>)
            outs(%wide : !wide1x8192 affine_map<(i, j) -> (i, j)>) {
        ^bb0(%e: f16, %m: f32):
          %f = arith.extf %e : f16 to f32
          %d = arith.subf %f, %m : f32
          %at = gpu.tile_index 1
          %of = affine.apply affine_map<(d0) -> (d0 floordiv 8 * 8)> (%at)
          %place = arith.addi %of, %j : index
          %inside = arith.cmpi slt, %place, %N : index
          %c = arith.select %inside, %d, %nothing : f32
          %p = arith.mulf %c, %c : f32
          gpu.yield %p : f32
        }
        gpu.reduce sum %wide by affine_map<(i, j) -> (j floordiv 8)> into %part accumulate : !wide1x8192, !wide1024
      } {unroll}
      gpu.reduce sum %part by affine_map<(i) -> (0)> into %sum cluster : !wide1024, !wide1
      gpu.map %sum : !wide1 origin []
          ins()
          outs(%sum : !wide1 affine_map<(i) -> (i)>) {
      ^bb0(%e: f32):
        %v = arith.divf %e, %length : f32
        %a = arith.addf %v, %epsilon : f32
        %r = math.rsqrt %a : f32
        gpu.yield %r : f32
      }
      scf.for %i = %zero to %eight step %one {
        %j = affine.apply affine_map<(d0, d1) -> (d0 * 8192 + d1)> (%i, %base)
        %slot = affine.apply affine_map<(d0, d1) -> ((d0 + d1) mod 10)> (%i, %done)
        gpu.copy %kept slot %slot to %half : !ring10x8192, !half1x8192
        // What has been read makes room for the chunk that is a ring further on.
        %later = affine.apply affine_map<(d0) -> ((d0 + 10) floordiv 8)> (%i)
        %rows = arith.muli %later, %step : index
        %from = arith.addi %row, %rows : index
        %column = affine.apply affine_map<(d0, d1) -> ((d0 + 10) mod 8 * 8192 + d1)> (%i, %base)
        gpu.copy %X[%from, %column] to %kept slot %slot loader "cp_async" : !matrix, !ring10x8192
        gpu.cp_async_commit
        gpu.copy %W[%j] to %weight : !vector, !half8192
        gpu.copy %B[%j] to %bias : !vector, !half8192
        gpu.map %half : !half1x8192 origin []
            ins(%mean : !wide1 affine_map<(i, j) -> (i)>,
                %sum : !wide1 affine_map<(i, j) -> (i)>,
                %weight : !half8192 affine_map<(i, j) -> (j)>,
                %bias : !half8192 affine_map<(i, j) -> (j)>)
            outs(%half : !half1x8192 affine_map<(i, j) -> (i, j)>) {
        ^bb0(%e: f16, %m: f32, %r: f32, %g: f16, %o: f16):
          %f = arith.extf %e : f16 to f32
          %d = arith.subf %f, %m : f32
          %n = arith.mulf %d, %r : f32
          %k = arith.extf %g : f16 to f32
          %p = arith.mulf %n, %k : f32
          %z = arith.extf %o : f16 to f32
          %a = arith.addf %p, %z : f32
          %y = arith.truncf %a : f32 to f16
          gpu.yield %y : f16
        }
        gpu.copy %half to %Y[%row, %j] : !half1x8192, !matrix
      } {unroll}
      %following = affine.apply affine_map<(d0) -> (d0 + 8)> (%done)
      scf.yield %following : index
    }
    gpu.cp_async_wait 0
    gpu.return
  }

  // Rows of any length and alignment, read again in every pass.
  gpu.kernel @layer_norm_any(
      %X: !matrix = tensor 0, %W: !vector = tensor 1, %B: !vector = tensor 2,
      %Y: !matrix = tensor 3, %M: index = symbol M, %N: index = symbol N)
      threads 256 {
    %row = gpu.block_id
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %nothing = arith.constant 0.0 : f32
    %epsilon = arith.constant 1.0e-05 : f32
    %whole = arith.index_cast %N : index to i32
    %length = arith.sitofp %whole : i32 to f32
    %step = arith.constant 1024 : index
    %half = gpu.fragment : !half1x1024
    %wide = gpu.fragment : !wide1x1024
    %part = gpu.fragment : !wide256
    %weight = gpu.fragment : !half1024
    %bias = gpu.fragment : !half1024
    %mean = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    gpu.fill %nothing, %part : !wide256
    scf.for %j = %zero to %N step %step {
      gpu.copy %X[%row, %j] to %half : !matrix, !half1x1024
      gpu.map %half : !half1x1024 origin []
          ins()
          outs(%wide : !wide1x1024 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16):
        %f = arith.extf %e : f16 to f32
        gpu.yield %f : f32
      }
      gpu.reduce sum %wide by affine_map<(i, j) -> (j mod 256)> into %part accumulate : !wide1x1024, !wide256
    }
    gpu.reduce sum %part by affine_map<(i) -> (0)> into %mean : !wide256, !wide1
    gpu.map %mean : !wide1 origin []
        ins()
        outs(%mean : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %m = arith.divf %e, %length : f32
      gpu.yield %m : f32
    }
    gpu.fill %nothing, %part : !wide256
    scf.for %j = %zero to %N step %step {
      gpu.copy %X[%row, %j] to %half : !matrix, !half1x1024
      gpu.map %half : !half1x1024 origin []
          ins(%mean : !wide1 affine_map<(i, j) -> (i)>)
          outs(%wide : !wide1x1024 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16, %m: f32):
        %f = arith.extf %e : f16 to f32
        %d = arith.subf %f, %m : f32
        %at = gpu.tile_index 1
        %place = arith.addi %at, %j : index
        %inside = arith.cmpi slt, %place, %N : index
        %c = arith.select %inside, %d, %nothing : f32
        %p = arith.mulf %c, %c : f32
        gpu.yield %p : f32
      }
      gpu.reduce sum %wide by affine_map<(i, j) -> (j mod 256)> into %part accumulate : !wide1x1024, !wide256
    }
    gpu.reduce sum %part by affine_map<(i) -> (0)> into %sum : !wide256, !wide1
    gpu.map %sum : !wide1 origin []
        ins()
        outs(%sum : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %v = arith.divf %e, %length : f32
      %a = arith.addf %v, %epsilon : f32
      %r = math.rsqrt %a : f32
      gpu.yield %r : f32
    }
    scf.for %j = %zero to %N step %step {
      gpu.copy %X[%row, %j] to %half : !matrix, !half1x1024
      gpu.copy %W[%j] to %weight : !vector, !half1024
      gpu.copy %B[%j] to %bias : !vector, !half1024
      gpu.map %half : !half1x1024 origin []
          ins(%mean : !wide1 affine_map<(i, j) -> (i)>,
              %sum : !wide1 affine_map<(i, j) -> (i)>,
              %weight : !half1024 affine_map<(i, j) -> (j)>,
              %bias : !half1024 affine_map<(i, j) -> (j)>)
          outs(%half : !half1x1024 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16, %m: f32, %r: f32, %g: f16, %o: f16):
        %f = arith.extf %e : f16 to f32
        %d = arith.subf %f, %m : f32
        %n = arith.mulf %d, %r : f32
        %k = arith.extf %g : f16 to f32
        %p = arith.mulf %n, %k : f32
        %z = arith.extf %o : f16 to f32
        %a = arith.addf %p, %z : f32
        %y = arith.truncf %a : f32 to f16
        gpu.yield %y : f16
      }
      gpu.copy %half to %Y[%row, %j] : !half1x1024, !matrix
    }
    gpu.return
  }

  gpu.dispatch (X: !matrix, W: !vector, B: !vector) -> (Y: !matrix) {
    gpu.launch @layer_norm_warp when (N mod 8 == 0, N <= 1024) align [16, 16, 16, 16] grid [(M + 3) floordiv 4]
    gpu.launch @layer_norm_block when (N mod 8 == 0, N <= 4096) align [16, 16, 16, 16] grid [M]
    gpu.launch @layer_norm_wide when (N mod 8 == 0, N <= 8192) align [16, 16, 16, 16] grid [M]
    gpu.launch @layer_norm_shared when (N mod 8 == 0, N <= 32768) align [16, 16, 16, 16] grid [M]
    gpu.sequence @layer_norm_grid when (N mod 8 == 0, N <= 2097152) align [16, 16, 16, 16] {
      gpu.workspace "means" : !told
      gpu.workspace "sums" : !told
      gpu.workspace "arrived" zeroed : !counters
      gpu.launch @layer_norm_grid grid [M, (N + 8191) floordiv 8192]
          persistent cooperative [(N + 8191) floordiv 8192]
    }
    gpu.launch @layer_norm_cluster when (N mod 8 == 0, N <= 1048576) align [16, 16, 16, 16] grid [16 * M] persistent
    gpu.launch @layer_norm_any align [2, 2, 2, 2] grid [M]
  }
}
