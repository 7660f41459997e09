// A block as ViT has it: norms first, one packed projection.
frontend.graph @vit(
    %x: !frontend.tensor<[T, 1024], f16>,
    %norm1: !frontend.tensor<[1024], f16>,
    %norm1_bias: !frontend.tensor<[1024], f16>,
    %wqkv: !frontend.tensor<[3072, 1024], f16>,
    %wqkv_bias: !frontend.tensor<[3072], f16>,
    %wo: !frontend.tensor<[1024, 1024], f16>,
    %wo_bias: !frontend.tensor<[1024], f16>,
    %norm2: !frontend.tensor<[1024], f16>,
    %norm2_bias: !frontend.tensor<[1024], f16>,
    %up: !frontend.tensor<[4096, 1024], f16>,
    %up_bias: !frontend.tensor<[4096], f16>,
    %down: !frontend.tensor<[1024, 4096], f16>,
    %down_bias: !frontend.tensor<[1024], f16>)
    -> (y: !frontend.tensor<[T, 1024], f16>) {
  %0 = frontend.layer_norm %x weight %norm1 bias %norm1_bias axes [1] eps 1.0e-05 : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024], f16>, !frontend.tensor<[1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %1 = frontend.gemm %0, %wqkv {acc = f32, transpose_b} : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[3072, 1024], f16>) -> !frontend.tensor<[T, 3072], f16>
  %2 = frontend.elementwise add %1, %wqkv_bias : (!frontend.tensor<[T, 3072], f16>, !frontend.tensor<[3072], f16>) -> !frontend.tensor<[T, 3072], f16>
  %3 = frontend.reshape %2 : !frontend.tensor<[T, 3072], f16> -> !frontend.tensor<[T, 3, 16, 64], f16>
  %4 = frontend.permute %3 perm [1, 2, 0, 3] : !frontend.tensor<[T, 3, 16, 64], f16> -> !frontend.tensor<[3, 16, T, 64], f16>
  %5 = frontend.slice %4 [0:1, 0:16, 0:T, 0:64] : !frontend.tensor<[3, 16, T, 64], f16> -> !frontend.tensor<[1, 16, T, 64], f16>
  %6 = frontend.reshape %5 : !frontend.tensor<[1, 16, T, 64], f16> -> !frontend.tensor<[16, T, 64], f16>
  %7 = frontend.slice %4 [1:2, 0:16, 0:T, 0:64] : !frontend.tensor<[3, 16, T, 64], f16> -> !frontend.tensor<[1, 16, T, 64], f16>
  %8 = frontend.reshape %7 : !frontend.tensor<[1, 16, T, 64], f16> -> !frontend.tensor<[16, T, 64], f16>
  %9 = frontend.slice %4 [2:3, 0:16, 0:T, 0:64] : !frontend.tensor<[3, 16, T, 64], f16> -> !frontend.tensor<[1, 16, T, 64], f16>
  %10 = frontend.reshape %9 : !frontend.tensor<[1, 16, T, 64], f16> -> !frontend.tensor<[16, T, 64], f16>
  %11 = frontend.attention %6, %8, %10 {acc = f32} : (!frontend.tensor<[16, T, 64], f16>, !frontend.tensor<[16, T, 64], f16>, !frontend.tensor<[16, T, 64], f16>) -> !frontend.tensor<[16, T, 64], f16>
  %12 = frontend.permute %11 perm [1, 0, 2] : !frontend.tensor<[16, T, 64], f16> -> !frontend.tensor<[T, 16, 64], f16>
  %13 = frontend.reshape %12 : !frontend.tensor<[T, 16, 64], f16> -> !frontend.tensor<[T, 1024], f16>
  %14 = frontend.gemm %13, %wo {acc = f32, transpose_b} : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024, 1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %15 = frontend.elementwise add %14, %wo_bias : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %16 = frontend.elementwise add %x, %15 : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[T, 1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %17 = frontend.layer_norm %16 weight %norm2 bias %norm2_bias axes [1] eps 1.0e-05 : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024], f16>, !frontend.tensor<[1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %18 = frontend.gemm %17, %up {acc = f32, transpose_b} : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[4096, 1024], f16>) -> !frontend.tensor<[T, 4096], f16>
  %19 = frontend.elementwise add %18, %up_bias : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %20 = frontend.elementwise gelu %19 : !frontend.tensor<[T, 4096], f16>
  %21 = frontend.gemm %20, %down {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[1024, 4096], f16>) -> !frontend.tensor<[T, 1024], f16>
  %22 = frontend.elementwise add %21, %down_bias : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  %23 = frontend.elementwise add %16, %22 : (!frontend.tensor<[T, 1024], f16>, !frontend.tensor<[T, 1024], f16>) -> !frontend.tensor<[T, 1024], f16>
  frontend.output %23 : !frontend.tensor<[T, 1024], f16>
}
