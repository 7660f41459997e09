// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,plan-select --split-input-file --verify-diagnostics 2>/dev/null | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,plan-select --split-input-file --verify-diagnostics 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// What no fast family takes as one kernel, from the frontend: it is cut where the products' kernels
// are fast, and loops of threads take the rest, with a remark where that is slow.

// A kernel writes a matrix where the host has a vector: its axes are the vector's, split.
// CHECK: outs(C: !region.memref<[M * N], f16, align 16, noalias> from @view_0::@C)
// CHECK: plan.schedule @view_0 variant "tma"
frontend.graph @view(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>) -> (C: !frontend.tensor<[M * N], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %1 = frontend.reshape %0 : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M * N], f16>
  %2 = frontend.elementwise relu %1 : !frontend.tensor<[M * N], f16>
  frontend.output %2 : !frontend.tensor<[M * N], f16>
}

// -----

// CHECK: error[UnsupportedProgram]: output C is [N, M], which merges no axes of what is [M, N] in memory, and splits none of it; give it as an input or output of a graph of its own
frontend.graph @cut(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>) -> (C: !frontend.tensor<[N, M], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %1 = frontend.reshape %0 : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[N, M], f16>
  frontend.output %1 : !frontend.tensor<[N, M], f16>
}

// -----

// A factor that is little to compute is computed in the registers that tensor cores read.
// CHECK: region.kernel @computed iters
// CHECK: region.binary max
// CHECK: plan.schedule @computed variant "tma"
// CHECK: mma = "wgmma"
// REMARK-NOT: NoTensorCores
frontend.graph @computed(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>) -> (C: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.elementwise relu %A : !frontend.tensor<[M, K], f16>
  %1 = frontend.gemm %0, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %1 : !frontend.tensor<[M, N], f16>
}

// -----

// Another one is stored, and the product reads it from memory.
// CHECK: outs(v0: !region.memref<[M, K], f16, align 16, noalias> gmem {boundary = "computed once: fused, it would be computed again where it is used{{.*}}"})
// CHECK: plan.schedule @stored_0 variant "{{.*}}"
// CHECK: mma = "none"
// CHECK: plan.schedule @stored_1 variant "tma"
// CHECK: mma = "wgmma"
// REMARK-NOT: NoTensorCores
frontend.graph @stored(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>) -> (C: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.elementwise gelu %A : !frontend.tensor<[M, K], f16>
  %1 = frontend.gemm %0, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %1 : !frontend.tensor<[M, N], f16>
}

// -----

// Two products that share their rows are one kernel, with an accumulator each.
// CHECK: region.kernel @two iters
// CHECK: plan.schedule @two variant "tma"
// CHECK: tensorize = "acc, acc1"
// CHECK: mma = "wgmma"
// REMARK-NOT: NoTensorCores
frontend.graph @two(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>) -> (C: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %1 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %2 = frontend.elementwise add %0, %1 : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %2 : !frontend.tensor<[M, N], f16>
}

// -----

// A statistic of columns that is used along rows: it is reduced again for every one of them.
// CHECK: plan.schedule @again variant "scalar"
// REMARK: remark[Recomputed]: region @again reduces over [m] again in each step of another reduction, which is M * N + N steps an element of its output; make what it reduces first an output of a graph of its own
region.kernel @again iters [j: N] ins(%X: !region.memref<[M, N], f32, align 16>) outs(Y: !region.memref<[N], f32, align 16> gmem) {
  %x = region.read %X affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 16> -> !region.val<[m: M, n: N], f32>
  %s = region.reduce sum %x over [m] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[n: N], f32>
  %t = region.reduce max %s over [n] init -inf : !region.val<[n: N], f32> -> !region.val<[], f32>
  %u = region.broadcast_in_dim %t dims [] : !region.val<[], f32> -> !region.val<[j: N], f32>
  region.yield %u : !region.val<[j: N], f32>
}
