// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,region-merge-axes --split-input-file | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,region-merge-axes --split-input-file | polyc-opt --split-input-file | filecheck %s

// The one column of a matrix lies along k; the bias is as it was.
frontend.graph @column(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, 1], f16>, %b: !frontend.tensor<[M, 1], f16>) -> (Y: !frontend.tensor<[M, 1], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, 1], f16>) -> !frontend.tensor<[M, 1], f16>
  %1 = frontend.elementwise add %0, %b : (!frontend.tensor<[M, 1], f16>, !frontend.tensor<[M, 1], f16>) -> !frontend.tensor<[M, 1], f16>
  frontend.output %1 : !frontend.tensor<[M, 1], f16>
}
// CHECK-LABEL: region.kernel @column
// CHECK-NEXT: ins(%A: !region.memref<[M, K], f16, align 16, noalias>, %B: !region.memref<[1, K], f16, align 16, noalias>, %b: !region.memref<[M, 1], f16, align 16, noalias>)
// CHECK: held(!region.memref<[M, K], f16, align 16, noalias>, !region.memref<[K, 1], f16, align 16, noalias>,
// CHECK: region.read %B affine_map<(d0, d1)[s0, s1] -> (d1, d0)>

// -----

// So does that of each matrix of a batch, and the one row that is stored along k's neighbours.
frontend.graph @batch(%A: !frontend.tensor<[B, K, 1], f16>, %W: !frontend.tensor<[B, K, N], f16>) -> (Y: !frontend.tensor<[B, 1, N], f16>) {
  %0 = frontend.gemm %A, %W {acc = f32, transpose_a} : (!frontend.tensor<[B, K, 1], f16>, !frontend.tensor<[B, K, N], f16>) -> !frontend.tensor<[B, 1, N], f16>
  frontend.output %0 : !frontend.tensor<[B, 1, N], f16>
}
// CHECK-LABEL: region.kernel @batch
// CHECK-NEXT: ins(%A: !region.memref<[B, 1, K], f16, align 16, noalias>, %W: !region.memref<[B, K, N], f16, align 16, noalias>)

// -----

// Two columns are rows of two, and a size that is open may be more than 1.
frontend.graph @two(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, 2], f16>) -> (Y: !frontend.tensor<[M, 2], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, 2], f16>) -> !frontend.tensor<[M, 2], f16>
  frontend.output %0 : !frontend.tensor<[M, 2], f16>
}
// CHECK-LABEL: region.kernel @two
// CHECK-NOT: held

// -----

// Sums that are no products keep their tensors.
frontend.graph @sums(%X: !frontend.tensor<[N, C, 1], f32>) -> (Y: !frontend.tensor<[N, 1], f32>) {
  %0 = frontend.reduce sum %X axes [1] : !frontend.tensor<[N, C, 1], f32> -> !frontend.tensor<[N, 1], f32>
  frontend.output %0 : !frontend.tensor<[N, 1], f32>
}
// CHECK-LABEL: region.kernel @sums
// CHECK-NOT: memref<[N, 1, C]
