// RUN: polyc-opt %examples/softmax.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-streaming-softmax,plan-select{arch=sm_90a},region-expand-together,region-invert-divisors' | filecheck %s

// Each row is divided through the inverse of its sum, which is at least 1 and needs no scale.
// CHECK: region.reduce_together
// CHECK-NOT: region.binary div
// CHECK: region.unary reciprocal
// CHECK-NOT: region.select
// CHECK: region.binary mul
// CHECK: region.yield
// CHECK-NOT: region.binary div
