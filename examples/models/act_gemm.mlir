// A product whose factor is silu of the tokens.
frontend.graph @act_gemm(
    %x: !frontend.tensor<[T, 4096], f16>,
    %w: !frontend.tensor<[4096, 4096], f16>)
    -> (y: !frontend.tensor<[T, 4096], f16>) {
  %0 = frontend.elementwise silu %x : !frontend.tensor<[T, 4096], f16>
  %1 = frontend.gemm %0, %w {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  frontend.output %1 : !frontend.tensor<[T, 4096], f16>
}
