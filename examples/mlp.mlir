// Y = relu(X A) B, two products: the first is stored, as its tiles would be computed again for each
// tile of the second's columns.
frontend.graph @mlp(
    %X: !frontend.tensor<[M, K], f16>,
    %A: !frontend.tensor<[K, L], f16> {role = "param", storage = "const_pool"},
    %B: !frontend.tensor<[L, N], f16> {role = "param", storage = "const_pool"})
    -> (Y: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.gemm %X, %A {acc = f32}
      : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, L], f16>) -> !frontend.tensor<[M, L], f16>
  %1 = frontend.elementwise relu %0 : !frontend.tensor<[M, L], f16>
  %2 = frontend.gemm %1, %B {acc = f32}
      : (!frontend.tensor<[M, L], f16>, !frontend.tensor<[L, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %2 : !frontend.tensor<[M, N], f16>
}
