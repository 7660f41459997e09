// A product with a weight that is multiplied by the scales of its rows first.
frontend.graph @dequant_gemm(
    %x: !frontend.tensor<[T, 4096], f16>,
    %w: !frontend.tensor<[4096, 4096], f16>,
    %scales: !frontend.tensor<[4096, 1], f16>)
    -> (y: !frontend.tensor<[T, 4096], f16>) {
  %0 = frontend.elementwise mul %w, %scales : (!frontend.tensor<[4096, 4096], f16>, !frontend.tensor<[4096, 1], f16>) -> !frontend.tensor<[4096, 4096], f16>
  %1 = frontend.gemm %x, %0 {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  frontend.output %1 : !frontend.tensor<[T, 4096], f16>
}
