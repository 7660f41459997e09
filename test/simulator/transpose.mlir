// Y = X transposed, by tiles of 32 x 32 through shared memory with rows padded to 33.
gpu.module @transpose arch "sm_80" symbols [M, N] {
  gpu.kernel @transpose_tile(%X: !gpu.global<[M, N], f32> = tensor 0, %Y: !gpu.global<[N, M], f32> = tensor 1, %M: index = symbol M, %N: index = symbol N) threads 128 shared_bytes 4224 {
    %block = gpu.block_id
    %thread = gpu.thread_id
    %tile = gpu.shared_tile at 0 : !gpu.shared<[32, 33], f32, swizzle 0>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %eight = arith.constant 8 : index
    %columns = affine.apply affine_map<(d0) -> ((d0 + 31) floordiv 32)> (%N)
    %tile_row = arith.divui %block, %columns : index
    %tile_column = arith.remui %block, %columns : index
    %x = affine.apply affine_map<(d0) -> (d0 mod 32)> (%thread)
    %y = affine.apply affine_map<(d0) -> (d0 floordiv 32)> (%thread)
    %base = gpu.shared_address %tile[%zero] : !gpu.shared<[32, 33], f32, swizzle 0>
    scf.for %i = %zero to %eight step %one {
      %r = affine.apply affine_map<(d0, d1) -> (d0 + d1 * 4)> (%y, %i)
      %row = affine.apply affine_map<(d0, d1) -> (d0 * 32 + d1)> (%tile_row, %r)
      %column = affine.apply affine_map<(d0, d1) -> (d0 * 32 + d1)> (%tile_column, %x)
      %in_rows = arith.cmpi slt, %row, %M : index
      %in_columns = arith.cmpi slt, %column, %N : index
      %inside = arith.andi %in_rows, %in_columns : i1
      %value = gpu.load_global %X[%row, %column : index, index] if %inside : !gpu.global<[M, N], f32> -> f32
      %byte = affine.apply affine_map<(d0, d1) -> ((d0 * 33 + d1) * 4)> (%r, %x)
      %byte32 = arith.index_cast %byte : index to i32
      %to = arith.addi %base, %byte32 : i32
      gpu.store_shared %value, %to : f32
    } {unroll}
    gpu.barrier
    scf.for %j = %zero to %eight step %one {
      %r_1 = affine.apply affine_map<(d0, d1) -> (d0 + d1 * 4)> (%y, %j)
      %row_1 = affine.apply affine_map<(d0, d1) -> (d0 * 32 + d1)> (%tile_column, %r_1)
      %column_1 = affine.apply affine_map<(d0, d1) -> (d0 * 32 + d1)> (%tile_row, %x)
      %in_rows_1 = arith.cmpi slt, %row_1, %N : index
      %in_columns_1 = arith.cmpi slt, %column_1, %M : index
      %inside_1 = arith.andi %in_rows_1, %in_columns_1 : i1
      %byte_1 = affine.apply affine_map<(d0, d1) -> ((d1 * 33 + d0) * 4)> (%r_1, %x)
      %byte32_1 = arith.index_cast %byte_1 : index to i32
      %from = arith.addi %base, %byte32_1 : i32
      %value_1 = gpu.load_shared %from : f32
      gpu.store_global %value_1, %Y[%row_1, %column_1 : index, index] if %inside_1 : f32, !gpu.global<[N, M], f32>
    } {unroll}
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f32>) -> (Y: !gpu.global<[N, M], f32>) {
    gpu.launch @transpose_tile align [4, 4] grid [(M + 31) floordiv 32, (N + 31) floordiv 32]
  }
}
