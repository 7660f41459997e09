// Y = X W^T for one 64 x 8 tile: threads store the operands to shared memory themselves, so the
// async proxy needs a fence before wgmma reads them.  No swizzle: 8 x 16-byte core matrices.
gpu.module @wgmma_tile arch "sm_90a" symbols [M] {
  gpu.kernel @wgmma_tile_64(%X: !gpu.global<[M, 16], f16, align 16> = tensor 0, %W: !gpu.global<[8, 16], f16, align 16> = tensor 1, %Y: !gpu.global<[M, 8], f32, align 8> = tensor 2) threads 128 shared_bytes 2304 {
    %block = gpu.block_id
    %m0 = affine.apply affine_map<(d0) -> (d0 * 64)> (%block)
    %thread = gpu.thread_id
    %a_tile = gpu.shared_tile at 0 : !gpu.shared<[64, 16], f16, swizzle 0>
    %b_tile = gpu.shared_tile at 2048 : !gpu.shared<[8, 16], f16, swizzle 0>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %four = arith.constant 4 : index
    %sixteen = arith.constant 16 : index
    %nothing = arith.constant 0.0 : f32
    %r = affine.apply affine_map<(d0) -> (d0 floordiv 2)> (%thread)
    %row = affine.apply affine_map<(d0, d1) -> (d0 + d1)> (%m0, %r)
    %k = affine.apply affine_map<(d0) -> ((d0 mod 2) * 8)> (%thread)
    %byte = affine.apply affine_map<(d0) -> ((d0 floordiv 16) * 256 + ((d0 floordiv 2) mod 8) * 16 + (d0 mod 2) * 128)> (%thread)
    %byte32 = arith.index_cast %byte : index to i32
    %a_base = gpu.shared_address %a_tile[%zero] : !gpu.shared<[64, 16], f16, swizzle 0>
    %b_base = gpu.shared_address %b_tile[%zero] : !gpu.shared<[8, 16], f16, swizzle 0>
    %x = gpu.load_global %X[%row, %k : index, index] : !gpu.global<[M, 16], f16, align 16> -> vector<8xf16>
    %a_to = arith.addi %a_base, %byte32 : i32
    gpu.store_shared %x, %a_to : vector<8xf16>
    %few = arith.cmpi slt, %thread, %sixteen : index
    scf.if %few {
      %w = gpu.load_global %W[%r, %k : index, index] : !gpu.global<[8, 16], f16, align 16> -> vector<8xf16>
      %b_to = arith.addi %b_base, %byte32 : i32
      gpu.store_shared %w, %b_to : vector<8xf16>
    }
    gpu.fence_proxy_async
    gpu.barrier
    %acc = memref.alloca() : memref<4xf32, #gpu<space register>>
    scf.for %i = %zero to %four step %one {
      memref.store %nothing, %acc[%i] : memref<4xf32, #gpu<space register>>
    } {unroll}
    gpu.register_fence %acc : memref<4xf32, #gpu<space register>>
    %a = gpu.wgmma_descriptor %a_base leading 128 stride 256 swizzle 0
    %b = gpu.wgmma_descriptor %b_base leading 128 stride 256 swizzle 0
    gpu.wgmma_fence
    gpu.wgmma n 8 %a plus 0, %b plus 0, %acc element f16 : memref<4xf32, #gpu<space register>>
    gpu.wgmma_commit
    gpu.wgmma_wait 0
    gpu.register_fence %acc : memref<4xf32, #gpu<space register>>
    %two = arith.constant 2 : index
    scf.for %h = %zero to %two step %one {
      %first = affine.apply affine_map<(d0) -> (d0 * 2)> (%h)
      %second = affine.apply affine_map<(d0) -> (d0 * 2 + 1)> (%h)
      %p = memref.load %acc[%first] : memref<4xf32, #gpu<space register>>
      %q = memref.load %acc[%second] : memref<4xf32, #gpu<space register>>
      %pair = gpu.pack %p, %q : f32, f32 -> vector<2xf32>
      %y = affine.apply affine_map<(d0, d1, d2) -> ((d0 floordiv 32) * 16 + (d0 mod 32) floordiv 4 + d1 * 8 + d2)> (%thread, %h, %m0)
      %n = affine.apply affine_map<(d0) -> ((d0 mod 4) * 2)> (%thread)
      gpu.store_global %pair, %Y[%y, %n : index, index] : vector<2xf32>, !gpu.global<[M, 8], f32, align 8>
    } {unroll}
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, 16], f16>, W: !gpu.global<[8, 16], f16>) -> (Y: !gpu.global<[M, 8], f32>) {
    gpu.launch @wgmma_tile_64 when (M mod 64 == 0) align [16, 16, 16] grid [M floordiv 64]
  }
}
