// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK: gpu.module @m arch "sm_90a" symbols [M, K, N] {
gpu.module @m arch "sm_90a" symbols [M, K, N] {
  // CHECK-NEXT: gpu.kernel @every_op(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %b: !gpu.global<[N], f16> = tensor 1, %C: !gpu.global<[M, N], f32> = tensor 2, %M: index = symbol M, %K: index = symbol K, %N: index = symbol N) threads 384 registers [40, 232] {
  gpu.kernel @every_op(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %b: !gpu.global<[N], f16> = tensor 1, %C: !gpu.global<[M, N], f32> = tensor 2, %M: index = symbol M, %K: index = symbol K, %N: index = symbol N) threads 384 registers [40, 232] {
    // CHECK-NEXT: %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <128, 64> raster "grouped" 8
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <128, 64> raster "grouped" 8
    // CHECK-NEXT: %m1, %n1 = gpu.tile_coordinates[%M, %N] tile <128, 64> raster "row" 1
    %m1, %n1 = gpu.tile_coordinates[%M, %N] tile <128, 64> raster "row" 1
    // CHECK-NEXT: %k2, %m2, %n2 = gpu.tile_coordinates[%K, %M, %N] tile <1, 128, 64> raster "row" 1
    %k2, %m2, %n2 = gpu.tile_coordinates[%K, %M, %N] tile <1, 128, 64> raster "row" 1
    // CHECK-NEXT: %zero = arith.constant
    %zero = arith.constant 0.0 : f32
    // CHECK-NEXT: %acc = gpu.fragment : !gpu.fragment<[128, 64], f32>
    %acc = gpu.fragment : !gpu.fragment<[128, 64], f32>
    // CHECK-NEXT: %laid = gpu.fragment : !gpu.fragment<[16, 8], f32, #gpu.fragment_layout<threads 32, registers 4, affine_map<(d0, d1) -> ((d0 floordiv 2), (((d0 mod 2) * 4) + d1))>>>
    %laid = gpu.fragment : !gpu.fragment<[16, 8], f32, #gpu.fragment_layout<threads 32, registers 4, affine_map<(t, r) -> (t floordiv 2, t mod 2 * 4 + r)>>>
    // CHECK-NEXT: gpu.fill %zero, %acc : !gpu.fragment<[128, 64], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[128, 64], f32>
    // CHECK-NEXT: %a = gpu.shared_tile : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
    %a = gpu.shared_tile : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
    // CHECK-NEXT: %w = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %w = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // CHECK-NEXT: %full = gpu.mbarrier : !gpu.mbarrier<4>
    %full = gpu.mbarrier : !gpu.mbarrier<4>
    // CHECK-NEXT: %ring = gpu.ring consumers 2 : !gpu.ring<4>
    %ring = gpu.ring consumers 2 : !gpu.ring<4>
    // CHECK-NEXT: gpu.pipeline %k, %i = to %K step 64 stages 4 {
    gpu.pipeline %k, %i = to %K step 64 stages 4 {
      // CHECK-NEXT: gpu.copy %A[%m0, %k] to %w : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[64, 64], f16>
      gpu.copy %A[%m0, %k] to %w : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[64, 64], f16>
      // CHECK-NEXT: gpu.copy %A[%m0, %k] to %a slot %i loader "cp_async" stage 0 : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
      gpu.copy %A[%m0, %k] to %a slot %i loader "cp_async" stage 0 : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
      // CHECK-NEXT: gpu.copy %A[%m0, %k] to %a loader "tma" signal %ring : !gpu.ring<4> at %i : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
      gpu.copy %A[%m0, %k] to %a loader "tma" signal %ring : !gpu.ring<4> at %i : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
      // CHECK-NEXT: gpu.copy %A[%m0, %k] to %w loader "register" signal %full : !gpu.mbarrier<4> at %i : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[64, 64], f16>
      gpu.copy %A[%m0, %k] to %w loader "register" signal %full : !gpu.mbarrier<4> at %i : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[64, 64], f16>
      // CHECK-NEXT: gpu.contract %a slot %i affine_map<(d0, d1, d2) -> (d0, d2)>, %w affine_map<(d0, d1, d2) -> (d2, d1)> into %acc mma "wgmma" warp_tile <64, 64> : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[128, 64], f32>
      gpu.contract %a slot %i affine_map<(m, n, k) -> (m, k)>, %w affine_map<(m, n, k) -> (k, n)> into %acc mma "wgmma" warp_tile <64, 64> : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[128, 64], f32>
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: %wrong = gpu.fragment : !gpu.fragment<[128], i1>
    %wrong = gpu.fragment : !gpu.fragment<[128], i1>
    // CHECK-NEXT: %any = gpu.any %wrong : !gpu.fragment<[128], i1>
    %any = gpu.any %wrong : !gpu.fragment<[128], i1>
    // CHECK-NEXT: %square = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %square = gpu.fragment : !gpu.fragment<[64, 64], f32>
    // CHECK-NEXT: gpu.contract %a affine_map<(d0, d1, d2) -> (d2, d0)>, %a slot %M affine_map<(d0, d1, d2) -> (d2, d1)> into
    // CHECK-SAME: mma "mma.sync" warp_tile <32, 16>
    gpu.contract %a affine_map<(m, n, k) -> (k, m)>, %a slot %M affine_map<(m, n, k) -> (k, n)> into %square mma "mma.sync" warp_tile <32, 16> : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>, !gpu.shared<[128, 64], f16, swizzle 128, ring 4>, !gpu.fragment<[64, 64], f32>
    // CHECK-NEXT: %full_a = gpu.shared_tile
    %full_a = gpu.shared_tile : !gpu.shared<[64, 64], f32>
    // CHECK-NEXT: gpu.contract %full_a affine_map<(d0, d1, d2) -> (d0, d2)>, %full_a affine_map<(d0, d1, d2) -> (d2, d1)> into
    // CHECK-SAME: mma "fma" warp_tile <32, 16>
    gpu.contract %full_a affine_map<(m, n, k) -> (m, k)>, %full_a affine_map<(m, n, k) -> (k, n)> into %square mma "fma" warp_tile <32, 16> : !gpu.shared<[64, 64], f32>, !gpu.shared<[64, 64], f32>, !gpu.fragment<[64, 64], f32>
    // CHECK-NEXT: gpu.contract %square affine_map<(d0, d1, d2) -> (d0, d2)>, %full_a affine_map<(d0, d1, d2) -> (d2, d1)> into
    // CHECK-SAME: mma "fma" warp_tile <32, 64>
    gpu.contract %square affine_map<(m, n, k) -> (m, k)>, %full_a affine_map<(m, n, k) -> (k, n)> into %square mma "fma" warp_tile <32, 64> : !gpu.fragment<[64, 64], f32>, !gpu.shared<[64, 64], f32>, !gpu.fragment<[64, 64], f32>
    // CHECK-NEXT: %turned = gpu.shared_tile : !gpu.shared<[32, 64], f32, swizzle 0, pad 4, ring 2>
    %turned = gpu.shared_tile : !gpu.shared<[32, 64], f32, swizzle 0, pad 4, ring 2>
    // CHECK-NEXT: gpu.copy %C[%M, %N] to %turned slot %M turned loader "cp_async" : !gpu.global<[M, N], f32>, !gpu.shared<[32, 64], f32, swizzle 0, pad 4, ring 2>
    gpu.copy %C[%M, %N] to %turned slot %M turned loader "cp_async" : !gpu.global<[M, N], f32>, !gpu.shared<[32, 64], f32, swizzle 0, pad 4, ring 2>
    // CHECK-NEXT: gpu.await pending 1
    gpu.await pending 1
    // CHECK-NEXT: gpu.roles consumers 2 registers [40, 232] single_thread producer {
    gpu.roles consumers 2 registers [40, 232] single_thread producer {
      // CHECK-NEXT: gpu.ring_acquire %ring[%M] : !gpu.ring<4>
      gpu.ring_acquire %ring[%M] : !gpu.ring<4>
      // CHECK-NEXT: gpu.yield
      gpu.yield
    // CHECK-NEXT: } consumer {
    } consumer {
      // CHECK-NEXT: gpu.ring_wait %ring[%M] : !gpu.ring<4>
      gpu.ring_wait %ring[%M] : !gpu.ring<4>
      // CHECK-NEXT: gpu.ring_release %ring[%M] : !gpu.ring<4>
      gpu.ring_release %ring[%M] : !gpu.ring<4>
      // CHECK-NEXT: gpu.yield
      gpu.yield
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: gpu.roles consumers 1 registers [0, 0] producer {
    gpu.roles consumers 1 registers [0, 0] producer {
      gpu.yield
    } consumer {
      gpu.yield
    }
    // CHECK: %address = gpu.element_address %a[%M] [%K, %N] : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
    %address = gpu.element_address %a[%M] [%K, %N] : !gpu.shared<[128, 64], f16, swizzle 128, ring 4>
    // CHECK-NEXT: %copy = gpu.fragment : !gpu.fragment<[128, 64], f16>
    %copy = gpu.fragment : !gpu.fragment<[128, 64], f16>
    // CHECK-NEXT: gpu.map %acc : !gpu.fragment<[128, 64], f32> origin [%m0, %n0] ins(%b : !gpu.global<[N], f16> affine_map<(d0, d1)[s0, s1] -> ((s1 + d1))>) outs(%C : !gpu.global<[M, N], f32> affine_map<(d0, d1)[s0, s1] -> ((s0 + d0), (s1 + d1))>, %copy : !gpu.fragment<[128, 64], f16> affine_map<(d0, d1)[s0, s1] -> (d0, d1)>) {
    gpu.map %acc : !gpu.fragment<[128, 64], f32> origin [%m0, %n0] ins(%b : !gpu.global<[N], f16> affine_map<(i, j)[r, c] -> (c + j)>) outs(%C : !gpu.global<[M, N], f32> affine_map<(i, j)[r, c] -> (r + i, c + j)>, %copy : !gpu.fragment<[128, 64], f16> affine_map<(i, j)[r, c] -> (i, j)>) {
    // CHECK-NEXT: ^bb0(%x: f32, %y: f16):
    ^bb0(%x : f32, %y : f16):
      // CHECK-NEXT: gpu.yield %x, %y : f32, f16
      gpu.yield %x, %y : f32, f16
    // CHECK-NEXT: }
    }
    // CHECK-NEXT: gpu.map %copy : !gpu.fragment<[128, 64], f16> origin [] ins() outs() {
    gpu.map %copy : !gpu.fragment<[128, 64], f16> origin [] ins() outs() {
    ^bb0(%x : f16):
      // CHECK-NEXT: ^bb0(%x_1: f16):
      // CHECK-NEXT: gpu.yield
      gpu.yield
    }
    // CHECK: gpu.map %copy : !gpu.fragment<[128, 64], f16> origin [] ins() outs() cache "evict_first" {
    gpu.map %copy : !gpu.fragment<[128, 64], f16> origin [] ins() outs() cache "evict_first" {
    ^bb0(%x : f16):
      gpu.yield
    }
    gpu.return
  }
}
