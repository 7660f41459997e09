// Y = softmax of the rows of X.  Each element is read once from global memory, whatever holds the
// row until it is written: a warp, a block, a block's shared memory, that of many CTAs of the grid or
// of a cluster.  The last variant takes rows of any length and alignment, and reads them twice.
//
//   polyc simulate examples/tile/softmax.mlir --set M=3 --set N=520

!matrix = !gpu.global<[M, N], f16>
!told = !gpu.global<[M, (N + 8191) floordiv 8192], f32>
!counters = !gpu.global<[M], i32>
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
!ring12x2048 = !gpu.shared<[1, 2048], f16, ring 12>
!ring13x8192 = !gpu.shared<[1, 8192], f16, ring 13>
!ring16x2048 = !gpu.shared<[1, 2048], f16, ring 16>

gpu.module @softmax arch "sm_90a" symbols [M, N] {
  // A row a warp: nothing is exchanged but by shuffles.
  gpu.kernel @softmax_warp(
      %X: !matrix = tensor 0,
      %Y: !matrix = tensor 1, %M: index = symbol M, %N: index = symbol N)
      threads 128 blocks_per_sm 8 {
    %block = gpu.block_id
    %row = affine.apply affine_map<(d0) -> (d0 * 4)> (%block)
    %zero = arith.constant 0 : index
    %lowest = arith.constant 0xFF800000 : f32
    %log2e = arith.constant 1.44269502 : f32
    %unit = arith.constant 1.0 : f32
    %half = gpu.fragment : !half4x1024
    %wide = gpu.fragment : !wide4x1024
    %top = gpu.fragment : !wide4
    %sum = gpu.fragment : !wide4
    gpu.copy %X[%row, %zero] to %half : !matrix, !half4x1024
    gpu.map %half : !half4x1024 origin []
        ins()
        outs(%wide : !wide4x1024 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f16):
      %f = arith.extf %e : f16 to f32
      %at = gpu.tile_index 1
      %of = affine.apply affine_map<(d0) -> (d0 floordiv 8 * 8)> (%at)
      %inside = arith.cmpi slt, %of, %N : index
      %v = arith.select %inside, %f, %lowest : f32
      gpu.yield %v : f32
    }
    gpu.reduce max %wide by affine_map<(i, j) -> (i)> into %top : !wide4x1024, !wide4
    gpu.map %wide : !wide4x1024 origin []
        ins(%top : !wide4 affine_map<(i, j) -> (i)>)
        outs(%wide : !wide4x1024 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32, %t: f32):
      %d = arith.subf %e, %t : f32
      %l = arith.mulf %d, %log2e : f32
      %p = math.exp2 %l fastmath<afn> : f32
      gpu.yield %p : f32
    }
    gpu.reduce sum %wide by affine_map<(i, j) -> (i)> into %sum : !wide4x1024, !wide4
    gpu.map %sum : !wide4 origin []
        ins()
        outs(%sum : !wide4 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %r = arith.divf %unit, %e : f32
      gpu.yield %r : f32
    }
    gpu.map %wide : !wide4x1024 origin []
        ins(%sum : !wide4 affine_map<(i, j) -> (i)>)
        outs(%half : !half4x1024 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32, %r: f32):
      %p = arith.mulf %e, %r : f32
      %y = arith.truncf %p : f32 to f16
      gpu.yield %y : f16
    }
    gpu.copy %half to %Y[%row, %zero] : !half4x1024, !matrix
    gpu.return
  }

  // A row a block, 16 elements a thread.
  gpu.kernel @softmax_block(
      %X: !matrix = tensor 0,
      %Y: !matrix = tensor 1, %M: index = symbol M, %N: index = symbol N)
      threads 256 blocks_per_sm 5 {
    %block = gpu.block_id
    %zero = arith.constant 0 : index
    %lowest = arith.constant 0xFF800000 : f32
    %log2e = arith.constant 1.44269502 : f32
    %unit = arith.constant 1.0 : f32
    %half = gpu.fragment : !half1x4096
    %wide = gpu.fragment : !wide1x4096
    %top = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    gpu.copy %X[%block, %zero] to %half : !matrix, !half1x4096
    gpu.map %half : !half1x4096 origin []
        ins()
        outs(%wide : !wide1x4096 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f16):
      %f = arith.extf %e : f16 to f32
      %at = gpu.tile_index 1
      %of = affine.apply affine_map<(d0) -> (d0 floordiv 8 * 8)> (%at)
      %inside = arith.cmpi slt, %of, %N : index
      %v = arith.select %inside, %f, %lowest : f32
      gpu.yield %v : f32
    }
    gpu.reduce max %wide by affine_map<(i, j) -> (i)> into %top : !wide1x4096, !wide1
    gpu.map %wide : !wide1x4096 origin []
        ins(%top : !wide1 affine_map<(i, j) -> (i)>)
        outs(%wide : !wide1x4096 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32, %t: f32):
      %d = arith.subf %e, %t : f32
      %l = arith.mulf %d, %log2e : f32
      %p = math.exp2 %l fastmath<afn> : f32
      gpu.yield %p : f32
    }
    gpu.reduce sum %wide by affine_map<(i, j) -> (i)> into %sum : !wide1x4096, !wide1
    gpu.map %sum : !wide1 origin []
        ins()
        outs(%sum : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %r = arith.divf %unit, %e : f32
      gpu.yield %r : f32
    }
    gpu.map %wide : !wide1x4096 origin []
        ins(%sum : !wide1 affine_map<(i, j) -> (i)>)
        outs(%half : !half1x4096 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32, %r: f32):
      %p = arith.mulf %e, %r : f32
      %y = arith.truncf %p : f32 to f16
      gpu.yield %y : f16
    }
    gpu.copy %half to %Y[%block, %zero] : !half1x4096, !matrix
    gpu.return
  }

  // A row a block, 32 elements a thread.
  gpu.kernel @softmax_wide(
      %X: !matrix = tensor 0,
      %Y: !matrix = tensor 1, %M: index = symbol M, %N: index = symbol N)
      threads 256 blocks_per_sm 4 {
    %block = gpu.block_id
    %zero = arith.constant 0 : index
    %lowest = arith.constant 0xFF800000 : f32
    %log2e = arith.constant 1.44269502 : f32
    %unit = arith.constant 1.0 : f32
    %half = gpu.fragment : !half1x8192
    %wide = gpu.fragment : !wide1x8192
    %top = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    gpu.copy %X[%block, %zero] to %half : !matrix, !half1x8192
    gpu.map %half : !half1x8192 origin []
        ins()
        outs(%wide : !wide1x8192 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f16):
      %f = arith.extf %e : f16 to f32
      %at = gpu.tile_index 1
      %of = affine.apply affine_map<(d0) -> (d0 floordiv 8 * 8)> (%at)
      %inside = arith.cmpi slt, %of, %N : index
      %v = arith.select %inside, %f, %lowest : f32
      gpu.yield %v : f32
    }
    gpu.reduce max %wide by affine_map<(i, j) -> (i)> into %top : !wide1x8192, !wide1
    gpu.map %wide : !wide1x8192 origin []
        ins(%top : !wide1 affine_map<(i, j) -> (i)>)
        outs(%wide : !wide1x8192 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32, %t: f32):
      %d = arith.subf %e, %t : f32
      %l = arith.mulf %d, %log2e : f32
      %p = math.exp2 %l fastmath<afn> : f32
      gpu.yield %p : f32
    }
    gpu.reduce sum %wide by affine_map<(i, j) -> (i)> into %sum : !wide1x8192, !wide1
    gpu.map %sum : !wide1 origin []
        ins()
        outs(%sum : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %r = arith.divf %unit, %e : f32
      gpu.yield %r : f32
    }
    gpu.map %wide : !wide1x8192 origin []
        ins(%sum : !wide1 affine_map<(i, j) -> (i)>)
        outs(%half : !half1x8192 affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f32, %r: f32):
      %p = arith.mulf %e, %r : f32
      %y = arith.truncf %p : f32 to f16
      gpu.yield %y : f16
    }
    gpu.copy %half to %Y[%block, %zero] : !half1x8192, !matrix
    gpu.return
  }

  // A row a block, too long for registers: it waits in shared memory while it is read again.  Every
  // thread reads what it copied itself, in parts of 8 neighbours.
  gpu.kernel @softmax_shared(
      %X: !matrix = tensor 0,
      %Y: !matrix = tensor 1, %M: index = symbol M, %N: index = symbol N)
      threads 256 blocks_per_sm 3 {
    %row = gpu.block_id
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %lowest = arith.constant 0xFF800000 : f32
    %least = arith.constant -3.40282347E+38 : f32
    %nothing = arith.constant 0.0 : f32
    %log2e = arith.constant 1.44269502 : f32
    %unit = arith.constant 1.0 : f32
    %chunks = arith.constant 16 : index
    %kept = gpu.shared_tile : !ring16x2048
    %half = gpu.fragment : !half1x2048
    %wide = gpu.fragment : !wide1x2048
    %part = gpu.fragment : !wide256
    %new = gpu.fragment : !wide256
    %most = gpu.fragment : !wide256
    %top = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    scf.for %i = %zero to %chunks step %one {
      %j = affine.apply affine_map<(i) -> (i * 2048)> (%i)
      gpu.copy %X[%row, %j] to %kept slot %i loader "cp_async" : !matrix, !ring16x2048
    } {unroll}
    gpu.cp_async_commit
    gpu.cp_async_wait 0
    gpu.barrier
    // Finite, so that nothing is subtracted from itself where a part has no element yet.
    gpu.fill %least, %most : !wide256
    gpu.fill %nothing, %part : !wide256
    scf.for %i = %zero to %chunks step %one {
      %j = affine.apply affine_map<(i) -> (i * 2048)> (%i)
      gpu.copy %kept slot %i to %half : !ring16x2048, !half1x2048
      gpu.map %half : !half1x2048 origin []
          ins()
          outs(%wide : !wide1x2048 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16):
        %f = arith.extf %e : f16 to f32
        %at = gpu.tile_index 1
        %of = affine.apply affine_map<(d0) -> (d0 floordiv 8 * 8)> (%at)
        %place = arith.addi %of, %j : index
        %inside = arith.cmpi slt, %place, %N : index
        %v = arith.select %inside, %f, %lowest : f32
        gpu.yield %v : f32
      }
      gpu.reduce max %wide by affine_map<(i, j) -> (j floordiv 8)> into %new : !wide1x2048, !wide256
      gpu.map %new : !wide256 origin []
          ins(%most : !wide256 affine_map<(i) -> (i)>,
              %part : !wide256 affine_map<(i) -> (i)>)
          outs(%most : !wide256 affine_map<(i) -> (i)>,
               %part : !wide256 affine_map<(i) -> (i)>) {
      ^bb0(%e: f32, %o: f32, %q: f32):
        %n = arith.maximumf %e, %o : f32
        %d = arith.subf %o, %n : f32
        %l = arith.mulf %d, %log2e : f32
        %f = math.exp2 %l fastmath<afn> : f32
        %t = arith.mulf %q, %f : f32
        gpu.yield %n, %t : f32, f32
      }
      gpu.map %wide : !wide1x2048 origin []
          ins(%most : !wide256 affine_map<(i, j) -> (j floordiv 8)>)
          outs(%wide : !wide1x2048 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f32, %z: f32):
        %d = arith.subf %e, %z : f32
        %l = arith.mulf %d, %log2e : f32
        %p = math.exp2 %l fastmath<afn> : f32
        gpu.yield %p : f32
      }
      gpu.reduce sum %wide by affine_map<(i, j) -> (j floordiv 8)> into %part accumulate : !wide1x2048, !wide256
    } {unroll}
    gpu.reduce max %most by affine_map<(i) -> (0)> into %top : !wide256, !wide1
    gpu.map %most : !wide256 origin []
        ins(%top : !wide1 affine_map<(i) -> (0)>,
            %part : !wide256 affine_map<(i) -> (i)>)
        outs(%part : !wide256 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32, %t: f32, %q: f32):
      %d = arith.subf %e, %t : f32
      %l = arith.mulf %d, %log2e : f32
      %f = math.exp2 %l fastmath<afn> : f32
      %n = arith.mulf %q, %f : f32
      gpu.yield %n : f32
    }
    gpu.reduce sum %part by affine_map<(i) -> (0)> into %sum : !wide256, !wide1
    gpu.map %sum : !wide1 origin []
        ins()
        outs(%sum : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %r = arith.divf %unit, %e : f32
      gpu.yield %r : f32
    }
    scf.for %i = %zero to %chunks step %one {
      %j = affine.apply affine_map<(i) -> (i * 2048)> (%i)
      gpu.copy %kept slot %i to %half : !ring16x2048, !half1x2048
      gpu.map %half : !half1x2048 origin []
          ins(%top : !wide1 affine_map<(i, j) -> (i)>,
              %sum : !wide1 affine_map<(i, j) -> (i)>)
          outs(%half : !half1x2048 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16, %t: f32, %r: f32):
        %f = arith.extf %e : f16 to f32
        %d = arith.subf %f, %t : f32
        %l = arith.mulf %d, %log2e : f32
        %p = math.exp2 %l fastmath<afn> : f32
        %n = arith.mulf %p, %r : f32
        %y = arith.truncf %n : f32 to f16
        gpu.yield %y : f16
      }
      gpu.copy %half to %Y[%row, %j] : !half1x2048, !matrix
    } {unroll}
    gpu.return
  }

  // A row a team of CTAs, 8192 columns each, and as many teams as run at once.  Each CTA tells the
  // others the statistics of its columns through a workspace, and counts itself in.  It writes the
  // row an iteration later, so that few have to wait; a ring of rows keeps the loads going.
  gpu.kernel @softmax_grid(
      %X: !matrix = tensor 0, %Y: !matrix = tensor 1, %tops: !told = workspace "tops",
      %sums: !told = workspace "sums", %arrived: !counters = workspace "arrived",
      %M: index = symbol M, %N: index = symbol N)
      threads 256 blocks_per_sm 4 {
    %block = gpu.block_id
    %grid = gpu.grid_size
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %lowest = arith.constant 0xFF800000 : f32
    %least = arith.constant -3.40282347E+38 : f32
    %nothing = arith.constant 0.0 : f32
    %log2e = arith.constant 1.44269502 : f32
    %unit = arith.constant 1.0 : f32
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
    %new = gpu.fragment : !wide256
    %most = gpu.fragment : !wide256
    %top = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    %all_tops = gpu.fragment : !wide256
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
        // Finite, so that nothing is subtracted from itself where a part has no element yet.
        gpu.fill %least, %most : !wide256
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
            %at = gpu.tile_index 1
            %of = affine.apply affine_map<(d0) -> (d0 floordiv 8 * 8)> (%at)
            %place = arith.addi %of, %j : index
            %inside = arith.cmpi slt, %place, %N : index
            %v = arith.select %inside, %f, %lowest : f32
            gpu.yield %v : f32
          }
          gpu.reduce max %wide by affine_map<(i, j) -> (j floordiv 8)> into %new : !wide1x2048, !wide256
          gpu.map %new : !wide256 origin []
              ins(%most : !wide256 affine_map<(i) -> (i)>,
                  %part : !wide256 affine_map<(i) -> (i)>)
              outs(%most : !wide256 affine_map<(i) -> (i)>,
                   %part : !wide256 affine_map<(i) -> (i)>) {
          ^bb0(%e: f32, %o: f32, %q: f32):
            %n = arith.maximumf %e, %o : f32
            %d = arith.subf %o, %n : f32
            %l = arith.mulf %d, %log2e : f32
            %f = math.exp2 %l fastmath<afn> : f32
            %t = arith.mulf %q, %f : f32
            gpu.yield %n, %t : f32, f32
          }
          gpu.map %wide : !wide1x2048 origin []
              ins(%most : !wide256 affine_map<(i, j) -> (j floordiv 8)>)
              outs(%wide : !wide1x2048 affine_map<(i, j) -> (i, j)>) {
          ^bb0(%e: f32, %z: f32):
            %d = arith.subf %e, %z : f32
            %l = arith.mulf %d, %log2e : f32
            %p = math.exp2 %l fastmath<afn> : f32
            gpu.yield %p : f32
          }
          gpu.reduce sum %wide by affine_map<(i, j) -> (j floordiv 8)> into %part accumulate : !wide1x2048, !wide256
        } {unroll}
        gpu.reduce max %most by affine_map<(i) -> (0)> into %top : !wide256, !wide1
        gpu.map %most : !wide256 origin []
            ins(%top : !wide1 affine_map<(i) -> (0)>,
                %part : !wide256 affine_map<(i) -> (i)>)
            outs(%part : !wide256 affine_map<(i) -> (i)>) {
        ^bb0(%e: f32, %t: f32, %q: f32):
          %d = arith.subf %e, %t : f32
          %l = arith.mulf %d, %log2e : f32
          %f = math.exp2 %l fastmath<afn> : f32
          %n = arith.mulf %q, %f : f32
          gpu.yield %n : f32
        }
        gpu.reduce sum %part by affine_map<(i) -> (0)> into %sum : !wide256, !wide1
        gpu.copy %top to %tops[%row, %member] : !wide1, !told
        gpu.copy %sum to %sums[%row, %member] : !wide1, !told
        gpu.grid_signal %arrived[%row] : !counters
      }
      %follows = arith.cmpi sgt, %turn, %zero : index
      scf.if %follows {
        %before = arith.subi %row, %teams : index
        gpu.grid_wait %arrived[%before] until %members : !counters
        gpu.copy %tops[%before, %zero] to %all_tops : !told, !wide256
        gpu.copy %sums[%before, %zero] to %all_sums : !told, !wide256
        gpu.map %all_tops : !wide256 origin []
            ins()
            outs(%all_tops : !wide256 affine_map<(i) -> (i)>) {
        ^bb0(%e: f32):
          %at = gpu.tile_index 0
          %inside = arith.cmpi slt, %at, %members : index
          %v = arith.select %inside, %e, %least : f32
          gpu.yield %v : f32
        }
        gpu.reduce max %all_tops by affine_map<(i) -> (0)> into %top : !wide256, !wide1
        gpu.map %all_tops : !wide256 origin []
            ins(%top : !wide1 affine_map<(i) -> (0)>,
                %all_sums : !wide256 affine_map<(i) -> (i)>)
            outs(%all_sums : !wide256 affine_map<(i) -> (i)>) {
        ^bb0(%e: f32, %t: f32, %q: f32):
          %d = arith.subf %e, %t : f32
          %l = arith.mulf %d, %log2e : f32
          %f = math.exp2 %l fastmath<afn> : f32
          %n = arith.mulf %q, %f : f32
          gpu.yield %n : f32
        }
        gpu.reduce sum %all_sums by affine_map<(i) -> (0)> into %sum : !wide256, !wide1
        gpu.map %sum : !wide1 origin []
            ins()
            outs(%sum : !wide1 affine_map<(i) -> (i)>) {
        ^bb0(%e: f32):
          %r = arith.divf %unit, %e : f32
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
          gpu.map %half : !half1x2048 origin []
              ins(%top : !wide1 affine_map<(i, j) -> (i)>,
                  %sum : !wide1 affine_map<(i, j) -> (i)>)
              outs(%half : !half1x2048 affine_map<(i, j) -> (i, j)>) {
          ^bb0(%e: f16, %t: f32, %r: f32):
            %f = arith.extf %e : f16 to f32
            %d = arith.subf %f, %t : f32
            %l = arith.mulf %d, %log2e : f32
            %p = math.exp2 %l fastmath<afn> : f32
            %n = arith.mulf %p, %r : f32
            %y = arith.truncf %n : f32 to f16
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

  // A row a cluster of 16, 8 chunks a CTA.  A ring of 13 chunks lets the next row's first
  // ones come while this row's sums are exchanged through distributed shared memory.
  gpu.kernel @softmax_cluster(
      %X: !matrix = tensor 0,
      %Y: !matrix = tensor 1, %M: index = symbol M, %N: index = symbol N)
      threads 1024 cluster 16 {
    %block = gpu.block_id
    %grid = gpu.grid_size
    %rank = gpu.cluster_rank
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %lowest = arith.constant 0xFF800000 : f32
    %least = arith.constant -3.40282347E+38 : f32
    %nothing = arith.constant 0.0 : f32
    %log2e = arith.constant 1.44269502 : f32
    %unit = arith.constant 1.0 : f32
    %eight = arith.constant 8 : index
    %depth = arith.constant 13 : index
    %first = affine.apply affine_map<(d0) -> (d0 floordiv 16)> (%block)
    %step = affine.apply affine_map<(d0) -> (d0 floordiv 16)> (%grid)
    %base = affine.apply affine_map<(d0) -> (d0 * 65536)> (%rank)
    %kept = gpu.shared_tile : !ring13x8192
    %half = gpu.fragment : !half1x8192
    %wide = gpu.fragment : !wide1x8192
    %part = gpu.fragment : !wide1024
    %new = gpu.fragment : !wide1024
    %most = gpu.fragment : !wide1024
    %top = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    // Fill the ring: chunk i is in this CTA's row of number i floordiv 8.
    scf.for %i = %zero to %depth step %one {
      %later = affine.apply affine_map<(d0) -> (d0 floordiv 8)> (%i)
      %ahead = arith.muli %later, %step : index
      %from = arith.addi %first, %ahead : index
      %j = affine.apply affine_map<(d0, d1) -> (d0 mod 8 * 8192 + d1)> (%i, %base)
      gpu.copy %X[%from, %j] to %kept slot %i loader "cp_async" : !matrix, !ring13x8192
      gpu.cp_async_commit
    }
    %end = scf.for %row = %first to %M step %step iter_args(%done = %zero) -> (index) {
      // Finite, so that nothing is subtracted from itself where a part has no element yet.
      gpu.fill %least, %most : !wide1024
      gpu.fill %nothing, %part : !wide1024
      scf.for %i = %zero to %eight step %one {
        %j = affine.apply affine_map<(d0, d1) -> (d0 * 8192 + d1)> (%i, %base)
        %slot = affine.apply affine_map<(d0, d1) -> ((d0 + d1) mod 13)> (%i, %done)
        // The chunk came a whole ring of groups ago; every chunk of a pass closes one.
        gpu.cp_async_wait 12
        gpu.cp_async_commit
        gpu.copy %kept slot %slot to %half : !ring13x8192, !half1x8192
        gpu.map %half : !half1x8192 origin []
            ins()
            outs(%wide : !wide1x8192 affine_map<(i, j) -> (i, j)>) {
        ^bb0(%e: f16):
          %f = arith.extf %e : f16 to f32
          %at = gpu.tile_index 1
          %of = affine.apply affine_map<(d0) -> (d0 floordiv 8 * 8)> (%at)
          %place = arith.addi %of, %j : index
          %inside = arith.cmpi slt, %place, %N : index
          %v = arith.select %inside, %f, %lowest : f32
          gpu.yield %v : f32
        }
        gpu.reduce max %wide by affine_map<(i, j) -> (j floordiv 8)> into %new : !wide1x8192, !wide1024
        gpu.map %new : !wide1024 origin []
            ins(%most : !wide1024 affine_map<(i) -> (i)>,
                %part : !wide1024 affine_map<(i) -> (i)>)
            outs(%most : !wide1024 affine_map<(i) -> (i)>,
                 %part : !wide1024 affine_map<(i) -> (i)>) {
        ^bb0(%e: f32, %o: f32, %q: f32):
          %n = arith.maximumf %e, %o : f32
          %d = arith.subf %o, %n : f32
          %l = arith.mulf %d, %log2e : f32
          %f = math.exp2 %l fastmath<afn> : f32
          %t = arith.mulf %q, %f : f32
          gpu.yield %n, %t : f32, f32
        }
        gpu.map %wide : !wide1x8192 origin []
            ins(%most : !wide1024 affine_map<(i, j) -> (j floordiv 8)>)
            outs(%wide : !wide1x8192 affine_map<(i, j) -> (i, j)>) {
        ^bb0(%e: f32, %z: f32):
          %d = arith.subf %e, %z : f32
          %l = arith.mulf %d, %log2e : f32
          %p = math.exp2 %l fastmath<afn> : f32
          gpu.yield %p : f32
        }
        gpu.reduce sum %wide by affine_map<(i, j) -> (j floordiv 8)> into %part accumulate : !wide1x8192, !wide1024
      }
      gpu.reduce max %most by affine_map<(i) -> (0)> into %top cluster : !wide1024, !wide1
      gpu.map %most : !wide1024 origin []
          ins(%top : !wide1 affine_map<(i) -> (0)>,
              %part : !wide1024 affine_map<(i) -> (i)>)
          outs(%part : !wide1024 affine_map<(i) -> (i)>) {
      ^bb0(%e: f32, %t: f32, %q: f32):
        %d = arith.subf %e, %t : f32
        %l = arith.mulf %d, %log2e : f32
        %f = math.exp2 %l fastmath<afn> : f32
        %n = arith.mulf %q, %f : f32
        gpu.yield %n : f32
      }
      gpu.reduce sum %part by affine_map<(i) -> (0)> into %sum cluster : !wide1024, !wide1
      gpu.map %sum : !wide1 origin []
          ins()
          outs(%sum : !wide1 affine_map<(i) -> (i)>) {
      ^bb0(%e: f32):
        %r = arith.divf %unit, %e : f32
        gpu.yield %r : f32
      }
      scf.for %i = %zero to %eight step %one {
        %j = affine.apply affine_map<(d0, d1) -> (d0 * 8192 + d1)> (%i, %base)
        %slot = affine.apply affine_map<(d0, d1) -> ((d0 + d1) mod 13)> (%i, %done)
        gpu.copy %kept slot %slot to %half : !ring13x8192, !half1x8192
        // What has been read makes room for the chunk that is a ring further on.
        %later = affine.apply affine_map<(d0) -> ((d0 + 13) floordiv 8)> (%i)
        %rows = arith.muli %later, %step : index
        %from = arith.addi %row, %rows : index
        %column = affine.apply affine_map<(d0, d1) -> ((d0 + 13) mod 8 * 8192 + d1)> (%i, %base)
        gpu.copy %X[%from, %column] to %kept slot %slot loader "cp_async" : !matrix, !ring13x8192
        gpu.cp_async_commit
        gpu.map %half : !half1x8192 origin []
            ins(%top : !wide1 affine_map<(i, j) -> (i)>,
                %sum : !wide1 affine_map<(i, j) -> (i)>)
            outs(%half : !half1x8192 affine_map<(i, j) -> (i, j)>) {
        ^bb0(%e: f16, %t: f32, %r: f32):
          %f = arith.extf %e : f16 to f32
          %d = arith.subf %f, %t : f32
          %l = arith.mulf %d, %log2e : f32
          %p = math.exp2 %l fastmath<afn> : f32
          %n = arith.mulf %p, %r : f32
          %y = arith.truncf %n : f32 to f16
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
  gpu.kernel @softmax_any(
      %X: !matrix = tensor 0,
      %Y: !matrix = tensor 1, %M: index = symbol M, %N: index = symbol N)
      threads 256 {
    %row = gpu.block_id
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %lowest = arith.constant 0xFF800000 : f32
    %least = arith.constant -3.40282347E+38 : f32
    %nothing = arith.constant 0.0 : f32
    %log2e = arith.constant 1.44269502 : f32
    %unit = arith.constant 1.0 : f32
    %step = arith.constant 1024 : index
    %half = gpu.fragment : !half1x1024
    %wide = gpu.fragment : !wide1x1024
    %part = gpu.fragment : !wide256
    %new = gpu.fragment : !wide256
    %most = gpu.fragment : !wide256
    %top = gpu.fragment : !wide1
    %sum = gpu.fragment : !wide1
    // Finite, so that nothing is subtracted from itself where a part has no element yet.
    gpu.fill %least, %most : !wide256
    gpu.fill %nothing, %part : !wide256
    scf.for %j = %zero to %N step %step {
      gpu.copy %X[%row, %j] to %half : !matrix, !half1x1024
      gpu.map %half : !half1x1024 origin []
          ins()
          outs(%wide : !wide1x1024 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16):
        %f = arith.extf %e : f16 to f32
        %at = gpu.tile_index 1
        %place = arith.addi %at, %j : index
        %inside = arith.cmpi slt, %place, %N : index
        %v = arith.select %inside, %f, %lowest : f32
        gpu.yield %v : f32
      }
      gpu.reduce max %wide by affine_map<(i, j) -> (j mod 256)> into %new : !wide1x1024, !wide256
      gpu.map %new : !wide256 origin []
          ins(%most : !wide256 affine_map<(i) -> (i)>,
              %part : !wide256 affine_map<(i) -> (i)>)
          outs(%most : !wide256 affine_map<(i) -> (i)>,
               %part : !wide256 affine_map<(i) -> (i)>) {
      ^bb0(%e: f32, %o: f32, %q: f32):
        %n = arith.maximumf %e, %o : f32
        %d = arith.subf %o, %n : f32
        %l = arith.mulf %d, %log2e : f32
        %f = math.exp2 %l fastmath<afn> : f32
        %t = arith.mulf %q, %f : f32
        gpu.yield %n, %t : f32, f32
      }
      gpu.map %wide : !wide1x1024 origin []
          ins(%most : !wide256 affine_map<(i, j) -> (j mod 256)>)
          outs(%wide : !wide1x1024 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f32, %z: f32):
        %d = arith.subf %e, %z : f32
        %l = arith.mulf %d, %log2e : f32
        %p = math.exp2 %l fastmath<afn> : f32
        gpu.yield %p : f32
      }
      gpu.reduce sum %wide by affine_map<(i, j) -> (j mod 256)> into %part accumulate : !wide1x1024, !wide256
    }
    gpu.reduce max %most by affine_map<(i) -> (0)> into %top : !wide256, !wide1
    gpu.map %most : !wide256 origin []
        ins(%top : !wide1 affine_map<(i) -> (0)>,
            %part : !wide256 affine_map<(i) -> (i)>)
        outs(%part : !wide256 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32, %t: f32, %q: f32):
      %d = arith.subf %e, %t : f32
      %l = arith.mulf %d, %log2e : f32
      %f = math.exp2 %l fastmath<afn> : f32
      %n = arith.mulf %q, %f : f32
      gpu.yield %n : f32
    }
    gpu.reduce sum %part by affine_map<(i) -> (0)> into %sum : !wide256, !wide1
    gpu.map %sum : !wide1 origin []
        ins()
        outs(%sum : !wide1 affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %r = arith.divf %unit, %e : f32
      gpu.yield %r : f32
    }
    scf.for %j = %zero to %N step %step {
      gpu.copy %X[%row, %j] to %half : !matrix, !half1x1024
      gpu.map %half : !half1x1024 origin []
          ins(%top : !wide1 affine_map<(i, j) -> (i)>,
              %sum : !wide1 affine_map<(i, j) -> (i)>)
          outs(%half : !half1x1024 affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16, %t: f32, %r: f32):
        %f = arith.extf %e : f16 to f32
        %d = arith.subf %f, %t : f32
        %l = arith.mulf %d, %log2e : f32
        %p = math.exp2 %l fastmath<afn> : f32
        %n = arith.mulf %p, %r : f32
        %y = arith.truncf %n : f32 to f16
        gpu.yield %y : f16
      }
      gpu.copy %half to %Y[%row, %j] : !half1x1024, !matrix
    }
    gpu.return
  }

  gpu.dispatch (X: !matrix) -> (Y: !matrix) {
    gpu.launch @softmax_warp when (N mod 8 == 0, N <= 1024) align [16, 16] grid [(M + 3) floordiv 4]
    gpu.launch @softmax_block when (N mod 8 == 0, N <= 4096) align [16, 16] grid [M]
    gpu.launch @softmax_wide when (N mod 8 == 0, N <= 8192) align [16, 16] grid [M]
    gpu.launch @softmax_shared when (N mod 8 == 0, N <= 32768) align [16, 16] grid [M]
    gpu.sequence @softmax_grid when (N mod 8 == 0, N <= 2097152) align [16, 16] {
      gpu.workspace "tops" : !told
      gpu.workspace "sums" : !told
      gpu.workspace "arrived" zeroed : !counters
      gpu.launch @softmax_grid grid [M, (N + 8191) floordiv 8192]
          persistent cooperative [(N + 8191) floordiv 8192]
    }
    gpu.launch @softmax_cluster when (N mod 8 == 0, N <= 1048576) align [16, 16] grid [16 * M] persistent
    gpu.launch @softmax_any align [2, 2] grid [M]
  }
}
