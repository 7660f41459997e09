// The ends of a ResNet as PyTorch has it, NCHW: first convolution, a block, mean and logits.
frontend.graph @classifier(
    %x: !frontend.tensor<[N, 3, H, W], f16>,
    %w0: !frontend.tensor<[64, 3, 7, 7], f16>,
    %w0_scale: !frontend.tensor<[64], f16>,
    %w0_offset: !frontend.tensor<[64], f16>,
    %w1: !frontend.tensor<[64, 64, 3, 3], f16>,
    %w1_scale: !frontend.tensor<[64], f16>,
    %w1_offset: !frontend.tensor<[64], f16>,
    %w2: !frontend.tensor<[64, 64, 3, 3], f16>,
    %w2_scale: !frontend.tensor<[64], f16>,
    %w2_offset: !frontend.tensor<[64], f16>,
    %w3: !frontend.tensor<[1000, 64], f16>,
    %w3_bias: !frontend.tensor<[1000], f16>)
    -> (y: !frontend.tensor<[N, 1000], f16>) {
  %0 = frontend.conv2d nchw %x, %w0 stride [2, 2] padding [3, 3, 3, 3] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, 3, H, W], f16>, !frontend.tensor<[64, 3, 7, 7], f16>) -> !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
  %1 = frontend.reshape %w0_scale : !frontend.tensor<[64], f16> -> !frontend.tensor<[1, 64, 1, 1], f16>
  %2 = frontend.reshape %w0_offset : !frontend.tensor<[64], f16> -> !frontend.tensor<[1, 64, 1, 1], f16>
  %3 = frontend.elementwise mul %0, %1 : (!frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>, !frontend.tensor<[1, 64, 1, 1], f16>) -> !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
  %4 = frontend.elementwise add %3, %2 : (!frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>, !frontend.tensor<[1, 64, 1, 1], f16>) -> !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
  %5 = frontend.elementwise relu %4 : !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
  %6 = frontend.conv2d nchw %5, %w1 stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>, !frontend.tensor<[64, 64, 3, 3], f16>) -> !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
  %7 = frontend.reshape %w1_scale : !frontend.tensor<[64], f16> -> !frontend.tensor<[1, 64, 1, 1], f16>
  %8 = frontend.reshape %w1_offset : !frontend.tensor<[64], f16> -> !frontend.tensor<[1, 64, 1, 1], f16>
  %9 = frontend.elementwise mul %6, %7 : (!frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>, !frontend.tensor<[1, 64, 1, 1], f16>) -> !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
  %10 = frontend.elementwise add %9, %8 : (!frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>, !frontend.tensor<[1, 64, 1, 1], f16>) -> !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
  %11 = frontend.elementwise relu %10 : !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
  %12 = frontend.conv2d nchw %11, %w2 stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>, !frontend.tensor<[64, 64, 3, 3], f16>) -> !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
  %13 = frontend.reshape %w2_scale : !frontend.tensor<[64], f16> -> !frontend.tensor<[1, 64, 1, 1], f16>
  %14 = frontend.reshape %w2_offset : !frontend.tensor<[64], f16> -> !frontend.tensor<[1, 64, 1, 1], f16>
  %15 = frontend.elementwise mul %12, %13 : (!frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>, !frontend.tensor<[1, 64, 1, 1], f16>) -> !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
  %16 = frontend.elementwise add %15, %14 : (!frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>, !frontend.tensor<[1, 64, 1, 1], f16>) -> !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
  %17 = frontend.elementwise add %16, %5 : (!frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>, !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>) -> !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
  %18 = frontend.elementwise relu %17 : !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16>
  %19 = frontend.reduce mean %18 axes [2, 3] : !frontend.tensor<[N, 64, (H + 1) floordiv 2, (W + 1) floordiv 2], f16> -> !frontend.tensor<[N, 64], f16>
  %20 = frontend.gemm %19, %w3 {acc = f32, transpose_b} : (!frontend.tensor<[N, 64], f16>, !frontend.tensor<[1000, 64], f16>) -> !frontend.tensor<[N, 1000], f16>
  %21 = frontend.elementwise add %20, %w3_bias : (!frontend.tensor<[N, 1000], f16>, !frontend.tensor<[1000], f16>) -> !frontend.tensor<[N, 1000], f16>
  frontend.output %21 : !frontend.tensor<[N, 1000], f16>
}
