// The gate of a mixture of experts: a softmax of a product.
frontend.graph @moe_gate(
    %x: !frontend.tensor<[T, 4096], f16>,
    %w: !frontend.tensor<[64, 4096], f16>)
    -> (y: !frontend.tensor<[T, 64], f16>) {
  %0 = frontend.gemm %x, %w {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[64, 4096], f16>) -> !frontend.tensor<[T, 64], f16>
  %1 = frontend.softmax %0 axes [1] : !frontend.tensor<[T, 64], f16>
  frontend.output %1 : !frontend.tensor<[T, 64], f16>
}
