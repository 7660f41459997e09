// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of the dialect; the message says which, with the values.

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[AccDtypeMissing]: gemm does not say in which type it sums; add {acc = f32}
frontend.graph @f(%x: !frontend.tensor<[M, K], f16>, %w: !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, K], f16> {
  %r = frontend.gemm %x, %w : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[M, K], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: gemm cannot broadcast the batches [B] and [H], aligned at the right; sizes there are equal or one of them is 1
frontend.graph @f(%x: !frontend.tensor<[B, M, K], f16>, %w: !frontend.tensor<[H, K, N], f16>) -> !frontend.tensor<[B, M, K], f16> {
  %r = frontend.gemm %x, %w {acc = f32} : (!frontend.tensor<[B, M, K], f16>, !frontend.tensor<[H, K, N], f16>) -> !frontend.tensor<[B, M, N], f16>
  frontend.output %x : !frontend.tensor<[B, M, K], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: gemm of [B, M, K] and [B, K, N] is [B, M, N]; the result says [M, N]
frontend.graph @f(%x: !frontend.tensor<[B, M, K], f16>, %w: !frontend.tensor<[B, K, N], f16>) -> !frontend.tensor<[B, M, K], f16> {
  %r = frontend.gemm %x, %w {acc = f32} : (!frontend.tensor<[B, M, K], f16>, !frontend.tensor<[B, K, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %x : !frontend.tensor<[B, M, K], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: gemm computes with f16, bf16 or f32, not i1; use frontend.select or a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, K], i1>, %w: !frontend.tensor<[K, N], i1>) -> !frontend.tensor<[M, K], i1> {
  %r = frontend.gemm %x, %w {acc = f32} : (!frontend.tensor<[M, K], i1>, !frontend.tensor<[K, N], i1>) -> !frontend.tensor<[M, N], i1>
  frontend.output %x : !frontend.tensor<[M, K], i1>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: nchwc is not a layout of conv2d; there are nchw, nhwc
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchwc %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[AccDtypeMissing]: conv2d does not say in which type it sums; add {acc = f32}
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv2d takes an image of rank 4, not !frontend.tensor<[N, C, H], f16> of rank 3
frontend.graph @f(%x: !frontend.tensor<[N, C, H], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, H], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H, H], f16>
  frontend.output %x : !frontend.tensor<[N, C, H], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv2d takes a weight of rank 4, not !frontend.tensor<[F, C, 3], f16> of rank 3
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3], f16>) -> !frontend.tensor<[N, F, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv2d operands have one element type, not f16 and bf16; cast one of them
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], bf16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], bf16>) -> !frontend.tensor<[N, F, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: a conv2d of f16 gives f16 or f32, not bf16; cast the result
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H - 2, W - 2], bf16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv2d has 1 numbers of stride; give 2, for H and then W
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: stride 0 of a conv2d is too small; give 1 or more
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [0, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[NegativeStrideUnsupported]: stride -1 of a conv2d is too small; give 1 or more
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, -1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: dilation 0 of a conv2d is too small; give 1 or more
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 0] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv2d has 2 numbers of padding; give 4, for H and then W
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: padding -1 of a conv2d is too small; give 0 or more
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, -1, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv2d in 2 groups reads 2 * C channels, and the image has C: image [N, C, H, W], weight [F, C, 3, 3]; the weight's channels are those of one group
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 2 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv2d divides 3 filters into 2 groups, which does not come out even as far as the assumptions say; change the groups, or assume it
frontend.graph @f(%x: !frontend.tensor<[N, 4, H, W], f16>, %w: !frontend.tensor<[3, 2, 3, 3], f16>) -> !frontend.tensor<[N, 4, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 2 {acc = f32} : (!frontend.tensor<[N, 4, H, W], f16>, !frontend.tensor<[3, 2, 3, 3], f16>) -> !frontend.tensor<[N, 3, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, 4, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: symbol G in the groups of a conv2d is not in the signature of @f, whose symbols are N, C, H, W, F; use one of these or add an input that has it
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups G {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv2d has a window of R along H, which may be none; give 1 or more, or assume it
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, R, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, R, 3], f16>) -> !frontend.tensor<[N, F, H - R + 1, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv2d has a window that spans 3 along H, which is 1 with its padding; pad more or take a smaller window
frontend.graph @f(%x: !frontend.tensor<[N, C, 1, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, 1, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, 1, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, 0, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, C, 1, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv2d of [N, C, H, W] and [F, C, 3, 3] is [N, F, H - 2, W - 2]; the result says [N, F, H, W]
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f16>, %w: !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, C, H, W], f16> {
  %r = frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H, W], f16>
  frontend.output %x : !frontend.tensor<[N, C, H, W], f16>
}

// -----

// CHECK: invalid_products.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: conv2d of [N, H, W, C] and [F, 3, 3, C] is [N, H - 2, W - 2, F]; the result says [N, F, H - 2, W - 2]
frontend.graph @f(%x: !frontend.tensor<[N, H, W, C], f16>, %w: !frontend.tensor<[F, 3, 3, C], f16>) -> !frontend.tensor<[N, H, W, C], f16> {
  %r = frontend.conv2d nhwc %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, H, W, C], f16>, !frontend.tensor<[F, 3, 3, C], f16>) -> !frontend.tensor<[N, F, H - 2, W - 2], f16>
  frontend.output %x : !frontend.tensor<[N, H, W, C], f16>
}
