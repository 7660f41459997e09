// A copy through a ring of two shared slots with cp.async; each thread stores what another
// one loaded, so that the barriers matter.
gpu.module @pipelined_copy arch "sm_80" symbols [N] {
  gpu.kernel @pipelined_copy_ring(%X: !gpu.global<[N], f32, align 16> = tensor 0, %Y: !gpu.global<[N], f32, align 16> = tensor 1, %N: index = symbol N) threads 64 shared_bytes 2048 {
    %ring = gpu.shared_tile at 0 : !gpu.shared<[256], f32, swizzle 0, ring 2>
    %thread = gpu.thread_id
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %iterations = affine.apply affine_map<(d0) -> ((d0 + 255) floordiv 256)> (%N)
    %at = affine.apply affine_map<(d0) -> (d0 * 4)> (%thread)
    %inside = arith.cmpi slt, %at, %N : index
    %bytes = affine.apply affine_map<(d0) -> (d0 * 16)> (%thread)
    %bytes32 = arith.index_cast %bytes : index to i32
    %mirror = affine.apply affine_map<(d0) -> (1008 - d0 * 16)> (%thread)
    %mirror32 = arith.index_cast %mirror : index to i32
    %slot0 = gpu.shared_address %ring[%zero] : !gpu.shared<[256], f32, swizzle 0, ring 2>
    %to0 = arith.addi %slot0, %bytes32 : i32
    %at64 = arith.index_cast %at : index to i64
    gpu.cp_async %to0, %X[%at64 : i64] bytes 16 if %inside : !gpu.global<[N], f32, align 16>
    gpu.cp_async_commit
    scf.for %i = %zero to %iterations step %one {
      gpu.cp_async_wait 0
      gpu.barrier
      %next = affine.apply affine_map<(d0) -> (d0 + 1)> (%i)
      %more = arith.cmpi slt, %next, %iterations : index
      scf.if %more {
        %slot = affine.apply affine_map<(d0) -> (d0 mod 2)> (%next)
        %from = affine.apply affine_map<(d0, d1) -> (d0 * 256 + d1 * 4)> (%next, %thread)
        %valid = arith.cmpi slt, %from, %N : index
        %from64 = arith.index_cast %from : index to i64
        %base = gpu.shared_address %ring[%slot] : !gpu.shared<[256], f32, swizzle 0, ring 2>
        %to = arith.addi %base, %bytes32 : i32
        gpu.cp_async %to, %X[%from64 : i64] bytes 16 if %valid : !gpu.global<[N], f32, align 16>
      }
      gpu.cp_async_commit
      %slot_1 = affine.apply affine_map<(d0) -> (d0 mod 2)> (%i)
      %base_1 = gpu.shared_address %ring[%slot_1] : !gpu.shared<[256], f32, swizzle 0, ring 2>
      %address = arith.addi %base_1, %mirror32 : i32
      %value = gpu.load_shared %address : vector<4xf32>
      %out = affine.apply affine_map<(d0, d1) -> (d0 * 256 + 252 - d1 * 4)> (%i, %thread)
      %valid_1 = arith.cmpi slt, %out, %N : index
      %out64 = arith.index_cast %out : index to i64
      gpu.store_global %value, %Y[%out64 : i64] if %valid_1 : vector<4xf32>, !gpu.global<[N], f32, align 16>
    }
    gpu.cp_async_wait 0
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N], f32>) -> (Y: !gpu.global<[N], f32>) {
    gpu.launch @pipelined_copy_ring when (N mod 4 == 0) align [16, 16] grid [1]
  }
}
