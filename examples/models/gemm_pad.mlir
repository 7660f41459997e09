// A product with eight columns of zeros after it.
frontend.graph @gemm_pad(
    %x: !frontend.tensor<[T, 4096], f16>,
    %w: !frontend.tensor<[4096, 4096], f16>)
    -> (y: !frontend.tensor<[T, 4104], f16>) {
  %0 = frontend.gemm %x, %w {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %1 = frontend.pad %0 low [0, 0] high [0, 8] value 0.0 : !frontend.tensor<[T, 4096], f16> -> !frontend.tensor<[T, 4104], f16>
  frontend.output %1 : !frontend.tensor<[T, 4104], f16>
}
