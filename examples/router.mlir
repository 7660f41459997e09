// Which of 128 experts a token goes to: a softmax of a product, in one kernel.
frontend.graph @router(
    %x: !frontend.tensor<[T, 1536], f16>,
    %w: !frontend.tensor<[128, 1536], f16>)
    -> (y: !frontend.tensor<[T, 128], f16>) {
  %0 = frontend.gemm %x, %w {acc = f32, transpose_b} : (!frontend.tensor<[T, 1536], f16>, !frontend.tensor<[128, 1536], f16>) -> !frontend.tensor<[T, 128], f16>
  %1 = frontend.softmax %0 axes [1] : !frontend.tensor<[T, 128], f16>
  frontend.output %1 : !frontend.tensor<[T, 128], f16>
}
