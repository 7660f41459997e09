// RUN: polyc-opt %s -p 'plan-select{arch=sm_90a}' --split-input-file 2>&1 >/dev/null | filecheck %s
// RUN: polyc-opt %s -p 'plan-select{arch=sm_90a}' --split-input-file 2>/dev/null | filecheck %s --check-prefix=PLAN

// A contraction that no tensor core computes has a schedule all the same, and a remark says what
// refused it: the first family that would take one.

// PLAN: plan.schedule @gemm variant "scalar" {
// CHECK: remark[NoTensorCores]: region @gemm holds a contraction and runs as loops without tensor cores, K steps an element of its output: A holds f32 and B f16; store both in one type
region.kernel @gemm iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f32, align 16>, %B: !region.memref<[K, N], f16, align 16>)
    outs(C: !region.memref<[M, N], f32, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f32, align 16> -> !region.val<[m: M, k: K], f32>
  %ae = region.broadcast_in_dim %a dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %bh = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K, N], f16, align 16> -> !region.val<[k: K, n: N], f16>
  %b = region.cast %bh : !region.val<[k: K, n: N], f16> -> !region.val<[k: K, n: N], f32>
  %be = region.broadcast_in_dim %b dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: M, k: K, n: N], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  region.yield %acc : !region.val<[m: M, n: N], f32>
}

// -----

// PLAN: plan.schedule @gemm variant "scalar" {
// CHECK: remark[NoTensorCores]: region @gemm holds a contraction and runs as loops without tensor cores, K steps an element of its output: its reduction has no name for the plan to speak of; write name "acc" after region.reduce
region.kernel @gemm iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f16, align 16>, %B: !region.memref<[K, N], f16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16> -> !region.val<[m: M, k: K], f16>
  %af = region.cast %a : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %ae = region.broadcast_in_dim %af dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %b = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K, N], f16, align 16> -> !region.val<[k: K, n: N], f16>
  %bf = region.cast %b : !region.val<[k: K, n: N], f16> -> !region.val<[k: K, n: N], f32>
  %be = region.broadcast_in_dim %bf dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: M, k: K, n: N], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %c = region.cast %acc : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
  region.yield %c : !region.val<[m: M, n: N], f16>
}

// -----

// PLAN: plan.schedule @gemm variant "scalar" {
// CHECK: remark[NoTensorCores]: region @gemm holds a contraction and runs as loops without tensor cores, K steps an element of its output: a factor of its sum is f32, which tensor cores would round; cast it to f16 or bf16
region.kernel @gemm iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f16, align 16>, %B: !region.memref<[K, N], f16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16> -> !region.val<[m: M, k: K], f16>
  %af = region.cast %a : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %ag = region.unary exp %af : !region.val<[m: M, k: K], f32>
  %ae = region.broadcast_in_dim %ag dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %b = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K, N], f16, align 16> -> !region.val<[k: K, n: N], f16>
  %bf = region.cast %b : !region.val<[k: K, n: N], f16> -> !region.val<[k: K, n: N], f32>
  %be = region.broadcast_in_dim %bf dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: M, k: K, n: N], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %c = region.cast %acc : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
  region.yield %c : !region.val<[m: M, n: N], f16>
}

// -----

// PLAN: plan.schedule @gemm variant "scalar" {
// CHECK: remark[NoTensorCores]: region @gemm holds a contraction and runs as loops without tensor cores, K steps an element of its output: only one operand reads the reduced axis k; plan-select takes one gemm
region.kernel @gemm iters [m: M, n: N]
    ins(%A: !region.memref<[M, M], f16, align 16>, %B: !region.memref<[K, N], f16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d0)> : !region.memref<[M, M], f16, align 16> -> !region.val<[m: M, k: K], f16>
  %af = region.cast %a : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %ae = region.broadcast_in_dim %af dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %b = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K, N], f16, align 16> -> !region.val<[k: K, n: N], f16>
  %bf = region.cast %b : !region.val<[k: K, n: N], f16> -> !region.val<[k: K, n: N], f32>
  %be = region.broadcast_in_dim %bf dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: M, k: K, n: N], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %c = region.cast %acc : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
  region.yield %c : !region.val<[m: M, n: N], f16>
}

// -----

// PLAN: plan.schedule @gemm variant "scalar" {
// CHECK: remark[NoTensorCores]: region @gemm holds a contraction and runs as loops without tensor cores, K steps an element of its output: A holds f16 and B bf16; store both in one type
region.kernel @gemm iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f16, align 16>, %B: !region.memref<[K, N], bf16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16> -> !region.val<[m: M, k: K], f16>
  %af = region.cast %a : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %ae = region.broadcast_in_dim %af dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %b = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K, N], bf16, align 16> -> !region.val<[k: K, n: N], bf16>
  %bf = region.cast %b : !region.val<[k: K, n: N], bf16> -> !region.val<[k: K, n: N], f32>
  %be = region.broadcast_in_dim %bf dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: M, k: K, n: N], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %c = region.cast %acc : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
  region.yield %c : !region.val<[m: M, n: N], f16>
}

// -----

// PLAN: plan.schedule @gemm variant "scalar" {
// CHECK: remark[NoTensorCores]: region @gemm holds a contraction and runs as loops without tensor cores, K steps an element of its output: it reads K points of A along k, with others behind them; take a multiple of 64, or copy them
region.kernel @gemm iters [m: M, n: N]
    ins(%A: !region.memref<[M, K + 2], f16, align 16>, %B: !region.memref<[K, N], f16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1 + 1)> : !region.memref<[M, K + 2], f16, align 16> -> !region.val<[m: M, k: K], f16>
  %af = region.cast %a : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %ae = region.broadcast_in_dim %af dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %b = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K, N], f16, align 16> -> !region.val<[k: K, n: N], f16>
  %bf = region.cast %b : !region.val<[k: K, n: N], f16> -> !region.val<[k: K, n: N], f32>
  %be = region.broadcast_in_dim %bf dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: M, k: K, n: N], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %c = region.cast %acc : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
  region.yield %c : !region.val<[m: M, n: N], f16>
}

// -----

// PLAN: plan.schedule @gemm variant "scalar" {
// CHECK: remark[NoTensorCores]: region @gemm holds a contraction and runs as loops without tensor cores, K steps an element of its output: the lhs reads the axis m twice, on a diagonal
region.kernel @gemm iters [m: M, n: N]
    ins(%A: !region.memref<[M, M + K], f16, align 16>, %B: !region.memref<[K, N], f16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d0 + d1)> : !region.memref<[M, M + K], f16, align 16> -> !region.val<[m: M, k: K], f16>
  %af = region.cast %a : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %ae = region.broadcast_in_dim %af dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %b = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K, N], f16, align 16> -> !region.val<[k: K, n: N], f16>
  %bf = region.cast %b : !region.val<[k: K, n: N], f16> -> !region.val<[k: K, n: N], f32>
  %be = region.broadcast_in_dim %bf dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: M, k: K, n: N], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %c = region.cast %acc : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
  region.yield %c : !region.val<[m: M, n: N], f16>
}

// -----

// PLAN: plan.schedule @gemm variant "scalar" {
// CHECK: remark[NoTensorCores]: region @gemm holds a contraction and runs as loops without tensor cores, K steps an element of its output: its products are f16, and tensor cores do not round them; cast the factors to f32
region.kernel @gemm iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f16, align 16>, %B: !region.memref<[K, N], f16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16> -> !region.val<[m: M, k: K], f16>
  %ae = region.broadcast_in_dim %a dims [0, 1] : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K, n: N], f16>
  %b = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K, N], f16, align 16> -> !region.val<[k: K, n: N], f16>
  %be = region.broadcast_in_dim %b dims [1, 2] : !region.val<[k: K, n: N], f16> -> !region.val<[m: M, k: K, n: N], f16>
  %t = region.binary mul %ae, %be : !region.val<[m: M, k: K, n: N], f16>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f16> -> !region.val<[m: M, n: N], f32>
  %c = region.cast %acc : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
  region.yield %c : !region.val<[m: M, n: N], f16>
}

// -----

// PLAN: plan.schedule @gemm variant "scalar" {
// CHECK: remark[NoTensorCores]: region @gemm holds a contraction and runs as loops without tensor cores, K steps an element of its output: it rounds A from f16 to bf16 on its way to the product; store it as bf16
region.kernel @gemm iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f16, align 16>, %B: !region.memref<[K, N], f16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16> -> !region.val<[m: M, k: K], f16>
  %ab = region.cast %a : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], bf16>
  %af = region.cast %ab : !region.val<[m: M, k: K], bf16> -> !region.val<[m: M, k: K], f32>
  %ae = region.broadcast_in_dim %af dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %b = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K, N], f16, align 16> -> !region.val<[k: K, n: N], f16>
  %bf = region.cast %b : !region.val<[k: K, n: N], f16> -> !region.val<[k: K, n: N], f32>
  %be = region.broadcast_in_dim %bf dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: M, k: K, n: N], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %c = region.cast %acc : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
  region.yield %c : !region.val<[m: M, n: N], f16>
}
