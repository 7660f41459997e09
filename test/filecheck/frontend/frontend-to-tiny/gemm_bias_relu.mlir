// RUN: polyc-opt %examples/gemm_bias_relu.mlir -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %examples/gemm_bias_relu_bf16.mlir -p frontend-to-tiny | polyc-opt | filecheck %s --check-prefix=BF16
// RUN: polyc-opt %examples/gemm_bias_relu.mlir -p frontend-to-tiny --print-debuginfo | filecheck %s --check-prefix=LOC

// The specification's program (S15.1); the axes stay in the order M, K, N.

// CHECK: tiny.graph @gemm_bias_relu(%A: !tiny.tensor<[M, K], f16>, %B: !tiny.tensor<[K, N], f16>, %bias: !tiny.tensor<[N], f16> {role = "param", storage = "const_pool"}) -> (C: !tiny.tensor<[M, N], f16>) {
// CHECK-NEXT: %A_f32 = tiny.cast %A : !tiny.tensor<[M, K], f16> -> !tiny.tensor<[M, K], f32>
// CHECK-NEXT: %B_f32 = tiny.cast %B : !tiny.tensor<[K, N], f16> -> !tiny.tensor<[K, N], f32>
// CHECK-NEXT: %bias_f32 = tiny.cast %bias : !tiny.tensor<[N], f16> -> !tiny.tensor<[N], f32>
// CHECK-NEXT: %0 = tiny.expand %A_f32 dims [0, 1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, N], f32>
// CHECK-NEXT: %1 = tiny.expand %B_f32 dims [1, 2] : !tiny.tensor<[K, N], f32> -> !tiny.tensor<[M, K, N], f32>
// CHECK-NEXT: %2 = tiny.binary mul %0, %1 : !tiny.tensor<[M, K, N], f32>
// CHECK-NEXT: %3 = tiny.reduce sum %2 axes [1] : !tiny.tensor<[M, K, N], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %4 = tiny.expand %bias_f32 dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %5 = tiny.binary add %3, %4 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %6 = tiny.constant 0.0 : !tiny.tensor<[], f32>
// CHECK-NEXT: %7 = tiny.expand %6 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %8 = tiny.binary max %5, %7 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %9 = tiny.cast %8 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f16>
// CHECK-NEXT: tiny.output %9 : !tiny.tensor<[M, N], f16>

// BF16: %9 = tiny.cast %8 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], bf16>

// Each op stands where the op of the user's text stood.
// LOC: tiny.binary mul {{.*}} loc("{{.*}}gemm_bias_relu.mlir":8:3)
// LOC: tiny.binary add {{.*}} loc("{{.*}}gemm_bias_relu.mlir":10:3)
// LOC: tiny.binary max {{.*}} loc("{{.*}}gemm_bias_relu.mlir":12:3)
