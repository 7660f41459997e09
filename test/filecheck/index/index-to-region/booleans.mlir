// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,plan-select,region-to-gpu | filecheck %s --check-prefix=PLAN

// Tensors of conditions are read and written as they are, an element a byte.
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %m: !frontend.tensor<[M], i1>) -> (C: !frontend.tensor<[M], i1>) {
  %0 = frontend.select %m, %x, %x : (!frontend.tensor<[M], i1>, !frontend.tensor<[M], f32>, !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32>
  %1 = frontend.cast %0 : !frontend.tensor<[M], f32> -> !frontend.tensor<[M], i1>
  frontend.output %1 : !frontend.tensor<[M], i1>
}
// CHECK:       region.kernel @f iters [m: M]
// CHECK-NEXT:    ins(%x: !region.memref<[M], f32, align 16, noalias>, %m: !region.memref<[M], i1, align 16, noalias>)
// CHECK-NEXT:    outs(C: !region.memref<[M], i1, align 16, noalias> gmem)
// CHECK:         region.read %m {{.*}} -> !region.val<[m: M], i1>
// CHECK:         region.compare ne {{.*}} -> !region.val<[m: M], i1>

// PLAN:         gpu.map %out {{.*}} ins(%m : !gpu.global<[M], i1> {{.*}}) outs(%C : !gpu.global<[M], i1>
// PLAN:           arith.cmpf une
