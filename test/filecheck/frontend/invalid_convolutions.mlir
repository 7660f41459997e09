// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of a convolution; the message says which, with the values.

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: nchw is not a layout of conv1d; there are ncw, nwc
frontend.graph @f(%x: !frontend.tensor<[N, C, W], f16>, %w: !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, C, W], f16> {
  %r = frontend.conv1d nchw %x, %w stride [1] padding [0, 0] dilation [1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, W], f16>, !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, F, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: nchw is not a layout of conv3d; there are ncdhw, ndhwc
frontend.graph @f(%x: !frontend.tensor<[N, C, D, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3, 3], f16>) -> !frontend.tensor<[N, C, D, H, W], f16> {
  %r = frontend.conv3d nchw %x, %w stride [1, 1, 1] padding [0, 0, 0, 0, 0, 0] dilation [1, 1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, D, H, W], f16>, !frontend.tensor<[F, C, 3, 3, 3], f16>) -> !frontend.tensor<[N, F, D - 2, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, D, H, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv1d takes an image of rank 3, not !frontend.tensor<[N, C, D, H, W], f16> of rank 5
frontend.graph @f(%x: !frontend.tensor<[N, C, D, H, W], f16>, %w: !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, C, D, H, W], f16> {
  %r = frontend.conv1d ncw %x, %w stride [1] padding [0, 0] dilation [1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, D, H, W], f16>, !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, F, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, D, H, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv3d takes a weight of rank 5, not !frontend.tensor<[F, C, 3], f16> of rank 3
frontend.graph @f(%x: !frontend.tensor<[N, C, D, H, W], f16>, %w: !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, C, D, H, W], f16> {
  %r = frontend.conv3d ncdhw %x, %w stride [1, 1, 1] padding [0, 0, 0, 0, 0, 0] dilation [1, 1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, D, H, W], f16>, !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, F, D - 2, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, D, H, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv1d has 4 numbers of padding; give 2, for W
frontend.graph @f(%x: !frontend.tensor<[N, C, W], f16>, %w: !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, C, W], f16> {
  %r = frontend.conv1d ncw %x, %w stride [1] padding [0, 0, 0, 0] dilation [1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, W], f16>, !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, F, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv3d has 1 numbers of stride; give 3, for D and then H and then W
frontend.graph @f(%x: !frontend.tensor<[N, C, D, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3, 3], f16>) -> !frontend.tensor<[N, C, D, H, W], f16> {
  %r = frontend.conv3d ncdhw %x, %w stride [1] padding [0, 0, 0, 0, 0, 0] dilation [1, 1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, D, H, W], f16>, !frontend.tensor<[F, C, 3, 3, 3], f16>) -> !frontend.tensor<[N, F, D - 2, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, D, H, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[NegativeStrideUnsupported]: dilation -1 of a conv3d is too small; give 1 or more
frontend.graph @f(%x: !frontend.tensor<[N, C, D, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3, 3], f16>) -> !frontend.tensor<[N, C, D, H, W], f16> {
  %r = frontend.conv3d ncdhw %x, %w stride [1, 1, 1] padding [0, 0, 0, 0, 0, 0] dilation [1, -1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, D, H, W], f16>, !frontend.tensor<[F, C, 3, 3, 3], f16>) -> !frontend.tensor<[N, F, D - 2, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, D, H, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[AccDtypeMissing]: conv1d does not say in which type it sums; add {acc = f32}
frontend.graph @f(%x: !frontend.tensor<[N, C, W], f16>, %w: !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, C, W], f16> {
  %r = frontend.conv1d ncw %x, %w stride [1] padding [0, 0] dilation [1] groups 1 : (!frontend.tensor<[N, C, W], f16>, !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, F, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv1d in 2 groups reads 2 * C channels, and the image has C: image [N, C, W], weight [F, C, 3]; the weight's channels are those of one group
frontend.graph @f(%x: !frontend.tensor<[N, C, W], f16>, %w: !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, C, W], f16> {
  %r = frontend.conv1d ncw %x, %w stride [1] padding [0, 0] dilation [1] groups 2 {acc = f32} : (!frontend.tensor<[N, C, W], f16>, !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, F, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv3d has a window of T along D, which may be none; give 1 or more, or assume it
frontend.graph @f(%x: !frontend.tensor<[N, C, D, H, W], f16>, %w: !frontend.tensor<[F, C, T, 3, 3], f16>) -> !frontend.tensor<[N, C, D, H, W], f16> {
  %r = frontend.conv3d ncdhw %x, %w stride [1, 1, 1] padding [0, 0, 0, 0, 0, 0] dilation [1, 1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, D, H, W], f16>, !frontend.tensor<[F, C, T, 3, 3], f16>) -> !frontend.tensor<[N, F, D - T + 1, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, D, H, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv1d has a window that spans 3 along W, which is 1 with its padding; pad more or take a smaller window
frontend.graph @f(%x: !frontend.tensor<[N, C, 1], f16>, %w: !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, C, 1], f16> {
  %r = frontend.conv1d ncw %x, %w stride [1] padding [0, 0] dilation [1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, 1], f16>, !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, F, 0], f16>
  frontend.output %x : !frontend.tensor<[N, C, 1], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv3d of [N, C, D, H, W] and [F, C, 3, 3, 3] is [N, F, D - 2, H - 2, W - 2]; the result says [N, F, D, H, W]
frontend.graph @f(%x: !frontend.tensor<[N, C, D, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3, 3], f16>) -> !frontend.tensor<[N, C, D, H, W], f16> {
  %r = frontend.conv3d ncdhw %x, %w stride [1, 1, 1] padding [0, 0, 0, 0, 0, 0] dilation [1, 1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, D, H, W], f16>, !frontend.tensor<[F, C, 3, 3, 3], f16>) -> !frontend.tensor<[N, F, D, H, W], f16>
  frontend.output %x : !frontend.tensor<[N, C, D, H, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: nchw is not a layout of conv_transpose1d; there are ncw, nwc
frontend.graph @f(%x: !frontend.tensor<[N, C, W], f16>, %w: !frontend.tensor<[C, F, 3], f16>) -> !frontend.tensor<[N, C, W], f16> {
  %q = frontend.conv_transpose1d nchw %x, %w stride [2] padding [0, 0] output_padding [0] dilation [1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, W], f16>, !frontend.tensor<[C, F, 3], f16>) -> !frontend.tensor<[N, F, 2 * W + 1], f16>
  frontend.output %x : !frontend.tensor<[N, C, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv_transpose1d has 2 numbers of output_padding; give 1, for W
frontend.graph @f(%x: !frontend.tensor<[N, C, W], f16>, %w: !frontend.tensor<[C, F, 3], f16>) -> !frontend.tensor<[N, C, W], f16> {
  %q = frontend.conv_transpose1d ncw %x, %w stride [2] padding [0, 0] output_padding [0, 1] dilation [1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, W], f16>, !frontend.tensor<[C, F, 3], f16>) -> !frontend.tensor<[N, F, 2 * W + 1], f16>
  frontend.output %x : !frontend.tensor<[N, C, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: output_padding -1 of a conv_transpose1d is too small; give 0 or more
frontend.graph @f(%x: !frontend.tensor<[N, C, W], f16>, %w: !frontend.tensor<[C, F, 3], f16>) -> !frontend.tensor<[N, C, W], f16> {
  %q = frontend.conv_transpose1d ncw %x, %w stride [2] padding [0, 0] output_padding [-1] dilation [1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, W], f16>, !frontend.tensor<[C, F, 3], f16>) -> !frontend.tensor<[N, F, 2 * W + 1], f16>
  frontend.output %x : !frontend.tensor<[N, C, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv_transpose1d reads K channels, and the image has C: image [N, C, W], weight [K, F, 3]; the weight's first axis is the channels
frontend.graph @f(%x: !frontend.tensor<[N, C, W], f16>, %w: !frontend.tensor<[K, F, 3], f16>) -> !frontend.tensor<[N, C, W], f16> {
  %q = frontend.conv_transpose1d ncw %x, %w stride [2] padding [0, 0] output_padding [0] dilation [1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, W], f16>, !frontend.tensor<[K, F, 3], f16>) -> !frontend.tensor<[N, F, 2 * W + 1], f16>
  frontend.output %x : !frontend.tensor<[N, C, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv_transpose1d divides 5 channels into 2 groups, which does not come out even as far as the assumptions say; change the groups, or assume it
frontend.graph @f(%x: !frontend.tensor<[N, 5, W], f16>, %w: !frontend.tensor<[5, F, 3], f16>) -> !frontend.tensor<[N, 5, W], f16> {
  %q = frontend.conv_transpose1d ncw %x, %w stride [2] padding [0, 0] output_padding [0] dilation [1] groups 2 {acc = f32} : (!frontend.tensor<[N, 5, W], f16>, !frontend.tensor<[5, F, 3], f16>) -> !frontend.tensor<[N, 2 * F, 2 * W + 1], f16>
  frontend.output %x : !frontend.tensor<[N, 5, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv_transpose1d has a window of R along W, and which taps an element has follows from a number; give one
frontend.graph @f(%x: !frontend.tensor<[N, C, W], f16>, %w: !frontend.tensor<[C, F, R], f16>, %r: !frontend.tensor<[R], f16>) -> !frontend.tensor<[N, C, W], f16> assuming (R >= 1) {
  %q = frontend.conv_transpose1d ncw %x, %w stride [2] padding [0, 0] output_padding [0] dilation [1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, W], f16>, !frontend.tensor<[C, F, R], f16>) -> !frontend.tensor<[N, F, 2 * W + R - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, W], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv_transpose1d cuts 4 and 0 places along W of 3; take less padding
frontend.graph @f(%x: !frontend.tensor<[N, C, 1], f16>, %w: !frontend.tensor<[C, F, 3], f16>) -> !frontend.tensor<[N, C, 1], f16> {
  %q = frontend.conv_transpose1d ncw %x, %w stride [2] padding [4, 0] output_padding [0] dilation [1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, 1], f16>, !frontend.tensor<[C, F, 3], f16>) -> !frontend.tensor<[N, F, 0], f16>
  frontend.output %x : !frontend.tensor<[N, C, 1], f16>
}

// -----

// CHECK: invalid_convolutions.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv_transpose1d of [N, C, W] and [C, F, 3] is [N, F, 2 * W + 1]; the result says [N, F, W]
frontend.graph @f(%x: !frontend.tensor<[N, C, W], f16>, %w: !frontend.tensor<[C, F, 3], f16>) -> !frontend.tensor<[N, C, W], f16> {
  %q = frontend.conv_transpose1d ncw %x, %w stride [2] padding [0, 0] output_padding [0] dilation [1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, W], f16>, !frontend.tensor<[C, F, 3], f16>) -> !frontend.tensor<[N, F, W], f16>
  frontend.output %x : !frontend.tensor<[N, C, W], f16>
}
