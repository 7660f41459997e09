// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: tensorize belongs to tensor-core kernels; with mma none it is empty
plan.schedule @rows variant "any" {
  arch = "sm_80", tensorize = "acc", mma = "none", loader = "register", tile = [4, 1024, 1], stages = 1,
  warp_tile = [1, 1024]
}

// -----

// CHECK: loader belongs to tensor-core kernels; with mma none it is register
plan.schedule @rows variant "any" {
  arch = "sm_80", tensorize = "", mma = "none", loader = "cp_async", tile = [4, 1024, 1], stages = 1,
  warp_tile = [1, 1024], vectorize = 8
}

// -----

// CHECK: stages belongs to tensor-core kernels; with mma none it is 1
plan.schedule @rows variant "any" {
  arch = "sm_80", tensorize = "", mma = "none", loader = "register", tile = [4, 1024, 1], stages = 2,
  warp_tile = [1, 1024]
}

// -----

// CHECK: stages is 1; a ring has 2 to 8 stages
plan.schedule @gemm variant "any" {
  arch = "sm_80", tensorize = "acc", mma = "mma.sync", loader = "register", tile = [128, 128, 32], stages = 1,
  warp_tile = [64, 32]
}

// -----

// CHECK: warp_tile 1x1000 does not divide the tile 4x1024
plan.schedule @rows variant "any" {
  arch = "sm_80", tensorize = "", mma = "none", loader = "register", tile = [4, 1024, 1], stages = 1,
  warp_tile = [1, 1000]
}

// -----

// CHECK: warp_tile 1x16 is 16 elements, no multiple of a warp's 32 threads
plan.schedule @rows variant "any" {
  arch = "sm_80", tensorize = "", mma = "none", loader = "register", tile = [4, 16, 1], stages = 1,
  warp_tile = [1, 16]
}

// -----

// CHECK: error[ResourceExceeded]: tile 64x1024 in warp tiles of 1x1024 takes 2048 threads, sm_80 allows 1024
plan.schedule @rows variant "any" {
  arch = "sm_80", tensorize = "", mma = "none", loader = "register", tile = [64, 1024, 1], stages = 1,
  warp_tile = [1, 1024]
}
