// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: gpu.sequence @s launches nothing
gpu.module @m arch "sm_80" symbols [M] {
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
    }
  }
}

// -----

// CHECK: gpu.sequence holds gpu.workspace and gpu.launch, not gpu.barrier
gpu.module @m arch "sm_80" symbols [M] {
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.barrier
    }
  }
}

// -----

// CHECK: 2 alignments do not fit 1 tensors
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k() threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4, 4] {
      gpu.launch @k grid [M]
    }
  }
}

// -----

// CHECK: the assumption N >= 1 names N, which is not among the symbols M of gpu.module @m
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k() threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s when (N >= 1) align [4] {
      gpu.launch @k grid [M]
    }
  }
}

// -----

// CHECK: a launch of a sequence runs when the sequence does; write when and align at the gpu.sequence
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k() threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.launch @k when (M >= 1) align [4] grid [M]
    }
  }
}

// -----

// CHECK: the dispatch has another variant @k; give the sequence its own name
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k() threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.launch @k align [4] grid [M]
    gpu.sequence @k align [4] {
      gpu.launch @k grid [M]
    }
  }
}

// -----

// CHECK: the sequence has two workspaces "w"; rename one
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k() threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.workspace "w" : !gpu.global<[M], f32>
      gpu.workspace "w" zeroed : !gpu.global<[1], i32>
      gpu.launch @k grid [M]
    }
  }
}

// -----

// CHECK: a workspace's name is letters, digits and _, not "a b"
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k() threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.workspace "a b" : !gpu.global<[M], f32>
      gpu.launch @k grid [M]
    }
  }
}

// -----

// CHECK: the workspace "w" of !gpu.global<[N], f32> names N, which is none of [M]
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k() threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.workspace "w" : !gpu.global<[N], f32>
      gpu.launch @k grid [M]
    }
  }
}

// -----

// CHECK: a workspace is a !gpu.global
gpu.module @m arch "sm_80" symbols [M] {
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.workspace "w" : f32
    }
  }
}

// -----

// CHECK: kernel @k binds the workspace "w"; launch it from a gpu.sequence with gpu.workspace "w"
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M], f32> = workspace "w") threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.launch @k align [4] grid [M]
  }
}

// -----

// CHECK: kernel @k binds the workspace "w" of !gpu.global<[2 * M], f32> as !gpu.global<[M], f32>
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M], f32> = workspace "w") threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.workspace "w" : !gpu.global<[2 * M], f32>
      gpu.launch @k grid [M]
    }
  }
}

// -----

// CHECK: kernel @k binds the workspace "w" of !gpu.global<[M], f16> as !gpu.tensor_map<[64, 64], f16, swizzle 128>
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%w: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map "w") threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.workspace "w" : !gpu.global<[M], f16>
      gpu.launch @k grid [M]
    }
  }
}

// -----

// CHECK: gpu.workspace
gpu.module @m arch "sm_80" symbols [M] {
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.workspace "w" : !gpu.global<[M], f32>
  }
}

// -----

// CHECK: an argument binds tensor, workspace, tensor_map, symbol, not pointer
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: index = pointer 0) threads 32 {
    gpu.return
  }
}

// -----

// CHECK: overlapped launches need sm_90a, and the module is for sm_80
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k() threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.launch @k grid [M]
      gpu.launch @k grid [M] overlapped
    }
  }
}

// -----

// CHECK: the workspace "w" is a copy, and 0 launches say that they fill it; one makes it
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k() threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.workspace "w" : !gpu.global<[M], f32> copies tensor 0
      gpu.launch @k grid [M]
    }
  }
}

// -----

// CHECK: the workspace "w" copies tensor 1, which is not there before it
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M], f32> = workspace "w") threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.workspace "w" : !gpu.global<[M], f32> copies tensor 1
      gpu.launch @k grid [M] fills "w"
    }
  }
}

// -----

// CHECK: the workspace "w" copies workspace "v", which is not there before it
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M], f32> = workspace "w") threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.workspace "w" : !gpu.global<[M], f32> copies workspace "v"
      gpu.workspace "v" : !gpu.global<[M], f32>
      gpu.launch @k grid [M] fills "w"
    }
  }
}

// -----

// CHECK: the workspace "w" copies tensor 0 of f32 as f16
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M], f16> = workspace "w") threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.workspace "w" : !gpu.global<[M], f16> copies tensor 0
      gpu.launch @k grid [M] fills "w"
    }
  }
}

// -----

// CHECK: the workspace "w" is a copy, which is written whole; drop zeroed
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M], f32> = workspace "w") threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.workspace "w" zeroed : !gpu.global<[M], f32> copies tensor 0
      gpu.launch @k grid [M] fills "w"
    }
  }
}

// -----

// CHECK: the workspace "w" copies a tensor or a workspace, not a symbol
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M], f32> = workspace "w") threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.workspace "w" : !gpu.global<[M], f32> copies symbol M
      gpu.launch @k grid [M] fills "w"
    }
  }
}

// -----

// CHECK: @k fills "w", which is no workspace of its sequence that copies a tensor and that it binds
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M], f32> = workspace "w") threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.workspace "w" : !gpu.global<[M], f32>
      gpu.launch @k grid [M] fills "w"
    }
  }
}

// -----

// CHECK: the launch of @k rebinds tensor 1, which the kernel does not bind
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%a: !gpu.global<[M], f32> = tensor 0, %m: i32 = symbol M) threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>, B: !gpu.global<[M], f16>) -> () {
    gpu.sequence @s align [4, 2] {
      gpu.workspace "w" : !gpu.global<[M], f32>
      gpu.launch @k grid [M] rebinds [tensor 1 : workspace "w"]
    }
  }
}

// -----

// CHECK: the launch of @k rebinds tensor 0 to workspace "v", which is not there
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%a: !gpu.global<[M], f32> = tensor 0, %m: i32 = symbol M) threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>, B: !gpu.global<[M], f16>) -> () {
    gpu.sequence @s align [4, 2] {
      gpu.workspace "w" : !gpu.global<[M], f32>
      gpu.launch @k grid [M] rebinds [tensor 0 : workspace "v"]
    }
  }
}

// -----

// CHECK: the launch of @k rebinds tensor 0 to tensor 2, which is not there
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%a: !gpu.global<[M], f32> = tensor 0, %m: i32 = symbol M) threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>, B: !gpu.global<[M], f16>) -> () {
    gpu.sequence @s align [4, 2] {
      gpu.workspace "w" : !gpu.global<[M], f32>
      gpu.launch @k grid [M] rebinds [tensor 0 : tensor 2]
    }
  }
}

// -----

// CHECK: the launch of @k rebinds tensor 0 of !gpu.global<[M], f32> to tensor 1 of !gpu.global<[M], f16>; they have the same sizes and elements
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%a: !gpu.global<[M], f32> = tensor 0, %m: i32 = symbol M) threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>, B: !gpu.global<[M], f16>) -> () {
    gpu.sequence @s align [4, 2] {
      gpu.workspace "w" : !gpu.global<[M], f32>
      gpu.launch @k grid [M] rebinds [tensor 0 : tensor 1]
    }
  }
}

// -----

// CHECK: the launch of @k rebinds pairs of tensors and workspaces, not [symbol M, tensor 0]
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%a: !gpu.global<[M], f32> = tensor 0, %m: i32 = symbol M) threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>, B: !gpu.global<[M], f16>) -> () {
    gpu.sequence @s align [4, 2] {
      gpu.workspace "w" : !gpu.global<[M], f32>
      gpu.launch @k grid [M] rebinds [symbol M : tensor 0]
    }
  }
}

// -----

// CHECK: tensor 0 is rebound twice
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%a: !gpu.global<[M], f32> = tensor 0, %m: i32 = symbol M) threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>, B: !gpu.global<[M], f16>) -> () {
    gpu.sequence @s align [4, 2] {
      gpu.workspace "w" : !gpu.global<[M], f32>
      gpu.launch @k grid [M] rebinds [tensor 0 : workspace "w", tensor 0 : workspace "w"]
    }
  }
}
