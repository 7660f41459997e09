// Queries, keys and values by three products of the same tokens, split into heads.
frontend.graph @qkv_three(
    %x: !frontend.tensor<[T, 4096], f16>,
    %wq: !frontend.tensor<[4096, 4096], f16>,
    %wk: !frontend.tensor<[4096, 4096], f16>,
    %wv: !frontend.tensor<[4096, 4096], f16>)
    -> (q: !frontend.tensor<[32, T, 128], f16>, k: !frontend.tensor<[32, T, 128], f16>, v: !frontend.tensor<[32, T, 128], f16>) {
  %0 = frontend.gemm %x, %wq {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %1 = frontend.reshape %0 : !frontend.tensor<[T, 4096], f16> -> !frontend.tensor<[T, 32, 128], f16>
  %2 = frontend.permute %1 perm [1, 0, 2] : !frontend.tensor<[T, 32, 128], f16> -> !frontend.tensor<[32, T, 128], f16>
  %3 = frontend.gemm %x, %wk {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %4 = frontend.reshape %3 : !frontend.tensor<[T, 4096], f16> -> !frontend.tensor<[T, 32, 128], f16>
  %5 = frontend.permute %4 perm [1, 0, 2] : !frontend.tensor<[T, 32, 128], f16> -> !frontend.tensor<[32, T, 128], f16>
  %6 = frontend.gemm %x, %wv {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %7 = frontend.reshape %6 : !frontend.tensor<[T, 4096], f16> -> !frontend.tensor<[T, 32, 128], f16>
  %8 = frontend.permute %7 perm [1, 0, 2] : !frontend.tensor<[T, 32, 128], f16> -> !frontend.tensor<[32, T, 128], f16>
  frontend.output %2, %5, %8 : !frontend.tensor<[32, T, 128], f16>, !frontend.tensor<[32, T, 128], f16>, !frontend.tensor<[32, T, 128], f16>
}
