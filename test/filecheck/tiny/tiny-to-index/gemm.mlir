// RUN: polyc-opt %s -p tiny-to-index | filecheck %s
// RUN: polyc-opt %s -p tiny-to-index | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p tiny-to-index,tiny-to-index | filecheck %s
// The book of GEMM + bias + ReLU; a second run finds every entry there and adds none.

// CHECK-LABEL: tiny.graph @gemm_bias_relu
// CHECK-NEXT: index.value %A axes [i0(0): M, i1(1): K] box : !tiny.tensor<[M, K], f16>
// CHECK-NEXT: index.value %B axes [i0(2): K, i1(3): N] box : !tiny.tensor<[K, N], f16>
// CHECK-NEXT: index.value %bias axes [i0(4): N] box : !tiny.tensor<[N], f16>
tiny.graph @gemm_bias_relu(%A: !tiny.tensor<[M, K], f16>, %B: !tiny.tensor<[K, N], f16>, %bias: !tiny.tensor<[N], f16>) -> (C: !tiny.tensor<[M, N], f16>) {
  // CHECK-NEXT: %a = tiny.cast
  // CHECK-NEXT: index.value %a axes [i0(0): M, i1(1): K] box from [affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)>]
  %a = tiny.cast %A : !tiny.tensor<[M, K], f16> -> !tiny.tensor<[M, K], f32>
  %b = tiny.cast %B : !tiny.tensor<[K, N], f16> -> !tiny.tensor<[K, N], f32>
  // CHECK: index.value %ae axes [i0(0): M, i1(1): K, i2(5): N broadcast] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1)>]
  %ae = tiny.expand %a dims [0, 1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, N], f32>
  // CHECK: index.value %be axes [i0(6): M broadcast, i1(2): K, i2(3): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d1, d2)>]
  %be = tiny.expand %b dims [1, 2] : !tiny.tensor<[K, N], f32> -> !tiny.tensor<[M, K, N], f32>
  // CHECK: index.value %t axes [i0(7): M, i1(8): K, i2(9): N] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)>, affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)>]
  %t = tiny.binary mul %ae, %be : !tiny.tensor<[M, K, N], f32>
  // CHECK: index.value %c0 axes [i0(7): M, i1(9): N] reduce [k(8): K] box from [affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d2, d1)>]
  %c0 = tiny.reduce sum %t axes [1] : !tiny.tensor<[M, K, N], f32> -> !tiny.tensor<[M, N], f32>
  %bi = tiny.cast %bias : !tiny.tensor<[N], f16> -> !tiny.tensor<[N], f32>
  // CHECK: index.value %bb axes [i0(10): M broadcast, i1(4): N] box from [affine_map<(d0, d1)[s0, s1, s2] -> (d1)>]
  %bb = tiny.expand %bi dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N], f32>
  %c1 = tiny.binary add %c0, %bb : !tiny.tensor<[M, N], f32>
  // CHECK: index.value %z axes [] box : !tiny.tensor<[], f32>
  %z = tiny.constant 0.0 : !tiny.tensor<[], f32>
  // CHECK: index.value %ze axes [i0(13): M broadcast, i1(14): N broadcast] box from [affine_map<(d0, d1)[s0, s1, s2] -> ()>]
  %ze = tiny.expand %z dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M, N], f32>
  // CHECK: index.value %c2 axes [i0(15): M, i1(16): N] box from
  %c2 = tiny.binary max %c1, %ze : !tiny.tensor<[M, N], f32>
  // CHECK: index.value %o axes [i0(15): M, i1(16): N] box from [affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)>] : !tiny.tensor<[M, N], f16>
  %o = tiny.cast %c2 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f16>
  // CHECK-NEXT: tiny.output
  tiny.output %o : !tiny.tensor<[M, N], f16>
}
