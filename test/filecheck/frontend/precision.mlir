// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s --check-prefix=BELOW
// How precise products of f32 have to be, said at the top, goes with the sum of products.

// CHECK-LABEL: @product
// CHECK: frontend.gemm %A, %B {acc = f32, precision = "tf32"}
// CHECK-LABEL: @exact
// CHECK: frontend.gemm %A, %B {acc = f32, precision = "f32"}
// CHECK-LABEL: @window
// CHECK: frontend.conv2d nhwc %x, %w stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32, precision = "f32x3"}
// CHECK-LABEL: @attention
// CHECK: frontend.attention %q, %q, %q causal {acc = f32, precision = "tf32"} :

// BELOW: region.kernel @product
// BELOW: region.reduce sum %{{.*}} over [k] init 0.0 acc f32 name "acc" precision tf32 :
// BELOW: region.kernel @exact
// BELOW: region.reduce sum %{{.*}} over [k] init 0.0 acc f32 name "acc" :
// BELOW: region.kernel @window
// BELOW: name "acc" precision f32x3 :
// BELOW-LABEL: @attention
// BELOW-COUNT-2: precision tf32 :
frontend.graph @product(%A: !frontend.tensor<[M, K], f32>, %B: !frontend.tensor<[K, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %0 = frontend.gemm %A, %B {acc = f32, precision = "tf32"} : (!frontend.tensor<[M, K], f32>, !frontend.tensor<[K, N], f32>) -> !frontend.tensor<[M, N], f32>
  frontend.output %0 : !frontend.tensor<[M, N], f32>
}

frontend.graph @exact(%A: !frontend.tensor<[M, K], f32>, %B: !frontend.tensor<[K, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %0 = frontend.gemm %A, %B {acc = f32, precision = "f32"} : (!frontend.tensor<[M, K], f32>, !frontend.tensor<[K, N], f32>) -> !frontend.tensor<[M, N], f32>
  frontend.output %0 : !frontend.tensor<[M, N], f32>
}

frontend.graph @window(%x: !frontend.tensor<[2, 8, 8, 4], f32>, %w: !frontend.tensor<[6, 3, 3, 4], f32>) -> !frontend.tensor<[2, 8, 8, 6], f32> {
  %0 = frontend.conv2d nhwc %x, %w stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32, precision = "f32x3"} : (!frontend.tensor<[2, 8, 8, 4], f32>, !frontend.tensor<[6, 3, 3, 4], f32>) -> !frontend.tensor<[2, 8, 8, 6], f32>
  frontend.output %0 : !frontend.tensor<[2, 8, 8, 6], f32>
}

frontend.graph @attention(%q: !frontend.tensor<[2, 256, 64], f32>) -> !frontend.tensor<[2, 256, 64], f32> {
  %0 = frontend.attention %q, %q, %q causal {precision = "tf32", acc = f32} : (!frontend.tensor<[2, 256, 64], f32>, !frontend.tensor<[2, 256, 64], f32>, !frontend.tensor<[2, 256, 64], f32>) -> !frontend.tensor<[2, 256, 64], f32>
  frontend.output %0 : !frontend.tensor<[2, 256, 64], f32>
}
