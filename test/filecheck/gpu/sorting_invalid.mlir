// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: a sort is of integers, not of !gpu.shared<[1, 64], f32>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %m: index = symbol M) threads 32 {
    %r = gpu.shared_tile at 0 : !gpu.shared<[1, 64], f32>
    gpu.sort %r[] count %m : !gpu.shared<[1, 64], f32>
    gpu.return
  }
}

// -----

// CHECK: a sort is of the one row of a shared tile, not at 0 coordinates of !gpu.shared<[2, 64], i32>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %m: index = symbol M) threads 32 {
    %r = gpu.shared_tile at 0 : !gpu.shared<[2, 64], i32>
    gpu.sort %r[] count %m : !gpu.shared<[2, 64], i32>
    gpu.return
  }
}

// -----

// CHECK: a row of !gpu.global<[M, N], i64> is at 1 coordinates, not 2
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %m: index = symbol M) threads 32 {
    gpu.sort %X[%m, %m] count %m : !gpu.global<[M, N], i64>
    gpu.return
  }
}

// -----

// CHECK: a pool is one row of two elements or more, not !gpu.shared<[2, 129], i64>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %m: index = symbol M) threads 32 {
    %p = gpu.shared_tile at 0 : !gpu.shared<[2, 129], i64>
    %h = gpu.shared_tile at 0 : !gpu.shared<[1, 1], i32>
    gpu.keep_none %p, %h : !gpu.shared<[2, 129], i64>, !gpu.shared<[1, 1], i32>
    gpu.return
  }
}

// -----

// CHECK: a pool counts its elements in a tile of one i32, not !gpu.shared<[1, 2], i32>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %m: index = symbol M) threads 32 {
    %p = gpu.shared_tile at 0 : !gpu.shared<[1, 129], i64>
    %h = gpu.shared_tile at 0 : !gpu.shared<[1, 2], i32>
    gpu.keep_none %p, %h : !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 2], i32>
    gpu.return
  }
}

// -----

// CHECK: a pool with room for 128 keeps 1 to 0 beside a fragment of 128, not 8
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %m: index = symbol M) threads 32 {
    %p = gpu.shared_tile at 0 : !gpu.shared<[1, 129], i64>
    %h = gpu.shared_tile at 0 : !gpu.shared<[1, 1], i32>
    %f = gpu.fragment : !gpu.fragment<[1, 128], i64>
    gpu.keep_least %f into %p, %h keep 8 : !gpu.fragment<[1, 128], i64>, !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    gpu.return
  }
}

// -----

// CHECK: a pool of !gpu.shared<[1, 129], i64> takes no !gpu.fragment<[1, 64], i32>
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %m: index = symbol M) threads 32 {
    %p = gpu.shared_tile at 0 : !gpu.shared<[1, 129], i64>
    %h = gpu.shared_tile at 0 : !gpu.shared<[1, 1], i32>
    %f = gpu.fragment : !gpu.fragment<[1, 64], i32>
    gpu.keep_least %f into %p, %h keep 8 : !gpu.fragment<[1, 64], i32>, !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    gpu.return
  }
}

// -----

// CHECK: a pool with room for 128 is not filled up to 129
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %m: index = symbol M) threads 32 {
    %p = gpu.shared_tile at 0 : !gpu.shared<[1, 129], i64>
    %h = gpu.shared_tile at 0 : !gpu.shared<[1, 1], i32>
    gpu.kept %p, %h fill 129 : !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    gpu.return
  }
}

// -----

// CHECK: a row lies along an axis of !gpu.global<[M, N], i64>, not along 2
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %m: index = symbol M) threads 32 {
    gpu.sort %X[%m] axis 2 count %m : !gpu.global<[M, N], i64>
    gpu.return
  }
}

// -----

// CHECK: a pool that keeps 8 is sorted above 4 elements; let it hold more
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %m: index = symbol M) threads 32 {
    %p = gpu.shared_tile at 0 : !gpu.shared<[1, 129], i64>
    %h = gpu.shared_tile at 0 : !gpu.shared<[1, 1], i32>
    %f = gpu.fragment : !gpu.fragment<[1, 64], i64>
    gpu.keep_least %f into %p, %h keep 8 above 4 : !gpu.fragment<[1, 64], i64>, !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    gpu.return
  }
}

// -----

// CHECK: a sort by the bits 40 to 32 is of none of i64, which has 0 to 64
gpu.module @m arch "sm_90a" symbols [M, N, T] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %C: !gpu.global<[M, T, 256], i32> = workspace "c", %S: !gpu.global<[M, 256], i32> = workspace "s", %m: index = symbol M) threads 256 {
    %r = gpu.shared_tile at 0 : !gpu.shared<[1, 512], i64>
    gpu.sort %r[] count %m by <40, 32> : !gpu.shared<[1, 512], i64>
    gpu.return
  }
}

// -----

// CHECK: a sort by bits is of a shared tile, not of !gpu.global<[M, N], i64>
gpu.module @m arch "sm_90a" symbols [M, N, T] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %C: !gpu.global<[M, T, 256], i32> = workspace "c", %S: !gpu.global<[M, 256], i32> = workspace "s", %m: index = symbol M) threads 256 {
    %r = gpu.shared_tile at 0 : !gpu.shared<[1, 512], i64>
    gpu.sort %X[%m] count %m by <32, 40> : !gpu.global<[M, N], i64>
    gpu.return
  }
}

// -----

// CHECK: a digit is 1 to 8 bits of the 64 of i64, not 32 to 41
gpu.module @m arch "sm_90a" symbols [M, N, T] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %C: !gpu.global<[M, T, 256], i32> = workspace "c", %S: !gpu.global<[M, 256], i32> = workspace "s", %m: index = symbol M) threads 256 {
    %r = gpu.shared_tile at 0 : !gpu.shared<[1, 512], i64>
    gpu.count_digit %r count %m by <32, 41> to %C[%m, %m] : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>
    gpu.return
  }
}

// -----

// CHECK: the counts of a digit of !gpu.global<[M, T, 256], i32> are at 2 coordinates, not 1
gpu.module @m arch "sm_90a" symbols [M, N, T] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %C: !gpu.global<[M, T, 256], i32> = workspace "c", %S: !gpu.global<[M, 256], i32> = workspace "s", %m: index = symbol M) threads 256 {
    %r = gpu.shared_tile at 0 : !gpu.shared<[1, 512], i64>
    gpu.count_digit %r count %m by <32, 40> to %C[%m] : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>
    gpu.return
  }
}

// -----

// CHECK: the counts of a digit are i32, of 256 to 256 values, a multiple of 32, along the last axis, not !gpu.global<[M, T, 64], i32>
gpu.module @m arch "sm_90a" symbols [M, N, T] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %C: !gpu.global<[M, T, 64], i32> = workspace "c", %S: !gpu.global<[M, 256], i32> = workspace "s", %m: index = symbol M) threads 256 {
    %r = gpu.shared_tile at 0 : !gpu.shared<[1, 512], i64>
    gpu.count_digit %r count %m by <32, 40> to %C[%m, %m] : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 64], i32>
    gpu.return
  }
}

// -----

// CHECK: 64 values are counted, and 256 summed up
gpu.module @m arch "sm_90a" symbols [M, N, T] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %C: !gpu.global<[M, T, 64], i32> = workspace "c", %S: !gpu.global<[M, 256], i32> = workspace "s", %m: index = symbol M) threads 256 {
    %r = gpu.shared_tile at 0 : !gpu.shared<[1, 512], i64>
    gpu.sum_counts %C[%m] first %m of %m to %S : !gpu.global<[M, T, 64], i32>, !gpu.global<[M, 256], i32>
    gpu.return
  }
}

// -----

// CHECK: a row of !gpu.global<[M, N], i64> is at 1 coordinates along an axis of it, not at 2 along 2
gpu.module @m arch "sm_90a" symbols [M, N, T] {
  gpu.kernel @k(%X: !gpu.global<[M, N], i64> = tensor 0, %C: !gpu.global<[M, T, 256], i32> = workspace "c", %S: !gpu.global<[M, 256], i32> = workspace "s", %m: index = symbol M) threads 256 {
    %r = gpu.shared_tile at 0 : !gpu.shared<[1, 512], i64>
    gpu.move_by_digit %r count %m by <32, 40> from %C, %S[%m] tile %m to %X[%m, %m] : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>, !gpu.global<[M, N], i64>
    gpu.return
  }
}

// -----

// CHECK: how far elements go is a shared row of 256 i32, not !gpu.shared<[1, 128], i32>
gpu.module @m arch "sm_90a" symbols [M, T] {
  gpu.kernel @k(%C: !gpu.global<[M, T, 256], i32> = workspace "c", %S: !gpu.global<[M, 256], i32> = workspace "s", %m: index = symbol M) threads 256 {
    %r = gpu.shared_tile at 0 : !gpu.shared<[1, 512], i64>
    %bases = gpu.shared_tile at 4096 : !gpu.shared<[1, 128], i32>
    gpu.sort_by_digit %r count %m by <32, 40> from %C, %S[%m] tile %m to %bases : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>, !gpu.shared<[1, 128], i32>
    gpu.return
  }
}
