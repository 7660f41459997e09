// gelu(x A) B + c + x, with weights stored as [features, size].
frontend.graph @mlp_residual(
    %x: !frontend.tensor<[T, 4096], f16>,
    %a: !frontend.tensor<[4096, 16384], f16>,
    %b: !frontend.tensor<[16384, 4096], f16>,
    %c: !frontend.tensor<[4096], f16>)
    -> (y: !frontend.tensor<[T, 4096], f16>) {
  %0 = frontend.gemm %x, %a {acc = f32} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096, 16384], f16>) -> !frontend.tensor<[T, 16384], f16>
  %1 = frontend.elementwise gelu %0 : !frontend.tensor<[T, 16384], f16>
  %2 = frontend.gemm %1, %b {acc = f32} : (!frontend.tensor<[T, 16384], f16>, !frontend.tensor<[16384, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %3 = frontend.elementwise add %2, %c : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %4 = frontend.elementwise add %3, %x : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[T, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  frontend.output %4 : !frontend.tensor<[T, 4096], f16>
}
