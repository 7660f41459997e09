// RUN: polyc-opt %examples/conv_silu.mlir | polyc-opt | filecheck %s --check-prefix=FRONTEND
// RUN: polyc-opt %examples/conv_silu.mlir -p frontend-to-tiny | polyc-opt | filecheck %s

// The example at the frontend and at the tiny level, whole.

// FRONTEND: frontend.graph @conv_silu(%X: !frontend.tensor<[N, H, W, C], f16>, %Wt: !frontend.tensor<[F, 3, 3, C], f16> {role = "param", storage = "const_pool"}) -> (Y: !frontend.tensor<[N, H, W, F], f16>) {
// FRONTEND-NEXT: %0 = frontend.conv2d nhwc %X, %Wt stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, H, W, C], f16>, !frontend.tensor<[F, 3, 3, C], f16>) -> !frontend.tensor<[N, H, W, F], f16>
// FRONTEND-NEXT: %1 = frontend.elementwise silu %0 : !frontend.tensor<[N, H, W, F], f16>
// FRONTEND-NEXT: frontend.output %1 : !frontend.tensor<[N, H, W, F], f16>

// CHECK: tiny.graph @conv_silu(%X: !tiny.tensor<[N, H, W, C], f16>, %Wt: !tiny.tensor<[F, 3, 3, C], f16> {role = "param", storage = "const_pool"}) -> (Y: !tiny.tensor<[N, H, W, F], f16>) {
// CHECK-NEXT: %X_f32 = tiny.cast %X : !tiny.tensor<[N, H, W, C], f16> -> !tiny.tensor<[N, H, W, C], f32>
// CHECK-NEXT: %Wt_f32 = tiny.cast %Wt : !tiny.tensor<[F, 3, 3, C], f16> -> !tiny.tensor<[F, 3, 3, C], f32>
// CHECK-NEXT: %0 = tiny.pad %X_f32 low [0, 1, 1, 0] high [0, 1, 1, 0] value 0.0 : !tiny.tensor<[N, H, W, C], f32> -> !tiny.tensor<[N, H + 2, W + 2, C], f32>
// CHECK-NEXT: %1 = tiny.window %0 axes [1, 2] size [3, 3] stride [1, 1] dilation [1, 1] : !tiny.tensor<[N, H + 2, W + 2, C], f32> -> !tiny.tensor<[N, H, W, C, 3, 3], f32>
// CHECK-NEXT: %2 = tiny.permute %1 perm [0, 1, 2, 4, 5, 3] : !tiny.tensor<[N, H, W, C, 3, 3], f32> -> !tiny.tensor<[N, H, W, 3, 3, C], f32>
// CHECK-NEXT: %3 = tiny.expand %2 dims [0, 1, 2, 4, 5, 6] : !tiny.tensor<[N, H, W, 3, 3, C], f32> -> !tiny.tensor<[N, H, W, F, 3, 3, C], f32>
// CHECK-NEXT: %4 = tiny.expand %Wt_f32 dims [3, 4, 5, 6] : !tiny.tensor<[F, 3, 3, C], f32> -> !tiny.tensor<[N, H, W, F, 3, 3, C], f32>
// CHECK-NEXT: %5 = tiny.binary mul %3, %4 : !tiny.tensor<[N, H, W, F, 3, 3, C], f32>
// CHECK-NEXT: %6 = tiny.reduce sum %5 axes [4, 5, 6] : !tiny.tensor<[N, H, W, F, 3, 3, C], f32> -> !tiny.tensor<[N, H, W, F], f32>
// CHECK-NEXT: %7 = tiny.unary sigmoid %6 : !tiny.tensor<[N, H, W, F], f32>
// CHECK-NEXT: %8 = tiny.binary mul %6, %7 : !tiny.tensor<[N, H, W, F], f32>
// CHECK-NEXT: %9 = tiny.cast %8 : !tiny.tensor<[N, H, W, F], f32> -> !tiny.tensor<[N, H, W, F], f16>
// CHECK-NEXT: tiny.output %9 : !tiny.tensor<[N, H, W, F], f16>
