// RUN: polyc-opt %s -p 'frontend-to-tiny,tiny-to-index,index-to-region{fuse=legal},plan-select{arch=sm_80}' --split-input-file 2>/dev/null | filecheck %s

// What no other family takes: threads that compute alone, a variant of vectors where there are any.

// CHECK:      plan.schedule @chain variant "vector" when (N mod 4 == 0) {
// CHECK-NEXT:   arch = "sm_80",
// CHECK-NEXT:   tensorize = "",
// CHECK-NEXT:   mma = "none",
// CHECK-NEXT:   loader = "register",
// CHECK-NEXT:   tile = [8, 128, 1],
// CHECK-NEXT:   stages = 1,
// CHECK-NEXT:   warp_tile = [1, 128],
// CHECK:        vectorize = 4,
// CHECK-NEXT:   vectorize_axis = "n.i.i",
// CHECK-NEXT:   bind = {"b" = "block.x", "i1.o" = "block.x", "n.o" = "block.x"},
// CHECK:        predicate_tail = ["i1", "n"],
// CHECK:        algo_choice = {"loops" = "serial"},
// CHECK:      plan.schedule @chain variant "scalar" {
// CHECK:        vectorize = 1,
frontend.graph @chain(%X: !frontend.tensor<[B, M, N], f32>, %Z: !frontend.tensor<[N], f32>) -> (Y: !frontend.tensor<[B, M + 2, N], f32>) {
  %0 = frontend.pad %X low [0, 1, 0] high [0, 1, 0] value 1.5 : !frontend.tensor<[B, M, N], f32> -> !frontend.tensor<[B, M + 2, N], f32>
  %1 = frontend.elementwise mul %0, %Z : (!frontend.tensor<[B, M + 2, N], f32>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[B, M + 2, N], f32>
  frontend.output %1 : !frontend.tensor<[B, M + 2, N], f32>
}

// -----

// Rows of 4 are whole vectors at every size; another address is what the last variant is for.
// CHECK:     plan.schedule @short variant "vector" {
// CHECK:       tile = [256, 4, 1],
// CHECK:       predicate_tail = ["m"],
// CHECK:     plan.schedule @short variant "scalar" {
frontend.graph @short(%X: !frontend.tensor<[M, 4], f32>) -> (Y: !frontend.tensor<[M, 4], f32>) {
  %0 = frontend.elementwise silu %X : !frontend.tensor<[M, 4], f32>
  frontend.output %0 : !frontend.tensor<[M, 4], f32>
}

// -----

// A block reduces a column once and walks it: no block index is bound to m.  The axes of the columns
// are not one, as the weights tell them apart.
// CHECK:     plan.schedule @columns variant "scalar" {
// CHECK:       bind = {"b.o" = "block.x", "n.o" = "block.x"},
frontend.graph @columns(%X: !frontend.tensor<[M, B, N], f16>, %G: !frontend.tensor<[N], f16>) -> (Y: !frontend.tensor<[M, B, N], f16>) {
  %0 = frontend.softmax %X axes [0] : !frontend.tensor<[M, B, N], f16>
  %1 = frontend.elementwise mul %0, %G : (!frontend.tensor<[M, B, N], f16>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, B, N], f16>
  frontend.output %1 : !frontend.tensor<[M, B, N], f16>
}
