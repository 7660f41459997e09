// Each row of X with mean 0 and variance 1, scaled and shifted by column.
frontend.graph @layer_norm(
    %X: !frontend.tensor<[M, N], f16>,
    %gamma: !frontend.tensor<[N], f16> {role = "param", storage = "const_pool"},
    %beta: !frontend.tensor<[N], f16> {role = "param", storage = "const_pool"})
    -> (Y: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.layer_norm %X weight %gamma bias %beta axes [1] eps 1.0e-05
      : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], f16>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %0 : !frontend.tensor<[M, N], f16>
}
