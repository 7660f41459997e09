// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// What the tile level says beyond one pipelined contraction.

// CHECK: gpu.kernel @k
gpu.module @m arch "sm_90a" symbols [B, M, K, N] {
  gpu.kernel @k(%A: !gpu.global<[B, M, K], f16, align 16> = tensor 0, %C: !gpu.global<[M, N], f16, align 16> = tensor 1, %M: index = symbol M, %N: index = symbol N) threads 384 cluster 2 {
    // CHECK-NEXT: %a = gpu.shared_tile : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
    %a = gpu.shared_tile : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
    // CHECK-NEXT: %c = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %c = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // CHECK-NEXT: %run = gpu.shared_tile : !gpu.shared<[49, 64], f16>
    %run = gpu.shared_tile : !gpu.shared<[49, 64], f16>
    // CHECK-NEXT: %p = gpu.fragment : !gpu.fragment<[64, 64], f16>
    %p = gpu.fragment : !gpu.fragment<[64, 64], f16>
    // CHECK-NEXT: %s = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %s = gpu.fragment : !gpu.fragment<[64, 64], f32>
    // CHECK-NEXT: %wide = gpu.fragment : !gpu.fragment<[64, 256], f16>
    %wide = gpu.fragment : !gpu.fragment<[64, 256], f16>
    // CHECK-NEXT: %m = gpu.fragment : !gpu.fragment<[64], f32>
    %m = gpu.fragment : !gpu.fragment<[64], f32>
    // CHECK-NEXT: %four = gpu.fragment : !gpu.fragment<[64, 4], f32>
    %four = gpu.fragment : !gpu.fragment<[64, 4], f32>
    // CHECK-NEXT: %ring = gpu.ring consumers 2 peers 2 : !gpu.ring<4>
    %ring = gpu.ring consumers 2 peers 2 : !gpu.ring<4>
    // CHECK-NEXT: %order = gpu.order_barrier : !gpu.order<2>
    %order = gpu.order_barrier : !gpu.order<2>
    // CHECK-NEXT: gpu.copy %A[%N, %M, %M] to %a slot %N loader "tma" multicast signal %ring : !gpu.ring<4> at %M : !gpu.global<[B, M, K], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
    gpu.copy %A[%N, %M, %M] to %a slot %N loader "tma" multicast signal %ring : !gpu.ring<4> at %M : !gpu.global<[B, M, K], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
    // CHECK-NEXT: %loaded = gpu.copy %A[%N, %M, %M] to %a slot %N loader "cp_async" : !gpu.global<[B, M, K], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 4> -> !gpu.token
    %loaded = gpu.copy %A[%N, %M, %M] to %a slot %N loader "cp_async" : !gpu.global<[B, M, K], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 4> -> !gpu.token
    // CHECK-NEXT: gpu.copy %wide to %c window <0, 192> : !gpu.fragment<[64, 256], f16>, !gpu.shared<[64, 64], f16>
    gpu.copy %wide to %c window <0, 192> : !gpu.fragment<[64, 256], f16>, !gpu.shared<[64, 64], f16>
    // CHECK-NEXT: gpu.copy %c to %wide window <0, 64> : !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 256], f16>
    gpu.copy %c to %wide window <0, 64> : !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 256], f16>
    // CHECK-NEXT: gpu.copy %run to %p line 49 : !gpu.shared<[49, 64], f16>, !gpu.fragment<[64, 64], f16>
    gpu.copy %run to %p line 49 : !gpu.shared<[49, 64], f16>, !gpu.fragment<[64, 64], f16>
    // CHECK-NEXT: gpu.copy %c to %p : !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f16>
    gpu.copy %c to %p : !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f16>
    // CHECK-NEXT: gpu.copy %c to %C[%M, %N] loader "register" : !gpu.shared<[64, 64], f16>, !gpu.global<[M, N], f16, align 16>
    gpu.copy %c to %C[%M, %N] loader "register" : !gpu.shared<[64, 64], f16>, !gpu.global<[M, N], f16, align 16>
    // CHECK-NEXT: %stored = gpu.copy %a slot %M to %C[%M, %N] loader "tma" : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>, !gpu.global<[M, N], f16, align 16> -> !gpu.token
    %stored = gpu.copy %a slot %M to %C[%M, %N] loader "tma" : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>, !gpu.global<[M, N], f16, align 16> -> !gpu.token
    // CHECK-NEXT: gpu.copy %C[%M, %N] to %p : !gpu.global<[M, N], f16, align 16>, !gpu.fragment<[64, 64], f16>
    gpu.copy %C[%M, %N] to %p : !gpu.global<[M, N], f16, align 16>, !gpu.fragment<[64, 64], f16>
    // CHECK-NEXT: gpu.copy %p to %C[%M, %N] : !gpu.fragment<[64, 64], f16>, !gpu.global<[M, N], f16, align 16>
    gpu.copy %p to %C[%M, %N] : !gpu.fragment<[64, 64], f16>, !gpu.global<[M, N], f16, align 16>
    // CHECK-NEXT: gpu.atomic "add" %p to %C[%M, %N] : !gpu.fragment<[64, 64], f16>, !gpu.global<[M, N], f16, align 16>
    gpu.atomic "add" %p to %C[%M, %N] : !gpu.fragment<[64, 64], f16>, !gpu.global<[M, N], f16, align 16>
    // CHECK-NEXT: %done = gpu.contract %p affine_map<(d0, d1, d2) -> (d0, d2)>, %c affine_map<(d0, d1, d2) -> (d2, d1)> into %s mma "wgmma" warp_tile <64, 64> : !gpu.fragment<[64, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f32> -> !gpu.token
    %done = gpu.contract %p affine_map<(d0, d1, d2) -> (d0, d2)>, %c affine_map<(d0, d1, d2) -> (d2, d1)> into %s mma "wgmma" warp_tile <64, 64> : !gpu.fragment<[64, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f32> -> !gpu.token
    // CHECK-NEXT: gpu.await %loaded, %stored, %done
    gpu.await %loaded, %stored, %done
    // CHECK-NEXT: gpu.reduce max %s by affine_map<(d0, d1) -> (d0)> into %m accumulate cluster : !gpu.fragment<[64, 64], f32>, !gpu.fragment<[64], f32>
    gpu.reduce max %s by affine_map<(d0, d1) -> (d0)> into %m accumulate cluster : !gpu.fragment<[64, 64], f32>, !gpu.fragment<[64], f32>
    // CHECK-NEXT: gpu.reduce sum %s by affine_map<(d0, d1) -> (d0, ((d1 floordiv 2) mod 4))> into %four : !gpu.fragment<[64, 64], f32>, !gpu.fragment<[64, 4], f32>
    gpu.reduce sum %s by affine_map<(d0, d1) -> (d0, ((d1 floordiv 2) mod 4))> into %four : !gpu.fragment<[64, 64], f32>, !gpu.fragment<[64, 4], f32>
    // CHECK-NEXT: gpu.tile_loop (%row, %column, %n) = [%M, %N] tile <128, 256> raster "grouped" 16 {
    gpu.tile_loop (%row, %column, %n) = [%M, %N] tile <128, 256> raster "grouped" 16 {
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: gpu.tile_loop (%u, %v, %x) = [%M, %N] tile <128, 256> raster "row" 1 pingpong {
    gpu.tile_loop (%u, %v, %x) = [%M, %N] tile <128, 256> raster "row" 1 pingpong {
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: %z1 = arith.constant 0.000000e+00 : f32
    %z1 = arith.constant 0.0 : f32
    // CHECK-NEXT: %sum, %more = gpu.tile_loop (%u1, %v1, %x1) = [%M, %N] tile <128, 256> raster "row" 1 reversed paired iter_args(%a1 = %M, %b1 = %z1) -> (index, f32) {
    %sum, %more = gpu.tile_loop (%u1, %v1, %x1) = [%M, %N] tile <128, 256> raster "row" 1 reversed paired iter_args(%a1 = %M, %b1 = %z1) -> (index, f32) {
      // CHECK-NEXT: gpu.yield %u1, %b1 : index, f32
      gpu.yield %u1, %b1 : index, f32
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: gpu.roles consumers 2 independent registers [24, 240] single_thread producer {
    gpu.roles consumers 2 independent registers [24, 240] single_thread producer {
      // CHECK-NEXT: gpu.yield
      gpu.yield
    // CHECK-NEXT: } consumer (%w) {
    } consumer (%w) {
      // CHECK-NEXT: gpu.tile_loop (%batch, %i, %j, %o) = [%M, %M, %N] tile <1, 64, 256> raster "hilbert" 1 reversed share %w of 2 {
      gpu.tile_loop (%batch, %i, %j, %o) = [%M, %M, %N] tile <1, 64, 256> raster "hilbert" 1 reversed share %w of 2 {
        // CHECK-NEXT: gpu.order_enter %order[%w] : !gpu.order<2>
        gpu.order_enter %order[%w] : !gpu.order<2>
        // CHECK-NEXT: gpu.named_barrier 1 plus %w threads 128
        gpu.named_barrier 1 plus %w threads 128
        // CHECK-NEXT: gpu.order_leave %order[%w] : !gpu.order<2>
        gpu.order_leave %order[%w] : !gpu.order<2>
      // CHECK-NEXT: }
      }
      // CHECK-NEXT: gpu.yield
      gpu.yield
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: gpu.map %s : !gpu.fragment<[64, 64], f32> origin [%N] ins(%m : !gpu.fragment<[64], f32> affine_map<(d0, d1)[s0] -> (d0)>, %c : !gpu.shared<[64, 64], f16> affine_map<(d0, d1)[s0] -> (d1, d0)>) outs(%p : !gpu.fragment<[64, 64], f16> affine_map<(d0, d1)[s0] -> (d0, d1)>) {
    gpu.map %s : !gpu.fragment<[64, 64], f32> origin [%N] ins(%m : !gpu.fragment<[64], f32> affine_map<(d0, d1)[s0] -> (d0)>, %c : !gpu.shared<[64, 64], f16> affine_map<(d0, d1)[s0] -> (d1, d0)>) outs(%p : !gpu.fragment<[64, 64], f16> affine_map<(d0, d1)[s0] -> (d0, d1)>) {
    ^bb0(%x : f32, %y : f32, %z : f16):
      // CHECK: %k = gpu.tile_index 1
      %k = gpu.tile_index 1
      %i = arith.index_cast %k : index to i32
      gpu.yield %z : f16
    }
    gpu.return
  }
}
