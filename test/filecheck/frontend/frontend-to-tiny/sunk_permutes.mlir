// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// A scale and a residual behind a permuted product are beside it, and the permute is behind them.
// CHECK:       tiny.graph @layer
// CHECK:         tiny.reduce sum
// CHECK:         tiny.binary mul
// CHECK:         tiny.binary add {{.*}} : !tiny.tensor<[N, L, 4], f32>
// CHECK-NEXT:    tiny.cast
// CHECK-NEXT:    tiny.permute {{.*}} perm [0, 2, 1] : !tiny.tensor<[N, L, 4], f16> -> !tiny.tensor<[N, 4, L], f16>
frontend.graph @layer(%x: !frontend.tensor<[N, 4, L], f16>, %y: !frontend.tensor<[N, L, 8], f16>, %w: !frontend.tensor<[8, 4], f16>, %g: !frontend.tensor<[4, 1], f16>) -> (z: !frontend.tensor<[N, 4, L], f16>) {
  %0 = frontend.gemm %y, %w {acc = f32} : (!frontend.tensor<[N, L, 8], f16>, !frontend.tensor<[8, 4], f16>) -> !frontend.tensor<[N, L, 4], f16>
  %1 = frontend.permute %0 perm [0, 2, 1] : !frontend.tensor<[N, L, 4], f16> -> !frontend.tensor<[N, 4, L], f16>
  %2 = frontend.elementwise mul %1, %g : (!frontend.tensor<[N, 4, L], f16>, !frontend.tensor<[4, 1], f16>) -> !frontend.tensor<[N, 4, L], f16>
  %3 = frontend.elementwise add %2, %x : (!frontend.tensor<[N, 4, L], f16>, !frontend.tensor<[N, 4, L], f16>) -> !frontend.tensor<[N, 4, L], f16>
  frontend.output %3 : !frontend.tensor<[N, 4, L], f16>
}

// What is no product stays where it is.
// CHECK:       tiny.graph @others
// CHECK:         tiny.permute
// CHECK:         tiny.binary add {{.*}} : !tiny.tensor<[M, N], f32>
// CHECK-NOT:     tiny.permute
// CHECK:         tiny.output
frontend.graph @others(%x: !frontend.tensor<[N, M], f16>, %y: !frontend.tensor<[M, N], f16>) -> (z: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.permute %x perm [1, 0] : !frontend.tensor<[N, M], f16> -> !frontend.tensor<[M, N], f16>
  %1 = frontend.elementwise add %0, %y : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %1 : !frontend.tensor<[M, N], f16>
}
