// RUN: polyc-opt %s -p gpu-lower-coordinates | filecheck %s

gpu.module @m arch "sm_80" symbols [M, N] {
  // Row by row: the block's number divided by the tiles of a row.
  // CHECK-LABEL: gpu.kernel @row
  gpu.kernel @row(%A: !gpu.global<[M, N], f32> = tensor 0, %M: index = symbol M, %N: index = symbol N) threads 32 {
    // CHECK-NEXT: %block = gpu.block_id
    // CHECK-NEXT: %columns = affine.apply affine_map<(d0) -> (((d0 + 31) floordiv 32))> (%N)
    // CHECK-NEXT: [[R:%.*]] = arith.divui %block, %columns : index
    // CHECK-NEXT: [[C:%.*]] = arith.remui %block, %columns : index
    // CHECK-NEXT: %m0 = affine.apply affine_map<(d0) -> ((d0 * 16))> ([[R]])
    // CHECK-NEXT: %n0 = affine.apply affine_map<(d0) -> ((d0 * 32))> ([[C]])
    // CHECK-NEXT: gpu.load_global %A[%m0, %n0 : index, index]
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <16, 32> raster "row" 8
    %x = gpu.load_global %A[%m0, %n0 : index, index] : !gpu.global<[M, N], f32> -> f32
    gpu.return
  }

  // Bands of 8 tile rows; the last band is as high as what is left.
  // CHECK-LABEL: gpu.kernel @grouped
  gpu.kernel @grouped(%A: !gpu.global<[M, N], f32> = tensor 0, %M: index = symbol M, %N: index = symbol N) threads 32 {
    // CHECK: %rows = affine.apply affine_map<(d0) -> (((d0 + 15) floordiv 16))> (%M)
    // CHECK-NEXT: [[BLOCKS:%.*]] = affine.apply affine_map<(d0) -> ((d0 * 8))> (%columns)
    // CHECK-NEXT: [[BAND:%.*]] = arith.divui %block, [[BLOCKS]] : index
    // CHECK-NEXT: [[FIRST:%.*]] = affine.apply affine_map<(d0) -> ((d0 * 8))> ([[BAND]])
    // CHECK-NEXT: [[LEFT:%.*]] = arith.subi %rows, [[FIRST]] : index
    // CHECK: arith.minui [[LEFT]], {{%.*}} : index
    // CHECK-NOT: gpu.tile_coordinates
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <16, 32> raster "grouped" 8
    %x = gpu.load_global %A[%m0, %n0 : index, index] : !gpu.global<[M, N], f32> -> f32
    gpu.return
  }
}

gpu.module @clusters arch "sm_90a" symbols [M, N] {
  // The CTAs of a cluster have one tile: its number is the cluster's.
  // CHECK-LABEL: gpu.kernel @together
  gpu.kernel @together(%A: !gpu.global<[M, N], f32> = tensor 0, %M: index = symbol M, %N: index = symbol N) threads 32 cluster 4 {
    // CHECK-NEXT: %block = gpu.block_id
    // CHECK-NEXT: %cluster = affine.apply affine_map<(d0) -> ((d0 floordiv 4))> (%block)
    // CHECK-NEXT: %columns = affine.apply affine_map<(d0) -> (((d0 + 31) floordiv 32))> (%N)
    // CHECK-NEXT: arith.divui %cluster, %columns : index
    // CHECK-NEXT: arith.remui %cluster, %columns : index
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <16, 32> raster "row" 8 cluster
    %x = gpu.load_global %A[%m0, %n0 : index, index] : !gpu.global<[M, N], f32> -> f32
    gpu.return
  }
}
