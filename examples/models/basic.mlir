// A basic block as ResNet has it; the skip is a projection where its shape is another.
frontend.graph @basic(
    %x: !frontend.tensor<[N, H, W, 64], f16>,
    %w1: !frontend.tensor<[64, 3, 3, 64], f16>,
    %w1_scale: !frontend.tensor<[64], f16>,
    %w1_offset: !frontend.tensor<[64], f16>,
    %w2: !frontend.tensor<[64, 3, 3, 64], f16>,
    %w2_scale: !frontend.tensor<[64], f16>,
    %w2_offset: !frontend.tensor<[64], f16>)
    -> (y: !frontend.tensor<[N, H, W, 64], f16>) {
  %0 = frontend.conv2d nhwc %x, %w1 stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[64, 3, 3, 64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  %1 = frontend.elementwise mul %0, %w1_scale : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  %2 = frontend.elementwise add %1, %w1_offset : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  %3 = frontend.elementwise relu %2 : !frontend.tensor<[N, H, W, 64], f16>
  %4 = frontend.conv2d nhwc %3, %w2 stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[64, 3, 3, 64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  %5 = frontend.elementwise mul %4, %w2_scale : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  %6 = frontend.elementwise add %5, %w2_offset : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  %7 = frontend.elementwise add %6, %x : (!frontend.tensor<[N, H, W, 64], f16>, !frontend.tensor<[N, H, W, 64], f16>) -> !frontend.tensor<[N, H, W, 64], f16>
  %8 = frontend.elementwise relu %7 : !frontend.tensor<[N, H, W, 64], f16>
  frontend.output %8 : !frontend.tensor<[N, H, W, 64], f16>
}
