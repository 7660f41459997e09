// RUN: polyc-opt %s -p "frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},region-srnf,region-postpone-division" 2>/dev/null | filecheck %s
// RUN: polyc-opt %s -p "frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},region-srnf,region-postpone-division" 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// RUN: polyc-opt %s -p "frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},region-srnf,region-postpone-division{classes=exact,reassociating}" 2>/dev/null | filecheck %s --check-prefix=KEPT

// Exponentials that are rounded as weights are summed as they are (S6.10); the product takes the
// rounded ones, and the reciprocal of the sum follows it.
// REMARK-DAG:  remark[finite-only]: the sum "acc1" over [n] is of weights before they are rounded
// REMARK-DAG:  remark[finite-only]: the division by the sum "acc1" over [n] follows the sum "acc2" over [n]
// CHECK:         %[[powers:.*]] = region.unary exp
// CHECK:         region.reduce sum %[[powers]] over [n]
// CHECK:         region.cast %[[powers]] {{.*}} f16>
// CHECK:         %[[sum:.*]] = region.reduce sum {{.*}} name "acc2"
// CHECK:         region.binary mul %[[sum]],
// KEPT:          %[[powers:.*]] = region.unary exp
// KEPT-NEXT:     %[[narrow:.*]] = region.cast %[[powers]] {{.*}} f16>
// KEPT-NEXT:     %[[wide:.*]] = region.cast %[[narrow]] {{.*}} f32>
// KEPT-NEXT:     region.reduce sum %[[wide]] over [n]
frontend.graph @f(%s: !frontend.tensor<[M, N], f32>, %v: !frontend.tensor<[N, 64], f16>) -> (y: !frontend.tensor<[M, 64], f32>) {
  %0 = frontend.reduce max %s axes [1] keepdims : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M, 1], f32>
  %1 = frontend.elementwise sub %s, %0 : (!frontend.tensor<[M, N], f32>, !frontend.tensor<[M, 1], f32>) -> !frontend.tensor<[M, N], f32>
  %2 = frontend.elementwise exp %1 : !frontend.tensor<[M, N], f32>
  %3 = frontend.cast %2 : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M, N], f16>
  %4 = frontend.cast %3 : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], f32>
  %5 = frontend.reduce sum %4 axes [1] keepdims : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M, 1], f32>
  %6 = frontend.elementwise reciprocal %5 : !frontend.tensor<[M, 1], f32>
  %7 = frontend.elementwise mul %4, %6 : (!frontend.tensor<[M, N], f32>, !frontend.tensor<[M, 1], f32>) -> !frontend.tensor<[M, N], f32>
  %8 = frontend.cast %7 : !frontend.tensor<[M, N], f32> -> !frontend.tensor<[M, N], f16>
  %9 = frontend.gemm %8, %v {acc = f32} : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N, 64], f16>) -> !frontend.tensor<[M, 64], f32>
  frontend.output %9 : !frontend.tensor<[M, 64], f32>
}
