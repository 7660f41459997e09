// Y = X by the copy engine both ways: one thread fills a ring of two tiles ahead of the stores
// that empty it.  A tile is stored straight from where it arrived, so a slot is free again
// when the store of two tiles ago has read it.
gpu.module @pipelined_copy arch "sm_90a" symbols [M, N] {
  gpu.kernel @pipelined_copy(%X: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 0, %Y: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 1, %M: index = symbol M, %N: index = symbol N) threads 32 {
    %tile = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128, ring 2>
    %full = gpu.mbarrier : !gpu.mbarrier<2>
    %block = gpu.block_id
    %thread = gpu.thread_id
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %first = arith.cmpi eq, %thread, %zero : index
    scf.if %first {
      gpu.mbarrier_init %full[%zero] count 1 : !gpu.mbarrier<2>
      gpu.mbarrier_init %full[%one] count 1 : !gpu.mbarrier<2>
      gpu.fence_mbarrier_init
      %row = affine.apply affine_map<(d0) -> (d0 * 64)> (%block)
      %tiles = affine.apply affine_map<(d0) -> (d0 ceildiv 64)> (%N)
      gpu.mbarrier_expect %full[%zero] bytes 8192 : !gpu.mbarrier<2>
      %start = gpu.shared_address %tile[%zero] : !gpu.shared<[64, 64], f16, swizzle 128, ring 2>
      gpu.tma_load %X[%row, %zero] to %start, %full[%zero] : !gpu.tensor_map<[64, 64], f16, swizzle 128>, !gpu.mbarrier<2>
      scf.for %i = %zero to %tiles step %one {
        %slot = affine.apply affine_map<(d0) -> (d0 mod 2)> (%i)
        %parity = affine.apply affine_map<(d0) -> ((d0 floordiv 2) mod 2)> (%i)
        %next = affine.apply affine_map<(d0) -> (d0 + 1)> (%i)
        %more = arith.cmpi slt, %next, %tiles : index
        scf.if %more {
          // The other slot was stored in the iteration before: its store must have read it.
          gpu.bulk_wait read 0
          %other = affine.apply affine_map<(d0) -> (d0 mod 2)> (%next)
          %column = affine.apply affine_map<(d0) -> (d0 * 64)> (%next)
          gpu.mbarrier_expect %full[%other] bytes 8192 : !gpu.mbarrier<2>
          %to = gpu.shared_address %tile[%other] : !gpu.shared<[64, 64], f16, swizzle 128, ring 2>
          gpu.tma_load %X[%row, %column] to %to, %full[%other] : !gpu.tensor_map<[64, 64], f16, swizzle 128>, !gpu.mbarrier<2>
        }
        gpu.mbarrier_wait %full[%slot] parity %parity : !gpu.mbarrier<2>
        %from = gpu.shared_address %tile[%slot] : !gpu.shared<[64, 64], f16, swizzle 128, ring 2>
        %place = affine.apply affine_map<(d0) -> (d0 * 64)> (%i)
        gpu.tma_store %from to %Y[%row, %place] : !gpu.tensor_map<[64, 64], f16, swizzle 128>
        gpu.bulk_commit
      }
      gpu.bulk_wait 0
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f16, align 16>) -> (Y: !gpu.global<[M, N], f16, align 16>) {
    gpu.launch @pipelined_copy when (N mod 8 == 0, N >= 1) align [16, 16] grid [(M + 63) floordiv 64]
  }
}
