// SwiGLU of one product whose weight has the gate beside the up projection.
frontend.graph @swiglu_packed(
    %x: !frontend.tensor<[T, 4096], f16>,
    %packed: !frontend.tensor<[28672, 4096], f16>)
    -> (y: !frontend.tensor<[T, 14336], f16>) {
  %0 = frontend.gemm %x, %packed {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[28672, 4096], f16>) -> !frontend.tensor<[T, 28672], f16>
  %1 = frontend.slice %0 [0:T, 0:14336] : !frontend.tensor<[T, 28672], f16> -> !frontend.tensor<[T, 14336], f16>
  %2 = frontend.elementwise silu %1 : !frontend.tensor<[T, 14336], f16>
  %3 = frontend.slice %0 [0:T, 14336:28672] : !frontend.tensor<[T, 28672], f16> -> !frontend.tensor<[T, 14336], f16>
  %4 = frontend.elementwise mul %2, %3 : (!frontend.tensor<[T, 14336], f16>, !frontend.tensor<[T, 14336], f16>) -> !frontend.tensor<[T, 14336], f16>
  frontend.output %4 : !frontend.tensor<[T, 14336], f16>
}
