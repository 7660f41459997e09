// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// How many windows there are follows from sizes, which may be symbols.

// CHECK: %0 = frontend.pool max %x axes [2, 3] size [3, 3] stride [2, 2] padding [1, 1, 1, 1] dilation [1, 1] : !frontend.tensor<[N, C, H, W], f16> -> !frontend.tensor<[N, C, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
frontend.graph @images(%x: !frontend.tensor<[N, C, H, W], f16>) -> !frontend.tensor<[N, C, (H + 1) floordiv 2, (W + 1) floordiv 2], f16> {
  %0 = frontend.pool max %x axes [2, 3] size [3, 3] stride [2, 2] padding [1, 1, 1, 1] dilation [1, 1] : !frontend.tensor<[N, C, H, W], f16> -> !frontend.tensor<[N, C, (H + 2 - 3) floordiv 2 + 1, (W - 1) floordiv 2 + 1], f16>
  frontend.output %0 : !frontend.tensor<[N, C, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
}

// With ceil_mode the last window may reach beyond the padding.  Here 7 places have windows of 2 at
// 0, 2, 4 and 6, and of 1 with a room of 4 around them, every third one, at -4, -1, 2 and 5.

// CHECK: %0 = frontend.pool mean %x axes [0] size [2] stride [2] padding [0, 0] dilation [1] ceil_mode count_include_pad {note = "kept"} : !frontend.tensor<[7], f32> -> !frontend.tensor<[4], f32>
// CHECK: %1 = frontend.pool sum %x axes [0] size [1] stride [3] padding [4, 4] dilation [1] ceil_mode : !frontend.tensor<[7], f32> -> !frontend.tensor<[4], f32>
frontend.graph @up(%x: !frontend.tensor<[7], f32>) -> !frontend.tensor<[4], f32> {
  %0 = frontend.pool mean %x axes [0] size [2] stride [2] padding [0, 0] dilation [1] ceil_mode count_include_pad {note = "kept"} : !frontend.tensor<[7], f32> -> !frontend.tensor<[4], f32>
  %1 = frontend.pool sum %x axes [0] size [1] stride [3] padding [4, 4] dilation [1] ceil_mode : !frontend.tensor<[7], f32> -> !frontend.tensor<[4], f32>
  %2 = frontend.elementwise add %0, %1 : (!frontend.tensor<[4], f32>, !frontend.tensor<[4], f32>) -> !frontend.tensor<[4], f32>
  frontend.output %2 : !frontend.tensor<[4], f32>
}

// One, two or three axes, anywhere; a size that is a symbol.

// CHECK: %0 = frontend.pool l2 %x axes [1, 2, 4] size [R, 2, 1] stride [1, 2, 3] padding [0, 1, 2, 0, 0, 0] dilation [2, 1, 1] : !frontend.tensor<[N, D, H, C, W], bf16> -> !frontend.tensor<[N, D - 2 * R + 3, H floordiv 2 + 1, C, (W + 2) floordiv 3], bf16>
frontend.graph @volumes(%x: !frontend.tensor<[N, D, H, C, W], bf16>, %r: !frontend.tensor<[R], f32>) -> !frontend.tensor<[N, D - 2 * R + 3, H floordiv 2 + 1, C, (W + 2) floordiv 3], bf16> assuming (R >= 1) {
  %0 = frontend.pool l2 %x axes [1, 2, 4] size [R, 2, 1] stride [1, 2, 3] padding [0, 1, 2, 0, 0, 0] dilation [2, 1, 1] : !frontend.tensor<[N, D, H, C, W], bf16> -> !frontend.tensor<[N, D - 2 * R + 3, H floordiv 2 + 1, C, (W + 2) floordiv 3], bf16>
  frontend.output %0 : !frontend.tensor<[N, D - 2 * R + 3, H floordiv 2 + 1, C, (W + 2) floordiv 3], bf16>
}

// Of integers too, but for means and roots.

// CHECK: frontend.pool l1 %x axes [1] size [2] stride [1] padding [1, 0] dilation [1] : !frontend.tensor<[M, K], i8>
frontend.graph @integers(%x: !frontend.tensor<[M, K], i8>) -> !frontend.tensor<[M, K], i8> {
  %r = frontend.pool l1 %x axes [1] size [2] stride [1] padding [1, 0] dilation [1] : !frontend.tensor<[M, K], i8> -> !frontend.tensor<[M, K], i8>
  frontend.output %r : !frontend.tensor<[M, K], i8>
}

// Where the extreme of each window is, in the plane or in the whole.

// CHECK: %p = frontend.arg_pool max %x axes [2, 3] size [3, 2] stride [2, 1] padding [1, 1, 0, 0] dilation [1, 1] ceil_mode : !frontend.tensor<[N, C, H, W], f16> -> !frontend.tensor<[N, C, H floordiv 2 + 1, W - 1], i64>
// CHECK-NEXT: %q = frontend.arg_pool min %x axes [1] size [C] stride [1] padding [0, 0] dilation [1] whole {note = "kept"} : !frontend.tensor<[N, C, H, W], f16> -> !frontend.tensor<[N, 1, H, W], i32>
frontend.graph @places(%x: !frontend.tensor<[N, C, H, W], f16>) -> (!frontend.tensor<[N, C, (H + 2) floordiv 2, W - 1], i64>, !frontend.tensor<[N, 1, H, W], i32>) assuming (C >= 1) {
  %p = frontend.arg_pool max %x axes [2, 3] size [3, 2] stride [2, 1] padding [1, 1, 0, 0] dilation [1, 1] ceil_mode : !frontend.tensor<[N, C, H, W], f16> -> !frontend.tensor<[N, C, (H + 2) floordiv 2, W - 1], i64>
  %q = frontend.arg_pool min %x axes [1] size [C] stride [1] padding [0, 0] dilation [1] whole {note = "kept"} : !frontend.tensor<[N, C, H, W], f16> -> !frontend.tensor<[N, 1, H, W], i32>
  frontend.output %p, %q : !frontend.tensor<[N, C, (H + 2) floordiv 2, W - 1], i64>, !frontend.tensor<[N, 1, H, W], i32>
}
