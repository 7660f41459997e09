// An image times a gate of each channel, which two products make of its mean.
frontend.graph @squeeze_excite(
    %x: !frontend.tensor<[N, H, W, 256], f16>,
    %w1: !frontend.tensor<[16, 256], f16>,
    %w1_bias: !frontend.tensor<[16], f16>,
    %w2: !frontend.tensor<[256, 16], f16>,
    %w2_bias: !frontend.tensor<[256], f16>)
    -> (y: !frontend.tensor<[N, H, W, 256], f16>) {
  %0 = frontend.reduce mean %x axes [1, 2] : !frontend.tensor<[N, H, W, 256], f16> -> !frontend.tensor<[N, 256], f16>
  %1 = frontend.gemm %0, %w1 {acc = f32, transpose_b} : (!frontend.tensor<[N, 256], f16>, !frontend.tensor<[16, 256], f16>) -> !frontend.tensor<[N, 16], f16>
  %2 = frontend.elementwise add %1, %w1_bias : (!frontend.tensor<[N, 16], f16>, !frontend.tensor<[16], f16>) -> !frontend.tensor<[N, 16], f16>
  %3 = frontend.elementwise relu %2 : !frontend.tensor<[N, 16], f16>
  %4 = frontend.gemm %3, %w2 {acc = f32, transpose_b} : (!frontend.tensor<[N, 16], f16>, !frontend.tensor<[256, 16], f16>) -> !frontend.tensor<[N, 256], f16>
  %5 = frontend.elementwise add %4, %w2_bias : (!frontend.tensor<[N, 256], f16>, !frontend.tensor<[256], f16>) -> !frontend.tensor<[N, 256], f16>
  %6 = frontend.elementwise sigmoid %5 : !frontend.tensor<[N, 256], f16>
  %7 = frontend.reshape %6 : !frontend.tensor<[N, 256], f16> -> !frontend.tensor<[N, 1, 1, 256], f16>
  %8 = frontend.elementwise mul %x, %7 : (!frontend.tensor<[N, H, W, 256], f16>, !frontend.tensor<[N, 1, 1, 256], f16>) -> !frontend.tensor<[N, H, W, 256], f16>
  frontend.output %8 : !frontend.tensor<[N, H, W, 256], f16>
}
