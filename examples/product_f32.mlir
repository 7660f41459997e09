// The product of two matrices of f32: tensor cores take f16 and bf16, so threads multiply tiles of it.
frontend.graph @product_f32(%A: !frontend.tensor<[M, K], f32>, %B: !frontend.tensor<[K, N], f32>)
    -> (C: !frontend.tensor<[M, N], f32>) {
  %0 = frontend.gemm %A, %B {acc = f32}
      : (!frontend.tensor<[M, K], f32>, !frontend.tensor<[K, N], f32>) -> !frontend.tensor<[M, N], f32>
  frontend.output %0 : !frontend.tensor<[M, N], f32>
}
