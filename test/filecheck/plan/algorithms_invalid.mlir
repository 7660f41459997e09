// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: algo_choice of conv is 'winograd'; it is one of implicit_gemm, partial_sums, im2col, merged_rows, tf32
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 3, warp_tile = [64, 32],
  algo_choice = {"conv" = "winograd"}
}

// -----

// CHECK: algo_choice is for one of {{.*}}rows, {{.*}}loops, {{.*}}not for softmax
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 3, warp_tile = [64, 32],
  algo_choice = {"softmax" = "online"}
}

// -----

// CHECK: the way of conv is tf32, which is one of wgmma, not of mma.sync; use "implicit_gemm"
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 3, warp_tile = [64, 32],
  algo_choice = {"conv" = "tf32"}
}
