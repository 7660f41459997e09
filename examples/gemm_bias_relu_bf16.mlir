// C = relu(A @ B + bias), the graph of the specification's section 2.2:
// every size is known at launch only; bf16 operands, FP32 accumulation.
frontend.graph @gemm_bias_relu_bf16(
    %A: !frontend.tensor<[M, K], bf16>,
    %B: !frontend.tensor<[K, N], bf16>,
    %bias: !frontend.tensor<[N], bf16> {role = "param", storage = "const_pool"})
    -> (C: !frontend.tensor<[M, N], bf16>) {
  %0 = frontend.gemm %A, %B {acc = f32}
      : (!frontend.tensor<[M, K], bf16>, !frontend.tensor<[K, N], bf16>) -> !frontend.tensor<[M, N], bf16>
  %1 = frontend.elementwise add %0, %bias
      : (!frontend.tensor<[M, N], bf16>, !frontend.tensor<[N], bf16>) -> !frontend.tensor<[M, N], bf16>
  %2 = frontend.elementwise relu %1 : !frontend.tensor<[M, N], bf16>
  frontend.output %2 : !frontend.tensor<[M, N], bf16>
}
