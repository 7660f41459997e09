// RUN: polyc-opt %s | polyc-opt | filecheck %s

// CHECK: gpu.module @m arch "sm_90a" symbols [M, K] assuming (K mod 8 == 0) {
gpu.module @m arch "sm_90a" symbols [M, K] assuming (K mod 8 == 0) {
  // CHECK-NEXT: gpu.kernel @every_op(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %C: !gpu.global<[M], f32, align 16> = tensor 1, %map: !gpu.tensor_map<[128, 64], f16, swizzle 128> = tensor_map 0, %M: index = symbol M) threads 384 blocks_per_sm 2 shared_bytes 65600 {
  gpu.kernel @every_op(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %C: !gpu.global<[M], f32, align 16> = tensor 1, %map: !gpu.tensor_map<[128, 64], f16, swizzle 128> = tensor_map 0, %M: index = symbol M) threads 384 blocks_per_sm 2 shared_bytes 65600 {
    // CHECK-NEXT: %thread = gpu.thread_id
    %thread = gpu.thread_id
    // CHECK-NEXT: %block = gpu.block_id
    %block = gpu.block_id
    // CHECK-NEXT: %grid = gpu.grid_size
    %grid = gpu.grid_size
    // CHECK-NEXT: %warp = gpu.warp_uniform %thread
    %warp = gpu.warp_uniform %thread
    // CHECK-NEXT: %anew = gpu.opaque %block
    %anew = gpu.opaque %block
    // CHECK-NEXT: %one = gpu.elect
    %one = gpu.elect
    // CHECK-NEXT: %tile = gpu.shared_tile at 0 : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
    %tile = gpu.shared_tile at 0 : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
    // CHECK-NEXT: %open = gpu.shared_tile : !gpu.shared<[16, 8], f32>
    %open = gpu.shared_tile : !gpu.shared<[16, 8], f32>
    // CHECK-NEXT: %full = gpu.mbarrier at 65536 : !gpu.mbarrier<4>
    %full = gpu.mbarrier at 65536 : !gpu.mbarrier<4>
    // CHECK-NEXT: %empty = gpu.mbarrier : !gpu.mbarrier<4>
    %empty = gpu.mbarrier : !gpu.mbarrier<4>
    // CHECK-NEXT: %address = gpu.shared_address %tile[%thread] : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
    %address = gpu.shared_address %tile[%thread] : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
    // CHECK-NEXT: %offset = arith.constant 0 : i64
    %offset = arith.constant 0 : i64
    // CHECK-NEXT: %x = gpu.load_global %A[%thread, %block : index, index] : !gpu.global<[M, K], f16, align 16> -> vector<8xf16>
    %x = gpu.load_global %A[%thread, %block : index, index] : !gpu.global<[M, K], f16, align 16> -> vector<8xf16>
    // CHECK-NEXT: %y = gpu.load_global %C[%offset : i64] if %one : !gpu.global<[M], f32, align 16> -> f32
    %y = gpu.load_global %C[%offset : i64] if %one : !gpu.global<[M], f32, align 16> -> f32
    // CHECK-NEXT: %filled = gpu.load_global %C[%offset : i64] if %one else 0xff800000 : f32 : !gpu.global<[M], f32, align 16> -> f32
    %filled = gpu.load_global %C[%offset : i64] if %one else 0xff800000 : f32 : !gpu.global<[M], f32, align 16> -> f32
    // CHECK-NEXT: %once = gpu.load_global %C[%offset : i64] if %one cache "evict_first" : !gpu.global<[M], f32, align 16> -> f32
    %once = gpu.load_global %C[%offset : i64] if %one cache "evict_first" : !gpu.global<[M], f32, align 16> -> f32
    // CHECK-NEXT: %pair = gpu.pack %y, %y : f32, f32 -> vector<2xf32>
    %pair = gpu.pack %y, %y : f32, f32 -> vector<2xf32>
    // CHECK-NEXT: %z = gpu.unpack %pair element 1 : vector<2xf32> -> f32
    %z = gpu.unpack %pair element 1 : vector<2xf32> -> f32
    // CHECK-NEXT: gpu.store_global %pair, %C[%thread : index] : vector<2xf32>, !gpu.global<[M], f32, align 16>
    gpu.store_global %pair, %C[%thread : index] : vector<2xf32>, !gpu.global<[M], f32, align 16>
    // CHECK-NEXT: gpu.store_global %z, %C[%offset : i64] if %one : f32, !gpu.global<[M], f32, align 16>
    gpu.store_global %z, %C[%offset : i64] if %one : f32, !gpu.global<[M], f32, align 16>
    // CHECK-NEXT: gpu.store_global %pair, %C[%offset : i64] if %one aligned 32 : vector<2xf32>, !gpu.global<[M], f32, align 16>
    gpu.store_global %pair, %C[%offset : i64] if %one aligned 32 : vector<2xf32>, !gpu.global<[M], f32, align 16>
    // CHECK-NEXT: %behind = gpu.address_remainder %C of 4 : !gpu.global<[M], f32, align 16>
    %behind = gpu.address_remainder %C of 4 : !gpu.global<[M], f32, align 16>
    // CHECK-NEXT: %s = gpu.load_shared %address : vector<4xf32>
    %s = gpu.load_shared %address : vector<4xf32>
    // CHECK-NEXT: gpu.store_shared %x, %address : vector<8xf16>
    gpu.store_shared %x, %address : vector<8xf16>
    // CHECK-NEXT: gpu.cp_async %address, %A[%thread, %block : index, index] bytes 16 if %one : !gpu.global<[M, K], f16, align 16>
    gpu.cp_async %address, %A[%thread, %block : index, index] bytes 16 if %one : !gpu.global<[M, K], f16, align 16>
    // CHECK-NEXT: gpu.cp_async %address, %A[%offset : i64] bytes 8 : !gpu.global<[M, K], f16, align 16>
    gpu.cp_async %address, %A[%offset : i64] bytes 8 : !gpu.global<[M, K], f16, align 16>
    // CHECK-NEXT: gpu.cp_async_commit
    gpu.cp_async_commit
    // CHECK-NEXT: gpu.cp_async_wait 2
    gpu.cp_async_wait 2
    // CHECK-NEXT: gpu.barrier
    gpu.barrier
    // CHECK-NEXT: gpu.named_barrier 1 threads 128
    gpu.named_barrier 1 threads 128
    // CHECK-NEXT: %any = gpu.barrier_any %one at 0 threads 384
    %any = gpu.barrier_any %one at 0 threads 384
    // CHECK-NEXT: %some = gpu.barrier_any %any at 2 plus %warp threads 128
    %some = gpu.barrier_any %any at 2 plus %warp threads 128
    // CHECK-NEXT: gpu.mbarrier_init %full[%thread] count 1 : !gpu.mbarrier<4>
    gpu.mbarrier_init %full[%thread] count 1 : !gpu.mbarrier<4>
    // CHECK-NEXT: gpu.fence_mbarrier_init
    gpu.fence_mbarrier_init
    // CHECK-NEXT: gpu.mbarrier_expect %full[%thread] bytes 16384 : !gpu.mbarrier<4>
    gpu.mbarrier_expect %full[%thread] bytes 16384 : !gpu.mbarrier<4>
    // CHECK-NEXT: gpu.mbarrier_announce %full[%thread] bytes 8192 : !gpu.mbarrier<4>
    gpu.mbarrier_announce %full[%thread] bytes 8192 : !gpu.mbarrier<4>
    // CHECK-NEXT: gpu.prefetch_tensor_map %map : !gpu.tensor_map<[128, 64], f16, swizzle 128>
    gpu.prefetch_tensor_map %map : !gpu.tensor_map<[128, 64], f16, swizzle 128>
    // CHECK-NEXT: gpu.tma_load %map[%thread, %block] to %address, %full[%thread] : !gpu.tensor_map<[128, 64], f16, swizzle 128>, !gpu.mbarrier<4>
    gpu.tma_load %map[%thread, %block] to %address, %full[%thread] : !gpu.tensor_map<[128, 64], f16, swizzle 128>, !gpu.mbarrier<4>
    // CHECK-NEXT: gpu.mbarrier_wait %full[%thread] parity %block : !gpu.mbarrier<4>
    gpu.mbarrier_wait %full[%thread] parity %block : !gpu.mbarrier<4>
    // CHECK-NEXT: gpu.mbarrier_arrive %empty[%thread] : !gpu.mbarrier<4>
    gpu.mbarrier_arrive %empty[%thread] : !gpu.mbarrier<4>
    // CHECK-NEXT: gpu.fence_proxy_async
    gpu.fence_proxy_async
    // CHECK-NEXT: gpu.set_max_registers "decrease" 40
    gpu.set_max_registers "decrease" 40
    // CHECK-NEXT: %a = memref.alloca() : memref<4xi32, #gpu<space register>>
    %a = memref.alloca() : memref<4xi32, #gpu<space register>>
    // CHECK-NEXT: %b = memref.alloca() : memref<2xi32, #gpu<space register>>
    %b = memref.alloca() : memref<2xi32, #gpu<space register>>
    // CHECK-NEXT: %acc = memref.alloca() : memref<128xf32, #gpu<space register>>
    %acc = memref.alloca() : memref<128xf32, #gpu<space register>>
    // CHECK-NEXT: gpu.ldmatrix %address to %a[%thread] : memref<4xi32, #gpu<space register>>
    gpu.ldmatrix %address to %a[%thread] : memref<4xi32, #gpu<space register>>
    // CHECK-NEXT: gpu.ldmatrix transpose %address to %a[%thread] : memref<4xi32, #gpu<space register>>
    gpu.ldmatrix transpose %address to %a[%thread] : memref<4xi32, #gpu<space register>>
    // CHECK-NEXT: gpu.mma_sync %a[%thread], %b[%thread], %acc[%thread] element bf16 : memref<4xi32, #gpu<space register>>, memref<2xi32, #gpu<space register>>, memref<128xf32, #gpu<space register>>
    gpu.mma_sync %a[%thread], %b[%thread], %acc[%thread] element bf16 : memref<4xi32, #gpu<space register>>, memref<2xi32, #gpu<space register>>, memref<128xf32, #gpu<space register>>
    // CHECK-NEXT: %d = gpu.wgmma_descriptor %address leading 16 stride 1024 swizzle 128
    %d = gpu.wgmma_descriptor %address leading 16 stride 1024 swizzle 128
    // CHECK-NEXT: gpu.register_fence %acc : memref<128xf32, #gpu<space register>>
    gpu.register_fence %acc : memref<128xf32, #gpu<space register>>
    // CHECK-NEXT: gpu.wgmma_fence
    gpu.wgmma_fence
    // CHECK-NEXT: gpu.wgmma n 256 %d plus 32, %d plus 2048 transpose_b, %acc element f16 : memref<128xf32, #gpu<space register>>
    gpu.wgmma n 256 %d plus 32, %d plus 2048 transpose_b, %acc element f16 : memref<128xf32, #gpu<space register>>
    // CHECK-NEXT: gpu.wgmma n 256 %d plus 0 transpose_a, %d plus 0, %acc element bf16 : memref<128xf32, #gpu<space register>>
    gpu.wgmma n 256 %d plus 0 transpose_a, %d plus 0, %acc element bf16 : memref<128xf32, #gpu<space register>>
    // CHECK-NEXT: gpu.wgmma_commit
    gpu.wgmma_commit
    // CHECK-NEXT: gpu.wgmma_wait 1
    gpu.wgmma_wait 1
    // CHECK-NEXT: gpu.return
    gpu.return
  // CHECK-NEXT: }
  }
  // CHECK-NEXT: gpu.kernel @plain() threads 32 {
  gpu.kernel @plain() threads 32 {
    gpu.return
  }
  // CHECK: gpu.dispatch (A: !gpu.global<[M, K], f16, align 16>, bias: !gpu.global<[M], f32> {role = "param"}) -> (C: !gpu.global<[M], f32, align 16>) {
  gpu.dispatch (A: !gpu.global<[M, K], f16, align 16>, bias: !gpu.global<[M], f32> {role = "param"}) -> (C: !gpu.global<[M], f32, align 16>) {
    // CHECK-NEXT: gpu.launch @every_op when (K mod 16 == 0, K >= 1) align [16, 4, 16] grid [(M + 127) floordiv 128, 2]
    gpu.launch @every_op when (K mod 16 == 0, K >= 1) align [16, 4, 16] grid [(M + 127) floordiv 128, 2]
    // CHECK-NEXT: gpu.launch @plain align [2, 4, 4] grid [1]
    gpu.launch @plain align [2, 4, 4] grid [1]
  }
}

// CHECK: gpu.module @empty arch "sm_80" symbols [] {
gpu.module @empty arch "sm_80" symbols [] {
  gpu.dispatch () -> () {
  }
}
