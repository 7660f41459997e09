// RUN: polyc-opt %s -p 'frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},plan-select{arch=sm_80},region-to-gpu' --split-input-file 2>/dev/null | filecheck %s

// A map over a fragment that holds nothing: reads are guarded by the tensor, fills by the region.

// CHECK:      gpu.kernel @chain_vector
// CHECK:        gpu.tile_loop (%b0, %i10, %n0, %tile) = [%B, %0, %N] tile <1, 8, 128> raster "row" 1 {
// CHECK-NEXT:     %out = gpu.fragment : !gpu.fragment<[8, 128], f32, #gpu.fragment_layout<threads 256, registers 4, affine_map<(d0, d1) -> ((d0 floordiv 32), (((d0 mod 32) * 4) + d1))>>>
// CHECK-NEXT:     gpu.map %out
// CHECK-SAME:       ins(%X : !gpu.global<[B, M, N], f32> affine_map<(d0, d1)[s0, s1, s2, s3] -> (s0, ((d0 + s1) + -1), (d1 + s2))>)
// CHECK-SAME:       outs(%Y : !gpu.global<[B, M + 2, N], f32> affine_map<(d0, d1)[s0, s1, s2, s3] -> (s0, (d0 + s1), (d1 + s2))>) {
// CHECK:            arith.select %{{.*}}, %X_1, %{{.*}} : f32
// CHECK:      gpu.launch @chain_vector when (N mod 4 == 0) align [16, 16] grid
// CHECK-NEXT: gpu.launch @chain_scalar align [4, 4] grid
frontend.graph @chain(%X: !frontend.tensor<[B, M, N], f32>) -> (Y: !frontend.tensor<[B, M + 2, N], f32>) {
  %0 = frontend.pad %X low [0, 1, 0] high [0, 1, 0] value 1.5 : !frontend.tensor<[B, M, N], f32> -> !frontend.tensor<[B, M + 2, N], f32>
  frontend.output %0 : !frontend.tensor<[B, M + 2, N], f32>
}

// -----

// Columns that are read again are no loops: a block keeps a panel of them while their sums are made.
// CHECK:      gpu.kernel @centred_panel({{.*}}) threads 256
// CHECK:        gpu.copy %X[%m0, %n0] to %[[KEPT:[A-Za-z0-9_]+]] slot %chunk loader "cp_async"
// CHECK:        scf.for %number = %block to %{{.*}} step %blocks {
// CHECK:          gpu.copy %[[KEPT]] slot
// CHECK:          gpu.reduce sum %{{.*}} accumulate
// CHECK:          gpu.reduce sum %{{.*}} by affine_map<(d0, d1) -> (d1)>
// CHECK:          gpu.copy %[[KEPT]] slot
// CHECK:          gpu.map {{.*}} outs(%Y
// CHECK:      gpu.launch @centred_panel when (N mod 8 == 0, -M >= -512) align [16, 16] grid
frontend.graph @centred(%X: !frontend.tensor<[M, N], f16>) -> (Y: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.reduce mean %X axes [0] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[N], f16>
  %1 = frontend.elementwise sub %X, %0 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %1 : !frontend.tensor<[M, N], f16>
}
