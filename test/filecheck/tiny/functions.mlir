// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Functions of elements, as they are written and printed.

// CHECK: tiny.graph @functions
// CHECK-NEXT: %u0 = tiny.unary acos %x : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u1 = tiny.unary acosh %u0 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u2 = tiny.unary asin %u1 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u3 = tiny.unary asinh %u2 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u4 = tiny.unary atan %u3 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u5 = tiny.unary atanh %u4 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u6 = tiny.unary cbrt %u5 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u7 = tiny.unary ceil %u6 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u8 = tiny.unary cos %u7 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u9 = tiny.unary cosh %u8 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %tail = tiny.unary erfc %u9 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u10 = tiny.unary exp2 %tail : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u11 = tiny.unary expm1 %u10 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u12 = tiny.unary floor %u11 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u13 = tiny.unary log10 %u12 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u14 = tiny.unary log1p %u13 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u15 = tiny.unary log2 %u14 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u16 = tiny.unary round %u15 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u17 = tiny.unary sign %u16 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u18 = tiny.unary sin %u17 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u19 = tiny.unary sinh %u18 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u20 = tiny.unary tan %u19 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %u21 = tiny.unary trunc %u20 : !tiny.tensor<[M], f32>
// CHECK-NEXT: %b0 = tiny.binary atan2 %u21, %y : !tiny.tensor<[M], f32>
// CHECK-NEXT: %b1 = tiny.binary fmod %b0, %y : !tiny.tensor<[M], f32>
tiny.graph @functions(%x: !tiny.tensor<[M], f32>, %y: !tiny.tensor<[M], f32>) -> !tiny.tensor<[M], f32> {
  %u0 = tiny.unary acos %x : !tiny.tensor<[M], f32>
  %u1 = tiny.unary acosh %u0 : !tiny.tensor<[M], f32>
  %u2 = tiny.unary asin %u1 : !tiny.tensor<[M], f32>
  %u3 = tiny.unary asinh %u2 : !tiny.tensor<[M], f32>
  %u4 = tiny.unary atan %u3 : !tiny.tensor<[M], f32>
  %u5 = tiny.unary atanh %u4 : !tiny.tensor<[M], f32>
  %u6 = tiny.unary cbrt %u5 : !tiny.tensor<[M], f32>
  %u7 = tiny.unary ceil %u6 : !tiny.tensor<[M], f32>
  %u8 = tiny.unary cos %u7 : !tiny.tensor<[M], f32>
  %u9 = tiny.unary cosh %u8 : !tiny.tensor<[M], f32>
  %tail = tiny.unary erfc %u9 : !tiny.tensor<[M], f32>
  %u10 = tiny.unary exp2 %tail : !tiny.tensor<[M], f32>
  %u11 = tiny.unary expm1 %u10 : !tiny.tensor<[M], f32>
  %u12 = tiny.unary floor %u11 : !tiny.tensor<[M], f32>
  %u13 = tiny.unary log10 %u12 : !tiny.tensor<[M], f32>
  %u14 = tiny.unary log1p %u13 : !tiny.tensor<[M], f32>
  %u15 = tiny.unary log2 %u14 : !tiny.tensor<[M], f32>
  %u16 = tiny.unary round %u15 : !tiny.tensor<[M], f32>
  %u17 = tiny.unary sign %u16 : !tiny.tensor<[M], f32>
  %u18 = tiny.unary sin %u17 : !tiny.tensor<[M], f32>
  %u19 = tiny.unary sinh %u18 : !tiny.tensor<[M], f32>
  %u20 = tiny.unary tan %u19 : !tiny.tensor<[M], f32>
  %u21 = tiny.unary trunc %u20 : !tiny.tensor<[M], f32>
  %b0 = tiny.binary atan2 %u21, %y : !tiny.tensor<[M], f32>
  %b1 = tiny.binary fmod %b0, %y : !tiny.tensor<[M], f32>
  tiny.output %b1 : !tiny.tensor<[M], f32>
}
