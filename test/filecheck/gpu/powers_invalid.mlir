// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %x = arith.constant 1 : i8
    %y = arith.constant 1 : i32
    // CHECK: error{{.*}}i32
    %s = "gpu.power"(%x, %y) : (i8, i32) -> i8
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %x = arith.constant true
    // CHECK: error{{.*}}a power is of i8, i16, i32 or i64, not of i1
    %s = gpu.power %x, %x : i1
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %x = arith.constant 1.0 : f32
    // CHECK: error{{.*}}i64
    %s = "gpu.cut"(%x) : (f32) -> i64
    gpu.return
  }
}
