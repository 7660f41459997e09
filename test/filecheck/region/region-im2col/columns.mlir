// RUN: polyc-opt %s -p "frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},region-im2col{choose=all report=true}" 2>/dev/null | filecheck %s
// RUN: polyc-opt %s -p "frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},region-im2col{choose=all report=true}" 2>/dev/null | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p "frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},region-im2col{choose=all report=true}" 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// The windows and the padding are the first kernel's, the product is the second one's; rows come
// before taps and channels, these in the order of the filter.
// CHECK:       region.graph @conv
// CHECK-NEXT:      ins(X: {{.*}}, Wt: {{.*}})
// CHECK-NEXT:      outs(Y: {{.*}} from @conv_product::@Y)
// CHECK-NEXT:      assuming (H mod 2 == 0, W mod 2 == 0)
// CHECK-NEXT:  region.kernel @conv_columns iters [n: N, i2: H floordiv 2, i3: W floordiv 2, c: C, r0: 3, r1: 3]
// CHECK-NEXT:      ins(%X: {{.*}} {from = @conv::@X})
// CHECK-NEXT:      outs(columns: !region.memref<[N, H floordiv 2, W floordiv 2, C, 3, 3], f16, align 16> gmem {boundary = "im2col: {{.*}}"})
// CHECK:         %0 = region.read %X affine_map<(d0, d1, d2, d3, d4, d5)[s0, s1, s2, s3, s4] -> (d0, d3, (((d1 * 2) + d4) + -1), (((d2 * 2) + d5) + -1))> where affine_set
// CHECK-NEXT:    region.yield %0
// CHECK:       region.kernel @conv_product iters [n: N, f: F, i2: H floordiv 2, i3: W floordiv 2]
// CHECK-NEXT:      ins(%columns: {{.*}} {from = @conv_columns::@columns}, %Wt: {{.*}} {from = @conv::@Wt})
// CHECK:         region.read %columns affine_map<(d0, d1, d2, d3, d4, d5)[s0, s1, s2, s3, s4] -> (d0, d1, d2, d3, d4, d5)>
// CHECK-NOT:     where
// CHECK:         region.reduce sum %{{.*}} over [r0, r1, c]
// REMARK:      remark[exact]: @conv stores columns over [n: N, i2: H floordiv 2, i3: W floordiv 2, c: C, r0: 3, r1: 3] and multiplies them
frontend.graph @conv(%X: !frontend.tensor<[N, C, H, W], f16>, %Wt: !frontend.tensor<[F, C, 3, 3], f16>) -> (Y: !frontend.tensor<[N, F, H floordiv 2, W floordiv 2], f16>) assuming (H mod 2 == 0, W mod 2 == 0) {
  %0 = frontend.conv2d nchw %X, %Wt stride [2, 2] padding [1, 0, 1, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[F, C, 3, 3], f16>) -> !frontend.tensor<[N, F, H floordiv 2, W floordiv 2], f16>
  frontend.output %0 : !frontend.tensor<[N, F, H floordiv 2, W floordiv 2], f16>
}

// A product of matrices has no columns.
// CHECK:       region.kernel @gemm
// CHECK-NOT:   columns
// REMARK:      remark[NotConvolution]: @gemm: its factors are read as they lie already: it is a product of matrices
frontend.graph @gemm(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>) -> (C: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %0 : !frontend.tensor<[M, N], f16>
}
