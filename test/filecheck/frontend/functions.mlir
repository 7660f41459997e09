// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Functions of elements, as they are written and printed.

// CHECK: frontend.graph @functions
// CHECK-NEXT: %u0 = frontend.elementwise acos %x : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u1 = frontend.elementwise acosh %u0 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u2 = frontend.elementwise asin %u1 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u3 = frontend.elementwise asinh %u2 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u4 = frontend.elementwise atan %u3 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u5 = frontend.elementwise atanh %u4 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u6 = frontend.elementwise cbrt %u5 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u7 = frontend.elementwise ceil %u6 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u8 = frontend.elementwise cos %u7 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u9 = frontend.elementwise cosh %u8 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u10 = frontend.elementwise elu %u9 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %tail = frontend.elementwise erfc %u10 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u11 = frontend.elementwise exp2 %tail : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u12 = frontend.elementwise expm1 %u11 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u13 = frontend.elementwise floor %u12 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u14 = frontend.elementwise hard_sigmoid %u13 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u15 = frontend.elementwise hard_swish %u14 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u16 = frontend.elementwise log10 %u15 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u17 = frontend.elementwise log1p %u16 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u18 = frontend.elementwise log2 %u17 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u19 = frontend.elementwise log_sigmoid %u18 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u20 = frontend.elementwise mish %u19 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u21 = frontend.elementwise relu6 %u20 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u22 = frontend.elementwise round %u21 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u23 = frontend.elementwise selu %u22 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u24 = frontend.elementwise sign %u23 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u25 = frontend.elementwise sin %u24 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u26 = frontend.elementwise sinh %u25 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u27 = frontend.elementwise softplus %u26 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u28 = frontend.elementwise softsign %u27 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u29 = frontend.elementwise tan %u28 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %u30 = frontend.elementwise trunc %u29 : !frontend.tensor<[M], f32>
// CHECK-NEXT: %b0 = frontend.elementwise atan2 %u30, %y : (!frontend.tensor<[M], f32>, !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32>
// CHECK-NEXT: %b1 = frontend.elementwise fmod %b0, %y : (!frontend.tensor<[M], f32>, !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32>
// CHECK-NEXT: %b2 = frontend.elementwise mod %b1, %y : (!frontend.tensor<[M], f32>, !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32>
frontend.graph @functions(%x: !frontend.tensor<[M], f32>, %y: !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32> {
  %u0 = frontend.elementwise acos %x : !frontend.tensor<[M], f32>
  %u1 = frontend.elementwise acosh %u0 : !frontend.tensor<[M], f32>
  %u2 = frontend.elementwise asin %u1 : !frontend.tensor<[M], f32>
  %u3 = frontend.elementwise asinh %u2 : !frontend.tensor<[M], f32>
  %u4 = frontend.elementwise atan %u3 : !frontend.tensor<[M], f32>
  %u5 = frontend.elementwise atanh %u4 : !frontend.tensor<[M], f32>
  %u6 = frontend.elementwise cbrt %u5 : !frontend.tensor<[M], f32>
  %u7 = frontend.elementwise ceil %u6 : !frontend.tensor<[M], f32>
  %u8 = frontend.elementwise cos %u7 : !frontend.tensor<[M], f32>
  %u9 = frontend.elementwise cosh %u8 : !frontend.tensor<[M], f32>
  %u10 = frontend.elementwise elu %u9 : !frontend.tensor<[M], f32>
  %tail = frontend.elementwise erfc %u10 : !frontend.tensor<[M], f32>
  %u11 = frontend.elementwise exp2 %tail : !frontend.tensor<[M], f32>
  %u12 = frontend.elementwise expm1 %u11 : !frontend.tensor<[M], f32>
  %u13 = frontend.elementwise floor %u12 : !frontend.tensor<[M], f32>
  %u14 = frontend.elementwise hard_sigmoid %u13 : !frontend.tensor<[M], f32>
  %u15 = frontend.elementwise hard_swish %u14 : !frontend.tensor<[M], f32>
  %u16 = frontend.elementwise log10 %u15 : !frontend.tensor<[M], f32>
  %u17 = frontend.elementwise log1p %u16 : !frontend.tensor<[M], f32>
  %u18 = frontend.elementwise log2 %u17 : !frontend.tensor<[M], f32>
  %u19 = frontend.elementwise log_sigmoid %u18 : !frontend.tensor<[M], f32>
  %u20 = frontend.elementwise mish %u19 : !frontend.tensor<[M], f32>
  %u21 = frontend.elementwise relu6 %u20 : !frontend.tensor<[M], f32>
  %u22 = frontend.elementwise round %u21 : !frontend.tensor<[M], f32>
  %u23 = frontend.elementwise selu %u22 : !frontend.tensor<[M], f32>
  %u24 = frontend.elementwise sign %u23 : !frontend.tensor<[M], f32>
  %u25 = frontend.elementwise sin %u24 : !frontend.tensor<[M], f32>
  %u26 = frontend.elementwise sinh %u25 : !frontend.tensor<[M], f32>
  %u27 = frontend.elementwise softplus %u26 : !frontend.tensor<[M], f32>
  %u28 = frontend.elementwise softsign %u27 : !frontend.tensor<[M], f32>
  %u29 = frontend.elementwise tan %u28 : !frontend.tensor<[M], f32>
  %u30 = frontend.elementwise trunc %u29 : !frontend.tensor<[M], f32>
  %b0 = frontend.elementwise atan2 %u30, %y : (!frontend.tensor<[M], f32>, !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32>
  %b1 = frontend.elementwise fmod %b0, %y : (!frontend.tensor<[M], f32>, !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32>
  %b2 = frontend.elementwise mod %b1, %y : (!frontend.tensor<[M], f32>, !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32>
  frontend.output %b2 : !frontend.tensor<[M], f32>
}
