// An image, NCHW, as tokens with their places: a product of each patch.
frontend.graph @patches(
    %x: !frontend.tensor<[N, 3, 224, 224], f16>,
    %w: !frontend.tensor<[768, 3, 16, 16], f16>,
    %bias: !frontend.tensor<[768], f16>,
    %places: !frontend.tensor<[196, 768], f16>)
    -> (y: !frontend.tensor<[N, 196, 768], f16>) {
  %0 = frontend.conv2d nchw %x, %w stride [16, 16] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, 3, 224, 224], f16>, !frontend.tensor<[768, 3, 16, 16], f16>) -> !frontend.tensor<[N, 768, 14, 14], f16>
  %1 = frontend.reshape %0 : !frontend.tensor<[N, 768, 14, 14], f16> -> !frontend.tensor<[N, 768, 196], f16>
  %2 = frontend.permute %1 perm [0, 2, 1] : !frontend.tensor<[N, 768, 196], f16> -> !frontend.tensor<[N, 196, 768], f16>
  %3 = frontend.elementwise add %2, %bias : (!frontend.tensor<[N, 196, 768], f16>, !frontend.tensor<[768], f16>) -> !frontend.tensor<[N, 196, 768], f16>
  %4 = frontend.elementwise add %3, %places : (!frontend.tensor<[N, 196, 768], f16>, !frontend.tensor<[196, 768], f16>) -> !frontend.tensor<[N, 196, 768], f16>
  frontend.output %4 : !frontend.tensor<[N, 196, 768], f16>
}
