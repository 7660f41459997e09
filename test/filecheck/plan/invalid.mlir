// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// Each schedule breaks one rule; the sentence has the values and the way out.

// CHECK: error[ResourceExceeded]: tile 128x256x64 with 5 stages takes 246864 bytes of shared memory, sm_90a allows 232448; lower stages or the tile
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [128, 256, 64], stages = 5, warp_tile = [64, 256], consumers = 2}

// -----

// CHECK: error[ResourceExceeded]: tile 256x128x64 with 4 stages takes 196608 bytes of shared memory, sm_80 allows 166912
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [256, 128, 64], stages = 4, warp_tile = [64, 64], vectorize = 8}

// -----

// CHECK: error[ResourceExceeded]: warp_tile 64x128 takes at least 304 registers a thread, sm_80 allows 255; make it smaller
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 128], vectorize = 8}

// -----

// CHECK: error[ResourceExceeded]: tile 256x256 in warp tiles of 32x32 takes 2048 threads, sm_80 allows 1024
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [256, 256, 32], stages = 2, warp_tile = [32, 32], vectorize = 8}

// -----

// CHECK: error[ResourceExceeded]: the accumulators of tile 512x256 take 131072 registers, sm_80 has 65536
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [512, 256, 16], stages = 2, warp_tile = [64, 64], vectorize = 8}

// -----

// CHECK: error[ResourceExceeded]: registers 40 + 2 * 240 = 520 are over the 3 * 168 = 504 that 3 warpgroups get at launch
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [128, 256, 64], stages = 4, warp_tile = [64, 256], consumers = 2, registers = [40, 240]}

// -----

// CHECK: error[ResourceExceeded]: warp_tile 64x256 takes at least 154 registers of a consumer's thread, and the split gives 128; make it smaller
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [128, 256, 64], stages = 4, warp_tile = [64, 256], consumers = 2, registers = [24, 128]}

// -----

// CHECK: error[ResourceExceeded]: one wgmma of warp_tile 64x256 takes 154 registers a thread, and those of 1 x 512 threads begin with 128; make it smaller, or leave registers for fewer blocks at once
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [192, 256, 64], stages = 3, warp_tile = [64, 256], consumers = 3, registers = [24, 160]}

// -----

// CHECK: registers is [40, 230]; it is [producer, consumer], each a multiple of 8 from 24 to 256
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [128, 256, 64], stages = 4, warp_tile = [64, 256], consumers = 2, registers = [40, 230]}

// -----

// CHECK: error[ResourceExceeded]: a producer and 8 consumer warpgroups are 1152 threads, sm_90a allows 1024
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [512, 64, 16], stages = 2, warp_tile = [64, 64], consumers = 8}

// -----

// CHECK: error[ResourceExceeded]: a cluster of 4x4 has 16 blocks, sm_90a allows 8
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [128, 256, 64], stages = 4, warp_tile = [64, 256], consumers = 2, cluster = [4, 4]}

// -----

// CHECK: error[ResourceExceeded]: a cluster of 2x1 has 2 blocks, sm_80 allows 1
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 8, cluster = [2, 1]}

// -----

// CHECK: multicast needs a cluster of more than one block
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [128, 256, 64], stages = 4, warp_tile = [64, 256], consumers = 2, multicast = true}

// -----

// CHECK: wgmma needs sm_90a, the plan is for sm_80
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [128, 256, 64], stages = 4, warp_tile = [64, 256], consumers = 2}

// -----

// CHECK: warp_tile 64x260 does not fit wgmma m64nNk16
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [128, 256, 64], stages = 4, warp_tile = [64, 260], consumers = 2}

// -----

// CHECK: BK is 24; a wgmma step takes a multiple of 16
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [128, 256, 24], stages = 4, warp_tile = [64, 256], consumers = 2}

// -----

// CHECK: 3 consumers of 64x256 do not make up the tile 128x256
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [128, 256, 64], stages = 4, warp_tile = [64, 256], consumers = 3}

// -----

// CHECK: warp_tile 64x48 does not divide the tile 128x128
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 48], vectorize = 8}

// -----

// CHECK: warp_tile 24x64 is not a multiple of 16x16: a warp loads two m16n8k16 operands of b at once
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [24, 64], vectorize = 8}

// -----

// CHECK: consumers, pingpong and registers belong to wgmma kernels; drop them
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 8, consumers = 2}

// -----

// CHECK: stages is 9; a ring has 2 to 8 stages
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 9, warp_tile = [64, 64], vectorize = 8}

// -----

// CHECK: vectorize is 16 elements, 32 bytes; a vector access is a power of two of at most 16 bytes
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 16}

// -----

// CHECK: cp.async copies 4, 8 or 16 bytes, vectorize 1 is 2 bytes; use the register loader
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 1}

// -----

// CHECK: TMA needs sm_90a, the plan is for sm_80
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "tma", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 8}

// -----

// CHECK: the tma loader feeds wgmma; use cp_async with mma.sync
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "mma.sync", loader = "tma", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 8}

// -----

// CHECK: wgmma is fed by the tma loader, not by cp_async
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "cp_async", tile = [128, 256, 64], stages = 4, warp_tile = [64, 256], consumers = 2, vectorize = 8}

// -----

// CHECK: loader is 'magic'; it is one of tma, cp_async, register
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "magic", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 8}

// -----

// CHECK: there is no architecture 'sm_70'; choose sm_80 or sm_90a
plan.schedule @g variant "v" {
  arch = "sm_70", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 8}

// -----

// CHECK: tile is [128, 128]; it needs 3 sizes of at least 1
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128], stages = 4, warp_tile = [64, 64], vectorize = 8}

// -----

// CHECK: group is 6; a Hilbert curve fills squares whose side is a power of two
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 8, raster = "hilbert", group = 6}

// -----

// CHECK: an smem_ring has a depth of 2 to 8, got none
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 8, local_edges = [{"from" = "a", "to" = "b", "buffer" = "smem_ring"}]}

// -----

// CHECK: a local edge has from, to and a buffer, reg or smem_ring
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 8, local_edges = [{"from" = "a", "buffer" = "reg"}]}

// -----

// CHECK: the condition 0 >= 1 never holds; drop the variant
plan.schedule @g variant "v" when (-1 >= 0) {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 8}

// -----

// CHECK: a schedule has no field 'stagez'; its fields are arch, tensorize
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 8, stagez = 3}

// -----

// CHECK: a schedule needs the field 'tile'
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", stages = 4, warp_tile = [64, 64], vectorize = 8}

// -----

// CHECK: the field 'stages' is given twice
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, stages = 3, warp_tile = [64, 64], vectorize = 8}

// -----

// CHECK: field 'stages': expected an integer, got 'four'
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = "four", warp_tile = [64, 64], vectorize = 8}

// -----

// CHECK: region g has two schedules of variant 'v'; give one another name
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 8}
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 4, warp_tile = [64, 64], vectorize = 8}

// -----

// CHECK: stages is 4 : i32; it is an integer
"plan.schedule"() <{region = @g, variant = "v", when = #polyc.assumptions<()>, arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = array<i64: 128, 128, 32>, stages = 4 : i32, warp_tile = array<i64: 64, 64>, fragment_buffers = 1 : i64, consumers = 1 : i64, pingpong = false, registers = array<i64>, cluster = array<i64: 1, 1>, multicast = false, raster = "row", group = 1 : i64, split_k = 1 : i64, persistent = false, vectorize = 8 : i64, vectorize_axis = "", bind = {}, cache = [], predicate_tail = [], epilogue = [], layout_hints = {}, algo_choice = {}, local_edges = []}> : () -> ()

// -----

// CHECK: fragment_buffers is 3; a thread holds the operands of 1 or 2 steps over k
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 32], stages = 2, warp_tile = [64, 64], fragment_buffers = 3, vectorize = 8}

// -----

// CHECK: BK is 48; two fragment_buffers take turns in an even number of steps, so it is a multiple of 32
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 48], stages = 2, warp_tile = [64, 64], fragment_buffers = 2, vectorize = 8}

// -----

// CHECK: warp_tile 64x96 takes at least 272 registers a thread
plan.schedule @g variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 96, 32], stages = 2, warp_tile = [64, 96], fragment_buffers = 2, vectorize = 8}

// -----

// CHECK: fragment_buffers is 2, and wgmma has no operands in registers; drop it
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [128, 256, 64], stages = 4, warp_tile = [64, 256], fragment_buffers = 2, consumers = 2}
