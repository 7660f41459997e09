// Two convolutions with a folded norm and ReLU before each, and the residual.
frontend.graph @preact(
    %x: !frontend.tensor<[N, H, W, 64], f16>,
    %scale1: !frontend.tensor<[64], f16>,
    %offset1: !frontend.tensor<[64], f16>,
    %w1: !frontend.tensor<[64, 3, 3, 64], f16>,
    %scale2: !frontend.tensor<[64], f16>,
    %offset2: !frontend.tensor<[64], f16>,
    %w2: !frontend.tensor<[64, 3, 3, 64], f16>)
    -> (y: !frontend.tensor<[N, H, W, 64], f16>) {
  %0 = frontend.elementwise mul %x, %scale1 : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  %1 = frontend.elementwise add %0, %offset1 : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  %2 = frontend.elementwise relu %1 : !frontend.tensor<[N, H, W, 64], f16>
  %3 = frontend.conv2d nhwc %2, %w1 stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[64, 3, 3, 64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  %4 = frontend.elementwise mul %3, %scale2 : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  %5 = frontend.elementwise add %4, %offset2 : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  %6 = frontend.elementwise relu %5 : !frontend.tensor<[N, H, W, 64], f16>
  %7 = frontend.conv2d nhwc %6, %w2 stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[64, 3, 3, 64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  %8 = frontend.elementwise add %x, %7 : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[N, H, W, 64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  frontend.output %8 : !frontend.tensor<[N, H, W, 64], f16>
}
