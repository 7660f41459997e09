// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// Indices come to have the shape of the updates; what is combined is f32, and rounded once.

// CHECK-LABEL: tiny.graph @rows
// CHECK-NEXT: %x_f32 = tiny.cast %x : !tiny.tensor<[V, D], f16> -> !tiny.tensor<[V, D], f32>
// CHECK-NEXT: %u_f32 = tiny.cast %u : !tiny.tensor<[N, D], f16> -> !tiny.tensor<[N, D], f32>
// CHECK-NEXT: %0 = tiny.expand %i dims [0] : !tiny.tensor<[N], i64> -> !tiny.tensor<[N, D], i64>
// CHECK-NEXT: %1 = tiny.scatter add %x_f32, %u_f32 at [%0] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
// CHECK-NEXT: %2 = tiny.cast %1 : !tiny.tensor<[V, D], f32> -> !tiny.tensor<[V, D], f16>
// CHECK-NEXT: tiny.output %2 : !tiny.tensor<[V, D], f16>
frontend.graph @rows(%x: !frontend.tensor<[V, D], f16>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f16>) -> !frontend.tensor<[V, D], f16> {
  %0 = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f16>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f16>) -> !frontend.tensor<[V, D], f16>
  frontend.output %0 : !frontend.tensor<[V, D], f16>
}

// The axes of the indices are one, in their order.

// CHECK-LABEL: tiny.graph @grid
// CHECK-NEXT: %0 = tiny.reshape %i : !tiny.tensor<[I, J], i64> -> !tiny.tensor<[I * J], i64>
// CHECK-NEXT: %1 = tiny.reshape %u : !tiny.tensor<[I, J, D], f32> -> !tiny.tensor<[I * J, D], f32>
// CHECK-NEXT: %2 = tiny.expand %0 dims [0] : !tiny.tensor<[I * J], i64> -> !tiny.tensor<[I * J, D], i64>
// CHECK-NEXT: %3 = tiny.scatter max %x, %1 at [%2] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[I * J, D], f32>, !tiny.tensor<[I * J, D], i64>) -> !tiny.tensor<[V, D], f32>
// CHECK-NEXT: tiny.output %3 : !tiny.tensor<[V, D], f32>
frontend.graph @grid(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[I, J], i64>, %u: !frontend.tensor<[I, J, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %0 = frontend.scatter max %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[I, J], i64>, !frontend.tensor<[I, J, D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %0 : !frontend.tensor<[V, D], f32>
}

// Those below 0 count from the end in a type that holds the sum.

// CHECK-LABEL: tiny.graph @from_end
// CHECK-NEXT: %0 = tiny.cast %i : !tiny.tensor<[N], i8> -> !tiny.tensor<[N], i64>
// CHECK-NEXT: %1 = tiny.dim V : !tiny.tensor<[], i64>
// CHECK-NEXT: %2 = tiny.expand %1 dims [] : !tiny.tensor<[], i64> -> !tiny.tensor<[N], i64>
// CHECK-NEXT: %3 = tiny.constant 0 : !tiny.tensor<[], i64>
// CHECK-NEXT: %4 = tiny.expand %3 dims [] : !tiny.tensor<[], i64> -> !tiny.tensor<[N], i64>
// CHECK-NEXT: %5 = tiny.compare lt %0, %4 : !tiny.tensor<[N], i64>
// CHECK-NEXT: %6 = tiny.binary add %0, %2 : !tiny.tensor<[N], i64>
// CHECK-NEXT: %7 = tiny.select %5, %6, %0 : !tiny.tensor<[N], i64>
// CHECK-NEXT: %8 = tiny.expand %7 dims [0] : !tiny.tensor<[N], i64> -> !tiny.tensor<[N], i64>
// CHECK-NEXT: %9 = tiny.scatter set %x, %u at [%8] axes [0] : (!tiny.tensor<[V], i32>, !tiny.tensor<[N], i32>, !tiny.tensor<[N], i64>) -> !tiny.tensor<[V], i32>
// CHECK-NEXT: tiny.output %9 : !tiny.tensor<[V], i32>
frontend.graph @from_end(%x: !frontend.tensor<[V], i32>, %i: !frontend.tensor<[N], i8>, %u: !frontend.tensor<[N], i32>) -> !frontend.tensor<[V], i32> {
  %0 = frontend.scatter set %x, %i, %u axis 0 from_end : (!frontend.tensor<[V], i32>, !frontend.tensor<[N], i8>, !frontend.tensor<[N], i32>) -> !frontend.tensor<[V], i32>
  frontend.output %0 : !frontend.tensor<[V], i32>
}

// Conditions go as 1 and 0; what has no sign counts from the start alone.

// CHECK-LABEL: tiny.graph @conditions
// CHECK-NEXT: %0 = tiny.constant 1.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %1 = tiny.expand %0 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[V], f32>
// CHECK-NEXT: %2 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %3 = tiny.expand %2 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[V], f32>
// CHECK-NEXT: %4 = tiny.select %x, %1, %3 : !tiny.tensor<[V], f32>
// CHECK-NEXT: %5 = tiny.constant 1.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %6 = tiny.expand %5 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %7 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %8 = tiny.expand %7 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %9 = tiny.select %u, %6, %8 : !tiny.tensor<[N], f32>
// CHECK-NEXT: %10 = tiny.expand %i dims [0] : !tiny.tensor<[N], ui8> -> !tiny.tensor<[N], ui8>
// CHECK-NEXT: %11 = tiny.scatter set %4, %9 at [%10] axes [0] : (!tiny.tensor<[V], f32>, !tiny.tensor<[N], f32>, !tiny.tensor<[N], ui8>) -> !tiny.tensor<[V], f32>
// CHECK-NEXT: %12 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %13 = tiny.expand %12 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[V], f32>
// CHECK-NEXT: %14 = tiny.compare ne %11, %13 : !tiny.tensor<[V], f32>
// CHECK-NEXT: tiny.output %14 : !tiny.tensor<[V], i1>
frontend.graph @conditions(%x: !frontend.tensor<[V], i1>, %i: !frontend.tensor<[N], ui8>, %u: !frontend.tensor<[N], i1>) -> !frontend.tensor<[V], i1> {
  %0 = frontend.scatter set %x, %i, %u axis 0 from_end : (!frontend.tensor<[V], i1>, !frontend.tensor<[N], ui8>, !frontend.tensor<[N], i1>) -> !frontend.tensor<[V], i1>
  frontend.output %0 : !frontend.tensor<[V], i1>
}

// Where there are fewer updates along another axis, its places are indices too.

// CHECK-LABEL: tiny.graph @fewer
// CHECK-NEXT: %0 = tiny.iota : !tiny.tensor<[K], i32>
// CHECK-NEXT: %1 = tiny.expand %0 dims [0] : !tiny.tensor<[K], i32> -> !tiny.tensor<[K, 3], i32>
// CHECK-NEXT: %2 = tiny.scatter mul %x, %u at [%1, %i] axes [0, 1] : (!tiny.tensor<[A, B], f32>, !tiny.tensor<[K, 3], f32>, !tiny.tensor<[K, 3], i32>, !tiny.tensor<[K, 3], i32>) -> !tiny.tensor<[A, B], f32>
// CHECK-NEXT: tiny.output %2 : !tiny.tensor<[A, B], f32>
frontend.graph @fewer(%x: !frontend.tensor<[A, B], f32>, %i: !frontend.tensor<[K, 3], i32>, %u: !frontend.tensor<[K, 3], f32>) -> !frontend.tensor<[A, B], f32> assuming (A >= K) {
  %0 = frontend.scatter_elements mul %x, %i, %u axis 1 : (!frontend.tensor<[A, B], f32>, !frontend.tensor<[K, 3], i32>, !frontend.tensor<[K, 3], f32>) -> !frontend.tensor<[A, B], f32>
  frontend.output %0 : !frontend.tensor<[A, B], f32>
}

// The first of the axes of a tuple has the tuples, the others are 1.

// CHECK-LABEL: tiny.graph @tuples
// CHECK-NEXT: %0 = tiny.slice %i [0:I, 0:1] : !tiny.tensor<[I, 2], i32> -> !tiny.tensor<[I, 1], i32>
// CHECK-NEXT: %1 = tiny.reshape %0 : !tiny.tensor<[I, 1], i32> -> !tiny.tensor<[I], i32>
// CHECK-NEXT: %2 = tiny.reshape %1 : !tiny.tensor<[I], i32> -> !tiny.tensor<[I], i32>
// CHECK-NEXT: %3 = tiny.expand %2 dims [0] : !tiny.tensor<[I], i32> -> !tiny.tensor<[I, 1, C], i32>
// CHECK-NEXT: %4 = tiny.slice %i [0:I, 1:2] : !tiny.tensor<[I, 2], i32> -> !tiny.tensor<[I, 1], i32>
// CHECK-NEXT: %5 = tiny.reshape %4 : !tiny.tensor<[I, 1], i32> -> !tiny.tensor<[I], i32>
// CHECK-NEXT: %6 = tiny.reshape %5 : !tiny.tensor<[I], i32> -> !tiny.tensor<[I], i32>
// CHECK-NEXT: %7 = tiny.expand %6 dims [0] : !tiny.tensor<[I], i32> -> !tiny.tensor<[I, 1, C], i32>
// CHECK-NEXT: %8 = tiny.reshape %u : !tiny.tensor<[I, C], f32> -> !tiny.tensor<[I, 1, C], f32>
// CHECK-NEXT: %9 = tiny.scatter min %x, %8 at [%3, %7] axes [0, 1] : (!tiny.tensor<[A, B, C], f32>, !tiny.tensor<[I, 1, C], f32>, !tiny.tensor<[I, 1, C], i32>, !tiny.tensor<[I, 1, C], i32>) -> !tiny.tensor<[A, B, C], f32>
// CHECK-NEXT: tiny.output %9 : !tiny.tensor<[A, B, C], f32>
frontend.graph @tuples(%x: !frontend.tensor<[A, B, C], f32>, %i: !frontend.tensor<[I, 2], i32>, %u: !frontend.tensor<[I, C], f32>) -> !frontend.tensor<[A, B, C], f32> {
  %0 = frontend.scatter_nd min %x, %i, %u batch 0 : (!frontend.tensor<[A, B, C], f32>, !frontend.tensor<[I, 2], i32>, !frontend.tensor<[I, C], f32>) -> !frontend.tensor<[A, B, C], f32>
  frontend.output %0 : !frontend.tensor<[A, B, C], f32>
}
