// A gate and an up projection with a weight each, and silu of the one times the other.
frontend.graph @swiglu_two(
    %x: !frontend.tensor<[T, 4096], f16>,
    %gate: !frontend.tensor<[14336, 4096], f16>,
    %up: !frontend.tensor<[14336, 4096], f16>)
    -> (y: !frontend.tensor<[T, 14336], f16>) {
  %0 = frontend.gemm %x, %gate {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[14336, 4096], f16>) -> !frontend.tensor<[T, 14336], f16>
  %1 = frontend.elementwise silu %0 : !frontend.tensor<[T, 14336], f16>
  %2 = frontend.gemm %x, %up {acc = f32, transpose_b} : (!frontend.tensor<[T, 4096], f16>, !frontend.tensor<[14336, 4096], f16>) -> !frontend.tensor<[T, 14336], f16>
  %3 = frontend.elementwise mul %1, %2 : (!frontend.tensor<[T, 14336], f16>, !frontend.tensor<[T, 14336], f16>) -> !frontend.tensor<[T, 14336], f16>
  frontend.output %3 : !frontend.tensor<[T, 14336], f16>
}
