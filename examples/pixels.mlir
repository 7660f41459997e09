// Every pixel of a batch of images times a matrix: rows of several axes that no tensor tells apart.
frontend.graph @pixels(%X: !frontend.tensor<[N, H, W, C], f16>, %B: !frontend.tensor<[C, F], f16>)
    -> (Y: !frontend.tensor<[N, H, W, F], f16>) {
  %0 = frontend.gemm %X, %B {acc = f32}
      : (!frontend.tensor<[N, H, W, C], f16>, !frontend.tensor<[C, F], f16>) -> !frontend.tensor<[N, H, W, F], f16>
  frontend.output %0 : !frontend.tensor<[N, H, W, F], f16>
}
