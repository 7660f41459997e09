// Y = Xᵀ through a shared tile: rows are read and written in order, the tile turns them.
// Written by hand; the gpu passes add the guards, the offsets and the swizzled addresses.
gpu.module @transpose arch "sm_80" symbols [M, N] {
  gpu.kernel @transpose(%X: !gpu.global<[M, N], f32> = tensor 0, %Y: !gpu.global<[N, M], f32> = tensor 1, %M: index = symbol M, %N: index = symbol N) threads 256 {
    %row0, %column0 = gpu.tile_coordinates[%M, %N] tile <32, 32> raster "row" 1
    %tile = gpu.shared_tile : !gpu.shared<[32, 32], f32, swizzle 128>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %four = arith.constant 4 : index
    %thread = gpu.thread_id
    %lane = affine.apply affine_map<(d0) -> (d0 mod 32)> (%thread)
    %warp = affine.apply affine_map<(d0) -> (d0 floordiv 32)> (%thread)
    scf.for %j = %zero to %four step %one {
      %line = affine.apply affine_map<(d0, d1) -> (d0 + d1 * 8)> (%warp, %j)
      %i = affine.apply affine_map<(d0, d1) -> (d0 + d1)> (%row0, %line)
      %k = affine.apply affine_map<(d0, d1) -> (d0 + d1)> (%column0, %lane)
      %x = gpu.load_global %X[%i, %k : index, index] : !gpu.global<[M, N], f32> -> f32
      %to = gpu.element_address %tile[%zero][%line, %lane] : !gpu.shared<[32, 32], f32, swizzle 128>
      gpu.store_shared %x, %to : f32
    } {unroll}
    gpu.barrier
    scf.for %j = %zero to %four step %one {
      %line = affine.apply affine_map<(d0, d1) -> (d0 + d1 * 8)> (%warp, %j)
      %from = gpu.element_address %tile[%zero][%lane, %line] : !gpu.shared<[32, 32], f32, swizzle 128>
      %x = gpu.load_shared %from : f32
      %i = affine.apply affine_map<(d0, d1) -> (d0 + d1)> (%column0, %line)
      %k = affine.apply affine_map<(d0, d1) -> (d0 + d1)> (%row0, %lane)
      gpu.store_global %x, %Y[%i, %k : index, index] : f32, !gpu.global<[N, M], f32>
    } {unroll}
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f32>) -> (Y: !gpu.global<[N, M], f32>) {
    gpu.launch @transpose align [4, 4] grid [(M + 31) floordiv 32, (N + 31) floordiv 32]
  }
}
