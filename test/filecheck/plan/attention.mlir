// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Attention: tile is queries, keys and features; warp_tile is queries and features of V.

// CHECK:      plan.schedule @a variant "high" {
// CHECK-NEXT:   arch = "sm_80",
// CHECK-NEXT:   tensorize = "scores",
// CHECK-NEXT:   mma = "mma.sync",
// CHECK-NEXT:   loader = "cp_async",
// CHECK-NEXT:   tile = [128, 128, 64],
// CHECK-NEXT:   stages = 2,
// CHECK-NEXT:   warp_tile = [32, 96],
// CHECK:        algo_choice = {"attention" = "streaming_softmax"},
plan.schedule @a variant "high" {
  arch = "sm_80", tensorize = "scores", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 64], stages = 2, warp_tile = [32, 96], vectorize = 8, algo_choice = {"attention" = "streaming_softmax"}}

// CHECK:      plan.schedule @a variant "grouped" {
// CHECK:        tile = [192, 128, 64],
// CHECK-NEXT:   stages = 2,
// CHECK-NEXT:   warp_tile = [64, 64],
// CHECK:        consumers = 3,
plan.schedule @a variant "grouped" {
  arch = "sm_90a", tensorize = "scores", mma = "wgmma", loader = "tma", tile = [192, 128, 64], stages = 2, warp_tile = [64, 64], consumers = 3, registers = [32, 160], vectorize = 8, algo_choice = {"attention" = "streaming_softmax"}}
