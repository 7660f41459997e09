// A decoder block for one token, beside a cache of earlier ones, which grows.
frontend.graph @decode(
    %x: !frontend.tensor<[1, 4096], f16>,
    %cos: !frontend.tensor<[1, 128], f16>,
    %sin: !frontend.tensor<[1, 128], f16>,
    %keys: !frontend.tensor<[8, P, 128], f16>,
    %values: !frontend.tensor<[8, P, 128], f16>,
    %norm1: !frontend.tensor<[4096], f16>,
    %wq: !frontend.tensor<[4096, 4096], f16>,
    %wk: !frontend.tensor<[1024, 4096], f16>,
    %wv: !frontend.tensor<[1024, 4096], f16>,
    %wo: !frontend.tensor<[4096, 4096], f16>,
    %norm2: !frontend.tensor<[4096], f16>,
    %gate: !frontend.tensor<[14336, 4096], f16>,
    %up: !frontend.tensor<[14336, 4096], f16>,
    %down: !frontend.tensor<[4096, 14336], f16>)
    -> (y: !frontend.tensor<[1, 4096], f16>, new_keys: !frontend.tensor<[8, P + 1, 128], f16>, new_values: !frontend.tensor<[8, P + 1, 128], f16>) {
  %0 = frontend.rms_norm %x weight %norm1 axes [1] eps 1.0e-05 : (!frontend.tensor<[1, 4096], f16>, !frontend.tensor<[4096], f16>) -> !frontend.tensor<[1, 4096], f16>
  %1 = frontend.gemm %0, %wq {acc = f32, transpose_b} : (!frontend.tensor<[1, 4096], f16>, !frontend.tensor<[4096, 4096], f16>) -> !frontend.tensor<[1, 4096], f16>
  %2 = frontend.reshape %1 : !frontend.tensor<[1, 4096], f16> -> !frontend.tensor<[1, 32, 128], f16>
  %3 = frontend.permute %2 perm [1, 0, 2] : !frontend.tensor<[1, 32, 128], f16> -> !frontend.tensor<[32, 1, 128], f16>
  %4 = frontend.slice %3 [0:32, 0:1, 0:64] : !frontend.tensor<[32, 1, 128], f16> -> !frontend.tensor<[32, 1, 64], f16>
  %5 = frontend.slice %3 [0:32, 0:1, 64:128] : !frontend.tensor<[32, 1, 128], f16> -> !frontend.tensor<[32, 1, 64], f16>
  %6 = frontend.elementwise neg %5 : !frontend.tensor<[32, 1, 64], f16>
  %7 = frontend.concat %6, %4 axis 2 : (!frontend.tensor<[32, 1, 64], f16>, !frontend.tensor<[32, 1, 64], f16>) -> !frontend.tensor<[32, 1, 128], f16>
  %8 = frontend.elementwise mul %3, %cos : (!frontend.tensor<[32, 1, 128], f16>, !frontend.tensor<[1, 128], f16>) -> !frontend.tensor<[32, 1, 128], f16>
  %9 = frontend.elementwise mul %7, %sin : (!frontend.tensor<[32, 1, 128], f16>, !frontend.tensor<[1, 128], f16>) -> !frontend.tensor<[32, 1, 128], f16>
  %10 = frontend.elementwise add %8, %9 : (!frontend.tensor<[32, 1, 128], f16>, !frontend.tensor<[32, 1, 128], f16>) -> !frontend.tensor<[32, 1, 128], f16>
  %11 = frontend.gemm %0, %wk {acc = f32, transpose_b} : (!frontend.tensor<[1, 4096], f16>, !frontend.tensor<[1024, 4096], f16>) -> !frontend.tensor<[1, 1024], f16>
  %12 = frontend.reshape %11 : !frontend.tensor<[1, 1024], f16> -> !frontend.tensor<[1, 8, 128], f16>
  %13 = frontend.permute %12 perm [1, 0, 2] : !frontend.tensor<[1, 8, 128], f16> -> !frontend.tensor<[8, 1, 128], f16>
  %14 = frontend.slice %13 [0:8, 0:1, 0:64] : !frontend.tensor<[8, 1, 128], f16> -> !frontend.tensor<[8, 1, 64], f16>
  %15 = frontend.slice %13 [0:8, 0:1, 64:128] : !frontend.tensor<[8, 1, 128], f16> -> !frontend.tensor<[8, 1, 64], f16>
  %16 = frontend.elementwise neg %15 : !frontend.tensor<[8, 1, 64], f16>
  %17 = frontend.concat %16, %14 axis 2 : (!frontend.tensor<[8, 1, 64], f16>, !frontend.tensor<[8, 1, 64], f16>) -> !frontend.tensor<[8, 1, 128], f16>
  %18 = frontend.elementwise mul %13, %cos : (!frontend.tensor<[8, 1, 128], f16>, !frontend.tensor<[1, 128], f16>) -> !frontend.tensor<[8, 1, 128], f16>
  %19 = frontend.elementwise mul %17, %sin : (!frontend.tensor<[8, 1, 128], f16>, !frontend.tensor<[1, 128], f16>) -> !frontend.tensor<[8, 1, 128], f16>
  %20 = frontend.elementwise add %18, %19 : (!frontend.tensor<[8, 1, 128], f16>, !frontend.tensor<[8, 1, 128], f16>) -> !frontend.tensor<[8, 1, 128], f16>
  %21 = frontend.gemm %0, %wv {acc = f32, transpose_b} : (!frontend.tensor<[1, 4096], f16>, !frontend.tensor<[1024, 4096], f16>) -> !frontend.tensor<[1, 1024], f16>
  %22 = frontend.reshape %21 : !frontend.tensor<[1, 1024], f16> -> !frontend.tensor<[1, 8, 128], f16>
  %23 = frontend.permute %22 perm [1, 0, 2] : !frontend.tensor<[1, 8, 128], f16> -> !frontend.tensor<[8, 1, 128], f16>
  %24 = frontend.concat %keys, %20 axis 1 : (!frontend.tensor<[8, P, 128], f16>, !frontend.tensor<[8, 1, 128], f16>) -> !frontend.tensor<[8, P + 1, 128], f16>
  %25 = frontend.concat %values, %23 axis 1 : (!frontend.tensor<[8, P, 128], f16>, !frontend.tensor<[8, 1, 128], f16>) -> !frontend.tensor<[8, P + 1, 128], f16>
  %26 = frontend.attention %10, %24, %25 {acc = f32} : (!frontend.tensor<[32, 1, 128], f16>, !frontend.tensor<[8, P + 1, 128], f16>, !frontend.tensor<[8, P + 1, 128], f16>) -> !frontend.tensor<[32, 1, 128], f16>
  %27 = frontend.permute %26 perm [1, 0, 2] : !frontend.tensor<[32, 1, 128], f16> -> !frontend.tensor<[1, 32, 128], f16>
  %28 = frontend.reshape %27 : !frontend.tensor<[1, 32, 128], f16> -> !frontend.tensor<[1, 4096], f16>
  %29 = frontend.gemm %28, %wo {acc = f32, transpose_b} : (!frontend.tensor<[1, 4096], f16>, !frontend.tensor<[4096, 4096], f16>) -> !frontend.tensor<[1, 4096], f16>
  %30 = frontend.elementwise add %x, %29 : (!frontend.tensor<[1, 4096], f16>, !frontend.tensor<[1, 4096], f16>) -> !frontend.tensor<[1, 4096], f16>
  %31 = frontend.rms_norm %30 weight %norm2 axes [1] eps 1.0e-05 : (!frontend.tensor<[1, 4096], f16>, !frontend.tensor<[4096], f16>) -> !frontend.tensor<[1, 4096], f16>
  %32 = frontend.gemm %31, %gate {acc = f32, transpose_b} : (!frontend.tensor<[1, 4096], f16>, !frontend.tensor<[14336, 4096], f16>) -> !frontend.tensor<[1, 14336], f16>
  %33 = frontend.elementwise silu %32 : !frontend.tensor<[1, 14336], f16>
  %34 = frontend.gemm %31, %up {acc = f32, transpose_b} : (!frontend.tensor<[1, 4096], f16>, !frontend.tensor<[14336, 4096], f16>) -> !frontend.tensor<[1, 14336], f16>
  %35 = frontend.elementwise mul %33, %34 : (!frontend.tensor<[1, 14336], f16>, !frontend.tensor<[1, 14336], f16>) -> !frontend.tensor<[1, 14336], f16>
  %36 = frontend.gemm %35, %down {acc = f32, transpose_b} : (!frontend.tensor<[1, 14336], f16>, !frontend.tensor<[4096, 14336], f16>) -> !frontend.tensor<[1, 4096], f16>
  %37 = frontend.elementwise add %30, %36 : (!frontend.tensor<[1, 4096], f16>, !frontend.tensor<[1, 4096], f16>) -> !frontend.tensor<[1, 4096], f16>
  frontend.output %37, %24, %25 : !frontend.tensor<[1, 4096], f16>, !frontend.tensor<[8, P + 1, 128], f16>, !frontend.tensor<[8, P + 1, 128], f16>
}
