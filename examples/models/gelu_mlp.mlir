// Two products with biases, a GELU between them, and the residual.
frontend.graph @gelu_mlp(
    %x: !frontend.tensor<[T, 4096], f16>,
    %up: !frontend.tensor<[16384, 4096], f16>,
    %up_bias: !frontend.tensor<[16384], f16>,
    %down: !frontend.tensor<[4096, 16384], f16>,
    %down_bias: !frontend.tensor<[4096], f16>)
    -> (y: !frontend.tensor<[T, 4096], f16>) {
  %0 = frontend.gemm %x, %up {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[16384, 4096], f16>) -> !frontend.tensor<[T, 16384], f16>
  %1 = frontend.elementwise add %0, %up_bias : (!frontend.tensor<[T, 16384], f16>, !frontend.tensor<[16384], f16>) -> !frontend.tensor<[T, 16384], f16>
  %2 = frontend.elementwise gelu %1 : !frontend.tensor<[T, 16384], f16>
  %3 = frontend.gemm %2, %down {acc = f32, transpose_b} : (!frontend.tensor<[T, 16384], f16>, !frontend.tensor<[4096, 16384], f16>) -> !frontend.tensor<[T, 4096], f16>
  %4 = frontend.elementwise add %3, %down_bias : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %5 = frontend.elementwise add %4, %x : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[T, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  frontend.output %5 : !frontend.tensor<[T, 4096], f16>
}
