// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// The least that an attention says.

// CHECK: frontend.graph @plain(%q: !frontend.tensor<[B, H, M, D], f16>, %k: !frontend.tensor<[B, H, N, D], f16>, %v: !frontend.tensor<[B, H, N, E], f16>) -> (C: !frontend.tensor<[B, H, M, E], f16>) {
// CHECK-NEXT: %0 = frontend.attention %q, %k, %v {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
// CHECK-NEXT: frontend.output %0 : !frontend.tensor<[B, H, M, E], f16>
frontend.graph @plain(%q: !frontend.tensor<[B, H, M, D], f16>, %k: !frontend.tensor<[B, H, N, D], f16>, %v: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16> {
  %0 = frontend.attention %q, %k, %v {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %0 : !frontend.tensor<[B, H, M, E], f16>
}

// All of it: grouped heads, two masks, a scale, a cap, causal with a window and an offset, the log-sum-exp.

// CHECK: frontend.graph @all(%q: !frontend.tensor<[B, 8, M, D], f16>, %k: !frontend.tensor<[B, 2, N, D], f16>, %v: !frontend.tensor<[B, 2, N, D], f16>, %m: !frontend.tensor<[M, N], i1>, %bias: !frontend.tensor<[8, 1, N], f32>) -> (O: !frontend.tensor<[B, 8, M, D], f32>, L: !frontend.tensor<[B, 8, M], f32>) {
// CHECK-NEXT: %0, %1 = frontend.attention %q, %k, %v mask %m, %bias scale 0.125 cap 5.0e+01 causal window [127, 3] offset -M + N {acc = f32, note = "kept"} : (!frontend.tensor<[B, 8, M, D], f16>, !frontend.tensor<[B, 2, N, D], f16>, !frontend.tensor<[B, 2, N, D], f16>, !frontend.tensor<[M, N], i1>, !frontend.tensor<[8, 1, N], f32>) -> (!frontend.tensor<[B, 8, M, D], f32>, !frontend.tensor<[B, 8, M], f32>)
// CHECK-NEXT: frontend.output %0, %1 : !frontend.tensor<[B, 8, M, D], f32>, !frontend.tensor<[B, 8, M], f32>
frontend.graph @all(%q: !frontend.tensor<[B, 8, M, D], f16>, %k: !frontend.tensor<[B, 2, N, D], f16>, %v: !frontend.tensor<[B, 2, N, D], f16>, %m: !frontend.tensor<[M, N], i1>, %bias: !frontend.tensor<[8, 1, N], f32>) -> (O: !frontend.tensor<[B, 8, M, D], f32>, L: !frontend.tensor<[B, 8, M], f32>) {
  %0, %1 = frontend.attention %q, %k, %v mask %m, %bias scale 0.125 cap 50.0 causal window [127, 3] offset N - M {acc = f32, note = "kept"} : (!frontend.tensor<[B, 8, M, D], f16>, !frontend.tensor<[B, 2, N, D], f16>, !frontend.tensor<[B, 2, N, D], f16>, !frontend.tensor<[M, N], i1>, !frontend.tensor<[8, 1, N], f32>) -> (!frontend.tensor<[B, 8, M, D], f32>, !frontend.tensor<[B, 8, M], f32>)
  frontend.output %0, %1 : !frontend.tensor<[B, 8, M, D], f32>, !frontend.tensor<[B, 8, M], f32>
}

// One key head for all query heads, whose number is a symbol; no batch; a window of a symbol's size.

// CHECK: frontend.graph @multi_query(%q: !frontend.tensor<[H, M, 64], bf16>, %k: !frontend.tensor<[1, N, 64], bf16>, %v: !frontend.tensor<[1, N, 64], bf16>, %w: !frontend.tensor<[S], f32>) -> (C: !frontend.tensor<[H, M, 64], bf16>) {
// CHECK-NEXT: %0 = frontend.attention %q, %k, %v window [S, 0] {acc = f32} : (!frontend.tensor<[H, M, 64], bf16>, !frontend.tensor<[1, N, 64], bf16>, !frontend.tensor<[1, N, 64], bf16>) -> !frontend.tensor<[H, M, 64], bf16>
// CHECK-NEXT: frontend.output %0 : !frontend.tensor<[H, M, 64], bf16>
frontend.graph @multi_query(%q: !frontend.tensor<[H, M, 64], bf16>, %k: !frontend.tensor<[1, N, 64], bf16>, %v: !frontend.tensor<[1, N, 64], bf16>, %w: !frontend.tensor<[S], f32>) -> !frontend.tensor<[H, M, 64], bf16> {
  %0 = frontend.attention %q, %k, %v window [S, 0] {acc = f32} : (!frontend.tensor<[H, M, 64], bf16>, !frontend.tensor<[1, N, 64], bf16>, !frontend.tensor<[1, N, 64], bf16>) -> !frontend.tensor<[H, M, 64], bf16>
  frontend.output %0 : !frontend.tensor<[H, M, 64], bf16>
}

// Groups of heads with symbols: 4 query heads for each of H key heads.

// CHECK: frontend.graph @symbolic_groups(%q: !frontend.tensor<[B, 4 * H, M, 64], f16>, %k: !frontend.tensor<[B, H, N, 64], f16>) -> (C: !frontend.tensor<[B, 4 * H, M, 64], f16>) {
// CHECK-NEXT: %0 = frontend.attention %q, %k, %k causal {acc = f32} : (!frontend.tensor<[B, 4 * H, M, 64], f16>, !frontend.tensor<[B, H, N, 64], f16>, !frontend.tensor<[B, H, N, 64], f16>) -> !frontend.tensor<[B, 4 * H, M, 64], f16>
// CHECK-NEXT: frontend.output %0 : !frontend.tensor<[B, 4 * H, M, 64], f16>
frontend.graph @symbolic_groups(%q: !frontend.tensor<[B, 4 * H, M, 64], f16>, %k: !frontend.tensor<[B, H, N, 64], f16>) -> !frontend.tensor<[B, 4 * H, M, 64], f16> {
  %0 = frontend.attention %q, %k, %k causal {acc = f32} : (!frontend.tensor<[B, 4 * H, M, 64], f16>, !frontend.tensor<[B, H, N, 64], f16>, !frontend.tensor<[B, H, N, 64], f16>) -> !frontend.tensor<[B, 4 * H, M, 64], f16>
  frontend.output %0 : !frontend.tensor<[B, 4 * H, M, 64], f16>
}

// Masks of every shape that broadcasts.

// CHECK: frontend.graph @masks(%q: !frontend.tensor<[B, H, M, 64], f16>, %a: !frontend.tensor<[], f32>, %b: !frontend.tensor<[1], i1>, %c: !frontend.tensor<[M, 1], f16>, %d: !frontend.tensor<[B, 1, 1, M], i1>, %e: !frontend.tensor<[B, H, M, M], f32>) -> (C: !frontend.tensor<[B, H, M, 64], f16>) {
// CHECK-NEXT: %0 = frontend.attention %q, %q, %q mask %a, %b, %c, %d, %e {acc = f32} : (!frontend.tensor<[B, H, M, 64], f16>, !frontend.tensor<[B, H, M, 64], f16>, !frontend.tensor<[B, H, M, 64], f16>, !frontend.tensor<[], f32>, !frontend.tensor<[1], i1>, !frontend.tensor<[M, 1], f16>, !frontend.tensor<[B, 1, 1, M], i1>, !frontend.tensor<[B, H, M, M], f32>) -> !frontend.tensor<[B, H, M, 64], f16>
// CHECK-NEXT: frontend.output %0 : !frontend.tensor<[B, H, M, 64], f16>
frontend.graph @masks(%q: !frontend.tensor<[B, H, M, 64], f16>, %a: !frontend.tensor<[], f32>, %b: !frontend.tensor<[1], i1>, %c: !frontend.tensor<[M, 1], f16>, %d: !frontend.tensor<[B, 1, 1, M], i1>, %e: !frontend.tensor<[B, H, M, M], f32>) -> !frontend.tensor<[B, H, M, 64], f16> {
  %0 = frontend.attention %q, %q, %q mask %a, %b, %c, %d, %e {acc = f32} : (!frontend.tensor<[B, H, M, 64], f16>, !frontend.tensor<[B, H, M, 64], f16>, !frontend.tensor<[B, H, M, 64], f16>, !frontend.tensor<[], f32>, !frontend.tensor<[1], i1>, !frontend.tensor<[M, 1], f16>, !frontend.tensor<[B, 1, 1, M], i1>, !frontend.tensor<[B, H, M, M], f32>) -> !frontend.tensor<[B, H, M, 64], f16>
  frontend.output %0 : !frontend.tensor<[B, H, M, 64], f16>
}
