// RUN: polyc-opt %s -p 'plan-select{arch=sm_90a}' | filecheck %s --check-prefix=SM90
// RUN: polyc-opt %s -p 'plan-select{arch=sm_80}' | filecheck %s --check-prefix=SM80

// Nothing is known of the sizes: three variants, each with its conditions.
region.kernel @open iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f16, align 16>, %B: !region.memref<[K, N], f16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16> -> !region.val<[m: M, k: K], f16>
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

// SM90-LABEL: region.kernel @open
// SM90:       plan.schedule @open variant "tma" when (K mod 8 == 0, N mod 8 == 0, K >= 1) {
// SM90:         epilogue = [],
// SM90:         layout_hints = {"A_swizzle" = true, "B_swizzle" = true, "A_major" = "k", "B_major" = "n", "C_stride" = "row"},
// SM90:         local_edges = [{"from" = "acc", "to" = "C", "buffer" = "reg"}]
// SM90:       plan.schedule @open variant "cp_async" when (K mod 2 == 0, N mod 2 == 0) {
// SM90:       plan.schedule @open variant "scalar" {
// SM80-LABEL: region.kernel @open
// SM80:       plan.schedule @open variant "cp_async16_large" when (K mod 8 == 0, N mod 8 == 0, M * N >= 3538944) {
// SM80:         tile = [256, 128, 64],
// SM80-NEXT:    stages = 3,
// SM80-NEXT:    warp_tile = [64, 64],
// SM80-NEXT:    fragment_buffers = 2,
// SM80:       plan.schedule @open variant "cp_async16" when (K mod 8 == 0, N mod 8 == 0) {
// SM80:       plan.schedule @open variant "cp_async4" when (K mod 2 == 0, N mod 2 == 0) {
// SM80:       plan.schedule @open variant "scalar" {

// Facts of the graph imply some conditions by isl: K mod 16 == 0 gives K mod 8 == 0.
region.kernel @known iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f16, align 16>, %B: !region.memref<[K, N], f16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem)
    assuming (K mod 16 == 0, K >= 2) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16> -> !region.val<[m: M, k: K], f16>
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

// SM90-LABEL: region.kernel @known
// SM90:       plan.schedule @known variant "tma" when (N mod 8 == 0) {
// SM90:       plan.schedule @known variant "cp_async" when (N mod 2 == 0) {
// SM90:       plan.schedule @known variant "scalar" {
// SM80-LABEL: region.kernel @known
// SM80:       plan.schedule @known variant "cp_async16_large" when (N mod 8 == 0, M * N >= 3538944) {
// SM80:       plan.schedule @known variant "cp_async16" when (N mod 8 == 0) {

// All conditions are implied: nothing after the first variant can run.  Whole tiles have no tail.
region.kernel @always iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f16, align 16>, %B: !region.memref<[K, N], f16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem)
    assuming (M mod 128 == 0, N mod 256 == 0, K mod 64 == 0, K >= 1) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16> -> !region.val<[m: M, k: K], f16>
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

// SM90-LABEL: region.kernel @always
// SM90:       plan.schedule @always variant "tma" {
// SM90:         predicate_tail = [],
// SM90-NOT:   variant
// SM80-LABEL: region.kernel @always
// SM80:       plan.schedule @always variant "cp_async16_large" when (M * N >= 3538944) {
// SM80:       plan.schedule @always variant "cp_async16" {
// SM80-NOT:   variant

// Excluded variants are not emitted.
region.kernel @odd iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f16, align 16>, %B: !region.memref<[K, N], f16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem)
    assuming (N mod 2 == 1) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16> -> !region.val<[m: M, k: K], f16>
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

// SM90-LABEL: region.kernel @odd
// SM90-NOT:   "tma"
// SM90:       plan.schedule @odd variant "scalar" {
// SM80-LABEL: region.kernel @odd
// SM80-NOT:   cp_async
// SM80:       plan.schedule @odd variant "scalar" {

// Constants decide at once: 100 is a multiple of 2 and not of 8.
region.kernel @constant iters [m: 7, n: 100]
    ins(%A: !region.memref<[7, 100], f16, align 16>, %B: !region.memref<[100, 100], f16, align 16>)
    outs(C: !region.memref<[7, 100], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1) -> (d0, d1)> : !region.memref<[7, 100], f16, align 16> -> !region.val<[m: 7, k: 100], f16>
  %af = region.cast %a : !region.val<[m: 7, k: 100], f16> -> !region.val<[m: 7, k: 100], f32>
  %ae = region.broadcast_in_dim %af dims [0, 1] : !region.val<[m: 7, k: 100], f32> -> !region.val<[m: 7, k: 100, n: 100], f32>
  %b = region.read %B affine_map<(d0, d1) -> (d0, d1)> : !region.memref<[100, 100], f16, align 16> -> !region.val<[k: 100, n: 100], f16>
  %bf = region.cast %b : !region.val<[k: 100, n: 100], f16> -> !region.val<[k: 100, n: 100], f32>
  %be = region.broadcast_in_dim %bf dims [1, 2] : !region.val<[k: 100, n: 100], f32> -> !region.val<[m: 7, k: 100, n: 100], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: 7, k: 100, n: 100], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: 7, k: 100, n: 100], f32> -> !region.val<[m: 7, n: 100], f32>
  %c = region.cast %acc : !region.val<[m: 7, n: 100], f32> -> !region.val<[m: 7, n: 100], f16>
  region.yield %c : !region.val<[m: 7, n: 100], f16>
}

// SM90-LABEL: region.kernel @constant
// SM90-NOT:   "tma"
// SM90:       plan.schedule @constant variant "cp_async" {
// SM90:         predicate_tail = ["m", "n", "k"],
// SM90-NOT:   variant
// SM80-LABEL: region.kernel @constant
// SM80:       plan.schedule @constant variant "cp_async4" {
// SM80-NOT:   variant

// Transposed operands are contiguous along their other axis: conditions are on M and K.
region.kernel @transposed iters [m: M, n: N]
    ins(%A: !region.memref<[K, M], f16, align 16>, %B: !region.memref<[N, K], f16, align 16>)
    outs(C: !region.memref<[M, N], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d1, d0)> : !region.memref<[K, M], f16, align 16> -> !region.val<[m: M, k: K], f16>
  %af = region.cast %a : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %ae = region.broadcast_in_dim %af dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %b = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d1, d0)> : !region.memref<[N, K], f16, align 16> -> !region.val<[k: K, n: N], f16>
  %bf = region.cast %b : !region.val<[k: K, n: N], f16> -> !region.val<[k: K, n: N], f32>
  %be = region.broadcast_in_dim %bf dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: M, k: K, n: N], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %c = region.cast %acc : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
  region.yield %c : !region.val<[m: M, n: N], f16>
}

// SM80-LABEL: region.kernel @transposed
// SM90-LABEL: region.kernel @transposed
// SM90:       plan.schedule @transposed variant "tma" when (M mod 8 == 0, K mod 8 == 0, N mod 8 == 0, K >= 1) {
// SM90:         "A_major" = "m", "B_major" = "k"

// Sums of symbols and bf16.
region.kernel @sums iters [m: M, n: 2 * N]
    ins(%A: !region.memref<[M, K + 1], bf16, align 16>, %B: !region.memref<[K + 1, 2 * N], bf16, align 16>)
    outs(C: !region.memref<[M, 2 * N], bf16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K + 1], bf16, align 16> -> !region.val<[m: M, k: K + 1], bf16>
  %af = region.cast %a : !region.val<[m: M, k: K + 1], bf16> -> !region.val<[m: M, k: K + 1], f32>
  %ae = region.broadcast_in_dim %af dims [0, 1] : !region.val<[m: M, k: K + 1], f32> -> !region.val<[m: M, k: K + 1, n: 2 * N], f32>
  %b = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K + 1, 2 * N], bf16, align 16> -> !region.val<[k: K + 1, n: 2 * N], bf16>
  %bf = region.cast %b : !region.val<[k: K + 1, n: 2 * N], bf16> -> !region.val<[k: K + 1, n: 2 * N], f32>
  %be = region.broadcast_in_dim %bf dims [1, 2] : !region.val<[k: K + 1, n: 2 * N], f32> -> !region.val<[m: M, k: K + 1, n: 2 * N], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: M, k: K + 1, n: 2 * N], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K + 1, n: 2 * N], f32> -> !region.val<[m: M, n: 2 * N], f32>
  %c = region.cast %acc : !region.val<[m: M, n: 2 * N], f32> -> !region.val<[m: M, n: 2 * N], bf16>
  region.yield %c : !region.val<[m: M, n: 2 * N], bf16>
}

// SM90-LABEL: region.kernel @sums
// SM90:       plan.schedule @sums variant "tma" when ((K + 1) mod 8 == 0, (2 * N) mod 8 == 0) {
// SM90:       plan.schedule @sums variant "cp_async" when ((K + 1) mod 2 == 0) {

// The sizes leave nothing open, but B's address need not be a multiple of 16 bytes.
region.kernel @unaligned iters [m: 8, n: 8]
    ins(%A: !region.memref<[8, 8], f16, align 16>, %B: !region.memref<[8, 8], f16, align 4>)
    outs(C: !region.memref<[8, 8], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1) -> (d0, d1)> : !region.memref<[8, 8], f16, align 16> -> !region.val<[m: 8, k: 8], f16>
  %af = region.cast %a : !region.val<[m: 8, k: 8], f16> -> !region.val<[m: 8, k: 8], f32>
  %ae = region.broadcast_in_dim %af dims [0, 1] : !region.val<[m: 8, k: 8], f32> -> !region.val<[m: 8, k: 8, n: 8], f32>
  %b = region.read %B affine_map<(d0, d1) -> (d0, d1)> : !region.memref<[8, 8], f16, align 4> -> !region.val<[k: 8, n: 8], f16>
  %bf = region.cast %b : !region.val<[k: 8, n: 8], f16> -> !region.val<[k: 8, n: 8], f32>
  %be = region.broadcast_in_dim %bf dims [1, 2] : !region.val<[k: 8, n: 8], f32> -> !region.val<[m: 8, k: 8, n: 8], f32>
  %t = region.binary mul %ae, %be : !region.val<[m: 8, k: 8, n: 8], f32>
  %acc = region.reduce sum %t over [k] init 0.0 acc f32 name "acc" : !region.val<[m: 8, k: 8, n: 8], f32> -> !region.val<[m: 8, n: 8], f32>
  %c = region.cast %acc : !region.val<[m: 8, n: 8], f32> -> !region.val<[m: 8, n: 8], f16>
  region.yield %c : !region.val<[m: 8, n: 8], f16>
}

// SM80-LABEL: region.kernel @unaligned
// SM90-LABEL: region.kernel @unaligned
// SM90:       plan.schedule @unaligned variant "tma_{{.*}}" {
// SM90:       plan.schedule @unaligned variant "cp_async" {
// SM90-NOT:   variant
