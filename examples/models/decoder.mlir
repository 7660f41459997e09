// A decoder block as Llama has it.
frontend.graph @decoder(
    %x: !frontend.tensor<[T, 4096], f16>,
    %cos: !frontend.tensor<[T, 128], f16>,
    %sin: !frontend.tensor<[T, 128], f16>,
    %norm1: !frontend.tensor<[4096], f16>,
    %wq: !frontend.tensor<[4096, 4096], f16>,
    %wk: !frontend.tensor<[1024, 4096], f16>,
    %wv: !frontend.tensor<[1024, 4096], f16>,
    %wo: !frontend.tensor<[4096, 4096], f16>,
    %norm2: !frontend.tensor<[4096], f16>,
    %gate: !frontend.tensor<[14336, 4096], f16>,
    %up: !frontend.tensor<[14336, 4096], f16>,
    %down: !frontend.tensor<[4096, 14336], f16>)
    -> (y: !frontend.tensor<[T, 4096], f16>) {
  %0 = frontend.rms_norm %x weight %norm1 axes [1] eps 1.0e-05 : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %1 = frontend.gemm %0, %wq {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %2 = frontend.reshape %1 : !frontend.tensor<[T, 4096], f16> -> !frontend.tensor<[T, 32, 128], f16>
  %3 = frontend.permute %2 perm [1, 0, 2] : !frontend.tensor<[T, 32, 128], f16> -> !frontend.tensor<[32, T, 128], f16>
  %4 = frontend.slice %3 [0:32, 0:T, 0:64] : !frontend.tensor<[32, T, 128], f16> -> !frontend.tensor<[32, T, 64], f16>
  %5 = frontend.slice %3 [0:32, 0:T, 64:128] : !frontend.tensor<[32, T, 128], f16> -> !frontend.tensor<[32, T, 64], f16>
  %6 = frontend.elementwise neg %5 : !frontend.tensor<[32, T, 64], f16>
  %7 = frontend.concat %6, %4 axis 2 : (!frontend.tensor<[32, T, 64], f16>, !frontend.tensor<[32, T, 64], f16>) -> !frontend.tensor<[32, T, 128], f16>
  %8 = frontend.elementwise mul %3, %cos : (!frontend.tensor<[32, T, 128], f16>, !frontend.tensor<[T, 128], f16>) -> !frontend.tensor<[32, T, 128], f16>
  %9 = frontend.elementwise mul %7, %sin : (!frontend.tensor<[32, T, 128], f16>, !frontend.tensor<[T, 128], f16>) -> !frontend.tensor<[32, T, 128], f16>
  %10 = frontend.elementwise add %8, %9 : (!frontend.tensor<[32, T, 128], f16>, !frontend.tensor<[32, T, 128], f16>) -> !frontend.tensor<[32, T, 128], f16>
  %11 = frontend.gemm %0, %wk {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[1024, 4096], f16>) -> !frontend.tensor<[T, 1024], f16>
  %12 = frontend.reshape %11 : !frontend.tensor<[T, 1024], f16> -> !frontend.tensor<[T, 8, 128], f16>
  %13 = frontend.permute %12 perm [1, 0, 2] : !frontend.tensor<[T, 8, 128], f16> -> !frontend.tensor<[8, T, 128], f16>
  %14 = frontend.slice %13 [0:8, 0:T, 0:64] : !frontend.tensor<[8, T, 128], f16> -> !frontend.tensor<[8, T, 64], f16>
  %15 = frontend.slice %13 [0:8, 0:T, 64:128] : !frontend.tensor<[8, T, 128], f16> -> !frontend.tensor<[8, T, 64], f16>
  %16 = frontend.elementwise neg %15 : !frontend.tensor<[8, T, 64], f16>
  %17 = frontend.concat %16, %14 axis 2 : (!frontend.tensor<[8, T, 64], f16>, !frontend.tensor<[8, T, 64], f16>) -> !frontend.tensor<[8, T, 128], f16>
  %18 = frontend.elementwise mul %13, %cos : (!frontend.tensor<[8, T, 128], f16>, !frontend.tensor<[T, 128], f16>) -> !frontend.tensor<[8, T, 128], f16>
  %19 = frontend.elementwise mul %17, %sin : (!frontend.tensor<[8, T, 128], f16>, !frontend.tensor<[T, 128], f16>) -> !frontend.tensor<[8, T, 128], f16>
  %20 = frontend.elementwise add %18, %19 : (!frontend.tensor<[8, T, 128], f16>, !frontend.tensor<[8, T, 128], f16>) -> !frontend.tensor<[8, T, 128], f16>
  %21 = frontend.gemm %0, %wv {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[1024, 4096], f16>) -> !frontend.tensor<[T, 1024], f16>
  %22 = frontend.reshape %21 : !frontend.tensor<[T, 1024], f16> -> !frontend.tensor<[T, 8, 128], f16>
  %23 = frontend.permute %22 perm [1, 0, 2] : !frontend.tensor<[T, 8, 128], f16> -> !frontend.tensor<[8, T, 128], f16>
  %24 = frontend.attention %10, %20, %23 causal {acc = f32} : (!frontend.tensor<[32, T, 128], f16>, !frontend.tensor<[8, T, 128], f16>, !frontend.tensor<[8, T, 128], f16>) -> !frontend.tensor<[32, T, 128], f16>
  %25 = frontend.permute %24 perm [1, 0, 2] : !frontend.tensor<[32, T, 128], f16> -> !frontend.tensor<[T, 32, 128], f16>
  %26 = frontend.reshape %25 : !frontend.tensor<[T, 32, 128], f16> -> !frontend.tensor<[T, 4096], f16>
  %27 = frontend.gemm %26, %wo {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %28 = frontend.elementwise add %x, %27 : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[T, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %29 = frontend.rms_norm %28 weight %norm2 axes [1] eps 1.0e-05 : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  %30 = frontend.gemm %29, %gate {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[14336, 4096], f16>) -> !frontend.tensor<[T, 14336], f16>
  %31 = frontend.elementwise silu %30 : !frontend.tensor<[T, 14336], f16>
  %32 = frontend.gemm %29, %up {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[14336, 4096], f16>) -> !frontend.tensor<[T, 14336], f16>
  %33 = frontend.elementwise mul %31, %32 : (!frontend.tensor<[T, 14336], f16>, !frontend.tensor<[T, 14336], f16>) -> !frontend.tensor<[T, 14336], f16>
  %34 = frontend.gemm %33, %down {acc = f32, transpose_b} : (!frontend.tensor<[T, 14336], f16>, !frontend.tensor<[4096, 14336], f16>) -> !frontend.tensor<[T, 4096], f16>
  %35 = frontend.elementwise add %28, %34 : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[T, 4096], f16>) -> !frontend.tensor<[T, 4096], f16>
  frontend.output %35 : !frontend.tensor<[T, 4096], f16>
}
