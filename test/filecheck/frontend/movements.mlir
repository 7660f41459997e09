// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK: frontend.graph @movements(%x: !frontend.tensor<[M, 8 * K], f16>, %m: !frontend.tensor<[N], i1>) -> (C: !frontend.tensor<[M, 9 * K + 2], f16>) {
// CHECK-NEXT: %0 = frontend.reshape %x : !frontend.tensor<[M, 8 * K], f16> -> !frontend.tensor<[M, K, 8], f16>
// CHECK-NEXT: %1 = frontend.permute %0 perm [0, 2, 1] : !frontend.tensor<[M, K, 8], f16> -> !frontend.tensor<[M, 8, K], f16>
// CHECK-NEXT: %2 = frontend.slice %1 [0:M, 1:8:3, 0:K] : !frontend.tensor<[M, 8, K], f16> -> !frontend.tensor<[M, 3, K], f16>
// CHECK-NEXT: %3 = frontend.pad %2 low [0, 0, N] high [0, 1, 0] value -inf {note = "kept"} : !frontend.tensor<[M, 3, K], f16> -> !frontend.tensor<[M, 4, K + N], f16>
// CHECK-NEXT: %4 = frontend.expand %m dims [1] : !frontend.tensor<[N], i1> -> !frontend.tensor<[M, N], i1>
// CHECK-NEXT: %5 = frontend.slice %0 [0:M, 0:K, 2:3] : !frontend.tensor<[M, K, 8], f16> -> !frontend.tensor<[M, K, 1], f16>
// CHECK-NEXT: %6 = frontend.reshape %5 : !frontend.tensor<[M, K, 1], f16> -> !frontend.tensor<[M, K], f16>
// CHECK-NEXT: %7 = frontend.pad %6 low [0, 2] high [0, 0] value 1.5 : !frontend.tensor<[M, K], f16> -> !frontend.tensor<[M, K + 2], f16>
// CHECK-NEXT: %8 = frontend.concat %x, %7 axis 1 : (!frontend.tensor<[M, 8 * K], f16>, !frontend.tensor<[M, K + 2], f16>) -> !frontend.tensor<[M, 9 * K + 2], f16>
// CHECK-NEXT: frontend.output %8 : !frontend.tensor<[M, 9 * K + 2], f16>
frontend.graph @movements(%x: !frontend.tensor<[M, 8 * K], f16>, %m: !frontend.tensor<[N], i1>) -> !frontend.tensor<[M, 9 * K + 2], f16> {
  %0 = frontend.reshape %x : !frontend.tensor<[M, 8 * K], f16> -> !frontend.tensor<[M, K, 8], f16>
  %1 = frontend.permute %0 perm [0, 2, 1] : !frontend.tensor<[M, K, 8], f16> -> !frontend.tensor<[M, 8, K], f16>
  %2 = frontend.slice %1 [0:M, 1:8:3, 0:K] : !frontend.tensor<[M, 8, K], f16> -> !frontend.tensor<[M, 3, K], f16>
  %3 = frontend.pad %2 low [0, 0, N] high [0, 1, 0] value -inf {note = "kept"} : !frontend.tensor<[M, 3, K], f16> -> !frontend.tensor<[M, 4, K + N], f16>
  %4 = frontend.expand %m dims [1] : !frontend.tensor<[N], i1> -> !frontend.tensor<[M, N], i1>
  %5 = frontend.slice %0 [0:M, 0:K, 2:3] : !frontend.tensor<[M, K, 8], f16> -> !frontend.tensor<[M, K, 1], f16>
  %6 = frontend.reshape %5 : !frontend.tensor<[M, K, 1], f16> -> !frontend.tensor<[M, K], f16>
  %7 = frontend.pad %6 low [0, 2] high [0, 0] value 1.5 : !frontend.tensor<[M, K], f16> -> !frontend.tensor<[M, K + 2], f16>
  %8 = frontend.concat %x, %7 axis 1 : (!frontend.tensor<[M, 8 * K], f16>, !frontend.tensor<[M, K + 2], f16>) -> !frontend.tensor<[M, 9 * K + 2], f16>
  frontend.output %8 : !frontend.tensor<[M, 9 * K + 2], f16>
}

// What the assumptions say decides: K is a multiple of 8, and at least 16.

// CHECK: frontend.graph @assuming(%x: !frontend.tensor<[M, K, N], f16>) -> (C: !frontend.tensor<[M, K floordiv 8, 8, N], f16>) assuming (K mod 8 == 0, K >= 16) {
// CHECK-NEXT: %0 = frontend.slice %x [0:M, K - 16:K:2, 0:N] : !frontend.tensor<[M, K, N], f16> -> !frontend.tensor<[M, 8, N], f16>
// CHECK-NEXT: %1 = frontend.reshape %x : !frontend.tensor<[M, K, N], f16> -> !frontend.tensor<[M, K floordiv 8, 8, N], f16>
// CHECK-NEXT: frontend.output %1 : !frontend.tensor<[M, K floordiv 8, 8, N], f16>
frontend.graph @assuming(%x: !frontend.tensor<[M, K, N], f16>) -> !frontend.tensor<[M, K floordiv 8, 8, N], f16> assuming (K mod 8 == 0, K >= 16) {
  %0 = frontend.slice %x [0:M, K - 16:K:2, 0:N] : !frontend.tensor<[M, K, N], f16> -> !frontend.tensor<[M, 8, N], f16>
  %1 = frontend.reshape %x : !frontend.tensor<[M, K, N], f16> -> !frontend.tensor<[M, K floordiv 8, 8, N], f16>
  frontend.output %1 : !frontend.tensor<[M, K floordiv 8, 8, N], f16>
}
