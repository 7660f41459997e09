// RUN: polyc-opt %s -p 'frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},region-srnf,region-inline-deferred,plan-select{arch=sm_90a},region-to-gpu' 2>/dev/null | filecheck %s

// A thread's four neighbours read 4 + 3 - 1 pixels of a row once, and weights once for all of them.

// CHECK:      gpu.kernel @conv_window_4
// CHECK:        scf.for %r0
// CHECK:          %[[ROW:[A-Za-z0-9_]+]] = gpu.fragment : !gpu.fragment<[66, 32], f32, #gpu.fragment_layout<threads 64, registers 48,
// CHECK:          gpu.map %[[ROW]]{{.*}} ins(%X
// CHECK-NOT:      ins(%X :
// CHECK:          gpu.map %{{.*}} ins(%F : {{.*}}!gpu.fragment<[1, 32]
// CHECK:          gpu.map %acc{{.*}} ins(%[[ROW]] {{.*}} -> (d0, d1)>, %F
// CHECK:          gpu.map %acc{{.*}} ins(%[[ROW]] {{.*}} -> ((d0 + 1), d1)>, %F
// CHECK:          gpu.map %acc{{.*}} ins(%[[ROW]] {{.*}} -> ((d0 + 2), d1)>, %F
// CHECK:      gpu.launch @conv_window_4 align [16, 16, 16] grid [32, 56, 3]

frontend.graph @conv(%X: !frontend.tensor<[32, 56, 56, 96], f16>, %F: !frontend.tensor<[96, 3, 3, 1], f16>) -> (Y: !frontend.tensor<[32, 56, 56, 96], f16>) {
  %0 = frontend.conv2d nhwc %X, %F stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 96 {acc = f32} : (!frontend.tensor<[32, 56, 56, 96], f16>, !frontend.tensor<[96, 3, 3, 1], f16>) -> !frontend.tensor<[32, 56, 56, 96], f16>
  frontend.output %0 : !frontend.tensor<[32, 56, 56, 96], f16>
}
