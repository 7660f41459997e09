// QKᵀ, a softmax and PV as ops of their own, and the heads merged.
frontend.graph @own_attention(
    %q: !frontend.tensor<[32, T, 128], f16>,
    %k: !frontend.tensor<[32, T, 128], f16>,
    %v: !frontend.tensor<[32, T, 128], f16>)
    -> (y: !frontend.tensor<[T, 4096], f16>) {
  %0 = frontend.gemm %q, %k {acc = f32, transpose_b} : (!frontend.tensor<[32, T, 128], f16>, !frontend.tensor<[32, T, 128], f16>) -> !frontend.tensor<[32, T, T], f16>
  %1 = frontend.constant 0.088388346 : !frontend.tensor<[], f16>
  %2 = frontend.elementwise mul %0, %1 : (!frontend.tensor<[32, T, T], f16>, !frontend.tensor<[], f16>) -> !frontend.tensor<[32, T, T], f16>
  %3 = frontend.softmax %2 axes [2] : !frontend.tensor<[32, T, T], f16>
  %4 = frontend.gemm %3, %v {acc = f32} : (!frontend.tensor<[32, T, T], f16>, !frontend.tensor<[32, T, 128], f16>) -> !frontend.tensor<[32, T, 128], f16>
  %5 = frontend.permute %4 perm [1, 0, 2] : !frontend.tensor<[32, T, 128], f16> -> !frontend.tensor<[T, 32, 128], f16>
  %6 = frontend.reshape %5 : !frontend.tensor<[T, 32, 128], f16> -> !frontend.tensor<[T, 4096], f16>
  frontend.output %6 : !frontend.tensor<[T, 4096], f16>
}
