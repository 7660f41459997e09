// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: tiles have two axes or more and a positive size on each, not [16] for 2 sizes
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %a, %b = gpu.tile_coordinates[%M, %M] tile <16> raster "row" 8
    gpu.return
  }
}

// -----

// CHECK: tiles have two axes or more and a positive size on each, not [16, 0] for 2 sizes
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %a, %b = gpu.tile_coordinates[%M, %M] tile <16, 0> raster "row" 8
    gpu.return
  }
}

// -----

// CHECK: a raster is one of row, column, grouped, not "hilbert"
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %a, %b = gpu.tile_coordinates[%M, %M] tile <16, 16> raster "hilbert" 8
    gpu.return
  }
}

// -----

// CHECK: a raster group has 1 or more rows, not 0
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %a, %b = gpu.tile_coordinates[%M, %M] tile <16, 16> raster "grouped" 0
    gpu.return
  }
}

// -----

// CHECK: f16 does not fill !gpu.fragment<[16, 16], f32>
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %x = arith.constant 1.0 : f16
    %f = gpu.fragment : !gpu.fragment<[16, 16], f32>
    "gpu.fill"(%x, %f) : (f16, !gpu.fragment<[16, 16], f32>) -> ()
    gpu.return
  }
}

// -----

// CHECK: gpu.fill sets a !gpu.fragment
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %x = arith.constant 1.0 : f32
    gpu.fill %x, %x : f32
    gpu.return
  }
}

// -----

// CHECK: a tensor of rank 2 is copied at 2 coordinates, as a tile of rank 2 or less, not at 1 with !gpu.shared<[16, 16], f16>
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    gpu.copy %A[%M] to %t : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 16], f16>
    gpu.return
  }
}

// -----

// CHECK: a tensor of rank 2 is copied at 2 coordinates, as a tile of rank 2 or less, not at 2 with !gpu.shared<[1, 4, 16], f16>
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[1, 4, 16], f16>
    gpu.copy %A[%M, %M] to %t : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[1, 4, 16], f16>
    gpu.return
  }
}

// -----

// CHECK: a copy does not convert !gpu.global<[M, K], f16, align 16> to !gpu.shared<[16, 16], f32>
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[16, 16], f32>
    gpu.copy %A[%M, %M] to %t : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: a loader is one of tma, cp_async, register, not "dma"
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    gpu.copy %A[%M, %M] to %t loader "dma" : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 16], f16>
    gpu.return
  }
}

// -----

// CHECK: mma is wgmma or mma.sync or fma, not "dp4a"
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %c = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "dp4a" warp_tile <16, 16> : !gpu.shared<[16, 16], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[16, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: the maps take (m, n, k) to (m, k) or (k, m) on the left and to (k, n) or (n, k) on the right, not (d0, d1, d2) -> (d0, d1) and (d0, d1, d2) -> (d2, d1)
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %c = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, n)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16, 16], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[16, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: !gpu.shared<[16], f16> and !gpu.shared<[16, 16], f16> are not two matrices
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[16], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %c = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[16, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: [16, 16] times [32, 16] does not add to [16, 16]
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %b = gpu.shared_tile : !gpu.shared<[32, 16], f16>
    %c = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16, 16], f16>, !gpu.shared<[32, 16], f16>, !gpu.fragment<[16, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: [16, 16] times [16, 16] does not add to [16, 32]
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %c = gpu.fragment : !gpu.fragment<[16, 32], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16, 16], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[16, 32], f32>
    gpu.return
  }
}

// -----

// CHECK: [32, 16] times [16, 16] does not add to [16, 16]
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[16, 32], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %c = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (k, m)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16, 32], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[16, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: operands of fma are both f32, not f16 and f16
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 32 {
    %a = gpu.shared_tile : !gpu.shared<[32, 16], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %c = gpu.fragment : !gpu.fragment<[32, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "fma" warp_tile <32, 16> : !gpu.shared<[32, 16], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[32, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: fma takes a fragment on the left where a warp has all columns of its rows and the right operand is [k, n]; here a warp has 32 of 64 columns and the operand is [16, 64]
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 64 {
    %a = gpu.fragment : !gpu.fragment<[32, 16], f32>
    %b = gpu.shared_tile : !gpu.shared<[16, 64], f32>
    %c = gpu.fragment : !gpu.fragment<[32, 64], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "fma" warp_tile <32, 32> : !gpu.fragment<[32, 16], f32>, !gpu.shared<[16, 64], f32>, !gpu.fragment<[32, 64], f32>
    gpu.return
  }
}

// -----

// CHECK: fma takes a fragment on the left where a warp has all columns of its rows and the right operand is [k, n]; here a warp has 32 of 32 columns and the operand is [32, 16]
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 32 {
    %a = gpu.fragment : !gpu.fragment<[32, 16], f32>
    %b = gpu.shared_tile : !gpu.shared<[32, 16], f32>
    %c = gpu.fragment : !gpu.fragment<[32, 32], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (n, k)> into %c mma "fma" warp_tile <32, 32> : !gpu.fragment<[32, 16], f32>, !gpu.shared<[32, 16], f32>, !gpu.fragment<[32, 32], f32>
    gpu.return
  }
}

// -----

// CHECK: 32 lanes of fma have four neighbouring rows and columns each of a warp_tile, and 16x16 does not split so
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 32 {
    %a = gpu.fragment : !gpu.fragment<[16, 16], f32>
    %b = gpu.shared_tile : !gpu.shared<[16, 32], f32>
    %c = gpu.fragment : !gpu.fragment<[16, 32], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "fma" warp_tile <16, 32> : !gpu.fragment<[16, 16], f32>, !gpu.shared<[16, 32], f32>, !gpu.fragment<[16, 32], f32>
    gpu.return
  }
}

// -----

// CHECK: 32 lanes of fma have four neighbouring rows and columns each of a warp_tile, and 16x16 does not split so; make it a multiple of 32x16, 16x32, 8x64 or 4x128
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32, 16], f32>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f32>
    %c = gpu.fragment : !gpu.fragment<[32, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "fma" warp_tile <16, 16> : !gpu.shared<[32, 16], f32>, !gpu.shared<[16, 16], f32>, !gpu.fragment<[32, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: operands are both f16 or both bf16, not f16 and bf16
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], bf16>
    %c = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16, 16], f16>, !gpu.shared<[16, 16], bf16>, !gpu.fragment<[16, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: operands are both f16 or both bf16, not f32 and f32
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f32>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f32>
    %c = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16, 16], f32>, !gpu.shared<[16, 16], f32>, !gpu.fragment<[16, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: the accumulator is f32, not f16
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %c = gpu.fragment : !gpu.fragment<[16, 16], f16>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16, 16], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[16, 16], f16>
    gpu.return
  }
}

// -----

// CHECK: a tile of 16x16x16 does not split into mma.sync work of 32x16x16
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %c = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "mma.sync" warp_tile <32, 16> : !gpu.shared<[16, 16], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[16, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: a tile of 16x16x16 does not split into mma.sync work of 16x8x16
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %c = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "mma.sync" warp_tile <16, 8> : !gpu.shared<[16, 16], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[16, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: a tile of 16x16x8 does not split into mma.sync work of 16x16x16
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[16, 8], f16>
    %b = gpu.shared_tile : !gpu.shared<[8, 16], f16>
    %c = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16, 8], f16>, !gpu.shared<[8, 16], f16>, !gpu.fragment<[16, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: a tile of 96x16x16 does not split into wgmma work of 32x16x16
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[96, 16], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %c = gpu.fragment : !gpu.fragment<[96, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "wgmma" warp_tile <32, 16> : !gpu.shared<[96, 16], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[96, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: a warp_tile is [rows, columns], not [16]
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %c = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %c mma "mma.sync" warp_tile <16> : !gpu.shared<[16, 16], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[16, 16], f32>
    gpu.return
  }
}

// -----

// CHECK: -1 contracts cannot be pending
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    gpu.await pending -1
    gpu.return
  }
}

// -----

// CHECK: (d0, d1)[s0] -> (d0) does not take 2 tile axes and 1 origins to the 2 axes of !gpu.global<[M, K], f16, align 16>
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.map %f : !gpu.fragment<[16, 16], f32> origin [%M] ins(%A : !gpu.global<[M, K], f16, align 16> affine_map<(i, j)[r] -> (i)>) outs() {
    ^bb0(%x : f32, %y : f16):
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: (d0)[s0] -> (d0, (d0 + s0)) does not take 2 tile axes and 1 origins to the 2 axes of
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.map %f : !gpu.fragment<[16, 16], f32> origin [%M] ins(%A : !gpu.global<[M, K], f16, align 16> affine_map<(i)[r] -> (i, i + r)>) outs() {
    ^bb0(%x : f32, %y : f16):
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: (d0, d1) -> (d0, d1) does not take 2 tile axes and 1 origins to the 2 axes of
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.map %f : !gpu.fragment<[16, 16], f32> origin [%M] ins(%A : !gpu.global<[M, K], f16, align 16> affine_map<(i, j) -> (i, j)>) outs() {
    ^bb0(%x : f32, %y : f16):
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: the body takes one scalar an input: f32, f16
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.map %f : !gpu.fragment<[16, 16], f32> origin [%M] ins(%A : !gpu.global<[M, K], f16, align 16> affine_map<(i, j)[r] -> (i, j)>) outs() {
    ^bb0(%x : f32):
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: a cache hint is evict_first or evict_last, not "soon"
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.map %f : !gpu.fragment<[16, 16], f32> origin [%M] ins() outs() cache "soon" {
    ^bb0(%x : f32):
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: the body takes one scalar an input: f32
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.map %f : !gpu.fragment<[16, 16], f32> origin [%M] ins() outs() {
    ^bb0(%x : f16):
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: the body ends in a gpu.yield of one scalar an output: f16
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.map %f : !gpu.fragment<[16, 16], f32> origin [%M] ins() outs(%A : !gpu.global<[M, K], f16, align 16> affine_map<(i, j)[r] -> (i, j)>) {
    ^bb0(%x : f32):
      gpu.yield %x : f32
    }
    gpu.return
  }
}

// -----

// CHECK: the body ends in a gpu.yield of one scalar an output: f32
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.map %f : !gpu.fragment<[16, 16], f32> origin [%M] ins() outs(%f : !gpu.fragment<[16, 16], f32> affine_map<(i, j)[r] -> (i, j)>) {
    ^bb0(%x : f32):
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: an affine_map says which element
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.map %f : !gpu.fragment<[16, 16], f32> origin [%M] ins(%A : !gpu.global<[M, K], f16, align 16> 3 : i32) outs() {
    ^bb0(%x : f32):
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: 1 maps do not fit 0 operands
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %f = gpu.fragment : !gpu.fragment<[16, 16], f32>
    "gpu.map"(%f) <{maps = [affine_map<(i, j) -> (i, j)>], operandSegmentSizes = array<i32: 1, 0, 0, 0>}> ({
    ^bb0(%x : f32):
      gpu.yield
    }) : (!gpu.fragment<[16, 16], f32>) -> ()
    gpu.return
  }
}

// -----

// CHECK: a pipeline steps forward, not by 0
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    gpu.pipeline %k, %i = to %M step 0 stages 2 {
    }
    gpu.return
  }
}

// -----

// CHECK: a pipeline has 1 to 8 stages, not 0
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    gpu.pipeline %k, %i = to %M step 16 stages 0 {
    }
    gpu.return
  }
}

// -----

// CHECK: a pipeline has 1 to 8 stages, not 9
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    gpu.pipeline %k, %i = to %M step 16 stages 9 {
    }
    gpu.return
  }
}

// -----

// CHECK: a pipeline's body takes the position and the iteration
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    "gpu.pipeline"(%M) <{step = 16 : index, stages = 2 : index}> ({
    ^bb0(%k : index):
      gpu.yield
    }) : (index) -> ()
    gpu.return
  }
}

// -----

// CHECK: registers are [producer, consumer]
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    gpu.roles consumers 2 registers [40] producer {
      gpu.yield
    } consumer {
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: a register budget is 24 to 256 in steps of 8, or 0, not 20
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    gpu.roles consumers 2 registers [20, 232] producer {
      gpu.yield
    } consumer {
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: a register budget is 24 to 256 in steps of 8, or 0, not 236
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    gpu.roles consumers 2 registers [40, 236] producer {
      gpu.yield
    } consumer {
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: 1 to 4 consumer warpgroups, not 5
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    gpu.roles consumers 5 registers [40, 232] producer {
      gpu.yield
    } consumer {
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: 1 to 4 consumer warpgroups, not 0
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    gpu.roles consumers 0 registers [40, 232] producer {
      gpu.yield
    } consumer {
      gpu.yield
    }
    gpu.return
  }
}

// -----

// CHECK: a fragment layout maps (thread, register) to coordinates
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %f = gpu.fragment : !gpu.fragment<[16], f32, #gpu.fragment_layout<threads 32, registers 1, affine_map<(t) -> (t)>>>
    gpu.return
  }
}

// -----

// CHECK: the layout gives 1 coordinates for a fragment of rank 2
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %f = gpu.fragment : !gpu.fragment<[16, 16], f32, #gpu.fragment_layout<threads 32, registers 1, affine_map<(t, r) -> (t)>>>
    gpu.return
  }
}

// -----

// CHECK: a fragment layout ends in an affine_map
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %f = gpu.fragment : !gpu.fragment<[16], f32, #gpu.fragment_layout<threads 32, registers 1, 3 : i32>>
    gpu.return
  }
}

// -----

// CHECK: a swizzle repeats every 8 rows, and panels of 4 rows after one another do not start where it does; make the rows a multiple of 8
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[4, 128], f16, swizzle 128>
    gpu.return
  }
}

// -----

// CHECK: a swizzle repeats every 8 rows, and panels of 12 rows after one another do not start where it does; make the rows a multiple of 8
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k() threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[12, 16], f16, swizzle 32, ring 2>
    gpu.return
  }
}

// -----

// CHECK: a copy signals a ring or an mbarrier at an index: give both
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %ring = gpu.ring consumers 1 : !gpu.ring<2>
    "gpu.copy"(%A, %M, %M, %t, %ring) <{loader = "tma", operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 1, 0, 1, 0>}> : (!gpu.global<[M, K], f16, align 16>, index, index, !gpu.shared<[16, 16], f16>, !gpu.ring<2>) -> ()
    gpu.return
  }
}

// -----

// CHECK: no registers hold a fragment of 1099511627776 elements: an SM has 65536 of four bytes; take smaller tiles
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k() threads 128 {
    %f = gpu.fragment : !gpu.fragment<[1048576, 1048576], f32>
    gpu.return
  }
}

// -----

// CHECK: a fragment layout has 1 to 1024 threads with 1 to 65536 elements each, not 128 with 4294967296
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k() threads 128 {
    %f = gpu.fragment : !gpu.fragment<[8, 16], f32, #gpu.fragment_layout<threads 128, registers 4294967296, affine_map<(t, r) -> (t floordiv 16, t mod 16)>>>
    gpu.return
  }
}

// -----

// CHECK: the divisor of (d0 mod 0) is not a positive integer constant
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k() threads 128 {
    %x = gpu.fragment : !gpu.fragment<[128, 8], f32>
    %m = gpu.fragment : !gpu.fragment<[128], f32>
    gpu.reduce max %x by affine_map<(i, j) -> (i mod 0)> into %m : !gpu.fragment<[128, 8], f32>, !gpu.fragment<[128], f32>
    gpu.return
  }
}

// -----

// CHECK: fragment_buffers is 1 or 2, not 3
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %acc = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %a affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <32, 32> fragment_buffers 3 : !gpu.shared<[64, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f32>
    gpu.return
  }
}

// -----

// CHECK: registers are those of a producer's thread and of a consumer's, two numbers, not [40]
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 384 registers [40] {
    gpu.return
  }
}

// -----

// CHECK: store_groups 1 is of a store from a shared tile, by 1 group of threads or more; this copies !gpu.global<[M], f16> to !gpu.shared<[64], f16>
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%A: !gpu.global<[M], f16> = tensor 0, %M: index = symbol M) threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[64], f16>
    gpu.copy %A[%M] to %a loader "register" store_groups 1 : !gpu.global<[M], f16>, !gpu.shared<[64], f16>
    gpu.return
  }
}

// -----

// CHECK: gpu.any asks of conditions (i1), not of !gpu.fragment<[64], f32>; compare in a gpu.map first
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k() threads 128 {
    %f = gpu.fragment : !gpu.fragment<[64], f32>
    %any = gpu.any %f : !gpu.fragment<[64], f32>
    gpu.return
  }
}

// -----

// CHECK: only a load by cp_async, of a matrix to shared memory, is turned, and a fragment of two axes to a shared tile; give it that loader, or let the tile lie as the tensor does
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%A: !gpu.global<[M, M], f32> = tensor 0, %M: index = symbol M) threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[64, 32], f32>
    gpu.copy %A[%M, %M] to %a turned loader "register" : !gpu.global<[M, M], f32>, !gpu.shared<[64, 32], f32>
    gpu.return
  }
}

// -----

// CHECK: cp.async turns elements of 4 bytes, which it moves one by one, not f16
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%A: !gpu.global<[M, M], f16> = tensor 0, %M: index = symbol M) threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[64, 32], f16>
    gpu.copy %A[%M, %M] to %a turned loader "cp_async" : !gpu.global<[M, M], f16>, !gpu.shared<[64, 32], f16>
    gpu.return
  }
}
