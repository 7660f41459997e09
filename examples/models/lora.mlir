// A product beside one of low rank, twice of which is added.
frontend.graph @lora(
    %x: !frontend.tensor<[T, 4096], f16>,
    %a: !frontend.tensor<[16, 4096], f16>,
    %b: !frontend.tensor<[4096, 16], f16>,
    %w: !frontend.tensor<[4096, 4096], f16>)
    -> (y: !frontend.tensor<[T, 4096], f16>) {
  %0 = frontend.gemm %x, %a {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[16, 4096], f16>) -> !frontend.tensor<[T, 16], f16>
  %1 = frontend.gemm %0, %b {acc = f32, transpose_b} : (!frontend.tensor<[T, 16], f16>, !frontend.tensor<[4096, 16], f16>) -> !frontend.tensor<[T, 4096], f16>
  %2 = frontend.gemm %x, %w {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %3 = frontend.constant 2.0 : !frontend.tensor<[], f16>
  %4 = frontend.elementwise mul %1, %3 : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[], f16>) -> !frontend.tensor<[T, 4096], f16>
  %5 = frontend.elementwise add %2, %4 : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[T, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  frontend.output %5 : !frontend.tensor<[T, 4096], f16>
}
