// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// A schedule of attention whose tiles no warps or registers make up.

// CHECK: warps of 32 queries do not make up a tile of 48
plan.schedule @a variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [48, 64, 64], stages = 2, warp_tile = [32, 64], vectorize = 8, algo_choice = {"attention" = "streaming_softmax"}}

// -----

// CHECK: 3 consumers of 64 queries do not make up a tile of 128
plan.schedule @a variant "v" {
  arch = "sm_90a", tensorize = "acc", mma = "wgmma", loader = "tma", tile = [128, 128, 64], stages = 2, warp_tile = [64, 64], consumers = 3, vectorize = 8, algo_choice = {"attention" = "streaming_softmax"}}

// -----

// CHECK: warp_tile is 8 queries; mma.sync takes 16 at a time
plan.schedule @a variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [64, 64, 64], stages = 2, warp_tile = [8, 64], vectorize = 8, algo_choice = {"attention" = "streaming_softmax"}}

// -----

// CHECK: keys of a step are 72; mma.sync takes a multiple of 16
plan.schedule @a variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [64, 72, 64], stages = 2, warp_tile = [16, 64], vectorize = 8, algo_choice = {"attention" = "streaming_softmax"}}

// -----

// CHECK: error[ResourceExceeded]: tile 128x128x128 with 3 stages takes 180224 bytes of shared memory
plan.schedule @a variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 128], stages = 3, warp_tile = [32, 64], vectorize = 8, algo_choice = {"attention" = "streaming_softmax"}}

// -----

// CHECK: error[ResourceExceeded]: warp_tile 32x128 with 128 keys a step takes at least 256 registers a thread
plan.schedule @a variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [128, 128, 64], stages = 2, warp_tile = [32, 128], vectorize = 8, algo_choice = {"attention" = "streaming_softmax"}}

// -----

// CHECK: pingpong and fragment_buffers belong to products of matrices; drop them
plan.schedule @a variant "v" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "cp_async", tile = [64, 64, 64], stages = 2, warp_tile = [16, 64], fragment_buffers = 2, vectorize = 8, algo_choice = {"attention" = "streaming_softmax"}}

// -----

// CHECK: error[ResourceExceeded]: one wgmma of warp_tile 64x64 with 128 keys a step takes 90 registers a thread, and those of 3 x 256 threads begin with 80; make it smaller, or leave registers for fewer blocks at once
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "scores", mma = "wgmma", loader = "tma", tile = [64, 128, 64], stages = 2, warp_tile = [64, 64], vectorize = 8, registers = [24, 136], algo_choice = {"attention" = "streaming_softmax"}}

// -----

// CHECK: error[ResourceExceeded]: warp_tile 64x64 with 240 keys a step takes at least 238 registers of a consumer's thread, and the split gives 232; make it smaller
plan.schedule @g variant "v" {
  arch = "sm_90a", tensorize = "scores", mma = "wgmma", loader = "tma", tile = [64, 240, 64], stages = 2, warp_tile = [64, 64], vectorize = 8, registers = [24, 232], algo_choice = {"attention" = "streaming_softmax"}}
