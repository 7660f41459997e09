// A product of f32 whose factors may be rounded to TF32, so that tensor cores of sm_90a take them.
frontend.graph @product_tf32(%A: !frontend.tensor<[M, K], f32>, %B: !frontend.tensor<[K, N], f32>)
    -> (C: !frontend.tensor<[M, N], f32>) {
  %0 = frontend.gemm %A, %B {acc = f32, precision = "tf32"}
      : (!frontend.tensor<[M, K], f32>, !frontend.tensor<[K, N], f32>) -> !frontend.tensor<[M, N], f32>
  frontend.output %0 : !frontend.tensor<[M, N], f32>
}
