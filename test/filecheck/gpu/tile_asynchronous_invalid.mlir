// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: not two of a kind: !gpu.fragment<[64, 64], f16> to !gpu.fragment<[64, 64], f16>; gpu.map copies fragments
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
    gpu.copy %f to %f : !gpu.fragment<[64, 64], f16>, !gpu.fragment<[64, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: shared tiles are copied through a fragment
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    gpu.copy %s to %s : !gpu.shared<[64, 64], f16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: a copy does not convert !gpu.fragment<[64, 64], f32> to !gpu.shared<[64, 64], f16>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %g = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.copy %g to %s : !gpu.fragment<[64, 64], f32>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: coordinates are for a tensor in global memory
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
    gpu.copy %f[%M, %M] to %s : !gpu.fragment<[64, 64], f16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: one end has coordinates
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    gpu.copy %C[%M, %M] to %s[%M, %M] : !gpu.global<[M, N], f16, align 16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: [64, 64] is no part of [64, 256], nor the other way, at [0, 224]; a window says where the smaller tile begins in the larger
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %w = gpu.fragment : !gpu.fragment<[64, 256], f16>
    gpu.copy %w to %s window <0, 224> : !gpu.fragment<[64, 256], f16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: [64, 64] is no part of [64, 256], nor the other way, at [0, 0]
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %w = gpu.fragment : !gpu.fragment<[64, 256], f16>
    gpu.copy %w to %s : !gpu.fragment<[64, 256], f16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: a window is of a copy between a fragment and a shared tile
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    gpu.copy %C[%M, %M] to %s window <0, 0> : !gpu.global<[M, N], f16, align 16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: a slot is of a ring of shared tiles, not of !gpu.fragment<[64, 64], f16>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
    gpu.copy %s to %f slot %M : !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: a loader is of a copy between global and shared memory
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
    gpu.copy %s to %f loader "tma" : !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: cp.async only loads; a store is tma or register
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    gpu.copy %s to %C[%M, %M] loader "cp_async" : !gpu.shared<[64, 64], f16>, !gpu.global<[M, N], f16, align 16>
    gpu.return
  }
}

// -----

// CHECK: only a load signals a ring or an mbarrier
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %b = gpu.mbarrier : !gpu.mbarrier<1>
    gpu.copy %s to %C[%M, %M] signal %b : !gpu.mbarrier<1> at %M : !gpu.shared<[64, 64], f16>, !gpu.global<[M, N], f16, align 16>
    gpu.return
  }
}

// -----

// CHECK: only a load is multicast
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    gpu.copy %s to %C[%M, %M] multicast : !gpu.shared<[64, 64], f16>, !gpu.global<[M, N], f16, align 16>
    gpu.return
  }
}

// -----

// CHECK: a token is of an asynchronous copy between global and shared memory that signals nothing
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
    %t = gpu.copy %f to %C[%M, %M] : !gpu.fragment<[64, 64], f16>, !gpu.global<[M, N], f16, align 16> -> !gpu.token
    gpu.return
  }
}

// -----

// CHECK: a copy gives a !gpu.token or nothing
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %t = gpu.copy %s to %C[%M, %M] : !gpu.shared<[64, 64], f16>, !gpu.global<[M, N], f16, align 16> -> index
    gpu.return
  }
}

// -----

// CHECK: an atomic is add, max or min, not "mul"
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
    gpu.atomic "mul" %f to %C[%M, %M] : !gpu.fragment<[64, 64], f16>, !gpu.global<[M, N], f16, align 16>
    gpu.return
  }
}

// -----

// CHECK: an atomic does not convert !gpu.fragment<[64, 64], f32> to !gpu.global<[M, N], f16, align 16>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %g = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.atomic "add" %g to %C[%M, %M] : !gpu.fragment<[64, 64], f32>, !gpu.global<[M, N], f16, align 16>
    gpu.return
  }
}

// -----

// CHECK: a tensor of rank 2 takes 2 coordinates and a fragment of rank 2 or less, not 1 and !gpu.fragment<[64, 64], f16>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
    gpu.atomic "add" %f to %C[%M] : !gpu.fragment<[64, 64], f16>, !gpu.global<[M, N], f16, align 16>
    gpu.return
  }
}

// -----

// CHECK: a fragment on the left is [m, k], or [k, m] of wgmma, and has no slots
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
    %g = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.contract %f affine_map<(m, n, k) -> (k, m)>, %s affine_map<(m, n, k) -> (k, n)> into %g mma "mma.sync" warp_tile <64, 64> : !gpu.fragment<[64, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f32>
    gpu.return
  }
}

// -----

// CHECK: an await names the tokens that it waits for, or how many contracts may stay pending: one of both
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    gpu.await
    gpu.return
  }
}

// -----

// CHECK: a tile has coordinates in the body of a gpu.map only
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %i = gpu.tile_index 0
    gpu.return
  }
}

// -----

// CHECK: a tile of rank 1 has no axis 1
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %v = gpu.fragment : !gpu.fragment<[64], f32>
    gpu.map %v : !gpu.fragment<[64], f32> origin [] ins() outs() {
    ^bb0(%x : f32):
      %i = gpu.tile_index 1
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: is written at each element's own place, so it has the sizes [64] and the map (d0) -> (d0), not (d0) -> (d0, d0)
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %v = gpu.fragment : !gpu.fragment<[64], f32>
    %g = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.map %v : !gpu.fragment<[64], f32> origin [] ins() outs(%g : !gpu.fragment<[64, 64], f32> affine_map<(d0) -> (d0, d0)>) {
    ^bb0(%x : f32):
      gpu.yield %x : f32
    }
    gpu.return
  }
}

// -----

// CHECK: a reduction is sum, prod, max, min, not "mean"
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %g = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %v = gpu.fragment : !gpu.fragment<[64], f32>
    gpu.reduce mean %g by affine_map<(d0, d1) -> (d0)> into %v : !gpu.fragment<[64, 64], f32>, !gpu.fragment<[64], f32>
    gpu.return
  }
}

// -----

// CHECK: a reduction does not convert !gpu.fragment<[64, 64], f16> to !gpu.fragment<[64], f32>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
    %v = gpu.fragment : !gpu.fragment<[64], f32>
    gpu.reduce sum %f by affine_map<(d0, d1) -> (d0)> into %v : !gpu.fragment<[64, 64], f16>, !gpu.fragment<[64], f32>
    gpu.return
  }
}

// -----

// CHECK: (d0, d1) -> (d0, d1) does not take !gpu.fragment<[64, 64], f32> to !gpu.fragment<[64], f32>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %g = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %v = gpu.fragment : !gpu.fragment<[64], f32>
    gpu.reduce sum %g by affine_map<(d0, d1) -> (d0, d1)> into %v : !gpu.fragment<[64, 64], f32>, !gpu.fragment<[64], f32>
    gpu.return
  }
}

// -----

// CHECK: element [63, 0] of !gpu.fragment<[64, 64], f32> falls on [126], outside !gpu.fragment<[64], f32>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %g = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %v = gpu.fragment : !gpu.fragment<[64], f32>
    gpu.reduce sum %g by affine_map<(d0, d1) -> (d0 * 2)> into %v : !gpu.fragment<[64, 64], f32>, !gpu.fragment<[64], f32>
    gpu.return
  }
}

// -----

// CHECK: a ring is read by 1 consumer or more, not 0
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %r = gpu.ring consumers 0 : !gpu.ring<2>
    gpu.return
  }
}

// -----

// CHECK: a ring spans 1, 2, 4, 8 or 16 CTAs, not 3
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %r = gpu.ring consumers 1 peers 3 : !gpu.ring<2>
    gpu.return
  }
}

// -----

// CHECK: 2 to 4 warpgroups take turns, not 1
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %o = gpu.order_barrier : !gpu.order<1>
    gpu.return
  }
}

// -----

// CHECK: independent consumers see their number, an index
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    gpu.roles consumers 2 independent registers [0, 0] producer {
      gpu.yield
    } consumer {
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: consumers that work together see nothing
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    gpu.roles consumers 2 registers [0, 0] producer {
      gpu.yield
    } consumer (%w) {
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: tiles have two axes or more and a positive size on each, not [64] for 1 sizes
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    gpu.tile_loop (%i, %n) = [%M] tile <64> raster "row" 1 {
    }
    gpu.return
  }
}

// -----

// CHECK: the body takes 2 first coordinates and the tile's ordinal, all of type index
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    gpu.tile_loop (%i, %n) = [%M, %M] tile <64, 64> raster "row" 1 {
    }
    gpu.return
  }
}

// -----

// CHECK: pingpong gives each consumer its share of the tiles: drop it
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    gpu.tile_loop (%i, %j, %n) = [%M, %M] tile <64, 64> raster "row" 1 share %M of 2 pingpong {
    }
    gpu.return
  }
}

// -----

// CHECK: pairs are of CTAs that take their tiles whole; drop share and pingpong
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    gpu.tile_loop (%i, %j, %n) = [%M, %M] tile <64, 64> raster "row" 1 paired pingpong {
    }
    gpu.return
  }
}

// -----

// CHECK: a raster is one of row, column, grouped, shorter, hilbert, not "zigzag"
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    gpu.tile_loop (%i, %j, %n) = [%M, %M] tile <64, 64> raster "zigzag" 1 {
    }
    gpu.return
  }
}

// -----

// CHECK: a raster group has 1 or more rows, not 0
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    gpu.tile_loop (%i, %j, %n) = [%M, %M] tile <64, 64> raster "grouped" 0 {
    }
    gpu.return
  }
}

// -----

// CHECK: tiles are not shared by 0
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    gpu.tile_loop (%i, %j, %n) = [%M, %M] tile <64, 64> raster "row" 1 share %M of 0 {
    }
    gpu.return
  }
}

// -----

// CHECK: a Hilbert curve fills squares whose side is a power of two, not 6
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    gpu.tile_loop (%i, %j, %n) = [%M, %M] tile <64, 64> raster "hilbert" 6 {
    }
    gpu.return
  }
}

// -----

// CHECK: numbers go on from tile to tile, not !gpu.order<2>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %order = gpu.order_barrier : !gpu.order<2>
    %0 = gpu.tile_loop (%i, %j, %n) = [%M, %M] tile <64, 64> raster "row" 1 iter_args(%o = %order) -> (!gpu.order<2>) {
      gpu.yield %o : !gpu.order<2>
    }
    gpu.return
  }
}

// -----

// CHECK: the body yields () for iter_args of (index): one each, of the same type
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %0 = gpu.tile_loop (%i, %j, %n) = [%M, %M] tile <64, 64> raster "row" 1 iter_args(%o = %M) -> (index) {
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: the body yields (index) for iter_args of (): one each, of the same type
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    gpu.tile_loop (%i, %j, %n) = [%M, %M] tile <64, 64> raster "row" 1 {
      gpu.yield %i : index
    }
    gpu.return
  }
}

// -----

// CHECK: 2 iter_args have as many types, not 1
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %0 = gpu.tile_loop (%i, %j, %n) = [%M, %M] tile <64, 64> raster "row" 1 iter_args(%o = %M, %p = %M) -> (index) {
      gpu.yield %o : index
    }
    gpu.return
  }
}

// -----

// CHECK: lines of 48 elements are of a shared tile that has one for each row of a fragment, and of no part of it, not of !gpu.shared<[49, 64], f16> to !gpu.fragment<[64, 64], f16>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[49, 64], f16>
    %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
    gpu.copy %s to %f line 48 : !gpu.shared<[49, 64], f16>, !gpu.fragment<[64, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: lines are of a copy from a shared tile to a fragment
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M) threads 384 {
    %s = gpu.shared_tile : !gpu.shared<[49, 64], f16>
    gpu.copy %C[%M, %M] to %s line 49 loader "register" : !gpu.global<[M, N], f16, align 16>, !gpu.shared<[49, 64], f16>
    gpu.return
  }
}
