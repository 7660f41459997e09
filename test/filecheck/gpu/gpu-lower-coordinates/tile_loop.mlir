// RUN: polyc-opt %s -p gpu-lower-coordinates | filecheck %s

// A tile loop is a loop over the numbers of the cluster's tiles, from its own on in steps of the grid.
gpu.module @m arch "sm_90a" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%T: !gpu.global<[M, N], f32> = tensor 0, %M: index = symbol M, %N: index = symbol N) threads 32 cluster 2 {
    %zero = arith.constant 0.0 : f32
    // CHECK: [[TILES:%.*]] = arith.muli
    // CHECK-NEXT: %block = gpu.block_id
    // CHECK-NEXT: %grid = gpu.grid_size
    // CHECK-NEXT: %cluster = affine.apply affine_map<(d0) -> ((d0 floordiv 2))> (%block)
    // CHECK-NEXT: %clusters = affine.apply affine_map<(d0) -> ((d0 floordiv 2))> (%grid)
    // CHECK-NEXT: %rank = gpu.cluster_rank
    // CHECK: scf.for %number = %cluster to [[TILES]] step %clusters iter_args(%n = %{{.*}}) -> (index) {
    gpu.tile_loop (%i, %j, %n) = [%M, %N] tile <16, 8> raster "row" 1 {
      // CHECK: [[ROW:%.*]] = affine.apply affine_map<(d0, d1) -> (((d0 * 2) + d1))> (%{{.*}}, %rank)
      // CHECK: %i = affine.apply affine_map<(d0) -> ((d0 * 16))> ([[ROW]])
      // CHECK-NEXT: %j = affine.apply affine_map<(d0) -> ((d0 * 8))>
      // CHECK: gpu.store_global %zero, %T[%i, %j : index, index]
      gpu.store_global %zero, %T[%i, %j : index, index] : f32, !gpu.global<[M, N], f32>
      // CHECK: scf.yield
    }
    gpu.return
  }
}

// What goes on from tile to tile the loop carries behind the ordinal.
gpu.module @n arch "sm_90a" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%T: !gpu.global<[M, N], f32> = tensor 0, %M: index = symbol M, %N: index = symbol N) threads 32 {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    // CHECK: %{{.*}}, [[ROWS:%.*]] = scf.for %number = %block to %{{.*}} step %grid iter_args(%n = %{{.*}}, %sum = %c0) -> (index, index) {
    %rows = gpu.tile_loop (%i, %j, %n) = [%M, %N] tile <16, 8> raster "row" 1 iter_args(%sum = %c0) -> (index) {
      // CHECK: %next = arith.addi %sum, %i : index
      %next = arith.addi %sum, %i : index
      // CHECK: scf.yield %{{.*}}, %next : index, index
      gpu.yield %next : index
    }
    // CHECK: gpu.store_global %zero, %T{{\[}}[[ROWS]], %c0 : index, index]
    gpu.store_global %zero, %T[%rows, %c0 : index, index] : f32, !gpu.global<[M, N], f32>
    gpu.return
  }
}
