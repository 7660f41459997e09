// The softmax of each column of X.
frontend.graph @column_softmax(%X: !frontend.tensor<[M, N], f16>) -> (Y: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.softmax %X axes [0] : !frontend.tensor<[M, N], f16>
  frontend.output %0 : !frontend.tensor<[M, N], f16>
}
