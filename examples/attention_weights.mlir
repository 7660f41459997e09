// An attention whose weights are an output too, as models that show what they attend to have it.
frontend.graph @attention_weights(
    %q: !frontend.tensor<[H, M, 64], f16>,
    %k: !frontend.tensor<[H, N, 64], f16>,
    %v: !frontend.tensor<[H, N, 64], f16>)
    -> (y: !frontend.tensor<[H, M, 64], f16>, w: !frontend.tensor<[H, M, N], f16>) {
  %0 = frontend.gemm %q, %k {acc = f32, transpose_b} : (!frontend.tensor<[H, M, 64], f16>, !frontend.tensor<[H, N, 64], f16>) -> !frontend.tensor<[H, M, N], f32>
  %1 = frontend.constant 0.125 : !frontend.tensor<[], f32>
  %2 = frontend.elementwise mul %0, %1 : (!frontend.tensor<[H, M, N], f32>, !frontend.tensor<[], f32>) -> !frontend.tensor<[H, M, N], f32>
  %3 = frontend.softmax %2 axes [2] : !frontend.tensor<[H, M, N], f32>
  %4 = frontend.cast %3 : !frontend.tensor<[H, M, N], f32> -> !frontend.tensor<[H, M, N], f16>
  %5 = frontend.gemm %4, %v {acc = f32} : (!frontend.tensor<[H, M, N], f16>, !frontend.tensor<[H, N, 64], f16>) -> !frontend.tensor<[H, M, 64], f16>
  frontend.output %5, %4 : !frontend.tensor<[H, M, 64], f16>, !frontend.tensor<[H, M, N], f16>
}
