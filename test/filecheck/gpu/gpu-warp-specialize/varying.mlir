// RUN: polyc-opt %s -p \
// RUN:   gpu-assumptions,gpu-pipeline-planning,gpu-multi-version-buffers,gpu-warp-specialize \
// RUN:   | filecheck %s

// A tile of rows from r on takes the steps up to r, and none where r is 0: each role's loop over the
// tiles carries how many steps there were, and a tile that is skipped adds none.

// CHECK: %ring = gpu.ring consumers 1 : !gpu.ring<3>
// CHECK-NEXT: %[[ZERO:[0-9]+]] = arith.constant 0 : index
// CHECK-NEXT: gpu.roles consumers 1 registers [0, 0] single_thread producer {
// CHECK-NEXT: %{{.*}} = gpu.tile_loop (%row, %column, %n) = [%M, %N] tile <64, 64> raster "row" 1 reversed iter_args(%[[FIRST:.*]] = %[[ZERO]]) -> (index) {
// CHECK-NEXT: %some = arith.cmpi sgt, %row, %c0 : index
// CHECK-NEXT: %[[NEXT:.*]] = scf.if %some -> (index) {
// CHECK-NEXT: %[[COUNT:.*]] = affine.apply affine_map<(d0) -> (((d0 + 63) floordiv 64))> (%row)
// CHECK-NEXT: %[[SUM:.*]] = affine.apply affine_map<(d0, d1) -> ((d0 + d1))> (%[[FIRST]], %[[COUNT]])
// CHECK: scf.for %i = %{{.*}} to %[[COUNT]]
// CHECK-NEXT: %[[NUMBER:.*]] = affine.apply affine_map<(d0, d1) -> ((d0 + d1))> (%[[FIRST]], %i)
// CHECK-NEXT: gpu.ring_acquire %ring[%[[NUMBER]]]
// CHECK: scf.yield %[[SUM]] : index
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %[[FIRST]] : index
// CHECK-NEXT: }
// CHECK-NEXT: gpu.yield %[[NEXT]] : index
// CHECK: consumer {
// CHECK: gpu.tile_loop {{.*}} iter_args(%[[BEFORE:.*]] = %[[ZERO]]) -> (index) {
// CHECK: %[[NEXT:.*]] = scf.if %{{.*}} -> (index) {
// CHECK-NEXT: %[[COUNT:.*]] = affine.apply
// CHECK-NEXT: %[[SUM:.*]] = affine.apply affine_map<(d0, d1) -> ((d0 + d1))> (%[[BEFORE]], %[[COUNT]])
// CHECK: scf.for %[[I:.*]] = %{{.*}} to %[[COUNT]]
// CHECK-NEXT: %[[NUMBER:.*]] = affine.apply affine_map<(d0, d1) -> ((d0 + d1))> (%[[BEFORE]], %[[I]])
// CHECK-NEXT: gpu.ring_wait %ring[%[[NUMBER]]]
// CHECK: scf.yield %[[SUM]] : index
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %[[BEFORE]] : index
// CHECK: gpu.yield %[[NEXT]] : index

!A = !gpu.global<[M, K], f16>
!C = !gpu.global<[M, N], f32>
!t = !gpu.shared<[64, 64], f16>
!acc = !gpu.fragment<[64, 64], f32>
gpu.module @m arch "sm_90a" symbols [M, K, N] assuming (K mod 8 == 0) {
  gpu.kernel @k(%A: !A = tensor 0, %B: !A = tensor 1, %C: !C = tensor 2, %M: index = symbol M, %K: index = symbol K,
      %N: index = symbol N) threads 256 {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %a = gpu.shared_tile : !t
    %b = gpu.shared_tile : !t
    gpu.tile_loop (%row, %column, %n) = [%M, %N] tile <64, 64> raster "row" 1 reversed {
      %acc = gpu.fragment : !acc
      gpu.fill %zero, %acc : !acc
      %some = arith.cmpi sgt, %row, %c0 : index
      scf.if %some {
        gpu.pipeline %k, %i = to %row step 64 stages 3 {
          gpu.copy %A[%row, %k] to %a loader "tma" : !A, !t
          gpu.copy %B[%column, %k] to %b loader "tma" : !A, !t
          gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (n, k)>
              into %acc mma "wgmma" warp_tile <64, 64> : !t, !t, !acc
        }
      }
      gpu.map %acc : !acc origin [%row, %column] ins()
          outs(%C : !C affine_map<(i, j)[r, c] -> (i + r, j + c)>) {
      ^bb0(%x: f32):
        gpu.yield %x : f32
      }
    }
    gpu.return
  }
  gpu.dispatch (A: !A, B: !A) -> (C: !C) {
    gpu.launch @k when (K >= 1) align [16, 16, 16] grid [M ceildiv 64, N ceildiv 64] persistent
  }
}
