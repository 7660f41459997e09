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
