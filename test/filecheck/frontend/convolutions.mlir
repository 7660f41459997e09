// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Along one axis and three, in both layouts; conv2d is in products.mlir.

// CHECK: %0 = frontend.conv1d ncw %x, %w stride [2] padding [1, 1] dilation [1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, W], f16>, !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, F, (W + 1) floordiv 2], f16>
frontend.graph @line(%x: !frontend.tensor<[N, C, W], f16>, %w: !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, F, (W + 1) floordiv 2], f16> {
  %0 = frontend.conv1d ncw %x, %w stride [2] padding [1, 1] dilation [1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, W], f16>, !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, F, (W - 1) floordiv 2 + 1], f16>
  frontend.output %0 : !frontend.tensor<[N, F, (W + 1) floordiv 2], f16>
}

// CHECK: %0 = frontend.conv1d nwc %x, %w stride [1] padding [0, 0] dilation [2] groups C {acc = f32, precision = "tf32", note = "kept"} : (!frontend.tensor<[N, W, C], f32>, !frontend.tensor<[C, S, 1], f32>) -> !frontend.tensor<[N, -2 * S + W + 2, C], f32>
frontend.graph @depthwise(%x: !frontend.tensor<[N, W, C], f32>, %w: !frontend.tensor<[C, S, 1], f32>) -> !frontend.tensor<[N, W - 2 * S + 2, C], f32> assuming (S >= 1) {
  %0 = frontend.conv1d nwc %x, %w stride [1] padding [0, 0] dilation [2] groups C {acc = f32, note = "kept", precision = "tf32"} : (!frontend.tensor<[N, W, C], f32>, !frontend.tensor<[C, S, 1], f32>) -> !frontend.tensor<[N, W - 2 * S + 2, C], f32>
  frontend.output %0 : !frontend.tensor<[N, W - 2 * S + 2, C], f32>
}

// CHECK: %0 = frontend.conv3d ncdhw %x, %w stride [1, 2, 2] padding [1, 1, 0, 1, 0, 0] dilation [1, 1, 1] groups 2 {acc = f32} : (!frontend.tensor<[N, 8, D, H, W], bf16>, !frontend.tensor<[2 * F, 4, 3, 3, 1], bf16>) -> !frontend.tensor<[N, 2 * F, D, H floordiv 2, (W + 1) floordiv 2], f32>
// CHECK: %1 = frontend.conv3d ndhwc
frontend.graph @volumes(%x: !frontend.tensor<[N, 8, D, H, W], bf16>, %w: !frontend.tensor<[2 * F, 4, 3, 3, 1], bf16>, %y: !frontend.tensor<[N, D, H, W, 8], bf16>, %v: !frontend.tensor<[F, 3, 3, 1, 8], bf16>) -> (!frontend.tensor<[N, 2 * F, D, H floordiv 2, (W + 1) floordiv 2], f32>, !frontend.tensor<[N, D - 2, H - 2, W, F], bf16>) {
  %0 = frontend.conv3d ncdhw %x, %w stride [1, 2, 2] padding [1, 1, 0, 1, 0, 0] dilation [1, 1, 1] groups 2 {acc = f32} : (!frontend.tensor<[N, 8, D, H, W], bf16>, !frontend.tensor<[2 * F, 4, 3, 3, 1], bf16>) -> !frontend.tensor<[N, 2 * F, D, H floordiv 2, (W + 1) floordiv 2], f32>
  %1 = frontend.conv3d ndhwc %y, %v stride [1, 1, 1] padding [0, 0, 0, 0, 0, 0] dilation [1, 1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, D, H, W, 8], bf16>, !frontend.tensor<[F, 3, 3, 1, 8], bf16>) -> !frontend.tensor<[N, D - 2, H - 2, W, F], bf16>
  frontend.output %0, %1 : !frontend.tensor<[N, 2 * F, D, H floordiv 2, (W + 1) floordiv 2], f32>, !frontend.tensor<[N, D - 2, H - 2, W, F], bf16>
}

// Transposed: a stride apart, with room at the end of the result.

// CHECK: %0 = frontend.conv_transpose2d nchw %x, %w stride [2, 2] padding [1, 1, 0, 1] output_padding [1, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[C, F, 3, 4], f16>) -> !frontend.tensor<[N, F, 2 * H, 2 * W + 1], f16>
frontend.graph @transposed(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[C, F, 3, 4], f16>) -> !frontend.tensor<[N, F, 2 * H, 2 * W + 1], f16> {
  %0 = frontend.conv_transpose2d nchw %x, %w stride [2, 2] padding [1, 1, 0, 1] output_padding [1, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[C, F, 3, 4], f16>) -> !frontend.tensor<[N, F, 2 * H, 2 * W + 1], f16>
  frontend.output %0 : !frontend.tensor<[N, F, 2 * H, 2 * W + 1], f16>
}

// CHECK: %0 = frontend.conv_transpose1d nwc %x, %w stride [3] padding [0, 0] output_padding [0] dilation [2] groups 4 {acc = f32} : (!frontend.tensor<[N, W, 8], f32>, !frontend.tensor<[8, 2, F], f32>) -> !frontend.tensor<[N, 3 * W, 4 * F], f32>
// CHECK: %1 = frontend.conv_transpose3d ncdhw %y, %v stride [1, 1, 2] padding [0, 0, 0, 0, 0, 0] output_padding [0, 0, 0] dilation [1, 1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, D, H, W], f16>, !frontend.tensor<[C, F, 1, 1, 2], f16>) -> !frontend.tensor<[N, F, D, H, 2 * W], f32>
frontend.graph @groups(%x: !frontend.tensor<[N, W, 8], f32>, %w: !frontend.tensor<[8, 2, F], f32>, %y: !frontend.tensor<[N, C, D, H, W], f16>, %v: !frontend.tensor<[C, F, 1, 1, 2], f16>) -> (!frontend.tensor<[N, 3 * W, 4 * F], f32>, !frontend.tensor<[N, F, D, H, 2 * W], f32>) {
  %0 = frontend.conv_transpose1d nwc %x, %w stride [3] padding [0, 0] output_padding [0] dilation [2] groups 4 {acc = f32} : (!frontend.tensor<[N, W, 8], f32>, !frontend.tensor<[8, 2, F], f32>) -> !frontend.tensor<[N, 3 * W, 4 * F], f32>
  %1 = frontend.conv_transpose3d ncdhw %y, %v stride [1, 1, 2] padding [0, 0, 0, 0, 0, 0] output_padding [0, 0, 0] dilation [1, 1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, D, H, W], f16>, !frontend.tensor<[C, F, 1, 1, 2], f16>) -> !frontend.tensor<[N, F, D, H, 2 * W], f32>
  frontend.output %0, %1 : !frontend.tensor<[N, 3 * W, 4 * F], f32>, !frontend.tensor<[N, F, D, H, 2 * W], f32>
}
