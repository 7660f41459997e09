// A copy by a producer thread with TMA and a consumer warp, through a ring of two slots with
// full and empty mbarriers.
gpu.module @tma_copy arch "sm_90a" symbols [M, N] {
  gpu.kernel @tma_copy_ring(%Y: !gpu.global<[M, N], f16, align 16> = tensor 1, %M: index = symbol M, %N: index = symbol N, %map: !gpu.tensor_map<[8, 64], f16, swizzle 128> = tensor_map 0) threads 64 shared_bytes 2080 {
    %ring = gpu.shared_tile at 0 : !gpu.shared<[8, 64], f16, swizzle 128, ring 2>
    %full = gpu.mbarrier at 2048 : !gpu.mbarrier<2>
    %empty = gpu.mbarrier at 2064 : !gpu.mbarrier<2>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    %thread = gpu.thread_id
    %column = gpu.block_id
    %first = arith.cmpi eq, %thread, %zero : index
    scf.if %first {
      scf.for %s = %zero to %two step %one {
        gpu.mbarrier_init %full[%s] count 1 : !gpu.mbarrier<2>
        gpu.mbarrier_init %empty[%s] count 32 : !gpu.mbarrier<2>
      } {unroll}
      gpu.fence_mbarrier_init
    }
    gpu.barrier
    %iterations = affine.apply affine_map<(d0) -> ((d0 + 7) floordiv 8)> (%M)
    %n0 = affine.apply affine_map<(d0) -> (d0 * 64)> (%column)
    %half = affine.apply affine_map<(d0) -> (d0 floordiv 32)> (%thread)
    %warp = gpu.warp_uniform %half
    %consumer = arith.cmpi eq, %warp, %one : index
    scf.if %consumer {
      %lane = affine.apply affine_map<(d0) -> (d0 mod 32)> (%thread)
      scf.for %i = %zero to %iterations step %one {
        %slot = affine.apply affine_map<(d0) -> (d0 mod 2)> (%i)
        %parity = affine.apply affine_map<(d0) -> ((d0 floordiv 2) mod 2)> (%i)
        gpu.mbarrier_wait %full[%slot] parity %parity : !gpu.mbarrier<2>
        %base = gpu.shared_address %ring[%slot] : !gpu.shared<[8, 64], f16, swizzle 128, ring 2>
        scf.for %j = %zero to %two step %one {
          %r = affine.apply affine_map<(d0, d1) -> (d0 floordiv 8 + d1 * 4)> (%lane, %j)
          %chunk = affine.apply affine_map<(d0) -> (d0 mod 8)> (%lane)
          %where = arith.xori %chunk, %r : index
          %byte = affine.apply affine_map<(d0, d1) -> (d0 * 128 + d1 * 16)> (%r, %where)
          %byte32 = arith.index_cast %byte : index to i32
          %address = arith.addi %base, %byte32 : i32
          %value = gpu.load_shared %address : vector<8xf16>
          %row = affine.apply affine_map<(d0, d1) -> (d0 * 8 + d1)> (%i, %r)
          %at = affine.apply affine_map<(d0, d1) -> (d0 + d1 * 8)> (%n0, %chunk)
          %in_rows = arith.cmpi slt, %row, %M : index
          %in_columns = arith.cmpi slt, %at, %N : index
          %inside = arith.andi %in_rows, %in_columns : i1
          gpu.store_global %value, %Y[%row, %at : index, index] if %inside : vector<8xf16>, !gpu.global<[M, N], f16, align 16>
        } {unroll}
        gpu.mbarrier_arrive %empty[%slot] : !gpu.mbarrier<2>
      }
    } else {
      scf.if %first {
        scf.for %i_1 = %zero to %iterations step %one {
          %slot_1 = affine.apply affine_map<(d0) -> (d0 mod 2)> (%i_1)
          %parity_1 = affine.apply affine_map<(d0) -> ((d0 floordiv 2 + 1) mod 2)> (%i_1)
          gpu.mbarrier_wait %empty[%slot_1] parity %parity_1 : !gpu.mbarrier<2>
          gpu.mbarrier_expect %full[%slot_1] bytes 1024 : !gpu.mbarrier<2>
          %m0 = affine.apply affine_map<(d0) -> (d0 * 8)> (%i_1)
          %to = gpu.shared_address %ring[%slot_1] : !gpu.shared<[8, 64], f16, swizzle 128, ring 2>
          gpu.tma_load %map[%m0, %n0] to %to, %full[%slot_1] : !gpu.tensor_map<[8, 64], f16, swizzle 128>, !gpu.mbarrier<2>
        }
      }
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f16>) -> (Y: !gpu.global<[M, N], f16>) {
    gpu.launch @tma_copy_ring when (N mod 8 == 0) align [16, 16] grid [(N + 63) floordiv 64]
  }
}
