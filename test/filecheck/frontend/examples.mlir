// RUN: polyc-opt %examples/gemm_bias_relu.mlir | polyc-opt | filecheck %s
// RUN: polyc-opt %examples/gemm_bias_relu_bf16.mlir | polyc-opt | filecheck %s --check-prefix=BF16
// RUN: polyc-opt %examples/gemm_bias_relu_aligned.mlir | polyc-opt | filecheck %s --check-prefix=ALIGNED

// CHECK: frontend.graph @gemm_bias_relu(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>, %bias: !frontend.tensor<[N], f16> {role = "param", storage = "const_pool"}) -> (C: !frontend.tensor<[M, N], f16>) {
// CHECK-NEXT: %0 = frontend.gemm %A, %B {acc = f32} :
// CHECK-NEXT: %1 = frontend.elementwise add %0, %bias :
// CHECK-NEXT: %2 = frontend.elementwise relu %1 : !frontend.tensor<[M, N], f16>
// CHECK-NEXT: frontend.output %2 : !frontend.tensor<[M, N], f16>

// BF16: frontend.graph @gemm_bias_relu_bf16(%A: !frontend.tensor<[M, K], bf16>
// ALIGNED: assuming (K mod 8 == 0, N mod 8 == 0, M >= 1, N >= 1, K >= 1) {
