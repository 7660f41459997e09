// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// What the CTAs of a cluster have together: one tile, and the sums of what each has of it.
gpu.module @m arch "sm_90a" symbols [M, N] {
  // CHECK: gpu.kernel @every_op
  gpu.kernel @every_op(%M: index = symbol M, %N: index = symbol N) threads 128 cluster 4 {
    // CHECK-NEXT: %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <64, 128> raster "row" 1 cluster
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <64, 128> raster "row" 1 cluster
    // CHECK-NEXT: %m1, %n1 = gpu.tile_coordinates[%M, %N] tile <64, 128> raster "grouped" 8 cluster {mine = 1 : i64}
    %m1, %n1 = gpu.tile_coordinates[%M, %N] tile <64, 128> raster "grouped" 8 cluster {mine = 1 : i64}
    %acc = gpu.fragment : !gpu.fragment<[64, 128], f32>
    // CHECK: %part = gpu.fragment
    %part = gpu.fragment : !gpu.fragment<[64, 32], f32>
    // CHECK-NEXT: gpu.reduce_scatter sum %acc into %part : !gpu.fragment<[64, 128], f32>, !gpu.fragment<[64, 32], f32>
    gpu.reduce_scatter sum %acc into %part : !gpu.fragment<[64, 128], f32>, !gpu.fragment<[64, 32], f32>
    // CHECK-NEXT: gpu.reduce_scatter max %acc rows %M into %part {mine = 2 : i64} : !gpu.fragment<[64, 128], f32>, !gpu.fragment<[64, 32], f32>
    gpu.reduce_scatter max %acc rows %M into %part {mine = 2 : i64} : !gpu.fragment<[64, 128], f32>, !gpu.fragment<[64, 32], f32>
    %full = gpu.mbarrier : !gpu.mbarrier<2>
    // CHECK: gpu.mbarrier_wait %full[%M] parity %N cluster : !gpu.mbarrier<2>
    gpu.mbarrier_wait %full[%M] parity %N cluster : !gpu.mbarrier<2>
    // CHECK-NEXT: gpu.mbarrier_wait %full[%M] parity %N : !gpu.mbarrier<2>
    gpu.mbarrier_wait %full[%M] parity %N : !gpu.mbarrier<2>
    gpu.return
  }
}
