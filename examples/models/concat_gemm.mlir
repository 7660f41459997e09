// A product of two inputs side by side.
frontend.graph @concat_gemm(
    %a: !frontend.tensor<[T, 4096], f16>,
    %b: !frontend.tensor<[T, 4096], f16>,
    %w: !frontend.tensor<[4096, 8192], f16>)
    -> (y: !frontend.tensor<[T, 4096], f16>) {
  %0 = frontend.concat %a, %b axis 1 : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[T, 4096], f16>) -> !frontend.tensor<[T, 8192], f16>
  %1 = frontend.gemm %0, %w {acc = f32, transpose_b} : (!frontend.tensor<[T, 8192], f16>, !frontend.tensor<[4096, 8192], f16>) -> !frontend.tensor<[T, 4096], f16>
  frontend.output %1 : !frontend.tensor<[T, 4096], f16>
}
