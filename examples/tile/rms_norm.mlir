// Y = X / sqrt(mean(X²) + 1e-5) · W, by rows.  Each element is read once from global memory, whatever
// holds the row until it is written: a warp, a block, a block's shared memory, that of many CTAs of
// the grid or of a cluster.  The last variant takes rows of any length and alignment, and reads them
// twice.
//
//   polyc simulate examples/tile/rms_norm.mlir --set M=3 --set N=520

!matrix = !gpu.global<[M, N], f16>
!vector = !gpu.global<[N], f16>
!told = !gpu.global<[M, (N + 8191) floordiv 8192], f32>
!counters = !gpu.global<[M], i32>
!half1024 = !gpu.fragment<[1024], f16>
!half2048 = !gpu.fragment<[2048], f16>
!half4096 = !gpu.fragment<[4096], f16>
!half1x1024 = !gpu.fragment<[1, 1024], f16>
!half1x2048 = !gpu.fragment<[1, 2048], f16>
!half1x4096 = !gpu.fragment<[1, 4096], f16>
!half1x8192 = !gpu.fragment<[1, 8192], f16>
!half4x1024 = !gpu.fragment<[4, 1024], f16>
!wide1 = !gpu.fragment<[1], f32>
!wide4 = !gpu.fragment<[4], f32>
!wide256 = !gpu.fragment<[256], f32>
!wide512 = !gpu.fragment<[512], f32>
!wide1x1024 = !gpu.fragment<[1, 1024], f32>
!wide1x2048 = !gpu.fragment<[1, 2048], f32>
!wide1x4096 = !gpu.fragment<[1, 4096], f32>
!wide1x8192 = !gpu.fragment<[1, 8192], f32>
!wide4x1024 = !gpu.fragment<[4, 1024], f32>
!ring8x4096 = !gpu.shared<[1, 4096], f16, ring 8>
!ring12x2048 = !gpu.shared<[1, 2048], f16, ring 12>
!ring26x4096 = !gpu.shared<[1, 4096], f16, ring 26>

gpu.module @rms_norm arch "sm_90a" symbols [M, N] {
  // A row a warp: nothing is exchanged but by shuffles.
  gpu.kernel @rms_norm_warp(
      %X: !matrix = tensor 0, %W: !vector = tensor 1,
      %Y: !matrix = tensor 2, %M: index = symbol M, %N: index = symbol N)
      threads 128 blocks_per_sm 8 {
    %block = gpu.block_id
    %row = affine.apply affine_map<(d0) -> (d0 * 4)> (%block)
    %zero = arith.constant 0 : index
    %unit = arith.constant 1.0 : f32
    %epsilon = arith.constant 1.0e-05 : f32
    %whole = arith.index_cast %N : index to i32
    %length = arith.sitofp %whole : i32 to f32
    %half = gpu.fragment : !half4x1024
    %wide = gpu.fragment : !wide4x1024
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
    gpu.map %wide : !wide4x1024 origin []
        ins()
        outs(%squares : !wide4x1024 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32):
      %p = arith.mulf %e, %e : f32
      gpu.yield %p : f32
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
            %W : !vector affine_map<(i, j)[row] -> (j)>)
        outs(%Y : !matrix affine_map<(i, j)[row] -> (i + row, j)>) {
    ^bb0(%e: f32, %r: f32, %g: f16):
      %n = arith.mulf %e, %r : f32
      %k = arith.extf %g : f16 to f32
      %p = arith.mulf %n, %k : f32
      %y = arith.truncf %p : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }

  // A row a block, 16 elements a thread.
  gpu.kernel @rms_norm_block(
      %X: !matrix = tensor 0, %W: !vector = tensor 1,
      %Y: !matrix = tensor 2, %M: index = symbol M, %N: index = symbol N)
      threads 256 blocks_per_sm 5 {
    %block = gpu.block_id
    %zero = arith.constant 0 : index
    %unit = arith.constant 1.0 : f32
    %epsilon = arith.constant 1.0e-05 : f32
    %whole = arith.index_cast %N : index to i32
    %length = arith.sitofp %whole : i32 to f32
    %half = gpu.fragment : !half1x4096
    %wide = gpu.fragment : !wide1x4096
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
    gpu.map %wide : !wide1x4096 origin []
        ins()
        outs(%squares : !wide1x4096 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32):
      %p = arith.mulf %e, %e : f32
      gpu.yield %p : f32
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
            %W : !vector affine_map<(i, j)[row] -> (j)>)
        outs(%Y : !matrix affine_map<(i, j)[row] -> (i + row, j)>) {
    ^bb0(%e: f32, %r: f32, %g: f16):
      %n = arith.mulf %e, %r : f32
      %k = arith.extf %g : f16 to f32
      %p = arith.mulf %n, %k : f32
      %y = arith.truncf %p : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }

  // A row a block, 32 elements a thread.
  gpu.kernel @rms_norm_wide(
      %X: !matrix = tensor 0, %W: !vector = tensor 1,
      %Y: !matrix = tensor 2, %M: index = symbol M, %N: index = symbol N)
      threads 256 blocks_per_sm 4 {
    %block = gpu.block_id
    %zero = arith.constant 0 : index
    %unit = arith.constant 1.0 : f32
    %epsilon = arith.constant 1.0e-05 : f32
    %whole = arith.index_cast %N : index to i32
    %length = arith.sitofp %whole : i32 to f32
    %half = gpu.fragment : !half1x8192
    %wide = gpu.fragment : !wide1x8192
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
    gpu.map %wide : !wide1x8192 origin []
        ins()
        outs(%squares : !wide1x8192 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32):
      %p = arith.mulf %e, %e : f32
      gpu.yield %p : f32
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
            %W : !vector affine_map<(i, j)[row] -> (j)>)
        outs(%Y : !matrix affine_map<(i, j)[row] -> (i + row, j)>) {
    ^bb0(%e: f32, %r: f32, %g: f16):
      %n = arith.mulf %e, %r : f32
      %k = arith.extf %g : f16 to f32
      %p = arith.mulf %n, %k : f32
      %y = arith.truncf %p : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }

  // A row a block, too long for registers: it waits in shared memory while it is read again.  Every
  // thread reads what it copied itself, in parts of 8 neighbours.
  gpu.kernel @rms_norm_shared(
      %X: !matrix = tensor 0, %W: !vector = tensor 1,
      %Y: !matrix = tensor 2, %M: index = symbol M, %N: index = symbol N)
      threads 512 blocks_per_sm 2 {
    %row = gpu.block_id
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %nothing = arith.constant 0.0 : f32
    %epsilon = arith.constant 1.0e-05 : f32
    %whole = arith.index_cast %N : index to i32
    %length = arith.sitofp %whole : i32 to f32
    %chunks = arith.constant 8 : index
    %kept = gpu.shared_tile : !ring8x4096
    %half = gpu.fragment : !half1x4096
    %wide = gpu.fragment : !wide1x4096
    %part = gpu.fragment : !wide512
    %weight = gpu.fragment : !half4096
    %sum = gpu.fragment : !wide1
    scf.for %i = %zero to %chunks step %one {
      %j = affine.apply affine_map<(i) -> (i * 4096)> (%i)
      gpu.copy %X[%row, %j] to %kept slot %i loader "cp_async" : !matrix, !ring8x4096
    } {unroll}
    gpu.cp_async_commit
    gpu.cp_async_wait 0
    gpu.barrier
    gpu.fill %nothing, %part : !wide512
    scf.for %i = %zero to %chunks step %one {
      %j = affine.apply affine_map<(i) -> (i * 4096)> (%i)
      gpu.copy %kept slot %i to %half : !ring8x4096, !half1x4096
      gpu.map %half : !half1x4096 origin []
          ins()
          outs(%wide : !wide1x4096 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16):
        %f = arith.extf %e : f16 to f32
        %p = arith.mulf %f, %f : f32
        gpu.yield %p : f32
      }
      gpu.reduce sum %wide by affine_map<(i, j) -> (j floordiv 8)> into %part accumulate : !wide1x4096, !wide512
    } {unroll}
    gpu.reduce sum %part by affine_map<(i) -> (0)> into %sum : !wide512, !wide1
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
      %j = affine.apply affine_map<(i) -> (i * 4096)> (%i)
      gpu.copy %kept slot %i to %half : !ring8x4096, !half1x4096
      gpu.copy %W[%j] to %weight : !vector, !half4096
      gpu.map %half : !half1x4096 origin []
          ins(%sum : !wide1 affine_map<(i, j) -> (i)>,
              %weight : !half4096 affine_map<(i, j) -> (j)>)
          outs(%half : !half1x4096 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16, %r: f32, %g: f16):
        %f = arith.extf %e : f16 to f32
        %n = arith.mulf %f, %r : f32
        %k = arith.extf %g : f16 to f32
        %p = arith.mulf %n, %k : f32
        %y = arith.truncf %p : f32 to f16
        gpu.yield %y : f16
      }
      gpu.copy %half to %Y[%row, %j] : !half1x4096, !matrix
    } {unroll}
    gpu.return
  }

  // A row a team of CTAs, 8192 columns each, and as many teams as run at once.  Each CTA tells the
  // others the statistics of its columns through a workspace, and counts itself in.  It writes the
  // row an iteration later, so that few have to wait; a ring of rows keeps the loads going.
  gpu.kernel @rms_norm_grid(
      %X: !matrix = tensor 0, %W: !vector = tensor 1, %Y: !matrix = tensor 2,
      %sums: !told = workspace "sums", %arrived: !counters = workspace "arrived",
      %M: index = symbol M, %N: index = symbol N)
      threads 256 blocks_per_sm 4 {
    %block = gpu.block_id
    %grid = gpu.grid_size
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %nothing = arith.constant 0.0 : f32
    %epsilon = arith.constant 1.0e-05 : f32
    %whole = arith.index_cast %N : index to i32
    %length = arith.sitofp %whole : i32 to f32
    %chunks = arith.constant 4 : index
    %depth = arith.constant 3 : index
    %members = affine.apply affine_map<()[s0] -> ((s0 + 8191) floordiv 8192)> ()[%N]
    %member = arith.remui %block, %members : index
    %team = arith.divui %block, %members : index
    %teams = arith.divui %grid, %members : index
    %base = affine.apply affine_map<(d0) -> (d0 * 8192)> (%member)
    %end = arith.addi %M, %teams : index
    %kept = gpu.shared_tile : !ring12x2048
    %half = gpu.fragment : !half1x2048
    %wide = gpu.fragment : !wide1x2048
    %part = gpu.fragment : !wide256
    %weight = gpu.fragment : !half2048
    %sum = gpu.fragment : !wide1
    %all_sums = gpu.fragment : !wide256
    // Fill the ring: its slots are rows of this CTA's columns.
    scf.for %r = %zero to %depth step %one {
      %ahead = arith.muli %r, %teams : index
      %from = arith.addi %team, %ahead : index
      scf.for %i = %zero to %chunks step %one {
        %j = affine.apply affine_map<(d0, d1) -> (d0 * 2048 + d1)> (%i, %base)
        %slot = affine.apply affine_map<(d0, d1) -> (d0 * 4 + d1)> (%r, %i)
        gpu.copy %X[%from, %j] to %kept slot %slot loader "cp_async" : !matrix, !ring12x2048
      } {unroll}
      gpu.cp_async_commit
    }
    %last = scf.for %row = %team to %end step %teams iter_args(%turn = %zero) -> (index) {
      %more = arith.cmpi slt, %row, %M : index
      scf.if %more {
        gpu.cp_async_wait 1
        gpu.fill %nothing, %part : !wide256
        scf.for %i = %zero to %chunks step %one {
          %j = affine.apply affine_map<(d0, d1) -> (d0 * 2048 + d1)> (%i, %base)
          %slot = affine.apply affine_map<(d0, d1) -> (d0 mod 3 * 4 + d1)> (%turn, %i)
          gpu.copy %kept slot %slot to %half : !ring12x2048, !half1x2048
          gpu.map %half : !half1x2048 origin []
              ins()
              outs(%wide : !wide1x2048 affine_map<(i, j) -> (i, j)>) {
          ^bb0(%e: f16):
            %f = arith.extf %e : f16 to f32
            %p = arith.mulf %f, %f : f32
            gpu.yield %p : f32
          }
          gpu.reduce sum %wide by affine_map<(i, j) -> (j floordiv 8)> into %part accumulate : !wide1x2048, !wide256
        } {unroll}
        gpu.reduce sum %part by affine_map<(i) -> (0)> into %sum : !wide256, !wide1
        gpu.copy %sum to %sums[%row, %member] : !wide1, !told
        gpu.grid_signal %arrived[%row] : !counters
      }
      %follows = arith.cmpi sgt, %turn, %zero : index
      scf.if %follows {
        %before = arith.subi %row, %teams : index
        gpu.grid_wait %arrived[%before] until %members : !counters
        gpu.copy %sums[%before, %zero] to %all_sums : !told, !wide256
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
        %later = affine.apply affine_map<(d0) -> (d0 * 2)> (%teams)
        %from = arith.addi %row, %later : index
        scf.for %i = %zero to %chunks step %one {
          %j = affine.apply affine_map<(d0, d1) -> (d0 * 2048 + d1)> (%i, %base)
          %slot = affine.apply affine_map<(d0, d1) -> ((d0 + 2) mod 3 * 4 + d1)> (%turn, %i)
          gpu.copy %kept slot %slot to %half : !ring12x2048, !half1x2048
          // What has been read makes room for the row that is a ring further on.
          gpu.copy %X[%from, %j] to %kept slot %slot loader "cp_async" : !matrix, !ring12x2048
          gpu.copy %W[%j] to %weight : !vector, !half2048
          gpu.map %half : !half1x2048 origin []
              ins(%sum : !wide1 affine_map<(i, j) -> (i)>,
                  %weight : !half2048 affine_map<(i, j) -> (j)>)
              outs(%half : !half1x2048 affine_map<(i, j) -> (i, j)>) {
          ^bb0(%e: f16, %r: f32, %g: f16):
            %f = arith.extf %e : f16 to f32
            %n = arith.mulf %f, %r : f32
            %k = arith.extf %g : f16 to f32
            %p = arith.mulf %n, %k : f32
            %y = arith.truncf %p : f32 to f16
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

  // A row a cluster of 16, 16 chunks a CTA.  A ring of 26 chunks lets the next row's first
  // ones come while this row's sums are exchanged through distributed shared memory.
  gpu.kernel @rms_norm_cluster(
      %X: !matrix = tensor 0, %W: !vector = tensor 1,
      %Y: !matrix = tensor 2, %M: index = symbol M, %N: index = symbol N)
      threads 512 cluster 16 {
    %block = gpu.block_id
    %grid = gpu.grid_size
    %rank = gpu.cluster_rank
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %nothing = arith.constant 0.0 : f32
    %epsilon = arith.constant 1.0e-05 : f32
    %whole = arith.index_cast %N : index to i32
    %length = arith.sitofp %whole : i32 to f32
    %eight = arith.constant 16 : index
    %depth = arith.constant 26 : index
    %first = affine.apply affine_map<(d0) -> (d0 floordiv 16)> (%block)
    %step = affine.apply affine_map<(d0) -> (d0 floordiv 16)> (%grid)
    %base = affine.apply affine_map<(d0) -> (d0 * 65536)> (%rank)
    %kept = gpu.shared_tile : !ring26x4096
    %half = gpu.fragment : !half1x4096
    %wide = gpu.fragment : !wide1x4096
    %part = gpu.fragment : !wide512
    %weight = gpu.fragment : !half4096
    %sum = gpu.fragment : !wide1
    %weight_next = gpu.fragment : !half4096
    %two = arith.constant 2 : index
    // Fill the ring: chunk i is in this CTA's row of number i floordiv 16.
    scf.for %i = %zero to %depth step %one {
      %later = affine.apply affine_map<(d0) -> (d0 floordiv 16)> (%i)
      %ahead = arith.muli %later, %step : index
      %from = arith.addi %first, %ahead : index
      %j = affine.apply affine_map<(d0, d1) -> (d0 mod 16 * 4096 + d1)> (%i, %base)
      gpu.copy %X[%from, %j] to %kept slot %i loader "cp_async" : !matrix, !ring26x4096
      gpu.cp_async_commit
    }
    %end = scf.for %row = %first to %M step %step iter_args(%done = %zero) -> (index) {
      gpu.fill %nothing, %part : !wide512
      scf.for %i = %zero to %eight step %one {
        %j = affine.apply affine_map<(d0, d1) -> (d0 * 4096 + d1)> (%i, %base)
        %slot = affine.apply affine_map<(d0, d1) -> ((d0 + d1) mod 26)> (%i, %done)
        // The chunk came a whole ring of groups ago; every chunk of a pass closes one.
        gpu.cp_async_wait 25
        gpu.cp_async_commit
        gpu.copy %kept slot %slot to %half : !ring26x4096, !half1x4096
        gpu.map %half : !half1x4096 origin []
            ins()
            outs(%wide : !wide1x4096 affine_map<(i, j) -> (i, j)>) {
        ^bb0(%e: f16):
          %f = arith.extf %e : f16 to f32
          %p = arith.mulf %f, %f : f32
          gpu.yield %p : f32
        }
        gpu.reduce sum %wide by affine_map<(i, j) -> (j floordiv 8)> into %part accumulate : !wide1x4096, !wide512
      } {unroll}
      gpu.copy %W[%base] to %weight : !vector, !half4096
      gpu.reduce sum %part by affine_map<(i) -> (0)> into %sum cluster : !wide512, !wide1
      gpu.map %sum : !wide1 origin []
          ins()
          outs(%sum : !wide1 affine_map<(i) -> (i)>) {
      ^bb0(%e: f32):
        %v = arith.divf %e, %length : f32
        %a = arith.addf %v, %epsilon : f32
        %r = math.rsqrt %a : f32
        gpu.yield %r : f32
      }
      scf.for %i = %zero to %eight step %two {
        %j = affine.apply affine_map<(d0, d1) -> (d0 * 4096 + d1)> (%i, %base)
        %slot = affine.apply affine_map<(d0, d1) -> ((d0 + d1) mod 26)> (%i, %done)
        %ahead = affine.apply affine_map<(d0) -> (d0 + 4096)> (%j)
        gpu.copy %W[%ahead] to %weight_next : !vector, !half4096
        gpu.copy %kept slot %slot to %half : !ring26x4096, !half1x4096
        // What has been read makes room for the chunk that is a ring further on.
        %later = affine.apply affine_map<(d0) -> ((d0 + 26) floordiv 16)> (%i)
        %rows = arith.muli %later, %step : index
        %from = arith.addi %row, %rows : index
        %column = affine.apply affine_map<(d0, d1) -> ((d0 + 26) mod 16 * 4096 + d1)> (%i, %base)
        gpu.copy %X[%from, %column] to %kept slot %slot loader "cp_async" : !matrix, !ring26x4096
        gpu.cp_async_commit
        gpu.map %half : !half1x4096 origin []
            ins(%sum : !wide1 affine_map<(i, j) -> (i)>,
                %weight : !half4096 affine_map<(i, j) -> (j)>)
            outs(%half : !half1x4096 affine_map<(i, j) -> (i, j)>) {
        ^bb0(%e: f16, %r: f32, %g: f16):
          %f = arith.extf %e : f16 to f32
          %n = arith.mulf %f, %r : f32
          %k = arith.extf %g : f16 to f32
          %p = arith.mulf %n, %k : f32
          %y = arith.truncf %p : f32 to f16
          gpu.yield %y : f16
        }
        gpu.copy %half to %Y[%row, %j] : !half1x4096, !matrix
        %i1 = affine.apply affine_map<(d0) -> (d0 + 1)> (%i)
        %j1 = affine.apply affine_map<(d0, d1) -> (d0 * 4096 + d1)> (%i1, %base)
        %slot1 = affine.apply affine_map<(d0, d1) -> ((d0 + d1) mod 26)> (%i1, %done)
        %ahead1 = affine.apply affine_map<(d0) -> (d0 + 4096)> (%j1)
        gpu.copy %W[%ahead1] to %weight : !vector, !half4096
        gpu.copy %kept slot %slot1 to %half : !ring26x4096, !half1x4096
        // What has been read makes room for the chunk that is a ring further on.
        %later1 = affine.apply affine_map<(d0) -> ((d0 + 26) floordiv 16)> (%i1)
        %rows1 = arith.muli %later1, %step : index
        %from1 = arith.addi %row, %rows1 : index
        %column1 = affine.apply affine_map<(d0, d1) -> ((d0 + 26) mod 16 * 4096 + d1)> (%i1, %base)
        gpu.copy %X[%from1, %column1] to %kept slot %slot1 loader "cp_async" : !matrix, !ring26x4096
        gpu.cp_async_commit
        gpu.map %half : !half1x4096 origin []
            ins(%sum : !wide1 affine_map<(i, j) -> (i)>,
                %weight_next : !half4096 affine_map<(i, j) -> (j)>)
            outs(%half : !half1x4096 affine_map<(i, j) -> (i, j)>) {
        ^bb0(%e: f16, %r: f32, %g: f16):
          %f = arith.extf %e : f16 to f32
          %n = arith.mulf %f, %r : f32
          %k = arith.extf %g : f16 to f32
          %p = arith.mulf %n, %k : f32
          %y = arith.truncf %p : f32 to f16
          gpu.yield %y : f16
        }
        gpu.copy %half to %Y[%row, %j1] : !half1x4096, !matrix
      } {unroll}
      %following = affine.apply affine_map<(d0) -> (d0 + 16)> (%done)
      scf.yield %following : index
    }
    gpu.cp_async_wait 0
    gpu.return
  }

  // Rows of any length and alignment, read again in every pass.
  gpu.kernel @rms_norm_any(
      %X: !matrix = tensor 0, %W: !vector = tensor 1,
      %Y: !matrix = tensor 2, %M: index = symbol M, %N: index = symbol N)
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
    %sum = gpu.fragment : !wide1
    gpu.fill %nothing, %part : !wide256
    scf.for %j = %zero to %N step %step {
      gpu.copy %X[%row, %j] to %half : !matrix, !half1x1024
      gpu.map %half : !half1x1024 origin []
          ins()
          outs(%wide : !wide1x1024 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16):
        %f = arith.extf %e : f16 to f32
        %p = arith.mulf %f, %f : f32
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
      gpu.map %half : !half1x1024 origin []
          ins(%sum : !wide1 affine_map<(i, j) -> (i)>,
              %weight : !half1024 affine_map<(i, j) -> (j)>)
          outs(%half : !half1x1024 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16, %r: f32, %g: f16):
        %f = arith.extf %e : f16 to f32
        %n = arith.mulf %f, %r : f32
        %k = arith.extf %g : f16 to f32
        %p = arith.mulf %n, %k : f32
        %y = arith.truncf %p : f32 to f16
        gpu.yield %y : f16
      }
      gpu.copy %half to %Y[%row, %j] : !half1x1024, !matrix
    }
    gpu.return
  }

  gpu.dispatch (X: !matrix, W: !vector) -> (Y: !matrix) {
    gpu.launch @rms_norm_warp when (N mod 8 == 0, N <= 1024) align [16, 16, 16] grid [(M + 3) floordiv 4]
    gpu.launch @rms_norm_block when (N mod 8 == 0, N <= 4096) align [16, 16, 16] grid [M]
    gpu.launch @rms_norm_wide when (N mod 8 == 0, N <= 8192) align [16, 16, 16] grid [M]
    gpu.launch @rms_norm_shared when (N mod 8 == 0, N <= 32768) align [16, 16, 16] grid [M]
    gpu.sequence @rms_norm_grid when (N mod 8 == 0, N <= 2097152) align [16, 16, 16] {
      gpu.workspace "sums" : !told
      gpu.workspace "arrived" zeroed : !counters
      gpu.launch @rms_norm_grid grid [M, (N + 8191) floordiv 8192]
          persistent cooperative [(N + 8191) floordiv 8192]
    }
    gpu.launch @rms_norm_cluster when (N mod 8 == 0, N <= 1048576) align [16, 16, 16] grid [16 * M] persistent
    gpu.launch @rms_norm_any align [2, 2, 2] grid [M]
  }
}
