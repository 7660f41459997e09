// The graph of gemm_bias_relu.mlir for callers who promise rows that start on 16 bytes:
// K and N are multiples of 8 elements and the pointers are aligned, so that one variant
// of the kernel is left and no dispatch.
frontend.graph @gemm_bias_relu_aligned(
    %A: !frontend.tensor<[M, K], f16> {align = 16},
    %B: !frontend.tensor<[K, N], f16> {align = 16},
    %bias: !frontend.tensor<[N], f16> {role = "param", storage = "const_pool", align = 16})
    -> (C: !frontend.tensor<[M, N], f16> {align = 16})
    assuming (K mod 8 == 0, N mod 8 == 0, M >= 1, N >= 1, K >= 1) {
  %0 = frontend.gemm %A, %B {acc = f32}
      : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %1 = frontend.elementwise add %0, %bias
      : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16>
  %2 = frontend.elementwise relu %1 : !frontend.tensor<[M, N], f16>
  frontend.output %2 : !frontend.tensor<[M, N], f16>
}
