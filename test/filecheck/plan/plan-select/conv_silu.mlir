// RUN: polyc-opt %examples/conv_silu.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,plan-select{arch=sm_80 plan="%examples/conv_silu_sm80.json"}' | filecheck %s
// RUN: polyc-opt %examples/conv_silu.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,plan-select{arch=sm_90a}' | filecheck %s --check-prefix=NEW
// RUN: polyc-opt %examples/conv_silu.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,plan-select{arch=sm_80 plan="%S/Inputs/two_stages.json"}' | filecheck %s --check-prefix=TWO
// RUN: not polyc-opt %examples/conv_silu.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,plan-select{arch=sm_80 plan="%S/Inputs/shallow_ring.json"}' 2>&1 | filecheck %s --check-prefix=SHALLOW
// RUN: not polyc-opt %examples/conv_silu.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,plan-select{arch=sm_80 plan="%S/Inputs/output_ring.json"}' 2>&1 | filecheck %s --check-prefix=OUTPUT
// RUN: not polyc-opt %examples/conv_silu.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,plan-select{arch=sm_80 plan="%S/Inputs/odd_gather.json"}' 2>&1 | filecheck %s --check-prefix=ODD
// RUN: not polyc-opt %examples/conv_silu.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,plan-select{arch=sm_90a plan="%S/Inputs/tma_anywhere.json"}' 2>&1 | filecheck %s --check-prefix=EMPTY

// The plan of the specification's section 15.2, given by the user: three stages, warp tiles of
// 64x32, accesses of 8 elements, and the ring of the image's tiles.

// CHECK:      plan.schedule @conv_silu variant "cp_async16" when (C mod 8 == 0, F mod 8 == 0) {
// CHECK-NEXT:   arch = "sm_80",
// CHECK-NEXT:   tensorize = "acc",
// CHECK-NEXT:   mma = "mma.sync",
// CHECK-NEXT:   loader = "cp_async",
// CHECK-NEXT:   tile = [128, 128, 32],
// CHECK-NEXT:   stages = 3,
// CHECK-NEXT:   warp_tile = [64, 32],
// CHECK:        vectorize = 8,
// CHECK-NEXT:   vectorize_axis = "c.i",
// CHECK-NEXT:   bind = {"pixels.o" = "block.x", "f.o" = "block.x", "pixels.i.o" = "warp.y", "f.i.o" = "warp.x"},
// CHECK-NEXT:   cache = [{"tensor" = "X", "where" = "smem", "at" = "c.i", "pingpong" = true}, {"tensor" = "Wt", "where" = "smem", "at" = "c.i", "pingpong" = true}],
// CHECK-NEXT:   predicate_tail = ["pixels", "f", "c"],
// CHECK-NEXT:   epilogue = ["sigmoid", "mul"],
// CHECK-NEXT:   layout_hints = {"X_swizzle" = true, "Wt_swizzle" = true, "X_major" = "c", "Wt_major" = "c", "Y_stride" = "row"},
// CHECK-NEXT:   algo_choice = {"conv" = "implicit_gemm"},
// CHECK-NEXT:   local_edges = [{"from" = "X", "to" = "acc", "buffer" = "smem_ring", "depth" = 3}, {"from" = "Wt", "to" = "acc", "buffer" = "smem_ring", "depth" = 3}, {"from" = "acc", "to" = "mul", "buffer" = "reg"}]
// CHECK-NEXT: }
// CHECK:      plan.schedule @conv_silu variant "cp_async4" when (C mod 2 == 0) {
// CHECK:      plan.schedule @conv_silu variant "scalar" {

// The compiler's own choice for SM90: a few plans of the space, each where it is the fastest of them
// by the model of time.

// NEW: plan.schedule @conv_silu variant "tma_64x64_split2" when ({{.*}}, C mod 8 == 0, F mod 8 == 0, C >= 1) {
// NEW:   tile = [64, 64, 64],
// NEW: split_k = 2,
// NEW: plan.schedule @conv_silu variant "tma_small" when ({{.*}}, C mod 8 == 0, F mod 8 == 0, C >= 1) {
// NEW:   tile = [128, 128, 64],
// NEW: plan.schedule @conv_silu variant "tma" when (C mod 8 == 0, F mod 8 == 0, C >= 1) {
// NEW:   mma = "wgmma",
// NEW-NEXT: loader = "tma",
// NEW-NEXT: tile = [128, 256, 64],
// NEW: plan.schedule @conv_silu variant "cp_async4" when (C mod 2 == 0) {
// NEW: plan.schedule @conv_silu variant "scalar" {
// NEW-NOT: plan.schedule

// Rings are as deep as the stages that a user gives, where the user says nothing of them.
// TWO: stages = 2,
// TWO: local_edges = [{"from" = "X", "to" = "acc", "buffer" = "smem_ring", "depth" = 2}, {"from" = "Wt", "to" = "acc", "buffer" = "smem_ring", "depth" = 2},

// SHALLOW: error[BadPlan]: plan 'cp_async16' says local_edges [{"from": "X", "to": "acc", "buffer": "smem_ring", "depth": 2}
// OUTPUT: error[BadPlan]: plan 'cp_async16' says local_edges [{"from": "acc", "to": "mul", "buffer": "smem_ring", "depth": 3}
// ODD: error[BadPlan]: plan 'cp_async16' gathers 32x16 elements by 8 with 512 threads, which does not come out even; change the tile or the warp_tile
// EMPTY: error[BadPlan]: plan 'tma' loads by tma, and a tensor map has no empty axis; add "C >= 1" to its when
