// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// Indices come to have the shape of the result; what is read is widened after.

// CHECK-LABEL: tiny.graph @rows
// CHECK-NEXT: %0 = tiny.expand %i dims [0] : !tiny.tensor<[N], i64> -> !tiny.tensor<[N, D], i64>
// CHECK-NEXT: %1 = tiny.gather %x at [%0] axes [0] clamp : (!tiny.tensor<[V, D], f16>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f16>
// CHECK-NEXT: %2 = tiny.cast %1 : !tiny.tensor<[N, D], f16> -> !tiny.tensor<[N, D], f32>
// CHECK-NEXT: %3 = tiny.cast %2 : !tiny.tensor<[N, D], f32> -> !tiny.tensor<[N, D], f16>
// CHECK-NEXT: tiny.output %3 : !tiny.tensor<[N, D], f16>
frontend.graph @rows(%x: !frontend.tensor<[V, D], f16>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f16> {
  %0 = frontend.gather %x, %i axis 0 clamp : (!frontend.tensor<[V, D], f16>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f16>
  frontend.output %0 : !frontend.tensor<[N, D], f16>
}

// A fill that the stored type does not hold is of the widened one.

// CHECK-LABEL: tiny.graph @kept_wide
// CHECK-NEXT: %x_f32 = tiny.cast %x : !tiny.tensor<[V, D], f16> -> !tiny.tensor<[V, D], f32>
// CHECK-NEXT: %0 = tiny.expand %i dims [0] : !tiny.tensor<[N], i64> -> !tiny.tensor<[N, D], i64>
// CHECK-NEXT: %1 = tiny.gather %x_f32 at [%0] axes [0] fill 0.1 : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
// CHECK-NEXT: %2 = tiny.cast %1 : !tiny.tensor<[N, D], f32> -> !tiny.tensor<[N, D], f16>
// CHECK-NEXT: tiny.output %2 : !tiny.tensor<[N, D], f16>
frontend.graph @kept_wide(%x: !frontend.tensor<[V, D], f16>, %i: !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f16> {
  %0 = frontend.gather %x, %i axis 0 fill 0.1 : (!frontend.tensor<[V, D], f16>, !frontend.tensor<[N], i64>) -> !frontend.tensor<[N, D], f16>
  frontend.output %0 : !frontend.tensor<[N, D], f16>
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
// CHECK-NEXT: %9 = tiny.gather %x at [%8] axes [0] clamp : (!tiny.tensor<[V], f32>, !tiny.tensor<[N], i64>) -> !tiny.tensor<[N], f32>
// CHECK-NEXT: tiny.output %9 : !tiny.tensor<[N], f32>
frontend.graph @from_end(%x: !frontend.tensor<[V], f32>, %i: !frontend.tensor<[N], i8>) -> !frontend.tensor<[N], f32> {
  %0 = frontend.gather %x, %i axis 0 from_end clamp : (!frontend.tensor<[V], f32>, !frontend.tensor<[N], i8>) -> !frontend.tensor<[N], f32>
  frontend.output %0 : !frontend.tensor<[N], f32>
}

// What has no sign counts from the start alone.

// CHECK-LABEL: tiny.graph @never_below
// CHECK-NEXT: %0 = tiny.expand %i dims [0] : !tiny.tensor<[N], ui8> -> !tiny.tensor<[N], ui8>
// CHECK-NEXT: %1 = tiny.gather %x at [%0] axes [0] clamp : (!tiny.tensor<[V], f32>, !tiny.tensor<[N], ui8>) -> !tiny.tensor<[N], f32>
// CHECK-NEXT: tiny.output %1 : !tiny.tensor<[N], f32>
frontend.graph @never_below(%x: !frontend.tensor<[V], f32>, %i: !frontend.tensor<[N], ui8>) -> !frontend.tensor<[N], f32> {
  %0 = frontend.gather %x, %i axis 0 from_end clamp : (!frontend.tensor<[V], f32>, !frontend.tensor<[N], ui8>) -> !frontend.tensor<[N], f32>
  frontend.output %0 : !frontend.tensor<[N], f32>
}

// A single index is that of an axis of 1, which goes.

// CHECK-LABEL: tiny.graph @one
// CHECK-NEXT: %0 = tiny.reshape %i : !tiny.tensor<[], i32> -> !tiny.tensor<[1], i32>
// CHECK-NEXT: %1 = tiny.expand %0 dims [0] : !tiny.tensor<[1], i32> -> !tiny.tensor<[1, D], i32>
// CHECK-NEXT: %2 = tiny.gather %x at [%1] axes [0] clamp : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[1, D], i32>) -> !tiny.tensor<[1, D], f32>
// CHECK-NEXT: %3 = tiny.reshape %2 : !tiny.tensor<[1, D], f32> -> !tiny.tensor<[D], f32>
// CHECK-NEXT: tiny.output %3 : !tiny.tensor<[D], f32>
frontend.graph @one(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[], i32>) -> !frontend.tensor<[D], f32> {
  %0 = frontend.gather %x, %i axis 0 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[], i32>) -> !frontend.tensor<[D], f32>
  frontend.output %0 : !frontend.tensor<[D], f32>
}

// What no index is beside is cut off.

// CHECK-LABEL: tiny.graph @fewer
// CHECK-NEXT: %0 = tiny.slice %x [0:K, 0:B] : !tiny.tensor<[A, B], f32> -> !tiny.tensor<[K, B], f32>
// CHECK-NEXT: %1 = tiny.gather %0 at [%i] axes [1] fill 0.0 : (!tiny.tensor<[K, B], f32>, !tiny.tensor<[K, 3], i32>) -> !tiny.tensor<[K, 3], f32>
// CHECK-NEXT: tiny.output %1 : !tiny.tensor<[K, 3], f32>
frontend.graph @fewer(%x: !frontend.tensor<[A, B], f32>, %i: !frontend.tensor<[K, 3], i32>) -> !frontend.tensor<[K, 3], f32> assuming (A >= K) {
  %0 = frontend.gather_elements %x, %i axis 1 fill 0.0 : (!frontend.tensor<[A, B], f32>, !frontend.tensor<[K, 3], i32>) -> !frontend.tensor<[K, 3], f32>
  frontend.output %0 : !frontend.tensor<[K, 3], f32>
}

// The first of the axes of a tuple has the tuples, the others are 1.

// CHECK-LABEL: tiny.graph @tuples
// CHECK-NEXT: %0 = tiny.slice %i [0:I, 0:1] : !tiny.tensor<[I, 2], i32> -> !tiny.tensor<[I, 1], i32>
// CHECK-NEXT: %1 = tiny.reshape %0 : !tiny.tensor<[I, 1], i32> -> !tiny.tensor<[I], i32>
// CHECK-NEXT: %2 = tiny.slice %i [0:I, 1:2] : !tiny.tensor<[I, 2], i32> -> !tiny.tensor<[I, 1], i32>
// CHECK-NEXT: %3 = tiny.reshape %2 : !tiny.tensor<[I, 1], i32> -> !tiny.tensor<[I], i32>
// CHECK-NEXT: %4 = tiny.expand %1 dims [0] : !tiny.tensor<[I], i32> -> !tiny.tensor<[I, 1, C], i32>
// CHECK-NEXT: %5 = tiny.expand %3 dims [0] : !tiny.tensor<[I], i32> -> !tiny.tensor<[I, 1, C], i32>
// CHECK-NEXT: %6 = tiny.gather %x at [%4, %5] axes [0, 1] clamp : (!tiny.tensor<[A, B, C], f32>, !tiny.tensor<[I, 1, C], i32>, !tiny.tensor<[I, 1, C], i32>) -> !tiny.tensor<[I, 1, C], f32>
// CHECK-NEXT: %7 = tiny.reshape %6 : !tiny.tensor<[I, 1, C], f32> -> !tiny.tensor<[I, C], f32>
// CHECK-NEXT: tiny.output %7 : !tiny.tensor<[I, C], f32>
frontend.graph @tuples(%x: !frontend.tensor<[A, B, C], f32>, %i: !frontend.tensor<[I, 2], i32>) -> !frontend.tensor<[I, C], f32> {
  %0 = frontend.gather_nd %x, %i batch 0 clamp : (!frontend.tensor<[A, B, C], f32>, !frontend.tensor<[I, 2], i32>) -> !frontend.tensor<[I, C], f32>
  frontend.output %0 : !frontend.tensor<[I, C], f32>
}
