// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %x = arith.constant 1 : i32
    // CHECK: error{{.*}}i32
    %s = "gpu.philox"(%x, %x) : (i32, i32) -> i64
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %x = arith.constant 1 : i64
    // CHECK: error{{.*}}random numbers are an i64 or a vector of 2, 4 or 8, not vector<3xi64>
    %s = gpu.philox %x, %x multiple 4 : vector<3xi64>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %x = arith.constant 1 : i64
    // CHECK: error{{.*}}the first place of vector<4xi64> is a multiple of 1, 2 or 4, not of 3; say which, as in multiple 4
    %s = gpu.philox %x, %x multiple 3 : vector<4xi64>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %x = arith.constant 1 : i64
    // CHECK: error{{.*}}multiple 4 is of several neighbours, not of i64
    %s = gpu.philox %x, %x multiple 4 : i64
    gpu.return
  }
}
