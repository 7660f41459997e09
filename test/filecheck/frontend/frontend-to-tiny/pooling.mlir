// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// Outside of the operand a maximum reads -inf.

// CHECK-LABEL: tiny.graph @max
// CHECK: %0 = tiny.pad %x low [0, 1, 1] high [0, 1, 1] value -inf : !tiny.tensor<[C, H, W], f32> -> !tiny.tensor<[C, H + 2, W + 2], f32>
// CHECK-NEXT: %1 = tiny.window %0 axes [1, 2] size [3, 3] stride [2, 2] dilation [1, 1] : !tiny.tensor<[C, H + 2, W + 2], f32> -> !tiny.tensor<[C, (H + 1) floordiv 2, (W + 1) floordiv 2, 3, 3], f32>
// CHECK-NEXT: %2 = tiny.reduce max %1 axes [3, 4] : !tiny.tensor<[C, (H + 1) floordiv 2, (W + 1) floordiv 2, 3, 3], f32> -> !tiny.tensor<[C, (H + 1) floordiv 2, (W + 1) floordiv 2], f32>
// CHECK-NEXT: tiny.output %2
frontend.graph @max(%x: !frontend.tensor<[C, H, W], f32>) -> !frontend.tensor<[C, (H + 1) floordiv 2, (W + 1) floordiv 2], f32> {
  %0 = frontend.pool max %x axes [1, 2] size [3, 3] stride [2, 2] padding [1, 1, 1, 1] dilation [1, 1] : !frontend.tensor<[C, H, W], f32> -> !frontend.tensor<[C, (H + 1) floordiv 2, (W + 1) floordiv 2], f32>
  frontend.output %0 : !frontend.tensor<[C, (H + 1) floordiv 2, (W + 1) floordiv 2], f32>
}

// A mean divides by a number where all windows are whole: here where the padding counts.

// CHECK-LABEL: tiny.graph @counted
// CHECK: %2 = tiny.reduce sum
// CHECK-NEXT: %3 = tiny.constant 3.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %4 = tiny.expand %3 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[W], f32>
// CHECK-NEXT: %5 = tiny.binary div %2, %4 : !tiny.tensor<[W], f32>
frontend.graph @counted(%x: !frontend.tensor<[W], f32>) -> !frontend.tensor<[W], f32> {
  %0 = frontend.pool mean %x axes [0] size [3] stride [1] padding [1, 1] dilation [1] count_include_pad : !frontend.tensor<[W], f32>
  frontend.output %0 : !frontend.tensor<[W], f32>
}

// Where it does not, the taps that may be outside are asked for: the first and the last one.  The one
// between counts always.

// CHECK-LABEL: tiny.graph @inside
// CHECK: %2 = tiny.reduce sum
// CHECK-NEXT: %3 = tiny.constant 1.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %4 = tiny.expand %3 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[W], f32>
// CHECK-NEXT: %5 = tiny.mask %4 where affine_set<(d0)[s0] : ((d0 + -1) >= 0)> fill 0.0
// CHECK-NEXT: %6 = tiny.binary add %4, %5
// CHECK-NEXT: %7 = tiny.mask %4 where affine_set<(d0)[s0] : (((s0 + ((d0 * -1) + -1)) + -1) >= 0)> fill 0.0
// CHECK-NEXT: %8 = tiny.binary add %6, %7
// CHECK-NEXT: %9 = tiny.binary div %2, %8
frontend.graph @inside(%x: !frontend.tensor<[W], f32>) -> !frontend.tensor<[W], f32> {
  %0 = frontend.pool mean %x axes [0] size [3] stride [1] padding [1, 1] dilation [1] : !frontend.tensor<[W], f32>
  frontend.output %0 : !frontend.tensor<[W], f32>
}

// Of a window whose size is a symbol they are summed.

// CHECK-LABEL: tiny.graph @open
// CHECK: %2 = tiny.reduce sum
// CHECK: %5 = tiny.pad %4 low [1] high [0] value 0.0 : !tiny.tensor<[W], f32> -> !tiny.tensor<[W + 1], f32>
// CHECK-NEXT: %6 = tiny.window %5 axes [0] size [R] stride [1] dilation [1] : !tiny.tensor<[W + 1], f32> -> !tiny.tensor<[-R + W + 2, R], f32>
// CHECK-NEXT: %7 = tiny.reduce sum %6 axes [1]
// CHECK-NEXT: %8 = tiny.binary div %2, %7
frontend.graph @open(%x: !frontend.tensor<[W], f32>, %r: !frontend.tensor<[R], f32>) -> !frontend.tensor<[W - R + 2], f32> assuming (R >= 1) {
  %0 = frontend.pool mean %x axes [0] size [R] stride [1] padding [1, 0] dilation [1] : !frontend.tensor<[W], f32> -> !frontend.tensor<[W - R + 2], f32>
  frontend.output %0 : !frontend.tensor<[W - R + 2], f32>
}

// Where the largest element of a window is: that of the largest key, of its number in the window,
// and above of less than any element where it is padding.  In the whole the place has the row
// before it.

// CHECK-LABEL: tiny.graph @places
// CHECK: %[[ROOM:.*]] = tiny.pad {{.*}} low [0, 1] high [0, 1] value -2147483648 : !tiny.tensor<[C, W], i64>
// CHECK-NEXT: tiny.window %[[ROOM]] axes [1] size [3] stride [2] dilation [1]
// CHECK: tiny.unary not {{.*}} : !tiny.tensor<[C, (W + 1) floordiv 2, 3], ui32>
// CHECK: %[[KEY:.*]] = tiny.binary or {{.*}} : !tiny.tensor<[C, (W + 1) floordiv 2, 3], i64>
// CHECK-NEXT: tiny.reduce max %[[KEY]] axes [2] : {{.*}} -> !tiny.tensor<[C, (W + 1) floordiv 2], i64>
// CHECK: tiny.compare eq {{.*}} : !tiny.tensor<[C, (W + 1) floordiv 2], i32>
// CHECK: tiny.dim W : !tiny.tensor<[], i64>
// CHECK: tiny.select
// CHECK-NEXT: tiny.output
frontend.graph @places(%x: !frontend.tensor<[C, W], f32>) -> !frontend.tensor<[C, (W + 1) floordiv 2], i64> {
  %0 = frontend.arg_pool max %x axes [1] size [3] stride [2] padding [1, 1] dilation [1] whole : !frontend.tensor<[C, W], f32> -> !frontend.tensor<[C, (W + 1) floordiv 2], i64>
  frontend.output %0 : !frontend.tensor<[C, (W + 1) floordiv 2], i64>
}

// Keys of integers have the place in the plane: the least of them is an element too.

// CHECK-LABEL: tiny.graph @integers
// CHECK: tiny.unary not {{.*}} : !tiny.tensor<[W], ui32>
// CHECK: %[[KEY:.*]] = tiny.binary or {{.*}} : !tiny.tensor<[W], i64>
// CHECK-NEXT: tiny.pad %[[KEY]] low [1] high [1] value -9223372036854775808
frontend.graph @integers(%x: !frontend.tensor<[W], i32>) -> !frontend.tensor<[(W + 1) floordiv 2], i64> {
  %0 = frontend.arg_pool max %x axes [0] size [3] stride [2] padding [1, 1] dilation [1] : !frontend.tensor<[W], i32> -> !frontend.tensor<[(W + 1) floordiv 2], i64>
  frontend.output %0 : !frontend.tensor<[(W + 1) floordiv 2], i64>
}
