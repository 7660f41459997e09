// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,region-postpone-division 2>/dev/null | filecheck %s --check-prefix=INVERSE
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-postpone-division,region-streaming-softmax,plan-select 2>/dev/null | filecheck %s --check-prefix=PLAN

// Weights that are an output too: the attention stores what each row has one of, in f32, and a
// product makes the weights of its scores once more.  Nothing of their size is read.
// CHECK:       region.kernel @f_0 iters [h: H, m: M, i2: 64]
// CHECK:         outs(y: !region.memref<[H, M, 64], f16, align 16, noalias> gmem, [[SUM:.*]]: !region.memref<[H, M], f32, align 16, noalias> gmem {boundary = "each row of an attention has one, {{.*}}"}, [[MAX:.*]]: !region.memref<[H, M], f32,
// CHECK:       region.kernel @f_1 iters [h: H, m: M, n: N]
// CHECK:         %[[MAX]]: !region.memref<[H, M], f32, align 16, noalias> {from = @f_0::@[[MAX]]}, %[[SUM]]: !region.memref<[H, M], f32, align 16, noalias> {from = @f_0::@[[SUM]], softmax_sum})
// CHECK-NEXT:    outs(w: !region.memref<[H, M, N], f16, align 16, noalias> gmem)
// CHECK:         region.unary exp
// CHECK:         region.binary div
// CHECK-NOT:     region.kernel

// INVERSE:     region.kernel @f_1
// INVERSE:       region.unary reciprocal {{.*}} !region.val<[h: H, m: M], f32>
// INVERSE-NOT:   region.binary div
// PLAN:        plan.schedule @f_0
// PLAN:          algo_choice = {"attention" = "streaming_softmax"}
// PLAN:        plan.schedule @f_1
// PLAN:          algo_choice = {"matmul" = "tiled"}
frontend.graph @f(%q: !frontend.tensor<[H, M, 64], f16>, %k: !frontend.tensor<[H, N, 64], f16>, %v: !frontend.tensor<[H, N, 64], f16>) -> (y: !frontend.tensor<[H, M, 64], f16>, w: !frontend.tensor<[H, M, N], f16>) {
  %0 = frontend.gemm %q, %k {acc = f32, transpose_b} : (!frontend.tensor<[H, M, 64], f16>, !frontend.tensor<[H, N, 64], f16>) -> !frontend.tensor<[H, M, N], f32>
  %1 = frontend.constant 0.125 : !frontend.tensor<[], f32>
  %2 = frontend.elementwise mul %0, %1 : (!frontend.tensor<[H, M, N], f32>, !frontend.tensor<[], f32>) -> !frontend.tensor<[H, M, N], f32>
  %3 = frontend.softmax %2 axes [2] : !frontend.tensor<[H, M, N], f32>
  %4 = frontend.cast %3 : !frontend.tensor<[H, M, N], f32> -> !frontend.tensor<[H, M, N], f16>
  %5 = frontend.gemm %4, %v {acc = f32} : (!frontend.tensor<[H, M, N], f16>, !frontend.tensor<[H, N, 64], f16>) -> !frontend.tensor<[H, M, 64], f16>
  frontend.output %5, %4 : !frontend.tensor<[H, M, 64], f16>, !frontend.tensor<[H, M, N], f16>
}
