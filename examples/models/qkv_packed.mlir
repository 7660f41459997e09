// Queries, keys and values by one product, cut apart and split into heads.
frontend.graph @qkv_packed(
    %x: !frontend.tensor<[T, 4096], f16>,
    %packed: !frontend.tensor<[12288, 4096], f16>)
    -> (q: !frontend.tensor<[32, T, 128], f16>, k: !frontend.tensor<[32, T, 128], f16>, v: !frontend.tensor<[32, T, 128], f16>) {
  %0 = frontend.gemm %x, %packed {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[12288, 4096], f16>) -> !frontend.tensor<[T, 12288], f16>
  %1 = frontend.slice %0 [0:T, 0:4096] : !frontend.tensor<[T, 12288], f16> -> !frontend.tensor<[T, 4096], f16>
  %2 = frontend.slice %0 [0:T, 4096:8192] : !frontend.tensor<[T, 12288], f16> -> !frontend.tensor<[T, 4096], f16>
  %3 = frontend.slice %0 [0:T, 8192:12288] : !frontend.tensor<[T, 12288], f16> -> !frontend.tensor<[T, 4096], f16>
  %4 = frontend.reshape %1 : !frontend.tensor<[T, 4096], f16> -> !frontend.tensor<[T, 32, 128], f16>
  %5 = frontend.permute %4 perm [1, 0, 2] : !frontend.tensor<[T, 32, 128], f16> -> !frontend.tensor<[32, T, 128], f16>
  %6 = frontend.reshape %2 : !frontend.tensor<[T, 4096], f16> -> !frontend.tensor<[T, 32, 128], f16>
  %7 = frontend.permute %6 perm [1, 0, 2] : !frontend.tensor<[T, 32, 128], f16> -> !frontend.tensor<[32, T, 128], f16>
  %8 = frontend.reshape %3 : !frontend.tensor<[T, 4096], f16> -> !frontend.tensor<[T, 32, 128], f16>
  %9 = frontend.permute %8 perm [1, 0, 2] : !frontend.tensor<[T, 32, 128], f16> -> !frontend.tensor<[32, T, 128], f16>
  frontend.output %5, %7, %9 : !frontend.tensor<[32, T, 128], f16>, !frontend.tensor<[32, T, 128], f16>, !frontend.tensor<[32, T, 128], f16>
}
