// O = softmax(Q K^T / sqrt(128), causal) V, the graph of the specification's section 15.3:
// query m sees the keys up to m; batch, heads and positions are known at launch only.
frontend.graph @causal_attention(
    %Q: !frontend.tensor<[B, H, M, 128], f16>,
    %K: !frontend.tensor<[B, H, N, 128], f16>,
    %V: !frontend.tensor<[B, H, N, 128], f16>)
    -> (O: !frontend.tensor<[B, H, M, 128], f16>) {
  %0 = frontend.attention %Q, %K, %V causal {acc = f32}
      : (!frontend.tensor<[B, H, M, 128], f16>, !frontend.tensor<[B, H, N, 128], f16>, !frontend.tensor<[B, H, N, 128], f16>)
      -> !frontend.tensor<[B, H, M, 128], f16>
  frontend.output %0 : !frontend.tensor<[B, H, M, 128], f16>
}
