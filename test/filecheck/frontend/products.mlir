// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Batches of a gemm broadcast right-aligned; a transposed operand swaps its last two axes.

// CHECK: frontend.graph @batched(%a: !frontend.tensor<[B, 1, K, M], f16>, %b: !frontend.tensor<[H, K, N], f16>) -> (C: !frontend.tensor<[B, H, M, N], f32>) {
// CHECK-NEXT: %0 = frontend.gemm %a, %b {acc = f32, transpose_a} : (!frontend.tensor<[B, 1, K, M], f16>, !frontend.tensor<[H, K, N], f16>) -> !frontend.tensor<[B, H, M, N], f32>
// CHECK-NEXT: frontend.output %0 : !frontend.tensor<[B, H, M, N], f32>
frontend.graph @batched(%a: !frontend.tensor<[B, 1, K, M], f16>, %b: !frontend.tensor<[H, K, N], f16>) -> !frontend.tensor<[B, H, M, N], f32> {
  %0 = frontend.gemm %a, %b {acc = f32, transpose_a} : (!frontend.tensor<[B, 1, K, M], f16>, !frontend.tensor<[H, K, N], f16>) -> !frontend.tensor<[B, H, M, N], f32>
  frontend.output %0 : !frontend.tensor<[B, H, M, N], f32>
}

// The sizes of a convolution's result are expressions of the symbols.

// CHECK: frontend.graph @conv(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> (C: !frontend.tensor<[N, F, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>) {
// CHECK-NEXT: %0 = frontend.conv2d nchw %x, %w stride [2, 2] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
// CHECK-NEXT: frontend.output %0 : !frontend.tensor<[N, F, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
frontend.graph @conv(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, (H + 2 - 3) floordiv 2 + 1, (W - 1) floordiv 2 + 1], f16> {
  %0 = frontend.conv2d nchw %x, %w stride [2, 2] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, (H + 2 - 3) floordiv 2 + 1, (W - 1) floordiv 2 + 1], f16>
  frontend.output %0 : !frontend.tensor<[N, F, (H + 2 - 3) floordiv 2 + 1, (W - 1) floordiv 2 + 1], f16>
}

// Groups, dilation, padding of one side, a window whose size is a symbol.

// CHECK: frontend.graph @grouped(%x: !frontend.tensor<[N, H, W, 4 * C], bf16>, %w: !frontend.tensor<[8, R, 3, C], bf16>) -> (C: !frontend.tensor<[N, H - 2 * R + 2, W - 1, 8], bf16>) assuming (R >= 1) {
// CHECK-NEXT: %0 = frontend.conv2d nhwc %x, %w stride [1, 1] padding [0, 0, 0, 1] dilation [2, 1] groups 4 {acc = f32, note = "kept"} : (!frontend.tensor<[N, H, W, 4 * C], bf16>, !frontend.tensor<[8, R, 3, C], bf16>) -> !frontend.tensor<[N, H - 2 * R + 2, W - 1, 8], bf16>
// CHECK-NEXT: frontend.output %0 : !frontend.tensor<[N, H - 2 * R + 2, W - 1, 8], bf16>
frontend.graph @grouped(%x: !frontend.tensor<[N, H, W, 4 * C], bf16>, %w: !frontend.tensor<[8, R, 3, C], bf16>) -> !frontend.tensor<[N, H - 2 * R + 2, W - 1, 8], bf16> assuming (R >= 1) {
  %0 = frontend.conv2d nhwc %x, %w stride [1, 1] padding [0, 0, 0, 1] dilation [2, 1] groups 4 {acc = f32, note = "kept"} : (!frontend.tensor<[N, H, W, 4 * C], bf16>, !frontend.tensor<[8, R, 3, C], bf16>) -> !frontend.tensor<[N, H - 2 * R + 2, W - 1, 8], bf16>
  frontend.output %0 : !frontend.tensor<[N, H - 2 * R + 2, W - 1, 8], bf16>
}

// Depthwise: as many groups as channels, a symbol.

// CHECK: frontend.graph @depthwise(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[2 * C, 1, 3, 3], f16>) -> (C: !frontend.tensor<[N, 2 * C, H - 2, W - 2], f16>) {
// CHECK-NEXT: %0 = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups C {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[2 * C, 1, 3, 3], f16>) -> !frontend.tensor<[N, 2 * C, H - 2, W - 2], f16>
// CHECK-NEXT: frontend.output %0 : !frontend.tensor<[N, 2 * C, H - 2, W - 2], f16>
frontend.graph @depthwise(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[2 * C, 1, 3, 3], f16>) -> !frontend.tensor<[N, 2 * C, H - 2, W - 2], f16> {
  %0 = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups C {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[2 * C, 1, 3, 3], f16>) -> !frontend.tensor<[N, 2 * C, H - 2, W - 2], f16>
  frontend.output %0 : !frontend.tensor<[N, 2 * C, H - 2, W - 2], f16>
}
