// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Integers, conditions, and leaves of them.

// CHECK: frontend.graph @integers(%x: !frontend.tensor<[M, N], i64>, %y: !frontend.tensor<[M, N], ui8>, %c: !frontend.tensor<[N], i1>)
frontend.graph @integers(%x: !frontend.tensor<[M, N], i64>, %y: !frontend.tensor<[M, N], ui8>, %c: !frontend.tensor<[N], i1>)
    -> !frontend.tensor<[M, N], i64> {
  // CHECK-NEXT: %0 = frontend.constant -9223372036854775808 : !frontend.tensor<[], i64>
  %0 = frontend.constant -9223372036854775808 : !frontend.tensor<[], i64>
  // CHECK-NEXT: %1 = frontend.constant 5 : !frontend.tensor<[], i32>
  %1 = frontend.constant 5.0 : !frontend.tensor<[], i32>
  // CHECK-NEXT: %2 = frontend.constant 5.0 : !frontend.tensor<[], f32>
  %2 = frontend.constant 5 : !frontend.tensor<[], f32>
  // CHECK-NEXT: %3 = frontend.dim 2 * M : !frontend.tensor<[], i64>
  %3 = frontend.dim M * 2 : !frontend.tensor<[], i64>
  // CHECK-NEXT: %4 = frontend.iota axis 1 : !frontend.tensor<[M, N], i64>
  %4 = frontend.iota axis 1 : !frontend.tensor<[M, N], i64>
  // CHECK-NEXT: %5 = frontend.elementwise shl %x, %4
  %5 = frontend.elementwise shl %x, %4 : (!frontend.tensor<[M, N], i64>, !frontend.tensor<[M, N], i64>) -> !frontend.tensor<[M, N], i64>
  // CHECK-NEXT: %6 = frontend.elementwise not %c : !frontend.tensor<[N], i1>
  %6 = frontend.elementwise not %c : !frontend.tensor<[N], i1>
  // CHECK-NEXT: %7 = frontend.compare ne %c, %6 : (!frontend.tensor<[N], i1>, !frontend.tensor<[N], i1>) -> !frontend.tensor<[N], i1>
  %7 = frontend.compare ne %c, %6 : (!frontend.tensor<[N], i1>, !frontend.tensor<[N], i1>) -> !frontend.tensor<[N], i1>
  // CHECK-NEXT: %8 = frontend.pad %y low [0, 1] high [0, 0] value 255 : !frontend.tensor<[M, N], ui8> -> !frontend.tensor<[M, N + 1], ui8>
  %8 = frontend.pad %y low [0, 1] high [0, 0] value 255 : !frontend.tensor<[M, N], ui8> -> !frontend.tensor<[M, N + 1], ui8>
  // CHECK-NEXT: %9 = frontend.reduce max %8 axes [1] : !frontend.tensor<[M, N + 1], ui8> -> !frontend.tensor<[M], ui8>
  %9 = frontend.reduce max %8 axes [1] : !frontend.tensor<[M, N + 1], ui8> -> !frontend.tensor<[M], ui8>
  // CHECK-NEXT: %10 = frontend.cast %y : !frontend.tensor<[M, N], ui8> -> !frontend.tensor<[M, N], i64>
  %10 = frontend.cast %y : !frontend.tensor<[M, N], ui8> -> !frontend.tensor<[M, N], i64>
  frontend.output %5 : !frontend.tensor<[M, N], i64>
}
