// The softmax of each row of X.
frontend.graph @softmax(%X: !frontend.tensor<[M, N], f16>) -> (Y: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.softmax %X axes [1] : !frontend.tensor<[M, N], f16>
  frontend.output %0 : !frontend.tensor<[M, N], f16>
}
