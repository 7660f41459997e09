// Each row of X with mean square 1, scaled by column.
frontend.graph @rms_norm(
    %X: !frontend.tensor<[M, N], f16>,
    %gamma: !frontend.tensor<[N], f16> {role = "param", storage = "const_pool"})
    -> (Y: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.rms_norm %X weight %gamma axes [1] eps 1.0e-06
      : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %0 : !frontend.tensor<[M, N], f16>
}
