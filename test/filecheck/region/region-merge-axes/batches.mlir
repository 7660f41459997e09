// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,region-merge-axes --split-input-file | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,region-merge-axes --split-input-file | polyc-opt --split-input-file | filecheck %s

// Pixels that no tensor tells apart are one axis; memory is as it was.
frontend.graph @pixels(%X: !frontend.tensor<[N, H, W, C], f16>, %B: !frontend.tensor<[C, F], f16>) -> (Y: !frontend.tensor<[N, H, W, F], f16>) {
  %0 = frontend.gemm %X, %B {acc = f32} : (!frontend.tensor<[N, H, W, C], f16>, !frontend.tensor<[C, F], f16>) -> !frontend.tensor<[N, H, W, F], f16>
  frontend.output %0 : !frontend.tensor<[N, H, W, F], f16>
}
// CHECK-LABEL: region.kernel @pixels iters [nhw: H * N * W, f: F]
// CHECK-NEXT: ins(%X: !region.memref<[H * N * W, C], f16, align 16, noalias>, %B: !region.memref<[C, F], f16, align 16, noalias>)
// CHECK-NEXT: outs(Y: !region.memref<[H * N * W, F], f16, align 16, noalias> gmem)
// CHECK-NEXT: held(!region.memref<[N, H, W, C], f16, align 16, noalias>, !region.memref<[C, F], f16, align 16, noalias>, !region.memref<[N, H, W, F], f16, align 16, noalias>)

// -----

// A vector of one of the two keeps them apart.
frontend.graph @apart(%X: !frontend.tensor<[N, H, C], f16>, %B: !frontend.tensor<[C, F], f16>, %b: !frontend.tensor<[H, 1], f16>) -> (Y: !frontend.tensor<[N, H, F], f16>) {
  %0 = frontend.gemm %X, %B {acc = f32} : (!frontend.tensor<[N, H, C], f16>, !frontend.tensor<[C, F], f16>) -> !frontend.tensor<[N, H, F], f16>
  %1 = frontend.elementwise add %0, %b : (!frontend.tensor<[N, H, F], f16>, !frontend.tensor<[H, 1], f16>) -> !frontend.tensor<[N, H, F], f16>
  frontend.output %1 : !frontend.tensor<[N, H, F], f16>
}
// CHECK-LABEL: region.kernel @apart iters [n: N, h: H, f: F]
// CHECK-NOT: held

// -----

// Rows are those of a matrix.
frontend.graph @sums(%X: !frontend.tensor<[N, H, C], f32>) -> (Y: !frontend.tensor<[N, H], f32>) {
  %0 = frontend.reduce sum %X axes [2] : !frontend.tensor<[N, H, C], f32> -> !frontend.tensor<[N, H], f32>
  frontend.output %0 : !frontend.tensor<[N, H], f32>
}
// CHECK-LABEL: region.kernel @sums iters [nh: H * N]
// CHECK: held(!region.memref<[N, H, C], f32
