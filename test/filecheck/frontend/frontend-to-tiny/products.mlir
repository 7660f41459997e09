// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// Axes of a batch come before M; what one operand lacks, its expand repeats (S3.2).

// CHECK: tiny.graph @batched(%a: !tiny.tensor<[B, 1, K, M], f16>, %b: !tiny.tensor<[H, K, N], f16>) -> (C: !tiny.tensor<[B, H, M, N], f16>) {
// CHECK-NEXT: %a_f32 = tiny.cast %a : !tiny.tensor<[B, 1, K, M], f16> -> !tiny.tensor<[B, 1, K, M], f32>
// CHECK-NEXT: %b_f32 = tiny.cast %b : !tiny.tensor<[H, K, N], f16> -> !tiny.tensor<[H, K, N], f32>
// CHECK-NEXT: %0 = tiny.permute %a_f32 perm [0, 1, 3, 2] : !tiny.tensor<[B, 1, K, M], f32> -> !tiny.tensor<[B, 1, M, K], f32>
// CHECK-NEXT: %1 = tiny.expand %0 dims [0, 1, 2, 3] : !tiny.tensor<[B, 1, M, K], f32> -> !tiny.tensor<[B, H, M, K, N], f32>
// CHECK-NEXT: %2 = tiny.expand %b_f32 dims [1, 3, 4] : !tiny.tensor<[H, K, N], f32> -> !tiny.tensor<[B, H, M, K, N], f32>
// CHECK-NEXT: %3 = tiny.binary mul %1, %2 : !tiny.tensor<[B, H, M, K, N], f32>
// CHECK-NEXT: %4 = tiny.reduce sum %3 axes [3] : !tiny.tensor<[B, H, M, K, N], f32> -> !tiny.tensor<[B, H, M, N], f32>
// CHECK-NEXT: %5 = tiny.cast %4 : !tiny.tensor<[B, H, M, N], f32> -> !tiny.tensor<[B, H, M, N], f16>
// CHECK-NEXT: tiny.output %5 : !tiny.tensor<[B, H, M, N], f16>
frontend.graph @batched(%a: !frontend.tensor<[B, 1, K, M], f16>, %b: !frontend.tensor<[H, K, N], f16>) -> !frontend.tensor<[B, H, M, N], f16> {
  %0 = frontend.gemm %a, %b {acc = f32, transpose_a} : (!frontend.tensor<[B, 1, K, M], f16>, !frontend.tensor<[H, K, N], f16>) -> !frontend.tensor<[B, H, M, N], f16>
  frontend.output %0 : !frontend.tensor<[B, H, M, N], f16>
}

// A convolution is pad, window, and a sum of products over R, S and C (S4.9).

// CHECK: tiny.graph @nchw(%x: !tiny.tensor<[N, C, H, W], f16>, %w: !tiny.tensor<[F, C, 3, 3], f16>) -> (C: !tiny.tensor<[N, F, (H + 1) floordiv 2, W - 1], f16>) {
// CHECK-NEXT: %0 = tiny.permute %x perm [0, 2, 3, 1] : !tiny.tensor<[N, C, H, W], f16> -> !tiny.tensor<[N, H, W, C], f16>
// CHECK-NEXT: %1 = tiny.cast %0 : !tiny.tensor<[N, H, W, C], f16> -> !tiny.tensor<[N, H, W, C], f32>
// CHECK-NEXT: %2 = tiny.permute %w perm [0, 2, 3, 1] : !tiny.tensor<[F, C, 3, 3], f16> -> !tiny.tensor<[F, 3, 3, C], f16>
// CHECK-NEXT: %3 = tiny.cast %2 : !tiny.tensor<[F, 3, 3, C], f16> -> !tiny.tensor<[F, 3, 3, C], f32>
// CHECK-NEXT: %4 = tiny.pad %1 low [0, 1, 0, 0] high [0, 1, 1, 0] value 0.0 : !tiny.tensor<[N, H, W, C], f32> -> !tiny.tensor<[N, H + 2, W + 1, C], f32>
// CHECK-NEXT: %5 = tiny.window %4 axes [1, 2] size [3, 3] stride [2, 1] dilation [1, 1] : !tiny.tensor<[N, H + 2, W + 1, C], f32> -> !tiny.tensor<[N, (H + 1) floordiv 2, W - 1, C, 3, 3], f32>
// CHECK-NEXT: %6 = tiny.permute %5 perm [0, 1, 2, 4, 5, 3] : !tiny.tensor<[N, (H + 1) floordiv 2, W - 1, C, 3, 3], f32> -> !tiny.tensor<[N, (H + 1) floordiv 2, W - 1, 3, 3, C], f32>
// CHECK-NEXT: %7 = tiny.expand %6 dims [0, 2, 3, 4, 5, 6] : !tiny.tensor<[N, (H + 1) floordiv 2, W - 1, 3, 3, C], f32> -> !tiny.tensor<[N, F, (H + 1) floordiv 2, W - 1, 3, 3, C], f32>
// CHECK-NEXT: %8 = tiny.expand %3 dims [1, 4, 5, 6] : !tiny.tensor<[F, 3, 3, C], f32> -> !tiny.tensor<[N, F, (H + 1) floordiv 2, W - 1, 3, 3, C], f32>
// CHECK-NEXT: %9 = tiny.binary mul %7, %8 : !tiny.tensor<[N, F, (H + 1) floordiv 2, W - 1, 3, 3, C], f32>
// CHECK-NEXT: %10 = tiny.reduce sum %9 axes [4, 5, 6] : !tiny.tensor<[N, F, (H + 1) floordiv 2, W - 1, 3, 3, C], f32> -> !tiny.tensor<[N, F, (H + 1) floordiv 2, W - 1], f32>
// CHECK-NEXT: %11 = tiny.cast %10 : !tiny.tensor<[N, F, (H + 1) floordiv 2, W - 1], f32> -> !tiny.tensor<[N, F, (H + 1) floordiv 2, W - 1], f16>
// CHECK-NEXT: tiny.output %11 : !tiny.tensor<[N, F, (H + 1) floordiv 2, W - 1], f16>
frontend.graph @nchw(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, (H - 1) floordiv 2 + 1, W - 1], f16> {
  %0 = frontend.conv2d nchw %x, %w stride [2, 1] padding [1, 1, 0, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, (H - 1) floordiv 2 + 1, W - 1], f16>
  frontend.output %0 : !frontend.tensor<[N, F, (H - 1) floordiv 2 + 1, W - 1], f16>
}

// Groups have an axis of their own before the filters; in nhwc the channels stay innermost.
// A computed image is rounded first; the weight is f16 already.

// CHECK: tiny.graph @nhwc_groups(%x: !tiny.tensor<[N, H, W, 4 * C], f16>, %w: !tiny.tensor<[8, R, 3, C], f16>) -> (C: !tiny.tensor<[N, H - 2 * R + 2, W - 2, 8], f32>) assuming (R >= 1) {
// CHECK-NEXT: %x_f32 = tiny.cast %x : !tiny.tensor<[N, H, W, 4 * C], f16> -> !tiny.tensor<[N, H, W, 4 * C], f32>
// CHECK-NEXT: %0 = tiny.unary neg %x_f32 : !tiny.tensor<[N, H, W, 4 * C], f32>
// CHECK-NEXT: %1 = tiny.cast %0 : !tiny.tensor<[N, H, W, 4 * C], f32> -> !tiny.tensor<[N, H, W, 4 * C], f16>
// CHECK-NEXT: %2 = tiny.cast %1 : !tiny.tensor<[N, H, W, 4 * C], f16> -> !tiny.tensor<[N, H, W, 4 * C], f32>
// CHECK-NEXT: %3 = tiny.reshape %2 : !tiny.tensor<[N, H, W, 4 * C], f32> -> !tiny.tensor<[N, H, W, 4, C], f32>
// CHECK-NEXT: %4 = tiny.reshape %w : !tiny.tensor<[8, R, 3, C], f16> -> !tiny.tensor<[4, 2, R, 3, C], f16>
// CHECK-NEXT: %5 = tiny.cast %4 : !tiny.tensor<[4, 2, R, 3, C], f16> -> !tiny.tensor<[4, 2, R, 3, C], f32>
// CHECK-NEXT: %6 = tiny.window %3 axes [1, 2] size [R, 3] stride [1, 1] dilation [2, 1] : !tiny.tensor<[N, H, W, 4, C], f32> -> !tiny.tensor<[N, H - 2 * R + 2, W - 2, 4, C, R, 3], f32>
// CHECK-NEXT: %7 = tiny.permute %6 perm [0, 1, 2, 3, 5, 6, 4] : !tiny.tensor<[N, H - 2 * R + 2, W - 2, 4, C, R, 3], f32> -> !tiny.tensor<[N, H - 2 * R + 2, W - 2, 4, R, 3, C], f32>
// CHECK-NEXT: %8 = tiny.expand %7 dims [0, 1, 2, 3, 5, 6, 7] : !tiny.tensor<[N, H - 2 * R + 2, W - 2, 4, R, 3, C], f32> -> !tiny.tensor<[N, H - 2 * R + 2, W - 2, 4, 2, R, 3, C], f32>
// CHECK-NEXT: %9 = tiny.expand %5 dims [3, 4, 5, 6, 7] : !tiny.tensor<[4, 2, R, 3, C], f32> -> !tiny.tensor<[N, H - 2 * R + 2, W - 2, 4, 2, R, 3, C], f32>
// CHECK-NEXT: %10 = tiny.binary mul %8, %9 : !tiny.tensor<[N, H - 2 * R + 2, W - 2, 4, 2, R, 3, C], f32>
// CHECK-NEXT: %11 = tiny.reduce sum %10 axes [5, 6, 7] : !tiny.tensor<[N, H - 2 * R + 2, W - 2, 4, 2, R, 3, C], f32> -> !tiny.tensor<[N, H - 2 * R + 2, W - 2, 4, 2], f32>
// CHECK-NEXT: %12 = tiny.reshape %11 : !tiny.tensor<[N, H - 2 * R + 2, W - 2, 4, 2], f32> -> !tiny.tensor<[N, H - 2 * R + 2, W - 2, 8], f32>
// CHECK-NEXT: tiny.output %12 : !tiny.tensor<[N, H - 2 * R + 2, W - 2, 8], f32>
frontend.graph @nhwc_groups(%x: !frontend.tensor<[N, H, W, 4 * C], f16>, %w: !frontend.tensor<[8, R, 3, C], f16>) -> !frontend.tensor<[N, H - 2 * R + 2, W - 2, 8], f32> assuming (R >= 1) {
  %0 = frontend.elementwise neg %x : !frontend.tensor<[N, H, W, 4 * C], f16>
  %1 = frontend.conv2d nhwc %0, %w stride [1, 1] padding [0, 0, 0, 0] dilation [2, 1] groups 4 {acc = f32} : (!frontend.tensor<[N, H, W, 4 * C], f16>, !frontend.tensor<[8, R, 3, C], f16>) -> !frontend.tensor<[N, H - 2 * R + 2, W - 2, 8], f32>
  frontend.output %1 : !frontend.tensor<[N, H - 2 * R + 2, W - 2, 8], f32>
}

// CHECK: tiny.graph @nchw_depthwise(%x: !tiny.tensor<[N, C, H, W], f32>, %w: !tiny.tensor<[2 * C, 1, 3, 3], f32>) -> (C: !tiny.tensor<[N, 2 * C, H - 2, W - 2], f32>) {
// CHECK-NEXT: %0 = tiny.permute %x perm [0, 2, 3, 1] : !tiny.tensor<[N, C, H, W], f32> -> !tiny.tensor<[N, H, W, C], f32>
// CHECK-NEXT: %1 = tiny.permute %w perm [0, 2, 3, 1] : !tiny.tensor<[2 * C, 1, 3, 3], f32> -> !tiny.tensor<[2 * C, 3, 3, 1], f32>
// CHECK-NEXT: %2 = tiny.reshape %0 : !tiny.tensor<[N, H, W, C], f32> -> !tiny.tensor<[N, H, W, C, 1], f32>
// CHECK-NEXT: %3 = tiny.reshape %1 : !tiny.tensor<[2 * C, 3, 3, 1], f32> -> !tiny.tensor<[C, 2, 3, 3, 1], f32>
// CHECK-NEXT: %4 = tiny.window %2 axes [1, 2] size [3, 3] stride [1, 1] dilation [1, 1] : !tiny.tensor<[N, H, W, C, 1], f32> -> !tiny.tensor<[N, H - 2, W - 2, C, 1, 3, 3], f32>
// CHECK-NEXT: %5 = tiny.permute %4 perm [0, 3, 1, 2, 5, 6, 4] : !tiny.tensor<[N, H - 2, W - 2, C, 1, 3, 3], f32> -> !tiny.tensor<[N, C, H - 2, W - 2, 3, 3, 1], f32>
// CHECK-NEXT: %6 = tiny.expand %5 dims [0, 1, 3, 4, 5, 6, 7] : !tiny.tensor<[N, C, H - 2, W - 2, 3, 3, 1], f32> -> !tiny.tensor<[N, C, 2, H - 2, W - 2, 3, 3, 1], f32>
// CHECK-NEXT: %7 = tiny.expand %3 dims [1, 2, 5, 6, 7] : !tiny.tensor<[C, 2, 3, 3, 1], f32> -> !tiny.tensor<[N, C, 2, H - 2, W - 2, 3, 3, 1], f32>
// CHECK-NEXT: %8 = tiny.binary mul %6, %7 : !tiny.tensor<[N, C, 2, H - 2, W - 2, 3, 3, 1], f32>
// CHECK-NEXT: %9 = tiny.reduce sum %8 axes [5, 6, 7] : !tiny.tensor<[N, C, 2, H - 2, W - 2, 3, 3, 1], f32> -> !tiny.tensor<[N, C, 2, H - 2, W - 2], f32>
// CHECK-NEXT: %10 = tiny.reshape %9 : !tiny.tensor<[N, C, 2, H - 2, W - 2], f32> -> !tiny.tensor<[N, 2 * C, H - 2, W - 2], f32>
// CHECK-NEXT: tiny.output %10 : !tiny.tensor<[N, 2 * C, H - 2, W - 2], f32>
frontend.graph @nchw_depthwise(%x: !frontend.tensor<[N, C, H, W], f32>, %w: !frontend.tensor<[2 * C, 1, 3, 3], f32>) -> !frontend.tensor<[N, 2 * C, H - 2, W - 2], f32> {
  %0 = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups C {acc = f32} : (!frontend.tensor<[N, C, H, W], f32>, !frontend.tensor<[2 * C, 1, 3, 3], f32>) -> !frontend.tensor<[N, 2 * C, H - 2, W - 2], f32>
  frontend.output %0 : !frontend.tensor<[N, 2 * C, H - 2, W - 2], f32>
}

// -----

// A sum of one term is that term.
frontend.graph @outer(%A: !frontend.tensor<[B, M, 1], f16>, %C: !frontend.tensor<[N, 1], f16>) -> (Y: !frontend.tensor<[B, M, N], f16>) {
  %0 = frontend.gemm %A, %C {acc = f32, transpose_b} : (!frontend.tensor<[B, M, 1], f16>, !frontend.tensor<[N, 1], f16>) -> !frontend.tensor<[B, M, N], f16>
  frontend.output %0 : !frontend.tensor<[B, M, N], f16>
}
// CHECK-LABEL: tiny.graph @outer
// CHECK-NOT: tiny.reduce
// CHECK: tiny.binary mul {{.*}} : !tiny.tensor<[B, M, N], f32>
// CHECK-NOT: tiny.reduce
