// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,region-merge-axes --split-input-file | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,region-merge-axes --split-input-file | polyc-opt --split-input-file | filecheck %s

// Heads that lie inside of rows have an axis and a dimension of their own; memory is as it was.
frontend.graph @scores(%q: !frontend.tensor<[B, T, 512], f16>, %k: !frontend.tensor<[B, S, 512], f16>) -> (y: !frontend.tensor<[B, 8, T, S], f16>) {
  %0 = frontend.reshape %q : !frontend.tensor<[B, T, 512], f16> -> !frontend.tensor<[B, T, 8, 64], f16>
  %1 = frontend.permute %0 perm [0, 2, 1, 3] : !frontend.tensor<[B, T, 8, 64], f16> -> !frontend.tensor<[B, 8, T, 64], f16>
  %2 = frontend.reshape %k : !frontend.tensor<[B, S, 512], f16> -> !frontend.tensor<[B, S, 8, 64], f16>
  %3 = frontend.permute %2 perm [0, 2, 3, 1] : !frontend.tensor<[B, S, 8, 64], f16> -> !frontend.tensor<[B, 8, 64, S], f16>
  %4 = frontend.gemm %1, %3 {acc = f32} : (!frontend.tensor<[B, 8, T, 64], f16>, !frontend.tensor<[B, 8, 64, S], f16>) -> !frontend.tensor<[B, 8, T, S], f16>
  frontend.output %4 : !frontend.tensor<[B, 8, T, S], f16>
}
// CHECK-LABEL: region.kernel @scores iters [b: B, i1: 8, t: T, s: S]
// CHECK-NEXT: ins(%q: !region.memref<[B, T, 8, 64], f16, align 16, noalias>, %k: !region.memref<[B, S, 8, 64], f16, align 16, noalias>)
// CHECK-NEXT: outs(y: !region.memref<[B, 8, T, S], f16, align 16, noalias> gmem)
// CHECK-NEXT: held(!region.memref<[B, T, 512], f16, align 16, noalias>, !region.memref<[B, S, 512], f16, align 16, noalias>, !region.memref<[B, 8, T, S], f16, align 16, noalias>)
// CHECK: region.read %q affine_map<(d0, d1, d2, d3)[s0, s1, s2] -> (d0, d1, d2, d3)>

// -----

// A product that ends merged is over heads and features; the output is a view of what it stores.
frontend.graph @experts(%x: !frontend.tensor<[T, 512], f16>, %w: !frontend.tensor<[4, 128, 64], f16>) -> (y: !frontend.tensor<[T, 256], f16>) {
  %0 = frontend.reshape %x : !frontend.tensor<[T, 512], f16> -> !frontend.tensor<[T, 4, 128], f16>
  %1 = frontend.permute %0 perm [1, 0, 2] : !frontend.tensor<[T, 4, 128], f16> -> !frontend.tensor<[4, T, 128], f16>
  %2 = frontend.gemm %1, %w {acc = f32} : (!frontend.tensor<[4, T, 128], f16>, !frontend.tensor<[4, 128, 64], f16>) -> !frontend.tensor<[4, T, 64], f16>
  %3 = frontend.permute %2 perm [1, 0, 2] : !frontend.tensor<[4, T, 64], f16> -> !frontend.tensor<[T, 4, 64], f16>
  %4 = frontend.reshape %3 : !frontend.tensor<[T, 4, 64], f16> -> !frontend.tensor<[T, 256], f16>
  frontend.output %4 : !frontend.tensor<[T, 256], f16>
}
// CHECK-LABEL: region.kernel @experts{{.*}} iters [t: T, {{.*}}: 4, {{.*}}: 64]
// CHECK: ins(%x: !region.memref<[T, 4, 128], f16, align 16, noalias>

// -----

// Rows of 20 elements are no whole vectors: copies of these heads are read faster.
frontend.graph @narrow(%q: !frontend.tensor<[T, 160], f16>, %k: !frontend.tensor<[S, 160], f16>) -> (y: !frontend.tensor<[8, T, S], f16>) {
  %0 = frontend.reshape %q : !frontend.tensor<[T, 160], f16> -> !frontend.tensor<[T, 8, 20], f16>
  %1 = frontend.permute %0 perm [1, 0, 2] : !frontend.tensor<[T, 8, 20], f16> -> !frontend.tensor<[8, T, 20], f16>
  %2 = frontend.reshape %k : !frontend.tensor<[S, 160], f16> -> !frontend.tensor<[S, 8, 20], f16>
  %3 = frontend.permute %2 perm [1, 2, 0] : !frontend.tensor<[S, 8, 20], f16> -> !frontend.tensor<[8, 20, S], f16>
  %4 = frontend.gemm %1, %3 {acc = f32} : (!frontend.tensor<[8, T, 20], f16>, !frontend.tensor<[8, 20, S], f16>) -> !frontend.tensor<[8, T, S], f16>
  frontend.output %4 : !frontend.tensor<[8, T, S], f16>
}
// CHECK-LABEL: region.graph @narrow
// CHECK-NOT: , 8, 20], f16, align 16, noalias> {from = @narrow
