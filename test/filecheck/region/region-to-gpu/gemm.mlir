// RUN: polyc-opt %s -p plan-select{arch=sm_90a},region-to-gpu | filecheck %s

// Each schedule becomes a kernel and a launch.  Operands are copied as they are stored, the
// contraction runs in a pipeline over k, and what follows it is mapped over the accumulator.

// CHECK: gpu.module @gemm arch "sm_90a" symbols [M, K, N] {
// CHECK:      gpu.kernel @gemm_tma_small(
// CHECK:        gpu.tile_loop (%m0, %n0, %tile) = [%M, %N] tile <128, 128> raster "grouped" 16 {
// CHECK:          gpu.pipeline %k0, %i = to %K step 64 stages 6 {
// CHECK:      gpu.kernel @gemm_tma(%A: !gpu.global<[M, K], f16> = tensor 0, %B: !gpu.global<[N, K], f16> = tensor 1, %bias: !gpu.global<[N], f16> = tensor 2, %C: !gpu.global<[M, N], f16> = tensor 3, %M: index = symbol M, %K: index = symbol K, %N: index = symbol N) threads 384 registers [40, 232] {
// CHECK-NEXT:   %A_tile = gpu.shared_tile : !gpu.shared<[128, 64], f16>
// CHECK-NEXT:   %B_tile = gpu.shared_tile : !gpu.shared<[256, 64], f16>
// CHECK-NEXT:   %out_tile = gpu.shared_tile : !gpu.shared<[128, 128], f16>
// CHECK-NEXT:   gpu.tile_loop (%m0, %n0, %tile) = [%M, %N] tile <128, 256> raster "grouped" 16 {
// CHECK:        %acc = gpu.fragment : !gpu.fragment<[128, 256], f32>
// CHECK-NEXT:   gpu.fill %{{.*}}, %acc
// CHECK-NEXT:   gpu.pipeline %k0, %i = to %K step 64 stages 4 {
// CHECK-NEXT:     gpu.copy %A[%m0, %k0] to %A_tile loader "tma"
// CHECK-NEXT:     gpu.copy %B[%n0, %k0] to %B_tile loader "tma"
// CHECK-NEXT:     gpu.contract %A_tile affine_map<(d0, d1, d2) -> (d0, d2)>, %B_tile affine_map<(d0, d1, d2) -> (d1, d2)> into %acc mma "wgmma" warp_tile <64, 256>
// CHECK-NEXT:   }
// CHECK-NEXT:   %out = gpu.fragment : !gpu.fragment<[128, 256], f16>
// CHECK-NEXT:   gpu.map %acc : !gpu.fragment<[128, 256], f32> origin [%m0, %n0] ins(%bias : !gpu.global<[N], f16> affine_map<(d0, d1)[s0, s1] -> ((d1 + s1))>) outs(%out : !gpu.fragment<[128, 256], f16> affine_map<(d0, d1)[s0, s1] -> (d0, d1)>) {
// CHECK-NEXT:   ^bb0(%{{.*}}: f32, %{{.*}}: f16):
// CHECK-NEXT:     arith.extf
// CHECK-NEXT:     arith.addf
// CHECK-NEXT:     arith.truncf
// CHECK-NEXT:     gpu.yield %{{.*}} : f16
// CHECK:        gpu.copy %out to %out_tile window <0, 0>
// CHECK-NEXT:   gpu.copy %out_tile to %C[%m0, %n0] loader "tma"
// CHECK-NEXT:   gpu.copy %out to %out_tile window <0, 128>
// CHECK-NEXT:   affine.apply affine_map<(d0) -> ((d0 + 128))> (%n0)
// CHECK-NEXT:   gpu.copy %out_tile to %C[%m0, %{{.*}}] loader "tma"
// Rows of any length are copied to whole panels first.
// CHECK:      gpu.kernel @gemm_padded_A(%A: !gpu.global<[M, K], f16> = tensor 0, %copy: !gpu.global<[M, 64 * ((K + 63) floordiv 64)], f16> = workspace "gemm_padded_A", %M: index = symbol M, %K: index = symbol K) threads 256 {
// CHECK-NEXT:   [[I:%.*]], [[J:%.*]] = gpu.tile_coordinates[%M, %K] tile <16, 256> raster "row" 1
// CHECK-NEXT:   %x = gpu.fragment : !gpu.fragment<[16, 256], f16>
// CHECK-NEXT:   gpu.copy %A{{.}}[[I]], [[J]]] to %x
// CHECK-NEXT:   gpu.copy %x to %copy{{.}}[[I]], [[J]]]
// CHECK-NEXT:   gpu.return
// CHECK:      gpu.kernel @gemm_padded_B(
// CHECK:      gpu.kernel @gemm_padded(%A: !gpu.global<[M, 64 * ((K + 63) floordiv 64)], f16> = workspace "gemm_padded_A", %B: !gpu.global<[N, 64 * ((K + 63) floordiv 64)], f16> = workspace "gemm_padded_B", %bias: !gpu.global<[N], f16> = tensor 2,
// CHECK:        gpu.copy %A[%m0, %k0] to %A_tile loader "tma"
// CHECK:      gpu.kernel @gemm_cp_async(
// CHECK:      gpu.kernel @gemm_scalar(
// CHECK:      gpu.dispatch (A: !gpu.global<[M, K], f16>, B: !gpu.global<[N, K], f16>, bias: !gpu.global<[N], f16> {role = "param"}) -> (C: !gpu.global<[M, N], f16>) {
// CHECK:        gpu.launch @gemm_tma_small when (K mod 8 == 0, N mod 8 == 0, {{.*}} floordiv 132) * ((K + 63) floordiv 64){{.*}} >= {{.*}}, K >= 1) align [16, 16, 16, 16] grid [(M + 127) floordiv 128, (N + 127) floordiv 128] persistent
// CHECK-NEXT:   gpu.launch @gemm_tma when (K mod 8 == 0, N mod 8 == 0, K >= 1) align [16, 16, 16, 16] grid [(M + 127) floordiv 128, (N + 255) floordiv 256] persistent
// CHECK:        gpu.sequence @gemm_padded when ({{.*}} >= 256, K >= 1) align [2, 2, 2, 2] {
// CHECK-NEXT:     gpu.workspace "gemm_padded_A" : !gpu.global<[M, 64 * ((K + 63) floordiv 64)], f16> copies tensor 0
// CHECK-NEXT:     gpu.workspace "gemm_padded_B" : !gpu.global<[N, 64 * ((K + 63) floordiv 64)], f16> copies tensor 1
// CHECK-NEXT:     gpu.launch @gemm_padded_A grid [(M + 15) floordiv 16, (K + 255) floordiv 256] fills "gemm_padded_A"
// CHECK-NEXT:     gpu.launch @gemm_padded_B grid [(N + 15) floordiv 16, (K + 255) floordiv 256] fills "gemm_padded_B"
// CHECK-NEXT:     gpu.launch @gemm_padded grid [(M + 127) floordiv 128, (N + 127) floordiv 128] persistent
// CHECK-NEXT:   }
// CHECK-NEXT:   gpu.launch @gemm_cp_async when (K mod 2 == 0, N mod 2 == 0) align [4, 4, 4, 4] grid [(M + 63) floordiv 64, (N + 63) floordiv 64]
// CHECK-NEXT:   gpu.launch @gemm_scalar align [2, 2, 2, 2] grid [(M + 63) floordiv 64, (N + 63) floordiv 64]
// CHECK-NEXT: }
// CHECK-NOT: region.
// CHECK-NOT: plan.
region.kernel @gemm iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f16, align 16>, %B: !region.memref<[N, K], f16, align 16>, %bias: !region.memref<[N], f16, align 16> {role = "param"})
    outs(C: !region.memref<[M, N], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16> -> !region.val<[m: M, k: K], f16>
  %af = region.cast %a : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %ae = region.broadcast_in_dim %af dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %b = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[N, K], f16, align 16> -> !region.val<[n: N, k: K], f16>
  %bf = region.cast %b : !region.val<[n: N, k: K], f16> -> !region.val<[n: N, k: K], f32>
  %be = region.broadcast_in_dim %bf dims [2, 1] : !region.val<[n: N, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: M, k: K, n: N], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %v = region.read %bias affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], f16, align 16> -> !region.val<[n: N], f16>
  %vf = region.cast %v : !region.val<[n: N], f16> -> !region.val<[n: N], f32>
  %ve = region.broadcast_in_dim %vf dims [1] : !region.val<[n: N], f32> -> !region.val<[m: M, n: N], f32>
  %s = region.binary add %acc, %ve : !region.val<[m: M, n: N], f32>
  %h = region.cast %s : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
  region.yield %h : !region.val<[m: M, n: N], f16>
}
