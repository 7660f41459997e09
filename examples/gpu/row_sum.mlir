// y[i] = the sum of row i: a block a row, partial sums in registers, a tree of shuffles in
// each warp, and one partial sum a warp through shared memory.
gpu.module @row_sum arch "sm_80" symbols [M, N] {
  gpu.kernel @row_sum(%X: !gpu.global<[M, N], f32> = tensor 0, %y: !gpu.global<[M], f32> = tensor 1, %M: index = symbol M, %N: index = symbol N) threads 256 {
    %row = gpu.block_id
    %tile = gpu.shared_tile : !gpu.shared<[1, 8], f32, swizzle 0>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %five = arith.constant 5 : index
    %eight = arith.constant 8 : index
    %sixteen = arith.constant 16 : index
    %nothing = arith.constant 0.0 : f32
    %thread = gpu.thread_id
    %lane = affine.apply affine_map<(d0) -> (d0 mod 32)> (%thread)
    %warp = affine.apply affine_map<(d0) -> (d0 floordiv 32)> (%thread)
    %steps = affine.apply affine_map<(d0) -> (d0 ceildiv 256)> (%N)
    %own = scf.for %j = %zero to %steps step %one iter_args(%sum = %nothing) -> (f32) {
      %k = affine.apply affine_map<(d0, d1) -> (d0 + d1 * 256)> (%thread, %j)
      %x = gpu.load_global %X[%row, %k : index, index] : !gpu.global<[M, N], f32> -> f32
      %next = arith.addf %sum, %x : f32
      scf.yield %next : f32
    }
    %of_warp, %last = scf.for %j = %zero to %five step %one iter_args(%sum = %own, %mask = %sixteen) -> (f32, index) {
      %other = gpu.shuffle "xor" %sum, %mask : f32 -> f32
      %next = arith.addf %sum, %other : f32
      %half = affine.apply affine_map<(d0) -> (d0 floordiv 2)> (%mask)
      scf.yield %next, %half : f32, index
    }
    %first_lane = arith.cmpi eq, %lane, %zero : index
    scf.if %first_lane {
      %to = gpu.element_address %tile[%zero][%zero, %warp] : !gpu.shared<[1, 8], f32, swizzle 0>
      gpu.store_shared %of_warp, %to : f32
    }
    gpu.barrier
    %first_thread = arith.cmpi eq, %thread, %zero : index
    scf.if %first_thread {
      %total = scf.for %w = %zero to %eight step %one iter_args(%sum = %nothing) -> (f32) {
        %from = gpu.element_address %tile[%zero][%zero, %w] : !gpu.shared<[1, 8], f32, swizzle 0>
        %part = gpu.load_shared %from : f32
        %next = arith.addf %sum, %part : f32
        scf.yield %next : f32
      }
      gpu.store_global %total, %y[%row : index] : f32, !gpu.global<[M], f32>
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f32>) -> (y: !gpu.global<[M], f32>) {
    gpu.launch @row_sum align [4, 4] grid [M]
  }
}
