// The product of a matrix of f32 and one of f16: operands are of one type in tiles, so that threads compute it alone.
frontend.graph @product_mixed(%A: !frontend.tensor<[M, K], f32>, %B: !frontend.tensor<[K, N], f16>)
    -> (C: !frontend.tensor<[M, N], f32>) {
  %0 = frontend.cast %B : !frontend.tensor<[K, N], f16> -> !frontend.tensor<[K, N], f32>
  %1 = frontend.gemm %A, %0 {acc = f32}
      : (!frontend.tensor<[M, K], f32>, !frontend.tensor<[K, N], f32>) -> !frontend.tensor<[M, N], f32>
  frontend.output %1 : !frontend.tensor<[M, N], f32>
}
