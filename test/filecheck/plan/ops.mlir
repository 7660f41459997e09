// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Fields that are left out take their defaults; all are printed, in one order.
plan.schedule @gemm variant "tma" when (K mod 8 == 0, K >= 1) {
  stages = 4, arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma",
  tile = [128, 256, 64], warp_tile = [64, 256], consumers = 2, registers = [40, 232]}

// CHECK:       plan.schedule @gemm variant "tma" when (K mod 8 == 0, K >= 1) {
// CHECK-NEXT:    arch = "sm_90a",
// CHECK-NEXT:    tensorize = "acc",
// CHECK-NEXT:    mma = "wgmma",
// CHECK-NEXT:    loader = "tma",
// CHECK-NEXT:    tile = [128, 256, 64],
// CHECK-NEXT:    stages = 4,
// CHECK-NEXT:    warp_tile = [64, 256],
// CHECK-NEXT:    fragment_buffers = 1,
// CHECK-NEXT:    consumers = 2,
// CHECK-NEXT:    pingpong = false,
// CHECK-NEXT:    registers = [40, 232],
// CHECK-NEXT:    cluster = [1, 1],
// CHECK-NEXT:    multicast = false,
// CHECK-NEXT:    raster = "row",
// CHECK-NEXT:    group = 1,
// CHECK-NEXT:    split_k = 1,
// CHECK-NEXT:    persistent = false,
// CHECK-NEXT:    vectorize = 1,
// CHECK-NEXT:    vectorize_axis = "",
// CHECK-NEXT:    bind = {},
// CHECK-NEXT:    cache = [],
// CHECK-NEXT:    predicate_tail = [],
// CHECK-NEXT:    epilogue = [],
// CHECK-NEXT:    layout_hints = {},
// CHECK-NEXT:    algo_choice = {},
// CHECK-NEXT:    local_edges = []
// CHECK-NEXT:  }

// Every field, of every kind, and an attribute of someone else's.
plan.schedule @gemm variant "cp_async16" {
  arch = "sm_80",
  tensorize = "acc",
  mma = "mma.sync",
  loader = "cp_async",
  tile = [128, 64, 32],
  stages = 3,
  warp_tile = [64, 32],
  raster = "grouped",
  group = 8,
  split_k = 2,
  persistent = true,
  vectorize = 8,
  vectorize_axis = "n.i.i",
  bind = {"m.o" = "block.y", "n.i.o" = "warp.x"},
  cache = [{"tensor" = "A", "where" = "smem", "at" = "k.i", "pingpong" = true}, {"tensor" = "B", "depth" = 3}],
  predicate_tail = ["m", "n"],
  epilogue = ["bias", "relu"],
  layout_hints = {"A_swizzle" = true, "C_stride" = "row", "pad" = -1},
  algo_choice = {"matmul" = "implicit_gemm"},
  local_edges = [{"from" = "acc", "to" = "relu", "buffer" = "reg"}, {"from" = "x", "to" = "y", "buffer" = "smem_ring", "depth" = 3}],
  notes = ["stages 4 -> 3: shared memory"]
} attributes {mine = 1 : i64}

// CHECK-NEXT:  plan.schedule @gemm variant "cp_async16" {
// CHECK:         stages = 3,
// CHECK-NEXT:    warp_tile = [64, 32],
// CHECK:         registers = [],
// CHECK:         split_k = 2,
// CHECK-NEXT:    persistent = true,
// CHECK-NEXT:    vectorize = 8,
// CHECK-NEXT:    vectorize_axis = "n.i.i",
// CHECK-NEXT:    bind = {"m.o" = "block.y", "n.i.o" = "warp.x"},
// CHECK-NEXT:    cache = [{"tensor" = "A", "where" = "smem", "at" = "k.i", "pingpong" = true}, {"tensor" = "B", "depth" = 3}],
// CHECK-NEXT:    predicate_tail = ["m", "n"],
// CHECK-NEXT:    epilogue = ["bias", "relu"],
// CHECK-NEXT:    layout_hints = {"A_swizzle" = true, "C_stride" = "row", "pad" = -1},
// CHECK-NEXT:    algo_choice = {"matmul" = "implicit_gemm"},
// CHECK-NEXT:    local_edges = [{"from" = "acc", "to" = "relu", "buffer" = "reg"}, {"from" = "x", "to" = "y", "buffer" = "smem_ring", "depth" = 3}],
// CHECK-NEXT:    notes = ["stages 4 -> 3: shared memory"]
// CHECK-NEXT:  } attributes {mine = 1 : i64}
