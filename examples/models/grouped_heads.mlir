// Attention whose heads share keys and values, of a width that no step of tensor cores has.
frontend.graph @grouped_heads(
    %q: !frontend.tensor<[T, 320], f16>,
    %k: !frontend.tensor<[T, 80], f16>,
    %v: !frontend.tensor<[T, 80], f16>)
    -> (y: !frontend.tensor<[T, 320], f16>) {
  %0 = frontend.reshape %q : !frontend.tensor<[T, 320], f16> -> !frontend.tensor<[T, 8, 40], f16>
  %1 = frontend.permute %0 perm [1, 0, 2] : !frontend.tensor<[T, 8, 40], f16> -> !frontend.tensor<[8, T, 40], f16>
  %2 = frontend.reshape %k : !frontend.tensor<[T, 80], f16> -> !frontend.tensor<[T, 2, 40], f16>
  %3 = frontend.permute %2 perm [1, 0, 2] : !frontend.tensor<[T, 2, 40], f16> -> !frontend.tensor<[2, T, 40], f16>
  %4 = frontend.reshape %v : !frontend.tensor<[T, 80], f16> -> !frontend.tensor<[T, 2, 40], f16>
  %5 = frontend.permute %4 perm [1, 0, 2] : !frontend.tensor<[T, 2, 40], f16> -> !frontend.tensor<[2, T, 40], f16>
  %6 = frontend.attention %1, %3, %5 {acc = f32} : (!frontend.tensor<[8, T, 40], f16>, !frontend.tensor<[2, T, 40], f16>, !frontend.tensor<[2, T, 40], f16>) -> !frontend.tensor<[8, T, 40], f16>
  %7 = frontend.permute %6 perm [1, 0, 2] : !frontend.tensor<[8, T, 40], f16> -> !frontend.tensor<[T, 8, 40], f16>
  %8 = frontend.reshape %7 : !frontend.tensor<[T, 8, 40], f16> -> !frontend.tensor<[T, 320], f16>
  frontend.output %8 : !frontend.tensor<[T, 320], f16>
}
