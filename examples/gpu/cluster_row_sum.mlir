// y[i] = the sum of row i by two CTAs of a cluster: each sums every other chunk of 128, a tree of
// shuffles and shared memory brings it to one number, and the second CTA hands its number to the
// first through distributed shared memory.
gpu.module @cluster_row_sum arch "sm_90a" symbols [M, N] {
  gpu.kernel @cluster_row_sum(%X: !gpu.global<[M, N], f32> = tensor 0, %y: !gpu.global<[M], f32> = tensor 1, %M: index = symbol M, %N: index = symbol N) threads 128 cluster 2 {
    %block = gpu.block_id
    %rank = gpu.cluster_rank
    %row = affine.apply affine_map<(d0) -> (d0 floordiv 2)> (%block)
    %warps = gpu.shared_tile : !gpu.shared<[1, 4], f32, swizzle 0>
    %peers = gpu.shared_tile : !gpu.shared<[1, 4], f32, swizzle 0>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %four = arith.constant 4 : index
    %five = arith.constant 5 : index
    %sixteen = arith.constant 16 : index
    %nothing = arith.constant 0.0 : f32
    %thread = gpu.thread_id
    %lane = affine.apply affine_map<(d0) -> (d0 mod 32)> (%thread)
    %warp = affine.apply affine_map<(d0) -> (d0 floordiv 32)> (%thread)
    %steps = affine.apply affine_map<(d0) -> (d0 ceildiv 256)> (%N)
    %own = scf.for %j = %zero to %steps step %one iter_args(%sum = %nothing) -> (f32) {
      %k = affine.apply affine_map<(d0, d1, d2) -> (d0 + d1 * 256 + d2 * 128)> (%thread, %j, %rank)
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
      %to = gpu.element_address %warps[%zero][%zero, %warp] : !gpu.shared<[1, 4], f32, swizzle 0>
      gpu.store_shared %of_warp, %to : f32
    }
    gpu.barrier
    %first_thread = arith.cmpi eq, %thread, %zero : index
    %second = arith.cmpi eq, %rank, %one : index
    %total = scf.for %w = %zero to %four step %one iter_args(%sum = %nothing) -> (f32) {
      %from = gpu.element_address %warps[%zero][%zero, %w] : !gpu.shared<[1, 4], f32, swizzle 0>
      %part = gpu.load_shared %from : f32
      %next = arith.addf %sum, %part : f32
      scf.yield %next : f32
    }
    %mailbox = gpu.element_address %peers[%zero][%zero, %zero] : !gpu.shared<[1, 4], f32, swizzle 0>
    %hands_over = arith.andi %first_thread, %second : i1
    // A peer's shared memory is there once the peer has started.
    gpu.cluster_barrier
    scf.if %hands_over {
      %there = gpu.map_shared %mailbox, %zero
      gpu.store_cluster %total, %there : f32
    }
    gpu.cluster_barrier
    %first = arith.cmpi eq, %rank, %zero : index
    %writes = arith.andi %first_thread, %first : i1
    scf.if %writes {
      %theirs = gpu.load_shared %mailbox : f32
      %all = arith.addf %total, %theirs : f32
      gpu.store_global %all, %y[%row : index] : f32, !gpu.global<[M], f32>
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f32>) -> (y: !gpu.global<[M], f32>) {
    gpu.launch @cluster_row_sum align [4, 4] grid [2 * M]
  }
}
