// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// Movements go over one to one, on f32 values and on conditions.

// CHECK: tiny.graph @movements(%x: !tiny.tensor<[M, 8 * K], f16>, %m: !tiny.tensor<[N], i1>) -> (A: !tiny.tensor<[M, 4, K + N], f16>, B: !tiny.tensor<[M, N], i1>) {
// CHECK-NEXT: %x_f32 = tiny.cast %x : !tiny.tensor<[M, 8 * K], f16> -> !tiny.tensor<[M, 8 * K], f32>
// CHECK-NEXT: %0 = tiny.reshape %x_f32 : !tiny.tensor<[M, 8 * K], f32> -> !tiny.tensor<[M, K, 8], f32>
// CHECK-NEXT: %1 = tiny.permute %0 perm [0, 2, 1] : !tiny.tensor<[M, K, 8], f32> -> !tiny.tensor<[M, 8, K], f32>
// CHECK-NEXT: %2 = tiny.slice %1 [0:M, 1:8:3, 0:K] : !tiny.tensor<[M, 8, K], f32> -> !tiny.tensor<[M, 3, K], f32>
// CHECK-NEXT: %3 = tiny.pad %2 low [0, 0, N] high [0, 1, 0] value -inf : !tiny.tensor<[M, 3, K], f32> -> !tiny.tensor<[M, 4, K + N], f32>
// CHECK-NEXT: %4 = tiny.expand %m dims [1] : !tiny.tensor<[N], i1> -> !tiny.tensor<[M, N], i1>
// CHECK-NEXT: %5 = tiny.cast %3 : !tiny.tensor<[M, 4, K + N], f32> -> !tiny.tensor<[M, 4, K + N], f16>
// CHECK-NEXT: tiny.output %5, %4 : !tiny.tensor<[M, 4, K + N], f16>, !tiny.tensor<[M, N], i1>
frontend.graph @movements(%x: !frontend.tensor<[M, 8 * K], f16>, %m: !frontend.tensor<[N], i1>) -> (A: !frontend.tensor<[M, 4, K + N], f16>, B: !frontend.tensor<[M, N], i1>) {
  %0 = frontend.reshape %x : !frontend.tensor<[M, 8 * K], f16> -> !frontend.tensor<[M, K, 8], f16>
  %1 = frontend.permute %0 perm [0, 2, 1] : !frontend.tensor<[M, K, 8], f16> -> !frontend.tensor<[M, 8, K], f16>
  %2 = frontend.slice %1 [0:M, 1:8:3, 0:K] : !frontend.tensor<[M, 8, K], f16> -> !frontend.tensor<[M, 3, K], f16>
  %3 = frontend.pad %2 low [0, 0, N] high [0, 1, 0] value -inf : !frontend.tensor<[M, 3, K], f16> -> !frontend.tensor<[M, 4, K + N], f16>
  %4 = frontend.expand %m dims [1] : !frontend.tensor<[N], i1> -> !frontend.tensor<[M, N], i1>
  frontend.output %3, %4 : !frontend.tensor<[M, 4, K + N], f16>, !frontend.tensor<[M, N], i1>
}

// A concat is the max of its operands padded with -inf, which is exact.

// CHECK: tiny.graph @concat(%x: !tiny.tensor<[M, N], f32>, %y: !tiny.tensor<[M, K], f32>) -> (C: !tiny.tensor<[M, K + 2 * N], f32>) {
// CHECK-NEXT: %0 = tiny.pad %x low [0, 0] high [0, K + N] value -inf : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, K + 2 * N], f32>
// CHECK-NEXT: %1 = tiny.pad %y low [0, N] high [0, N] value -inf : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K + 2 * N], f32>
// CHECK-NEXT: %2 = tiny.pad %x low [0, K + N] high [0, 0] value -inf : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, K + 2 * N], f32>
// CHECK-NEXT: %3 = tiny.binary max %0, %1 : !tiny.tensor<[M, K + 2 * N], f32>
// CHECK-NEXT: %4 = tiny.binary max %3, %2 : !tiny.tensor<[M, K + 2 * N], f32>
// CHECK-NEXT: tiny.output %4 : !tiny.tensor<[M, K + 2 * N], f32>
frontend.graph @concat(%x: !frontend.tensor<[M, N], f32>, %y: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, N + K + N], f32> {
  %0 = frontend.concat %x, %y, %x axis 1 : (!frontend.tensor<[M, N], f32>, !frontend.tensor<[M, K], f32>, !frontend.tensor<[M, N], f32>) -> !frontend.tensor<[M, N + K + N], f32>
  frontend.output %0 : !frontend.tensor<[M, N + K + N], f32>
}

// Conditions go as 1 and 0.

// CHECK: tiny.graph @conditions(%c: !tiny.tensor<[N], i1>, %x: !tiny.tensor<[N], f32>) -> (A: !tiny.tensor<[2 * N], i1>, B: !tiny.tensor<[N], f32>) {
// CHECK-NEXT: %0 = tiny.constant 1.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %1 = tiny.expand %0 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %2 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %3 = tiny.expand %2 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %4 = tiny.select %c, %1, %3 : !tiny.tensor<[N], f32>
// CHECK-NEXT: %5 = tiny.constant 1.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %6 = tiny.expand %5 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %7 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %8 = tiny.expand %7 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %9 = tiny.select %c, %6, %8 : !tiny.tensor<[N], f32>
// CHECK-NEXT: %10 = tiny.pad %4 low [0] high [N] value -inf : !tiny.tensor<[N], f32> -> !tiny.tensor<[2 * N], f32>
// CHECK-NEXT: %11 = tiny.pad %9 low [N] high [0] value -inf : !tiny.tensor<[N], f32> -> !tiny.tensor<[2 * N], f32>
// CHECK-NEXT: %12 = tiny.binary max %10, %11 : !tiny.tensor<[2 * N], f32>
// CHECK-NEXT: %13 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %14 = tiny.expand %13 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[2 * N], f32>
// CHECK-NEXT: %15 = tiny.compare ne %12, %14 : !tiny.tensor<[2 * N], f32>
// CHECK-NEXT: %h = tiny.constant 0.5 : !tiny.tensor<[], f32>
// CHECK-NEXT: %16 = tiny.expand %h dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %17 = tiny.compare gt %x, %16 : !tiny.tensor<[N], f32>
// CHECK-NEXT: %18 = tiny.expand %h dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %19 = tiny.select %17, %x, %18 : !tiny.tensor<[N], f32>
// CHECK-NEXT: %20 = tiny.constant 1.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %21 = tiny.expand %20 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %22 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %23 = tiny.expand %22 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %24 = tiny.select %c, %21, %23 : !tiny.tensor<[N], f32>
// CHECK-NEXT: %25 = tiny.binary add %19, %24 : !tiny.tensor<[N], f32>
// CHECK-NEXT: %26 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %27 = tiny.expand %26 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %28 = tiny.compare ne %25, %27 : !tiny.tensor<[N], f32>
// CHECK-NEXT: tiny.output %15, %25 : !tiny.tensor<[2 * N], i1>, !tiny.tensor<[N], f32>
frontend.graph @conditions(%c: !frontend.tensor<[N], i1>, %x: !frontend.tensor<[N], f32>) -> (A: !frontend.tensor<[2 * N], i1>, B: !frontend.tensor<[N], f32>) {
  %0 = frontend.concat %c, %c axis 0 : (!frontend.tensor<[N], i1>, !frontend.tensor<[N], i1>) -> !frontend.tensor<[2 * N], i1>
  %h = frontend.constant 0.5 : !frontend.tensor<[], f32>
  %1 = frontend.compare gt %x, %h : (!frontend.tensor<[N], f32>, !frontend.tensor<[], f32>) -> !frontend.tensor<[N], i1>
  %2 = frontend.select %1, %x, %h : (!frontend.tensor<[N], i1>, !frontend.tensor<[N], f32>, !frontend.tensor<[], f32>) -> !frontend.tensor<[N], f32>
  %3 = frontend.cast %c : !frontend.tensor<[N], i1> -> !frontend.tensor<[N], f32>
  %4 = frontend.elementwise add %2, %3 : (!frontend.tensor<[N], f32>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[N], f32>
  %5 = frontend.cast %4 : !frontend.tensor<[N], f32> -> !frontend.tensor<[N], i1>
  frontend.output %0, %4 : !frontend.tensor<[2 * N], i1>, !frontend.tensor<[N], f32>
}
