// RUN: polyc-opt %s -p "frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},region-srnf,region-postpone-division" 2>/dev/null | filecheck %s
// RUN: polyc-opt %s -p "frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},region-srnf,region-postpone-division" 2>/dev/null | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p "frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},region-srnf,region-postpone-division" 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// The weights are rounded as exponentials, and the weighted sum is divided (S6.10).
// REMARK:      remark[finite-only]: the division by the sum "acc2" over [n] follows the sum "acc3" over [n]
// CHECK:       region.kernel @f
// CHECK:         region.unary exp %[[shifted:.*]] :
// CHECK:         %[[total:.*]] = region.reduce sum {{.*}} name "acc2"
// CHECK-NOT:     region.binary div
// CHECK:         region.cast {{.*}} f16>
// CHECK:         %[[sum:.*]] = region.reduce sum {{.*}} name "acc3"
// CHECK-NEXT:    %[[spread:.*]] = region.broadcast_in_dim %[[total]] dims [0, 1]
// CHECK-NEXT:    region.binary div %[[sum]], %[[spread]]
frontend.graph @f(%q: !frontend.tensor<[H, M, 64], f16>, %k: !frontend.tensor<[H, 64, N], f16>, %v: !frontend.tensor<[H, N, 64], f16>) -> (y: !frontend.tensor<[H, M, 64], f16>) {
  %0 = frontend.gemm %q, %k {acc = f32} : (!frontend.tensor<[H, M, 64], f16>, !frontend.tensor<[H, 64, N], f16>) -> !frontend.tensor<[H, M, N], f16>
  %1 = frontend.softmax %0 axes [2] : !frontend.tensor<[H, M, N], f16>
  %2 = frontend.gemm %1, %v {acc = f32} : (!frontend.tensor<[H, M, N], f16>, !frontend.tensor<[H, N, 64], f16>) -> !frontend.tensor<[H, M, 64], f16>
  frontend.output %2 : !frontend.tensor<[H, M, 64], f16>
}
