// Y = silu(conv 3x3 of X), the graph of the specification's section 15.2: every size but the
// window is known at launch only; channels innermost, one row and column of zeros around.
frontend.graph @conv_silu(
    %X: !frontend.tensor<[N, H, W, C], f16>,
    %Wt: !frontend.tensor<[F, 3, 3, C], f16> {role = "param", storage = "const_pool"})
    -> (Y: !frontend.tensor<[N, H, W, F], f16>) {
  %0 = frontend.conv2d nhwc %X, %Wt stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32}
      : (!frontend.tensor<[N, H, W, C], f16>, !frontend.tensor<[F, 3, 3, C], f16>) -> !frontend.tensor<[N, H, W, F], f16>
  %1 = frontend.elementwise silu %0 : !frontend.tensor<[N, H, W, F], f16>
  frontend.output %1 : !frontend.tensor<[N, H, W, F], f16>
}
