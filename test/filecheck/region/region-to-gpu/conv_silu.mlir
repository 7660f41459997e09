// RUN: polyc-opt %examples/conv_silu.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,plan-select{arch=sm_80 plan="%examples/conv_silu_sm80.json"},region-to-gpu' | filecheck %s
// RUN: polyc-opt %examples/conv_silu.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,plan-select{arch=sm_90a},region-to-gpu' | filecheck %s --check-prefix=NEW
// RUN: polyc-opt %examples/conv_silu.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,plan-select{arch=sm_80 plan="%examples/conv_silu_sm80.json"},region-to-gpu,gpu-assumptions,gpu-pipeline-planning,gpu-multi-version-buffers' | filecheck %s --check-prefix=RING

// The convolution as an implicit GEMM.  The output is seen as the matrix [pixels, filters] and the
// filter with its taps as one axis; a step is a tap and a block of channels.

// CHECK:      gpu.kernel @conv_silu_cp_async16(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %Wt: !gpu.global<[F, 9, C], f16> = tensor 1, %Y: !gpu.global<[H * N * W, F], f16> = tensor 2, %N: index = symbol N, %H: index = symbol H, %W: index = symbol W, %C: index = symbol C, %F: index = symbol F) threads 256 {
// CHECK-NEXT:   %[[LINES:[0-9]+]] = arith.muli %N, %H : index
// CHECK-NEXT:   %pixels = arith.muli %[[LINES]], %W : index
// CHECK-NEXT:   %blocks = affine.apply affine_map<(d0) -> (((d0 + 31) floordiv 32))> (%C)
// CHECK-NEXT:   %steps = affine.apply affine_map<(d0) -> ((d0 * 9))> (%blocks)
// CHECK-NEXT:   %pixels0, %f0 = gpu.tile_coordinates[%pixels, %F] tile <128, 128> raster "grouped" 8
// CHECK:        gpu.fill %{{.*}}, %acc : !gpu.fragment<[128, 128], f32>
// CHECK-NEXT:   %[[LINE:[0-9]+]] = arith.divui %pixels0, %W : index
// CHECK-NEXT:   %[[BEFORE:[0-9]+]] = arith.muli %[[LINE]], %W : index
// CHECK-NEXT:   %w0 = arith.subi %pixels0, %[[BEFORE]] : index
// CHECK-NEXT:   %n0 = arith.divui %[[LINE]], %H : index
// CHECK-NEXT:   %[[ABOVE:[0-9]+]] = arith.muli %n0, %H : index
// CHECK-NEXT:   %h0 = arith.subi %[[LINE]], %[[ABOVE]] : index
// CHECK-NEXT:   %X_tile = gpu.shared_tile : !gpu.shared<[128, 32], f16>
// CHECK-NEXT:   %Wt_tile = gpu.shared_tile : !gpu.shared<[128, 32], f16>
// CHECK-NEXT:   gpu.pipeline %step, %i = to %steps step 1 stages 3 {
// CHECK-NEXT:     %tap = arith.divui %i, %blocks : index
// CHECK-NEXT:     %[[DONE:[0-9]+]] = arith.muli %tap, %blocks : index
// CHECK-NEXT:     %[[BLOCK:[0-9]+]] = arith.subi %i, %[[DONE]] : index
// CHECK-NEXT:     %r = affine.apply affine_map<(d0) -> ((d0 floordiv 3))> (%tap)
// CHECK-NEXT:     %s = affine.apply affine_map<(d0) -> ((d0 mod 3))> (%tap)
// CHECK-NEXT:     %c0 = affine.apply affine_map<(d0) -> ((d0 * 32))> (%[[BLOCK]])
// CHECK-NEXT:     gpu.copy %X[%n0, %h0, %w0, %c0] to %X_tile im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]> tap [%r, %s] loader "cp_async" : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[128, 32], f16>
// CHECK-NEXT:     gpu.copy %Wt[%f0, %tap, %c0] to %Wt_tile axes <0, 2> loader "cp_async" : !gpu.global<[F, 9, C], f16>, !gpu.shared<[128, 32], f16>
// CHECK-NEXT:     gpu.contract %X_tile affine_map<(d0, d1, d2) -> (d0, d2)>, %Wt_tile affine_map<(d0, d1, d2) -> (d1, d2)> into %acc mma "mma.sync" warp_tile <64, 32> : !gpu.shared<[128, 32], f16>, !gpu.shared<[128, 32], f16>, !gpu.fragment<[128, 128], f32>
// CHECK-NEXT:   }
// CHECK-NEXT:   gpu.map %acc : !gpu.fragment<[128, 128], f32> origin [%pixels0, %f0] ins() outs(%Y : !gpu.global<[H * N * W, F], f16> affine_map<(d0, d1)[s0, s1] -> ((d0 + s0), (d1 + s1))>) {
// CHECK:          math.exp
// CHECK:          arith.mulf
// CHECK-NEXT:     arith.truncf
// CHECK-NEXT:     gpu.yield %{{.*}} : f16
// CHECK:      gpu.dispatch (X: !gpu.global<[N, H, W, C], f16>, Wt: !gpu.global<[F, 3, 3, C], f16> {role = "param", storage = "const_pool"}) -> (Y: !gpu.global<[N, H, W, F], f16>) {
// CHECK-NEXT:   gpu.launch @conv_silu_cp_async16 when (C mod 8 == 0, F mod 8 == 0) align [16, 16, 16] grid [(H * N * W + 127) floordiv 128, (F + 127) floordiv 128]
// CHECK-NEXT:   gpu.launch @conv_silu_cp_async4 when (C mod 2 == 0) align [4, 4, 4]
// CHECK-NEXT:   gpu.launch @conv_silu_scalar align [2, 2, 2]

// On SM90 the copy engine takes the pixels, and the result leaves by it while the next tile runs.

// NEW:      gpu.kernel @conv_silu_tma_small(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %Wt: !gpu.global<[F, 9, C], f16> = tensor 1, %Y: !gpu.global<[H * N * W, F], f16> = tensor 2,
// NEW:        %out_tile = gpu.shared_tile : !gpu.shared<[128, 128], f16>
// NEW-NEXT:   gpu.tile_loop (%pixels0, %f0, %tile) = [%pixels, %F] tile <128, 128> raster "grouped" 16 {
// NEW:          gpu.pipeline %step, %i = to %steps step 1 stages 6 {
// NEW:            gpu.copy %X[%n0, %h0, %w0, %c0] to %X_tile im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]> tap [%r, %s] loader "tma"
// NEW-NEXT:       gpu.copy %Wt[%f0, %tap, %c0] to %Wt_tile axes <0, 2> loader "tma"
// NEW-NEXT:       gpu.contract %X_tile {{.*}} mma "wgmma" warp_tile <64, 128>
// NEW:          gpu.copy %out_tile to %Y[%pixels0, %f0] loader "tma" : !gpu.shared<[128, 128], f16>, !gpu.global<[H * N * W, F], f16>

// The edges' rings are the tiles' own: as many as there are stages.

// RING: %X_tile = gpu.shared_tile : !gpu.shared<[128, 32], f16, ring 3>
// RING-NEXT: %Wt_tile = gpu.shared_tile : !gpu.shared<[128, 32], f16, ring 3>
