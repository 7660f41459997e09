// An encoder block as BERT has it, with an additive mask of the keys.
frontend.graph @encoder(
    %x: !frontend.tensor<[T, 1024], f16>,
    %mask: !frontend.tensor<[1, T], f16>,
    %wq: !frontend.tensor<[1024, 1024], f16>,
    %wq_bias: !frontend.tensor<[1024], f16>,
    %wk: !frontend.tensor<[1024, 1024], f16>,
    %wk_bias: !frontend.tensor<[1024], f16>,
    %wv: !frontend.tensor<[1024, 1024], f16>,
    %wv_bias: !frontend.tensor<[1024], f16>,
    %wo: !frontend.tensor<[1024, 1024], f16>,
    %wo_bias: !frontend.tensor<[1024], f16>,
    %norm1: !frontend.tensor<[1024], f16>,
    %norm1_bias: !frontend.tensor<[1024], f16>,
    %up: !frontend.tensor<[4096, 1024], f16>,
    %up_bias: !frontend.tensor<[4096], f16>,
    %down: !frontend.tensor<[1024, 4096], f16>,
    %down_bias: !frontend.tensor<[1024], f16>,
    %norm2: !frontend.tensor<[1024], f16>,
    %norm2_bias: !frontend.tensor<[1024], f16>)
    -> (y: !frontend.tensor<[T, 1024], f16>) {
  %0 = frontend.gemm %x, %wq {acc = f32, transpose_b} : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024, 1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %1 = frontend.elementwise add %0, %wq_bias : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %2 = frontend.reshape %1 : !frontend.tensor<[T, 1024], f16> -> !frontend.tensor<[T, 16, 64], f16>
  %3 = frontend.permute %2 perm [1, 0, 2] : !frontend.tensor<[T, 16, 64], f16> -> !frontend.tensor<[16, T, 64], f16>
  %4 = frontend.gemm %x, %wk {acc = f32, transpose_b} : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024, 1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %5 = frontend.elementwise add %4, %wk_bias : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %6 = frontend.reshape %5 : !frontend.tensor<[T, 1024], f16> -> !frontend.tensor<[T, 16, 64], f16>
  %7 = frontend.permute %6 perm [1, 0, 2] : !frontend.tensor<[T, 16, 64], f16> -> !frontend.tensor<[16, T, 64], f16>
  %8 = frontend.gemm %x, %wv {acc = f32, transpose_b} : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024, 1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %9 = frontend.elementwise add %8, %wv_bias : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %10 = frontend.reshape %9 : !frontend.tensor<[T, 1024], f16> -> !frontend.tensor<[T, 16, 64], f16>
  %11 = frontend.permute %10 perm [1, 0, 2] : !frontend.tensor<[T, 16, 64], f16> -> !frontend.tensor<[16, T, 64], f16>
  %12 = frontend.attention %3, %7, %11 mask %mask {acc = f32} : (!frontend.tensor<[16, T, 64], f16>, !frontend.tensor<[16, T, 64], f16>, !frontend.tensor<[16, T, 64], f16>, !frontend.tensor<[1, T], f16>) -> !frontend.tensor<[16, T, 64], f16>
  %13 = frontend.permute %12 perm [1, 0, 2] : !frontend.tensor<[16, T, 64], f16> -> !frontend.tensor<[T, 16, 64], f16>
  %14 = frontend.reshape %13 : !frontend.tensor<[T, 16, 64], f16> -> !frontend.tensor<[T, 1024], f16>
  %15 = frontend.gemm %14, %wo {acc = f32, transpose_b} : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024, 1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %16 = frontend.elementwise add %15, %wo_bias : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %17 = frontend.elementwise add %x, %16 : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[T, 1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %18 = frontend.layer_norm %17 weight %norm1 bias %norm1_bias axes [1] eps 1.0e-05 : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024], f16>, !frontend.tensor<[1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %19 = frontend.gemm %18, %up {acc = f32, transpose_b} : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[4096, 1024], f16>) -> !frontend.tensor<[T, 4096], f16>
  %20 = frontend.elementwise add %19, %up_bias : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %21 = frontend.elementwise gelu %20 : !frontend.tensor<[T, 4096], f16>
  %22 = frontend.gemm %21, %down {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[1024, 4096], f16>) -> !frontend.tensor<[T, 1024], f16>
  %23 = frontend.elementwise add %22, %down_bias : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %24 = frontend.elementwise add %18, %23 : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[T, 1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %25 = frontend.layer_norm %24 weight %norm2 bias %norm2_bias axes [1] eps 1.0e-05 : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024], f16>, !frontend.tensor<[1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  frontend.output %25 : !frontend.tensor<[T, 1024], f16>
}
