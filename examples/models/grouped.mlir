// A convolution in groups with its folded norm, ReLU and residual, as ResNeXt has it.
frontend.graph @grouped(
    %x: !frontend.tensor<[N, H, W, 128], f16>,
    %w: !frontend.tensor<[128, 3, 3, 32], f16>,
    %w_scale: !frontend.tensor<[128], f16>,
    %w_offset: !frontend.tensor<[128], f16>)
    -> (y: !frontend.tensor<[N, H, W, 128], f16>) {
  %0 = frontend.conv2d nhwc %x, %w stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 4 {acc = f32} : (!frontend.tensor<[N, H, W, 128], f16>, !frontend.tensor<[128, 3, 3, 32], f16>) -> !frontend.tensor<[N, H, W, 128], f16>
  %1 = frontend.elementwise mul %0, %w_scale : (!frontend.tensor<[N, H, W, 128], f16>, !frontend.tensor<[128], f16>) -> !frontend.tensor<[N, H, W, 128], f16>
  %2 = frontend.elementwise add %1, %w_offset : (!frontend.tensor<[N, H, W, 128], f16>, !frontend.tensor<[128], f16>) -> !frontend.tensor<[N, H, W, 128], f16>
  %3 = frontend.elementwise add %2, %x : (!frontend.tensor<[N, H, W, 128], f16>, !frontend.tensor<[N, H, W, 128], f16>) -> !frontend.tensor<[N, H, W, 128], f16>
  %4 = frontend.elementwise relu %3 : !frontend.tensor<[N, H, W, 128], f16>
  frontend.output %4 : !frontend.tensor<[N, H, W, 128], f16>
}
