// Logits of all words, and the cross-entropy of each token with its one-hot target.
frontend.graph @lm_head(
    %x: !frontend.tensor<[T, 4096], f16>,
    %w: !frontend.tensor<[32000, 4096], f16>,
    %targets: !frontend.tensor<[T, 32000], f16>)
    -> (loss: !frontend.tensor<[T], f32>) {
  %0 = frontend.gemm %x, %w {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[32000, 4096], f16>) -> !frontend.tensor<[T, 32000], f16>
  %1 = frontend.cast %0 : !frontend.tensor<[T, 32000], f16> -> !frontend.tensor<[T, 32000], f32>
  %2 = frontend.log_softmax %1 axes [1] : !frontend.tensor<[T, 32000], f32>
  %3 = frontend.cast %targets : !frontend.tensor<[T, 32000], f16> -> !frontend.tensor<[T, 32000], f32>
  %4 = frontend.elementwise mul %2, %3 : (!frontend.tensor<[T, 32000], f32>, !frontend.tensor<[T, 32000], f32>) -> !frontend.tensor<[T, 32000], f32>
  %5 = frontend.reduce sum %4 axes [1] : !frontend.tensor<[T, 32000], f32> -> !frontend.tensor<[T], f32>
  %6 = frontend.elementwise neg %5 : !frontend.tensor<[T], f32>
  frontend.output %6 : !frontend.tensor<[T], f32>
}
