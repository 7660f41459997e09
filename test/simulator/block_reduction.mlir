// The sum of each row: one CTA a row, a tree in shared memory with a barrier a level.
gpu.module @block_reduction arch "sm_80" symbols [M, N] {
  gpu.kernel @block_reduction_tree(%X: !gpu.global<[M, N], f32> = tensor 0, %Y: !gpu.global<[M], f32> = tensor 1, %N: index = symbol N) threads 128 shared_bytes 512 {
    %row = gpu.block_id
    %thread = gpu.thread_id
    %tile = gpu.shared_tile at 0 : !gpu.shared<[128], f32, swizzle 0>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %threads = arith.constant 128 : index
    %levels = arith.constant 7 : index
    %start = arith.constant 0.0 : f32
    %sum = scf.for %k = %thread to %N step %threads iter_args(%partial = %start) -> (f32) {
      %x = gpu.load_global %X[%row, %k : index, index] : !gpu.global<[M, N], f32> -> f32
      %added = arith.addf %partial, %x : f32
      scf.yield %added : f32
    }
    %base = gpu.shared_address %tile[%zero] : !gpu.shared<[128], f32, swizzle 0>
    %offset = affine.apply affine_map<(d0) -> (d0 * 4)> (%thread)
    %offset32 = arith.index_cast %offset : index to i32
    %mine = arith.addi %base, %offset32 : i32
    gpu.store_shared %sum, %mine : f32
    gpu.barrier
    %half = arith.constant 64 : index
    scf.for %level = %zero to %levels step %one {
      %stride = arith.shrui %half, %level : index
      %active = arith.cmpi slt, %thread, %stride : index
      scf.if %active {
        %far = affine.apply affine_map<(d0) -> (d0 * 4)> (%stride)
        %far32 = arith.index_cast %far : index to i32
        %other = arith.addi %mine, %far32 : i32
        %a = gpu.load_shared %mine : f32
        %b = gpu.load_shared %other : f32
        %c = arith.addf %a, %b : f32
        gpu.store_shared %c, %mine : f32
      }
      gpu.barrier
    }
    %first = arith.cmpi eq, %thread, %zero : index
    scf.if %first {
      %total = gpu.load_shared %mine : f32
      gpu.store_global %total, %Y[%row : index] : f32, !gpu.global<[M], f32>
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f32>) -> (Y: !gpu.global<[M], f32>) {
    gpu.launch @block_reduction_tree align [4, 4] grid [M]
  }
}
